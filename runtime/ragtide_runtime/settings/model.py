"""All settings: from the environment, else from files of secrets, else from `ragtide.toml`, else defaults.

Variables begin with `RAGTIDE_`; `RAGTIDE_SECRETS_DIR` names the folder of the secrets, `RAGTIDE_CONFIG` another file.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, get_args
from urllib.parse import quote, urlencode

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr, StringConstraints, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from ragtide_schemas import AlertRule
from ragtide_schemas.metric_event import EVALUATORS_MAX
from ragtide_schemas.user_ids import SALT_MAX_BYTES, SALT_MIN_BYTES

from ..errors import ConfigurationError
from ..redis.keys import workspace_of
from ..redis.layout import Layout
from .alerting import DEFAULT_RULES, BudgetSettings, ClusterSettings, MovesSettings, StallSettings, rules_in_force
from .bridge import BridgeSettings
from .environment import Environment, SecretFiles, secret_files, unknown_variables
from .errors import Explainer, read_toml
from .evaluators import SHARED_LIMITS, EvaluatorSettings, replaced
from .labelers import (
    CascadeSettings,
    JudgeSettings,
    LocalSettings,
    ModelsSettings,
    ServiceName,
    ServiceSettings,
    check_sessions,
    whole_path,
)
from .notify import NotifySettings
from .producers import IngestSettings, ProducerSettings
from .retention import HistorySettings, RecorderSettings, SpecimenSettings
from .serve import McpSettings, ServeSettings, WebSettings
from .telemetry import OtelSettings, PrometheusSettings

WindowName = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4}[smhd](/[1-9][0-9]{0,4}[smhd])?$")]


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


ComputedCovariate = Literal["question_length", "context_length", "documents", "top_score", "mean_score"]
"""Name of a covariate that workers can compute."""

COMPUTED_COVARIATES: Final[tuple[ComputedCovariate, ...]] = get_args(ComputedCovariate)
"""All of them."""


class Settings(BaseSettings):
    """Every setting of every role. An unknown name in the TOML file is an error."""

    model_config = SettingsConfigDict(
        env_prefix="RAGTIDE_",
        # RAGTIDE_JUDGE_BASE_URL is base_url in the table [judge].
        env_nested_delimiter="_",
        env_nested_max_split=1,
        frozen=True,
        extra="forbid",
    )

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
    feedback_window_s: Annotated[float, Field(gt=0)] = 604_800.0
    """Seconds for which later gold scores find their interaction, or wait for an interaction that is not yet scored."""
    labeler: str = "local"
    """Labeler of the workers: `local`, `judge`, `cascade`, another one of ragtide or of an installed package by its
    name (docs/scores/labelers.md), or `module:attribute`."""
    evaluators: Annotated[tuple[EvaluatorSettings, ...], Field(max_length=EVALUATORS_MAX)] = ()
    """Several labelers, each for a part of the traffic, in place of `labeler`: `[[evaluators]]` in the TOML file, or
    JSON in `RAGTIDE_EVALUATORS` (docs/scores/evaluators.md)."""
    profile: str = "ragbench"
    """Variant of the TRACe formulas for a judge's labels: `ragbench`, `ragbench_raw`, `capstone`."""
    claim_profile: str = "ragchecker_strict"
    """Variant of the RAGChecker formulas: `ragchecker_strict` (undefined is absent), `ragchecker` (undefined is 0)."""
    metrics: tuple[str, ...] = ()
    """Optional metrics by name, such as `retrieval.average_precision`, and custom metrics as `module:attribute`;
    metrics of installed packages are added. At most 102 custom metrics are possible: an event declares at most 233
    metrics, those of criteria and retrieval steps included."""
    covariates: tuple[ComputedCovariate, ...] = ()
    """Numbers known before the answer that the workers add to metric events (docs/connect/python.md):
    `question_length`, `context_length`, `documents`, `top_score`, `mean_score`. Those that alert rules compare are
    added, too."""
    local: LocalSettings = LocalSettings()
    """The local labeler: the table `[local]`."""
    judge: JudgeSettings = JudgeSettings()
    """The LLM judge: the table `[judge]`."""
    models: ModelsSettings = ModelsSettings()
    """The models of the labeler `model`: the table `[models]`."""
    services: dict[ServiceName, ServiceSettings] = Field(default_factory=dict)
    """HTTP services that labelers call, by the labeler's name: the tables `[services.NAME]`."""
    cascade: CascadeSettings = CascadeSettings()
    """The labelers of the labeler `cascade`, and their samples: the table `[cascade]`."""
    worker_processes: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Processes in which `ragtide worker` labels, or `ragtide up` beside the process of its other roles; None: by the
    processors that are left (docs/operate/deployment.md). With 0 `ragtide up` is one process."""
    worker_batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum number of entries that one read takes from the stream."""
    worker_concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Maximum number of interactions that one worker labels at once."""
    worker_min_idle_s: Annotated[float, Field(gt=0)] = 90.0
    """Seconds after which a worker takes over an entry that another worker has not finished."""
    max_deliveries: Annotated[int, Field(ge=1)] = 5
    """Number of deliveries after which an entry is labeled alone once more; if that fails, it is a dead letter."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of the intervals."""
    aggregator_batch: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Maximum number of metric events in one step of the aggregator."""
    commit_interval_s: Annotated[float, Field(ge=0)] = 0.25
    """Seconds between two commits of the aggregator; each commit makes newer estimates visible."""
    lease_s: Annotated[float, Field(gt=0)] = 10.0
    """Seconds after which the partition of a silent aggregator may be taken over."""
    estimates_cap: Annotated[int, Field(ge=1)] = 100_000
    """Approximate maximum number of entries of the stream of estimates."""
    estimates_interval_s: Annotated[float, Field(gt=0)] = 10.0
    """Seconds between two entries of the stream of estimates for one pipeline, metric and labeler."""
    events_cap: Annotated[int, Field(ge=1)] = 1_000_000
    """Number of metric events of a partition that may wait for an aggregator before the workers pause."""
    events_keep: Annotated[int, Field(ge=0)] = 100_000
    """Number of aggregated metric events of a partition that stay in the stream for later feedback."""
    alert_cap: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of entries of the stream of alerts."""
    dead_letters_bytes: Annotated[int, Field(ge=1)] = 1_073_741_824
    """Maximum number of bytes of a partition's dead letters in Redis; older dead letters are dropped and counted."""
    recorder: RecorderSettings = RecorderSettings()
    """The recorder: the table `[recorder]`."""
    specimens: SpecimenSettings = SpecimenSettings()
    """Items that are kept to be looked at: the table `[specimens]`."""
    ingest: IngestSettings = IngestSettings()
    """Traces that become interactions: the table `[ingest]`."""
    serve: ServeSettings = ServeSettings()
    """The HTTP service: the table `[serve]`."""
    bridge: BridgeSettings = BridgeSettings()
    """The bridge to a message broker: the table `[bridge]`."""
    otel: OtelSettings = OtelSettings()
    """OpenTelemetry: the table `[otel]`."""
    clusters: ClusterSettings = ClusterSettings()
    """Which interactions depend on each other: the table `[clusters]`."""
    stall: StallSettings = StallSettings()
    """Limits of the pipeline health alerts: the table `[stall]`."""
    segments: bool = True
    """Whether every segment value has estimates of its own."""
    keys_cap: Annotated[int, Field(ge=1)] = 5_000
    """Maximum number of keys (metrics of a pipeline, a run or a segment value) of one pipeline in a partition; further
    segment values count in the value `other`."""
    partition_keys_cap: Annotated[int, Field(ge=1)] = 50_000
    """Maximum number of keys of one partition; further pipelines count in the pipeline `other:` with the partition's
    number."""
    windows: tuple[WindowName, ...] = ("1h", "24h/1h")
    """Windows in event time with estimates of their own: `1h` is tumbling, `24h/1h` is a day that moves every hour."""
    lateness_s: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds after the end of a window's pane for which late interactions still count in it."""
    quantiles: bool = True
    """Whether quantiles of scores, labeling time and cost are kept for whole pipelines."""
    history: HistorySettings = HistorySettings()
    """Series of estimates over time: the table `[history]`."""
    budget: BudgetSettings = BudgetSettings()
    """The false alarms of the whole deployment, by number or share: the table `[budget]`."""
    alert_defaults: bool = True
    """Whether the default rules are in force beside those of `alerts`; false leaves only those of `alerts`."""
    alerts: tuple[AlertRule, ...] = DEFAULT_RULES
    """Alert rules: `[[alerts]]` in the TOML file, or JSON in `RAGTIDE_ALERTS`. They are added to the default rules; a
    rule with the name of a default rule replaces it."""
    rules_poll_s: Annotated[float, Field(ge=0)] = 10.0
    """Seconds between two checks whether the TOML file or a file of secrets has changed; 0 never checks."""
    moves: MovesSettings = MovesSettings()
    """The quiet watch of each metric's level: the table `[moves]`."""
    notify: NotifySettings = NotifySettings()
    """Notifications of alerts: the table `[notify]`."""
    web: WebSettings = WebSettings()
    """The page: the table `[web]`."""
    mcp: McpSettings = McpSettings()
    """The server for programs with a language model: the table `[mcp]`."""
    prometheus: PrometheusSettings = PrometheusSettings()
    """Estimates and alerts for Prometheus: the table `[prometheus]`."""
    log_level: Annotated[str, StringConstraints(pattern=r"^(debug|info|warning|error)$")] = "info"
    """Lowest level of the events that are logged: debug, info, warning or error."""
    http_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port for /metrics, /healthz and /readyz of a role; None serves nothing, 0 takes a free port and logs it."""
    http_host: str = "127.0.0.1"
    """Address for that port; with `0.0.0.0` (IPv4) or `::` (both IPv6 and IPv4) other machines reach it, without a
    password."""

    @model_validator(mode="after")
    def _rules_are_added_to_the_defaults(self) -> Self:
        own = self.alerts if "alerts" in self.model_fields_set else ()
        # Readers of `alerts` get the rules that are in force; the model is frozen for everybody else.
        self.__dict__["alerts"] = rules_in_force(own, defaults=self.alert_defaults)
        return self

    @model_validator(mode="after")
    def _rule_names_are_unique(self) -> Self:
        names = [rule.name for rule in self.alerts]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"alerts has two rules named {name!r}: give each rule a name of its own")
        return self

    @model_validator(mode="after")
    def _evaluators_are_complete(self) -> Self:
        if self.evaluators and "labeler" in self.model_fields_set:
            raise ValueError(
                f"labeler is {self.labeler!r}, and there are evaluators, each with a labeler of its own: remove "
                "labeler, or write it as another of the [[evaluators]]"
            )
        names = [evaluator.name for evaluator in self.evaluators]
        for place, evaluator in enumerate(self.evaluators):
            if names.count(evaluator.name) > 1:
                raise ValueError(f"evaluators has two named {evaluator.name!r}: give each a name of its own")
            complete = self._evaluator_settings(place, evaluator)
            if complete.judge.over_budget == "local" and "judge" in complete.labelers:
                raise ValueError(
                    f'evaluators[{place}] ({evaluator.name}): judge.over_budget is "local", and with evaluators a '
                    'judge over its budget waits: set it to "pause", or add an evaluator with labeler = "local"'
                )
        return self

    @model_validator(mode="after")
    def _segments_are_there(self) -> Self:
        for rule in self.alerts:
            if rule.adjust is not None and not self.segments:
                raise ValueError(
                    f"segments is false, and rule {rule.name!r} has adjust = {rule.adjust!r}, which needs segment "
                    "values: set segments = true, or remove the rule"
                )
        return self

    @model_validator(mode="after")
    def _windows_of_prometheus_exist(self) -> Self:
        for name in self.prometheus.windows or ():
            if name not in ("all", *self.windows):
                raise ValueError(
                    f"prometheus.windows has {name!r}, which is neither 'all' nor in windows: add it to windows, or "
                    "remove it"
                )
        return self

    @model_validator(mode="after")
    def _rate_is_of_some_rule(self) -> Self:
        rate = self.budget.false_discovery_rate
        if rate is not None and self.alerts and all(rule.run_length is not None for rule in self.alerts):
            raise ValueError(
                f"budget.false_discovery_rate is {rate:g}, but every rule has a run_length of its own, so it bounds "
                "nothing: remove run_length from the rules that it is for, or remove budget.false_discovery_rate"
            )
        return self

    @model_validator(mode="after")
    def _sessions_are_whole(self) -> Self:
        judges = [self.judge, *(evaluator.judge for evaluator in self.evaluators)]
        for judge in judges:
            check_sessions(getattr(judge, "criteria", ()), self.splits, self.producer)
        return self

    @model_validator(mode="after")
    def _splits_fit(self) -> Self:
        for pipeline, parts in self.splits.items():
            if parts > self.partitions:
                raise ValueError(
                    f"splits has {parts} parts for {pipeline!r}, but there are {self.partitions} partitions: "
                    "give it fewer parts"
                )
        return self

    @property
    def computed_covariates(self) -> tuple[str, ...]:
        """Names of the covariates that the workers compute: those of the setting, and those of alert rules."""
        ruled = {rule.covariate for rule in self.alerts}
        return tuple(name for name in COMPUTED_COVARIATES if name in self.covariates or name in ruled)

    @property
    def labelers(self) -> tuple[str, ...]:
        """Names of the labelers of the workers: of all evaluators; one labeler, or the two or three of a cascade."""
        if self.evaluators:
            names = [name for evaluator in self.evaluators for name in self.of_evaluator(evaluator).labelers]
            return tuple(dict.fromkeys(names))
        return self.cascade.labelers if self.labeler == "cascade" else (self.labeler,)

    @property
    def accounts(self) -> tuple[str, ...]:
        """Names of the accounts whose spend limits raise alerts."""
        own = [evaluator.account for evaluator in self.evaluators if evaluator.has_own_account]
        return ("judge", *self.services, *own)

    _evaluator: EvaluatorSettings | None = PrivateAttr(default=None)
    _process: tuple[int, int] = PrivateAttr(default=(0, 1))

    _given: dict[str, object] = PrivateAttr(default_factory=dict)

    @property
    def given(self) -> dict[str, object]:
        """The settings that the caller gave, which are stronger than environment and file; also this prefix."""
        return {**self._given, "prefix": self.prefix}

    _as_loaded: Self | None = PrivateAttr(default=None)

    @property
    def as_loaded(self) -> Self:
        """These settings as they were loaded, before a command or a process changed them for itself."""
        return self._as_loaded or self

    def for_this_process(self, loaded: Self) -> Self:
        """Return settings that were loaded later, with the limits of the process that these are of."""
        number, processes = self._process
        return loaded if processes == 1 else loaded.of_process(number, processes)

    def with_loaded(self, loaded: Self) -> Self:
        """Return these settings, with others as those that were loaded."""
        settings = self.model_copy()
        settings._as_loaded = loaded
        return settings

    @property
    def evaluator(self) -> EvaluatorSettings | None:
        """The evaluator that these settings are of (`of_evaluator`); None for those of the deployment."""
        return self._evaluator

    def of_evaluator(self, evaluator: EvaluatorSettings) -> Self:
        """Return the settings with which an evaluator's labeler is built: one labeler, and the tables that it has."""
        return self._evaluator_settings(self.evaluators.index(evaluator), evaluator)

    def _evaluator_settings(self, place: int, evaluator: EvaluatorSettings) -> Self:
        changes: dict[str, object] = {"labeler": evaluator.labeler, "evaluators": ()}
        for table, values in evaluator.tables():
            try:
                own = replaced(getattr(self, table), values)
            except ValueError as error:
                raise ValueError(f"evaluators[{place}] ({evaluator.name}): {table}: {error}") from None
            if isinstance(own, JudgeSettings):
                # The limits of the deployment have been divided already.
                share = own.share(*self._process)
                divided = {name: getattr(share, name) for name in SHARED_LIMITS if name in values}
                own = own.model_copy(update=divided)
            changes[table] = own
        settings = self.model_copy(update=changes)
        settings._evaluator = evaluator
        return settings

    def with_labeler(self, labeler: str) -> Self:
        """Return the settings with one labeler, and without evaluators."""
        return self.model_copy(update={"labeler": labeler, "evaluators": ()})

    @property
    def one_labeler(self) -> str:
        """Name of the labeler, for what asks a single one.

        Raises:
            ConfigurationError: there are evaluators.
        """
        if self.evaluators:
            names = ", ".join(self.labelers)
            raise ConfigurationError(
                f"the settings have several evaluators, and one labeler is asked here: name it, such as {names} "
                "(labeler in Python, --labeler or RAGTIDE_LABELER with a settings file without evaluators)"
            )
        return self.labeler

    def of_process(self, number: int, processes: int) -> Self:
        """Return the settings of one process of a worker: the limits of endpoints are divided among them.

        Args:
            number: of the process, from 0.
        """
        services = {name: service.share(number, processes) for name, service in self.services.items()}
        settings = self.model_copy(update={"judge": self.judge.share(number, processes), "services": services})
        settings._process = (number, processes)
        return settings

    @property
    def keeps_specimens(self) -> bool:
        """Whether specimens of live traffic, or of this workspace, are kept."""
        return self.specimens.enabled and (self.specimens.offline or workspace_of(self.prefix) is None)

    @property
    def is_scraped(self) -> bool:
        """Whether a role has an address at which its `/metrics` can be read."""
        return self.http_port is not None or self.serve.port is not None

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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the strongest first: arguments, environment, files of secrets, TOML file."""
        return (
            init_settings,
            Environment(settings_cls),
            SecretFiles(settings_cls),
            TomlConfigSettingsSource(settings_cls, toml_file=settings_file()),
        )


def settings_file() -> Path:
    """Return the path of the settings' file, which may be missing."""
    return Path(os.environ.get("RAGTIDE_CONFIG", "ragtide.toml"))


