"""The settings of an application that publishes interactions or receives alerts: Redis, the partitions, `[producer]`.

An application imports this module alone, and no table of a role: rules, labelers and notifications cost it nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import quote, urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from ragtide_schemas.user_ids import SALT_MAX_BYTES, SALT_MIN_BYTES

from ..redis.layout import Layout
from .loading import check_named_file, explained_settings, values_of_sources, warn_of_unknown_variables
from .paths import whole_path
from .producers import ProducerSettings


def _salt(secret: SecretStr) -> SecretStr:
    if not SALT_MIN_BYTES <= len(secret.get_secret_value().encode()) <= SALT_MAX_BYTES:
        raise ValueError(f"must have {SALT_MIN_BYTES} to {SALT_MAX_BYTES} bytes")
    return secret


NO_HOME: Final = Path(os.devnull) / "no home directory is known"
"""Where nothing can be written: the data directory by default of a user without a home, as in a container."""


def _default_data_dir() -> Path:
    try:
        return whole_path(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "ragtide")
    except ValueError:  # only what writes there needs it
        return NO_HOME


class ApplicationSettings(BaseModel):
    """The settings that a publisher or a subscriber reads; every other process has them too.

    A new object reads all sources: arguments, environment, files of secrets, TOML file; the strongest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    redis_url: str | None = None
    """URL of a Redis (`redis://`, `rediss://`, `unix://`), a cluster (`redis+cluster://host:port,host:port`) or of
    sentinels (`redis+sentinel://host:port,host:port/master`); without a URL ragtide starts a Redis of this machine."""
    redis_username: str | None = None
    """ACL user, unless the URL has a user."""
    redis_password: SecretStr | None = None
    """Password, unless the URL has a password."""
    redis_ca_file: Path | None = None
    """Certificates of the authority that signs the server's certificate, for TLS (URLs that begin with `rediss`)."""
    redis_cert_file: Path | None = None
    """Certificate of this client, for servers that require client certificates."""
    redis_key_file: Path | None = None
    """Key of this client's certificate."""
    data_dir: Annotated[Path, AfterValidator(whole_path)] = Field(default_factory=_default_data_dir)
    """Directory for the data of a Redis that ragtide starts; by default `ragtide` in the user's data directory."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")] = "ragtide"
    """First part of every Redis key."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 1
    """Number of partitions; to change it, see docs/operate/scale.md, "Repartitioning"."""
    splits: dict[str, Annotated[int, Field(ge=2)]] = Field(default_factory=dict)
    """Pipelines that are too large for one partition, each with its number of partitions, such as `{"shop" = 4}`."""
    dedupe_window_s: Annotated[float, Field(gt=0)] = 86_400.0
    """Seconds for which an interaction id counts as already seen."""
    interactions_cap: Annotated[int, Field(ge=1)] = 1_000_000
    """Maximum number of entries of a partition's interactions stream; `producer.policy` applies to further
    interactions."""
    interactions_bytes: Annotated[int, Field(ge=1)] = 17_179_869_184
    """Maximum number of bytes of a partition's interactions stream in Redis; older interactions are dropped and
    counted."""
    producer: ProducerSettings = ProducerSettings()
    """Behavior of producers: the table `[producer]`."""
    hash_user_ids: bool = True
    """Whether hashes are stored instead of the ids of users (docs/operate/privacy.md)."""
    user_id_salt: Annotated[SecretStr, AfterValidator(_salt)] | None = None
    """Secret of 16 to 64 bytes for these hashes, the same for all producers and roles; None hashes without a secret."""

    def __init__(self, **given: Any) -> None:
        """Read the settings; `given` are stronger than all sources."""
        super().__init__(**values_of_sources(type(self), given))

    @model_validator(mode="after")
    def _splits_fit(self) -> Self:
        for pipeline, parts in self.splits.items():
            if parts > self.partitions:
                raise ValueError(
                    f"splits has {parts} parts for {pipeline!r}, but there are {self.partitions} partitions: "
                    "give it fewer parts"
                )
        return self

    @classmethod
    def of_application(cls, **overrides: object) -> Self:
        """Return the settings of a user's application; log an unknown variable instead of raising an error.

        Raises:
            ConfigurationError: a setting of this class is wrong, the file has a name that is no setting, or the file
                that `RAGTIDE_CONFIG` names cannot be read.
        """
        warn_of_unknown_variables()
        check_named_file()
        return cls.loaded(overrides)

    @classmethod
    def loaded(cls, overrides: Mapping[str, object]) -> Self:
        """Return the settings from all sources.

        Raises:
            ConfigurationError: a setting is wrong.
        """
        return explained_settings(cls, overrides)

    @property
    def layout(self) -> Layout:
        """The partitions of the deployment."""
        return Layout(self.prefix, self.partitions, self.splits)

    @model_validator(mode="after")
    def _tls_files_are_for_tls(self) -> Self:
        files = {"redis_ca_file": self.redis_ca_file, "redis_cert_file": self.redis_cert_file}
        for name, file in {**files, "redis_key_file": self.redis_key_file}.items():
            if file is None:
                continue
            if not (self.redis_url or "").startswith("rediss"):
                raise ValueError(f"{name} is given, but redis_url does not use TLS: begin it with rediss")
            if not file.is_file():
                raise ValueError(f"{name} is {file}, which is not a file: correct the path")
        return self

    @property
    def redis_address(self) -> str | None:
        """URL of the Redis with user, password and certificates, a secret; None for an embedded Redis."""
        if self.redis_url is None:
            return None
        files = {
            "ssl_ca_certs": self.redis_ca_file,
            "ssl_certfile": self.redis_cert_file,
            "ssl_keyfile": self.redis_key_file,
        }
        return with_credentials(
            self.redis_url,
            username=self.redis_username,
            password=None if self.redis_password is None else self.redis_password.get_secret_value(),
            parameters={name: str(file.absolute()) for name, file in files.items() if file is not None},
        )


def with_credentials(url: str, *, username: str | None, password: str | None, parameters: Mapping[str, str]) -> str:
    """Return a URL with further parameters, and with a user name and password unless it has its own."""
    scheme, separator, rest = url.partition("://")
    if (username or password) and "@" not in rest.partition("?")[0]:
        rest = f"{quote(username or '', safe='')}:{quote(password or '', safe='')}@{rest}"
    if parameters:
        rest += ("&" if "?" in rest else "?") + urlencode(parameters)
    return scheme + separator + rest
