"""Asks the judge through batches of its endpoint, which cost less and take up to a day (OpenAI's Batch API).

A batch is a file of requests. Its answers go into the cache, where labeling finds them. A file in the data directory
names the open batches. It is written before and after a batch is made, and each batch carries the digest of its
requests, so a process that is killed at any point finds its batch again and pays for no request twice.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import openai
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.outside.answers import ForeignAnswerError
from ragtide_runtime.processes.made_folders import removed_if_empty
from ragtide_runtime.redis.server.keeper import FileLock

from ..remote.spend import LimitReached, Reservation
from .client import JudgeClient
from .costs import BatchProgress, BatchRequest, ShowBatch

ENDPOINT: Final = "/v1/chat/completions"
MOST_REQUESTS: Final = 50_000
MOST_BYTES: Final = 150 * 2**20
"""Limits of one batch: those of OpenAI are 50,000 requests and 200 MB."""
LONGEST_LINE: Final = 8 * 2**20
"""Most bytes of one answer; a longer one counts as failed."""
MARK: Final = "ragtide"
"""Name under which a batch has the digest of its requests."""
BATCH_PRICE_SHARE: Final = 0.5
"""Price of a request in a batch, as a share of the ordinary price; all providers of batches ask for half."""

LOOKED_THROUGH: Final = 1000
"""Newest batches of the endpoint among which a lost one is searched."""
ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})


class BatchError(RagtideError):
    """The endpoint refuses batches, or a batch failed."""


class OpenBatch(BaseModel):
    """A batch whose answers are not stored yet."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    digest: str
    address: str
    model: str
    requests: int
    id: str = ""
    """Name at the endpoint; empty while it is being made."""
    reserved_usd: float = 0.0
    hour: str = ""
    day: str = ""
    key: str = ""
    """Of its reservation."""

    @property
    def reservation(self) -> Reservation:
        """Dollars that are reserved for it."""
        return Reservation(self.reserved_usd, self.hour, self.day, self.key)


_STATE = TypeAdapter(list[OpenBatch])


@dataclass(slots=True)
class BatchResult:
    """The result of one or more batches."""

    stored: int = 0
    """Answers that were stored."""
    cost_usd: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    """Reason by key of each request that the endpoint refused."""
    waiting: BatchProgress | None = None
    """A batch that has not ended; None if all have."""