def load_settings(**overrides: object) -> Settings:
    """Return the settings of this process; log a variable that is far from every setting, as it may be the user's own.

    Raises:
        ConfigurationError: a setting is wrong or probably misspelt, the file has an unknown one, or the file that
            `RAGTIDE_CONFIG` names cannot be read.
    """
    _check_named_file()
    return load_settings_to_write(**overrides)


def load_settings_to_write(**overrides: object) -> Settings:
    """Return the settings as `load_settings`, for a command that writes the file: it may be missing."""
    unknown = unknown_variables(Settings)
    misspelt = [variable.sentence for variable in unknown if variable.near]
    if misspelt:
        raise ConfigurationError(f"settings: {'; '.join(misspelt)}")
    _warn(variable.sentence for variable in unknown)
    return _load(overrides)


def settings_of_application(**overrides: object) -> Settings:
    """Return the settings of a user's application; log an unknown variable instead of raising an error.

    The variable may belong to a newer release or to another program, and a typo must not keep an application from
    starting. Roles and commands of ragtide refuse one that is probably a misspelt setting.
    """
    _warn(
        f"{sentence}; it is ignored here, but ragtide's commands refuse it" if near else sentence
        for sentence, near in unknown_variables(Settings)
    )
    _check_named_file()
    return _load(overrides)


