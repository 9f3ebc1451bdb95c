"""Downloads models of the Hugging Face Hub, each at one commit, into a cache from which they load without a network.

A repository's name may stand for another model tomorrow; a commit cannot. So a commit is required.
"""

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import aiohttp
import structlog
from yarl import URL

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.outside.proxies import proxy_of, through
from ragtide_runtime.settings.labelers import ModelsSettings

from .calibration import NAME as CALIBRATION
from .files import MODEL_BYTES, external_files, model_files

ATTEMPTS: Final = 3
"""Most tries to download a file."""

PAUSE_S: Final = 2.0
"""Seconds between two tries."""

SILENCE_S: Final = 60.0
"""Seconds without a byte after which a try has failed."""

SLOWEST_BYTES_PER_S: Final = 10_000
"""Bytes a second below which a try has failed, after `SILENCE_S` seconds."""

REDIRECTS_MAX: Final = 5
"""Most redirects of one file: large files are on other hosts."""

PARTIAL: Final = ".partial-"
"""Begin of the names of folders into which a download is made."""

ABANDONED_S: Final = 86_400.0
"""Seconds without a change after which such a folder is abandoned."""

RECORD: Final = "downloaded.json"
"""File that is written last, with the digest of the others."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_NAME: Final = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
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
        return f"{self.repository.replace('/', '--')}@{self.commit}--{self.file.replace('/', '--')}"


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
        if _NAME.fullmatch(place.partition("@")[0]) and not Path(place).exists():
            raise ConfigurationError(
                f"{setting} = {place!r} is no folder, and as a model of the Hub it has no full commit: write "
                "owner/name@ and the 40 digits of the commit, or correct the path"
            )
        return None
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.onnx", file) or ".." in file:
        raise ConfigurationError(f"{setting}_file = {file!r} is no ONNX file of a repository: write model.onnx")
    return HubModel(pinned[1], pinned[2], file, optional)


async def download(model: HubModel, settings: ModelsSettings, cache: Path, setting: str) -> Path:
    """Return the folder of a model in the cache, after a download if it is not there yet.

    Raises:
        ConfigurationError: the Hub cannot be reached, refuses, or has no such file; or the files were changed since.
    """
    folder = cache / model.folder
    if not (folder / RECORD).is_file():
        partial = await asyncio.to_thread(_new_folder, cache)
        try:
            async with _session() as session:
                await _Download(session, model, settings, partial, setting).run()
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


@asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_S / 2, sock_read=SILENCE_S)
    # Packed bytes may unpack to any size, so the Hub is asked for plain ones.
    headers = {"Accept-Encoding": "identity", "User-Agent": "ragtide"}
    async with aiohttp.ClientSession(
        headers=headers,
        timeout=timeout,
        auto_decompress=False,
        connector=aiohttp.TCPConnector(ssl=tls_context()),
    ) as session:
        yield session


class _Download:
    def __init__(
        self, session: aiohttp.ClientSession, model: HubModel, settings: ModelsSettings, folder: Path, setting: str
    ) -> None:
        self._session = session
        self._model = model
        self._settings = settings
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
        url = f"{self._settings.hub_url.rstrip('/')}/{self._model.repository}/resolve/{self._model.commit}/{name}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._reply(url) as reply:
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
                    line = " ".join(f"{type(error).__name__}: {error}".split())[:200] + through(proxy_of(url))
                    raise ConfigurationError(
                        f"{self._name} cannot be downloaded ({line}): try again when {self._settings.hub_url} can be "
                        "reached, or copy the model into a folder"
                    ) from None
            await asyncio.sleep(PAUSE_S)
        return False

    @asynccontextmanager
    async def _reply(self, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
        began = place = URL(url)
        token = self._settings.hub_token
        for _ in range(REDIRECTS_MAX + 1):
            is_hub = token is not None and place.origin() == began.origin()
            headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token is not None and is_hub else None
            proxy = proxy_of(str(place))
            address = None if proxy is None else proxy.url
            async with self._session.get(place, headers=headers, allow_redirects=False, proxy=address) as reply:
                if reply.status not in _REDIRECTS:
                    yield reply
                    return
                try:
                    place = place.join(URL(reply.headers.get("Location", "")))
                except ValueError:
                    raise aiohttp.ClientError("a redirect without an address") from None
        raise aiohttp.ClientError(f"more than {REDIRECTS_MAX} redirects")

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
                if time.monotonic() - began > SILENCE_S + (before - self._left) / SLOWEST_BYTES_PER_S:
                    raise aiohttp.ClientPayloadError(f"{name} comes slower than {SLOWEST_BYTES_PER_S:,} bytes/s")
        written = before - self._left
        if reply.content_length not in {None, written}:
            raise aiohttp.ClientPayloadError(f"{name} has {written} bytes of {reply.content_length}")