class JudgeBatches:
    """The batches of one data directory; one process at a time uses them.

    Args:
        client: of the judge, with a cache that outlives the process.
        folder: the data directory.
        poll_s: seconds between two looks at a batch.
    """

    def __init__(self, client: JudgeClient, folder: Path, *, poll_s: float = 30.0) -> None:
        self._client = client
        self._path = folder / "judge-batches.json"
        self._poll_s = poll_s
        self._endpoint = client.unbounded_client()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out for the body of a `with`.

        Raises:
            ConfigurationError: another process is in, or the directory cannot be written.
        """
        folder, lock = self._path.parent, FileLock(self._path.with_suffix(".lock"))
        with removed_if_empty(folder):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                is_alone = lock.acquire()
            except OSError as error:
                raise ConfigurationError(f"{self._path} cannot be written ({error}): set data_dir") from None
            if not is_alone:
                raise ConfigurationError(
                    f"another ragtide score batch uses {folder}: wait for its end, or set another data_dir"
                )
            try:
                yield
            finally:
                lock.path.unlink(missing_ok=True)
                lock.release()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def finish(self, *, wait: bool, show: ShowBatch) -> BatchResult:
        """Store the answers of open batches of this endpoint and model.

        Args:
            wait: whether to wait for their ends.
            show: called with the progress of each look.

        Raises:
            BatchError: the endpoint cannot be used, or a batch failed as a whole.
            ConfigurationError: the file of open batches cannot be used.
        """
        result = BatchResult()
        own = self._client.address, self._client.settings.model
        for opened in [stored for stored in self._read() if (stored.address, stored.model) == own]:
            with self._explaining_errors():
                batch = await self._find(opened)
                if batch is None:  # the process ended before the batch was made
                    await self._client.account.settle(opened.reservation, 0.0)
                    self._forget(opened)
                    continue
                while batch.status not in ENDED:
                    progress = _progress(batch)
                    show(progress)
                    if not wait:
                        result.waiting = progress
                        return result
                    await asyncio.sleep(self._poll_s)
                    batch = await self._endpoint.batches.retrieve(batch.id)
                show(_progress(batch))
                cost_usd = await self._take(batch, result)
            await self._client.account.settle(opened.reservation, cost_usd)
            self._forget(opened)
            if batch.status in ("failed", "cancelled"):
                errors = getattr(batch.errors, "data", None) or []
                message = self._client.clean("; ".join(str(error.message) for error in errors[:3]))[:300]
                reason = f" ({message})" if message else ""
                ended = "failed" if batch.status == "failed" else "was cancelled"
                raise BatchError(
                    f"batch {batch.id} {ended}{reason}: {result.stored:,} answers are stored; correct the cause and "
                    "give the same command again, or use ordinary calls"
                )
        return result

    async def begin(self, requests: Sequence[BatchRequest]) -> int:
        """Make a batch of the first requests, as many as it may have, and return their number.

        Raises:
            BatchError: the endpoint refuses it, or a spend limit is reached.
        """
        lines: list[bytes] = []
        size = 0
        for request in requests[:MOST_REQUESTS]:
            body = {"custom_id": request.key, "method": "POST", "url": ENDPOINT, "body": request.body}
            line = json.dumps(body, ensure_ascii=False).encode() + b"\n"
            if lines and size + len(line) > MOST_BYTES:
                break
            lines.append(line)
            size += len(line)
        batched = requests[: len(lines)]
        digest = blake2b("".join(sorted(request.key for request in batched)).encode(), digest_size=16).hexdigest()
        expected_usd = sum(request.expected_usd for request in batched) * BATCH_PRICE_SHARE
        reserved = await self._client.account.reserve(expected_usd)
        if isinstance(reserved, LimitReached):
            raise BatchError(
                f"the judge's spend limit of the {reserved.period} does not allow a batch of about "
                f"${expected_usd:,.2f}: raise it, or give fewer rows"
            )
        batch = OpenBatch(
            digest=digest,
            address=self._client.address,
            model=self._client.settings.model or "",
            requests=len(batched),
            reserved_usd=reserved.amount_usd,
            hour=reserved.hour,
            day=reserved.day,
            key=reserved.key,
        )
        self._remember(batch)
        with self._explaining_errors():
            try:
                # Once: a request that is sent again after a lost connection could make a second batch.
                once = self._endpoint.with_options(max_retries=0)
                file = await once.files.create(file=("requests.jsonl", b"".join(lines)), purpose="batch")
                created = await once.batches.create(
                    input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", metadata={MARK: digest}
                )
            except openai.APIStatusError:
                # It was refused, so it does not exist. After a lost connection it may exist: `finish` looks for it.
                await self._client.account.settle(batch.reservation, 0.0)
                self._forget(batch)
                raise
        self._remember(batch.model_copy(update={"id": created.id}))
        return len(batched)

    async def _find(self, opened: OpenBatch) -> Any:
        if opened.id:
            return await self._endpoint.batches.retrieve(opened.id)
        n_looked = 0
        async for batch in self._endpoint.batches.list(limit=100):
            if (batch.metadata or {}).get(MARK) == opened.digest and batch.status not in ("failed", "cancelled"):
                return batch
            n_looked += 1
            if n_looked >= LOOKED_THROUGH:
                break
        return None

    async def _take(self, batch: Any, result: BatchResult) -> float:
        cost_usd = 0.0
        for file_id in (batch.output_file_id, batch.error_file_id):
            if not file_id:
                continue
            async for entry in self._entries(file_id):
                key = entry.get("custom_id")
                if not isinstance(key, str):
                    continue
                response = entry.get("response")
                reply = response.get("body") if isinstance(response, Mapping) else None
                good = isinstance(response, Mapping) and response.get("status_code") == 200
                answer = await self._client.take(key, reply) if good else None
                if answer is None:
                    error = entry.get("error") or reply or "no answer"
                    result.failed[key] = self._client.clean(json.dumps(error, ensure_ascii=False))[:200]
                else:
                    result.stored += 1
                    cost_usd += answer.cost_usd * BATCH_PRICE_SHARE
        result.cost_usd += cost_usd
        return cost_usd

    async def _entries(self, file_id: str) -> AsyncIterator[Mapping[str, Any]]:
        rest, skips = b"", False
        async with self._endpoint.files.with_streaming_response.content(file_id) as reply:
            async for piece in reply.iter_bytes(65_536):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if not skips and (entry := _object(line)) is not None:
                        yield entry
                    skips = False
                if len(rest) > LONGEST_LINE:
                    rest, skips = b"", True
        if not skips and (entry := _object(rest)) is not None:
            yield entry

    @contextmanager
    def _explaining_errors(self) -> Iterator[None]:
        try:
            yield
        except (openai.APIError, ForeignAnswerError) as error:
            message = self._client.clean(f"{type(error).__name__}: {error}")[:300]
            raise BatchError(
                f"{self._client.address} refused or did not answer ({message}): nothing is lost; give the same command "
                "again, or use ordinary calls if the endpoint has no batches"
            ) from None

    def _read(self) -> list[OpenBatch]:
        try:
            return _STATE.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValidationError) as error:
            raise ConfigurationError(
                f"{self._path}, which names the open batches, cannot be read ({type(error).__name__}): correct or "
                "remove the file"
            ) from None

    def _remember(self, batch: OpenBatch) -> None:
        self._write([*(stored for stored in self._read() if stored.digest != batch.digest), batch])

    def _forget(self, batch: OpenBatch) -> None:
        self._write([stored for stored in self._read() if stored.digest != batch.digest])

    def _write(self, batches: list[OpenBatch]) -> None:
        new = self._path.with_suffix(".new")
        try:
            if not batches:
                self._path.unlink(missing_ok=True)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
                file.write(_STATE.dump_json(batches))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise ConfigurationError(f"{self._path} cannot be written ({error}): set data_dir") from None


def _progress(batch: Any) -> BatchProgress:
    counts = batch.request_counts
    done = 0 if counts is None else counts.completed + counts.failed
    return BatchProgress(batch.id, batch.status, done, 0 if counts is None else counts.total)


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