def _check_named_file() -> None:
    named = os.environ.get("RAGTIDE_CONFIG")
    if named is not None and not Path(named).is_file():
        raise ConfigurationError(f"RAGTIDE_CONFIG names {named}, which is not a file: correct the path or unset it")


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        if sentence not in _warned:
            _warned.add(sentence)
            log.warning("%s", sentence)


log: Final = logging.getLogger("ragtide.settings")

_warned: set[str] = set()
"""Warnings about unknown variables that this process has logged; each is logged once."""


def _load(overrides: dict[str, object]) -> Settings:
    if "labeler" in overrides:  # a command was asked for one labeler
        overrides = {"evaluators": (), **overrides}
    text, _ = read_toml(settings_file())
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]  # Pydantic checks them
    except ValidationError as error:
        variables = {**secret_files(), **os.environ}
        explained = Explainer(Settings, settings_file(), text, given=overrides, environment=variables).explain(error)
        raise ConfigurationError(f"settings: {explained}") from None
    except (SettingsError, ValueError) as error:
        raise ConfigurationError(f"settings cannot be read: {error}; correct the variable or the file") from None
    settings._given = overrides
    return settings.with_loaded(settings)


def with_credentials(url: str, *, username: str | None, password: str | None, parameters: Mapping[str, str]) -> str:
    """Return a URL with further parameters, and with a user name and password unless it has its own."""
    scheme, separator, rest = url.partition("://")
    if (username or password) and "@" not in rest.partition("?")[0]:
        rest = f"{quote(username or '', safe='')}:{quote(password or '', safe='')}@{rest}"
    if parameters:
        rest += ("&" if "?" in rest else "?") + urlencode(parameters)
    return scheme + separator + rest
