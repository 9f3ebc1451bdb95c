"""Downloads models of the Hugging Face Hub, each at one commit, into a cache from which they load without a network.

A repository's name may stand for another model tomorrow; a commit cannot. So a commit is required.
"""

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import aiohttp
import structlog

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings

from .calibration import NAME as CALIBRATION
from .files import MODEL_BYTES, external_files, model_files
from .hub_client import SILENCE_S, HubClient, hub_client

ATTEMPTS: Final = 3
"""Most tries to download a file."""

PAUSE_S: Final = 2.0
"""Seconds between two tries."""

SLOWEST_BYTES_PER_S: Final = 10_000
"""Bytes a second below which a try has failed, after `SILENCE_S` seconds."""

PARTIAL: Final = ".partial-"
"""Begin of the names of folders into which a download is made."""

ABANDONED_S: Final = 86_400.0
"""Seconds without a change after which such a folder is abandoned."""

RECORD: Final = "downloaded.json"
"""File that is written last, with the digest of the others."""

_NAME: Final = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_CACHED: Final = re.compile(r"([0-9a-f]{40})--(.+)")
_PINNED: Final = re.compile(r"([\w.-]{1,96}/[\w.-]{1,96})@([0-9a-f]{40})")

log = structlog.get_logger("ragtide.worker")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the Hub."""

    repository: str
    """Owner and name."""
    commit: str
    """Full hash of the commit."""
    file: str
    """The ONNX file in the repository."""
    optional: tuple[str, ...] = (CALIBRATION,)
    """More files that belong to the model where the repository has them."""

    @property
    def folder(self) -> str:
        """Name of its folder in the cache."""
        return f"{_cached(self.repository)}@{self.commit}--{_cached(self.file)}"


def is_hub_name(place: str) -> bool:
    """Return whether a text may be the name of a model of the Hub: owner and name, and perhaps `@` with a revision."""
    return bool(_NAME.fullmatch(place.partition("@")[0])) and place[0] != "." and not Path(place).exists()


def cached_model(place: str, file: str, cache: Path) -> HubModel | None:
    """Return the model of a name that was downloaded last; None without one. It needs no network.

    Args:
        place: owner and name, and perhaps `@` with a full commit.
        file: the ONNX file; empty for any.
        cache: folder of downloaded models.
    """
    repository, _, commit = place.partition("@")
    models = [
        (record.stat().st_mtime, record.parent.name) for record in cache.glob(f"{_cached(repository)}@*/{RECORD}")
    ]
    for _, name in sorted(models, reverse=True):
        known = _CACHED.fullmatch(name.removeprefix(f"{_cached(repository)}@"))
        model = None if known is None else HubModel(repository, known[1], known[2].replace("--", "/"))
        if model is not None and commit in ("", model.commit) and file in ("", model.file):
            return model
    return None


def _cached(repository: str) -> str:
    return repository.replace("/", "--")


def hub_model(place: str, file: str, setting: str, optional: tuple[str, ...] = (CALIBRATION,)) -> HubModel | None:
    """Return the model of the Hub that a setting names; None if it names a folder.

    Args:
        place: value of the setting.
        file: the ONNX file.
        setting: its name, for messages.
        optional: more files that belong to the model where the repository has them.

    Raises:
        ConfigurationError: the name has no commit, or the file leads out of the repository.
    """
    pinned = _PINNED.fullmatch(place)
    if pinned is None:
        if is_hub_name(place):
            raise ConfigurationError(
                f"{setting} = {place!r} is no folder, and as a model of the Hub it has no full commit: write "
                "owner/name@ and the 40 digits of the commit, or correct the path"
            )
        return None
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.onnx", file) or ".." in file:
        raise ConfigurationError(f"{setting}_file = {file!r} is no ONNX file of a repository: write model.onnx")
    return HubModel(pinned[1], pinned[2], file, optional)


Loaded = Callable[[str, int], None]
"""Is called with the name of a file and the number of its bytes that came, while they come."""


async def download(
    model: HubModel, settings: ModelsSettings, cache: Path, setting: str, loaded: Loaded | None = None
) -> Path:
    """Return the folder of a model in the cache, after a download if it is not there yet.

    Args:
        model: at a commit.
        settings: address and token of the Hub.
        cache: folder of downloaded models.
        setting: name of the setting, for messages.
        loaded: follows the download.

    Raises:
        ConfigurationError: the Hub cannot be reached, refuses, or has no such file; or the files were changed since.
    """
    folder = cache / model.folder
    if not (folder / RECORD).is_file():
        partial = await asyncio.to_thread(_new_folder, cache)
        try:
            async with hub_client(settings) as client:
                await _Download(client, model, partial, setting, loaded).run()
            files = await asyncio.to_thread(
                model_files, str(partial), model.file, setting=setting, optional=model.optional
            )
            record = {"model": model.folder, "digest": files.digest}
            (partial / RECORD).write_text(json.dumps(record), encoding="utf-8")
            try:
                os.replace(partial, folder)  # noqa: PTH105 - Path.replace is the same
            except OSError:
                # Another process was faster, or an earlier one ended in the middle of this.
                if not (folder / RECORD).is_file():
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        log.info("model downloaded", repository=model.repository, commit=model.commit, folder=str(folder))
    return folder


def recorded_digest(folder: Path) -> str | None:
    """Return the digest that a downloaded model had; None for another folder, or if the record cannot be read."""
    try:
        digest = json.loads((folder / RECORD).read_text(encoding="utf-8"))["digest"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return digest if isinstance(digest, str) else None


def _new_folder(cache: Path) -> Path:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{cache} cannot hold downloaded models ({error.strerror}): set models.cache_dir or data_dir to a "
            "directory that you can write to"
        ) from None
    for old_folder in cache.glob(f"{PARTIAL}*"):
        # Another process may finish its download now: the folder and its files are moved while this one looks.
        with suppress(FileNotFoundError):
            newest = max([path.stat().st_mtime for path in (old_folder, *old_folder.rglob("*"))], default=0.0)
            if time.time() - newest > ABANDONED_S:
                shutil.rmtree(old_folder, ignore_errors=True)
    return Path(mkdtemp(prefix=PARTIAL, dir=cache))


class _Download:
    def __init__(
        self, client: HubClient, model: HubModel, folder: Path, setting: str, loaded: Loaded | None = None
    ) -> None:
        self._client = client
        self._model = model
        self._loaded = loaded
        self._folder = folder
        self._name = f"{setting} = '{model.repository}@{model.commit}'"
        self._left = MODEL_BYTES

    async def run(self) -> None:
        """Download all files of the model.

        Raises:
            ConfigurationError: a file cannot be had.
        """
        # Small files first: a wrong model is refused before its weights are loaded.
        for file in ("config.json", "tokenizer.json", self._model.file):
            if not await self._load_file(file):
                raise ConfigurationError(
                    f"{self._name} has no {file} on the Hub: name its ONNX file, export the model into a folder, or "
                    "use another model"
                )
        for file in self._model.optional:
            await self._load_file(file)
        onnx = self._folder / self._model.file
        inner = self._model.file.rpartition("/")[0]
        for other in sorted(external_files(onnx, self._name, must_exist=False)):
            if not await self._load_file(f"{inner}/{other}" if inner else other):
                raise ConfigurationError(f"{self._name} has no {other} on the Hub: use another model")

    async def _load_file(self, name: str) -> bool:
        path = f"/{self._model.repository}/resolve/{self._model.commit}/{name}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._client.reply(path) as reply:
                    if reply.status == 404:
                        return False
                    if reply.status in {401, 403}:
                        raise ConfigurationError(
                            f"{self._name} is refused by the Hub (status {reply.status}): set models.hub_token, and "
                            "accept the model's terms there"
                        )
                    reply.raise_for_status()
                    await self._write(reply, name)
                    return True
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if attempt == ATTEMPTS:
                    raise ConfigurationError(
                        f"{self._name} cannot be downloaded ({self._client.error_line(error)}): try again when "
                        f"{self._client.url} can be reached, or copy the model into a folder"
                    ) from None
            await asyncio.sleep(PAUSE_S)
        return False

    async def _write(self, reply: aiohttp.ClientResponse, name: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        packing = reply.headers.get("Content-Encoding", "identity").strip().lower()
        if packing != "identity":
            raise aiohttp.ClientPayloadError(f"{name} is packed as {packing[:40]!r} though it was asked for plain")
        before, began = self._left, time.monotonic()
        with path.open("wb") as file:
            async for block in reply.content.iter_chunked(2**20):
                self._left -= len(block)
                if self._left < 0:
                    raise ConfigurationError(f"{self._name} has more than {MODEL_BYTES:,} bytes: use a smaller model")
                await asyncio.to_thread(file.write, block)
                if self._loaded is not None:
                    self._loaded(name, before - self._left)
                if time.monotonic() - began > SILENCE_S + (before - self._left) / SLOWEST_BYTES_PER_S:
                    raise aiohttp.ClientPayloadError(f"{name} comes slower than {SLOWEST_BYTES_PER_S:,} bytes/s")
        written = before - self._left
        if reply.content_length not in {None, written}:
            raise aiohttp.ClientPayloadError(f"{name} has {written} bytes of {reply.content_length}")
