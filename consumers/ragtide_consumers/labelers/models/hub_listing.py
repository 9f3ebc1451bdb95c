"""What the Hub says about a model before its weights are downloaded: commit, license, files with sizes, and labels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings

from .files import JSON_BYTES, ModelConfig
from .hub import HubModel
from .hub_client import HubClient, hub_client

USUAL_FILES: Final = ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
"""ONNX files, of which the first that a repository has is used where a setting names none."""

SHOWN_MOST: Final = 8
"""Most names of files in a message."""

_COMMIT: Final = r"^[0-9a-f]{40}$"

_Reply = TypeVar("_Reply", bound=BaseModel)


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")

    rfilename: str
    size: int | None = None


class _Repository(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    sha: str = Field(pattern=_COMMIT)
    card: dict[str, Any] | None = Field(None, alias="cardData")
    tags: list[str] = Field(default_factory=list)
    siblings: list[_File] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HubListing:
    """A repository of the Hub at one commit."""

    repository: str
    """Owner and name."""
    commit: str
    """Full hash of the commit."""
    license: str | None
    """License, as the author states it; None if none is stated."""
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    """Bytes of each file; None if the Hub does not say."""

    @property
    def onnx_files(self) -> list[str]:
        """The ONNX files, in the order of their names."""
        return sorted(name for name in self.sizes if name.endswith(".onnx"))

    def model(self, file: str, setting: str) -> HubModel:
        """Return the model of the repository.

        Args:
            file: the ONNX file that a setting names; empty for the first of `USUAL_FILES` that is there, or the only
                one.
            setting: name of the setting, for messages.

        Raises:
            ConfigurationError: the repository has no such file, or lacks one that a model needs.
        """
        name = f"{setting} = {self.repository!r}"
        if not self.onnx_files:
            weights = sorted(name for name in self.sizes if name.endswith((".safetensors", ".bin", ".h5", ".msgpack")))
            only = f", only {', '.join(weights[:SHOWN_MOST])}" if weights else ""
            raise ConfigurationError(
                f"{name} has no ONNX file on the Hub{only}: export it (optimum-cli export onnx --model "
                f"{self.repository} FOLDER) and name the folder, or use another model"
            )
        usual = [known for known in USUAL_FILES if known in self.onnx_files]
        chosen = file or (usual or self.onnx_files)[0]
        if chosen not in self.onnx_files or not (file or usual or len(self.onnx_files) == 1):
            missing = f"has no {file}" if file else "has several ONNX files"
            raise ConfigurationError(
                f"{name} {missing} on the Hub: set {setting}_file to one of {', '.join(self.onnx_files[:SHOWN_MOST])}"
            )
        for needed in ("config.json", "tokenizer.json"):
            if needed not in self.sizes:
                raise ConfigurationError(f"{name} has no {needed} on the Hub, which ragtide needs: use another model")
        return HubModel(self.repository, self.commit, chosen)

    def bytes_of(self, model: HubModel) -> int | None:
        """Return the bytes that a model of the repository needs; None if the Hub does not say."""
        inner = f"{model.file}_data", f"{model.file}.data"
        names = [model.file, "tokenizer.json", "config.json", *(name for name in inner if name in self.sizes)]
        sizes = [self.sizes.get(name) for name in names]
        return None if None in sizes else sum(size for size in sizes if size is not None)


async def hub_listing(place: str, settings: ModelsSettings, setting: str) -> tuple[HubListing, ModelConfig]:
    """Return what the Hub says about a model, and the model's `config.json`.

    Args:
        place: owner and name, and perhaps `@` with a branch, a tag or a commit.
        settings: address and token of the Hub.
        setting: name of the setting, for messages.

    Raises:
        ConfigurationError: the Hub cannot be reached, does not know the model, or refuses.
    """
    repository, _, revision = place.partition("@")
    name = f"{setting} = {place!r}"
    path = f"/api/models/{repository}{revision and f'/revision/{revision}'}?blobs=true"
    async with hub_client(settings) as client:
        odd = f"the answer of {client.url} is not that of a Hub: correct models.hub_url"
        found = await _get(client, path, _Repository, name, odd)
        sizes = {file.rfilename: file.size for file in found.siblings}
        listing = HubListing(repository, found.sha, _license_of(found), sizes)
        if "config.json" not in sizes:
            return listing, ModelConfig()
        config = f"/{repository}/resolve/{found.sha}/config.json"
        return listing, await _get(
            client, config, ModelConfig, name, "its config.json cannot be read: use another model"
        )


def _license_of(repository: _Repository) -> str | None:
    card = repository.card or {}
    stated = card.get("license_name") if card.get("license") == "other" else card.get("license")
    if isinstance(stated, list):
        stated = ", ".join(map(str, stated))
    tagged = next((tag.partition(":")[2] for tag in repository.tags if tag.startswith("license:")), None)
    text = stated if isinstance(stated, str) and stated.strip() else tagged
    return None if text is None else re.sub(r"\s+", " ", text)[:100]


async def _get(client: HubClient, path: str, form: type[_Reply], name: str, odd: str) -> _Reply:
    try:
        async with client.reply(path) as reply:
            if reply.status in {401, 403, 404}:
                # Without a token the Hub answers 401 about a repository that does not exist, too.
                raise ConfigurationError(
                    f"{name} is not known to {client.url}, or needs a token (status {reply.status}): correct owner and "
                    "name, or the path of a folder, or set models.hub_token and accept the model's terms there"
                )
            reply.raise_for_status()
            body = await reply.content.read(JSON_BYTES)
            while len(body) < JSON_BYTES and (more := await reply.content.read(JSON_BYTES - len(body))):
                body += more
        return form.model_validate_json(body)
    except ValidationError:
        raise ConfigurationError(f"{name}: {odd}") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ConfigurationError(
            f"{name} cannot be looked up ({client.error_line(error)}): try again when {client.url} can be reached, or "
            "name a folder that has the model"
        ) from None
