"""A recorder for tests, and entries for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ragtide_consumers.recorder.service import Recorder
from ragtide_consumers.recorder.session import RecorderSession
from ragtide_consumers.recorder.telemetry import RecorderTelemetry
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_runtime.ownership.ownership import Lease, Ownership
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.recordings.store import LocalStore, Store, open_store
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import last_id
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Alert, Feedback, MetricEvent, RagInteraction, RetrievedDocument
from ragtide_schemas.base import VersionedModel

STREAMS = Streams("ragtide", 0)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def settings_of(url: Path | str, **recorder: Any) -> Settings:
    return load_settings(lease_s=1.0, recorder={"url": str(url), "roll_s": 0.02, **recorder})


@asynccontextmanager
async def recording(redis: Any, settings: Settings, store: Store | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """Record for the body of an `async with`; then it is stopped as by SIGTERM."""
    assert settings.recorder.url is not None
    stop = asyncio.Event()
    place = store or open_store(settings.recorder.url, settings.recorder.storage_options)
    task = asyncio.create_task(Recorder(redis, settings, place, Redaction.of("recorder", settings.recorder)).run(stop))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait([task])
    task.result()


async def session_of(redis: Any, tmp_path: Path, token: str) -> RecorderSession:
    await redis.set(STREAMS.recorder_lease, token)
    settings = settings_of(tmp_path / "r").recorder
    lease = Lease(redis, STREAMS, holder=token, lease_s=60, role="recorder")
    found = RecorderSession(
        redis,
        settings,
        Ownership([lease], [token]),
        store=LocalStore(tmp_path / "r"),
        redaction=Redaction(),
        user_ids=UserIds(),
        telemetry=RecorderTelemetry(),
    )
    await found.begin()
    return found


async def caught_up(redis: Any, kinds: tuple[EntryKind, ...] = tuple(EntryKind)) -> bool:
    """Return whether the recorder's group is at the end of every stream."""
    for kind in kinds:
        groups = await redis.xinfo_groups(kind.stream(STREAMS)) if await redis.exists(kind.stream(STREAMS)) else []
        at = [group["last-delivered-id"].decode() for group in groups if group["name"] == b"record"]
        if at != [await last_id(redis, kind.stream(STREAMS))]:
            return False
    return True


def interaction(number: int, **changes: Any) -> RagInteraction:
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "pipeline": ("shop", "help/desk Ä")[number % 2],
        "occurred_at": NOON + timedelta(microseconds=number),
        "question": f"question {number}?",
        "documents": (RetrievedDocument(text=f"document {number}", score=number / 7, metadata={"page": None}),),
        "response": f"response {number}",
    }
    return RagInteraction(**{**fields, **changes})


def event(number: int, **changes: Any) -> MetricEvent:
    scores = {"trace.adherence": number / 3, "trace.context_relevance": 0.1 * number}
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "entry_id": f"{number + 1}-0",
        "pipeline": ("shop", "help/desk Ä")[number % 2],
        "occurred_at": NOON + timedelta(microseconds=number),
        "labeled_at": NOON,
        "labeler": "test",
        "labeler_version": "1",
        "profile": "ragbench",
        "scores": scores if number % 3 else {"trace.adherence": number / 3},
    }
    return MetricEvent(**{**fields, **changes})


def feedback(number: int) -> Feedback:
    return Feedback(pipeline="shop", interaction_id=f"i-{number}", gold_scores={"trace.adherence": 0.5}, given_at=NOON)


def alert(number: int) -> Alert:
    return Alert(
        alert_id=f"a-{number}",
        status="firing",
        rule="stall",
        kind="stall",
        pipeline="*",
        metric="stall.labeling",
        direction="rise",
        fired_at=NOON,
        message="labeling is behind",
    )


MAKERS: dict[EntryKind, Callable[[int], VersionedModel]] = {
    EntryKind.INTERACTIONS: interaction,
    EntryKind.METRICS: event,
    EntryKind.FEEDBACK: feedback,
    EntryKind.ALERTS: alert,
}


async def add(redis: Any, kind: EntryKind, *models: VersionedModel) -> list[RecordedEntry]:
    """Add models to a stream, and return what a recording of them holds."""
    async with redis.pipeline(transaction=False) as pipe:
        for model in models:
            pipe.xadd(kind.stream(STREAMS), {DATA_FIELD: model.encode()})
        ids = await pipe.execute()
    return [RecordedEntry(0, entry_id.decode(), model) for entry_id, model in zip(ids, models, strict=True)]


async def add_all(redis: Any, first: int, count: int) -> dict[EntryKind, list[RecordedEntry]]:
    """Add so many entries to every stream."""
    return {kind: await add(redis, kind, *map(make, range(first, first + count))) for kind, make in MAKERS.items()}


def recorded(url: Path | str, kind: EntryKind = EntryKind.INTERACTIONS, **options: Any) -> list[RecordedEntry]:
    """Return what a recording holds of a kind."""
    return list(Recording.open(str(url), **options).entries(kind))
