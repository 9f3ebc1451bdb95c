"""A recording to label again, and the two roads of a replay that labels it."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.dying_labeler import REFUSED
from tests.support.recorded import record
from tests.support.transcripts import as_run

from ragtide_offline.parts.relabeling import PartsRelabeling
from ragtide_offline.replay.plan import ReplayPlan
from ragtide_offline.replay.replay import RecordingReplay
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.replay.selection import Selection
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_schemas import AlertRule, Feedback, RagInteraction, RetrievedDocument, from_milliseconds

COUNT = 120
"""Recorded interactions of each of two pipelines, without a duplicate and a refused one."""
LABELER = "tests.support.dying_labeler:DyingLabeler"
START_MS = 1_795_300_000_000
RULES = (
    AlertRule(name="floor", kind="threshold", metric="own.length", target=0.6),
    AlertRule.model_validate(
        {"name": "longer", "kind": "distribution", "covariate": "question_length", "run_length": 10_000}
    ),
)


def interaction(number: int, pipeline: str, question: str | None = None, **fields: Any) -> RagInteraction:
    made = RagInteraction(
        **{
            "interaction_id": f"i-{number}",
            "pipeline": pipeline,
            "occurred_at": from_milliseconds(START_MS + 1000 * number),
            "question": question or f"When was tower {'x' * (number * number % 7)} built?",
            "documents": [RetrievedDocument(text="It was built in 1889.")],
            "response": "In 1889.",
            "segments": {"lang": "de" if number % 3 else "en"},
            "population_size": 9,
            "run": "live",
            **fields,
        }
    )
    return as_run(made) if number % 4 == 0 else made


def recording_of(folder: Path, *more: RagInteraction) -> Recording:
    """Record the interactions of two partitions, with a duplicate, one that is not labeled, and feedback.

    Args:
        folder: of the recording.
        more: further interactions of the first partition.
    """
    entries: list[tuple[EntryKind, RecordedEntry]] = []
    for partition, pipeline in enumerate(("shop", "news")):
        rows = [interaction(number, pipeline) for number in range(COUNT)]
        if pipeline == "shop":
            rows[50:50] = [interaction(3, pipeline), interaction(COUNT, pipeline, REFUSED), *more]
        entries += [
            (EntryKind.INTERACTIONS, RecordedEntry(partition, f"{START_MS + 1000 * place}-{place % 3}", row))
            for place, row in enumerate(rows)
        ]
        gold = Feedback(pipeline=pipeline, interaction_id="i-5", gold_scores={"own.length": 1.0})
        entries.append((EntryKind.FEEDBACK, RecordedEntry(partition, f"{START_MS + 30_000}-1", gold)))
    return record(entries, folder, partitions=2)


def settings_at(data_dir: Path, **changes: Any) -> Settings:
    """Return settings with changes; None leaves a setting out."""
    found = {"labeler": LABELER, "segments": True, "alerts": RULES, "alert_defaults": False, "lease_s": 60, **changes}
    return settings_of_application(data_dir=data_dir, **{name: it for name, it in found.items() if it is not None})


def relabel(
    url: str,
    settings: Settings,
    recording: Recording,
    processes: int | None,
    *,
    stopped: bool = False,
    selection: Selection = Selection(),  # noqa: B008
    max_cost_usd: float | None = None,
) -> ReplayResult:
    """Label a recording again, in processes or by the worker of this process."""
    rules = settings.alerts
    plan = ReplayPlan("again", recording, selection, relabel=True, rules=rules, in_parts=processes is not None)

    async def body() -> ReplayResult:
        stop = asyncio.Event()
        if stopped:
            stop.set()
        async with connect_async(url) as client:
            if processes is None:
                alone = RecordingReplay(settings, plan, None, max_cost_usd=max_cost_usd)
                return await alone.run(client, url, stop, lambda _progress: None)
            relabeling = PartsRelabeling(settings, plan, processes, max_cost_usd=max_cost_usd)
            return await relabeling.run(client, stop, lambda _done, _usd: None, lambda _progress: None)

    return asyncio.run(body())


def bits(found: ReplayResult) -> str:
    """Return all that a replay results in, without its duration."""
    return json.dumps({**found.as_dict(), "seconds": None}, sort_keys=True)


def parts_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}
