"""A worker keeps specimens beside the events that it emits, and no specimen may keep an event from being emitted."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.test_worker import STREAMS, events
from tests.support.conditions import until
from tests.support.transcripts import as_run

from ragtide import ConfigurationError, Labeler, Labeling, LocalLabeler, RagInteraction
from ragtide.testing import interaction
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.labelers.cascade import CascadeLabeler
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.specimens.keeping import SpecimenKeeper
from ragtide_consumers.worker.app import run_workers
from ragtide_runtime.redis.keys import DATA_FIELD, interaction_digest
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Specimen


async def worked(redis: Any, given: list[RagInteraction], labeler: Labeler | None = None, **specimens: Any) -> None:
    """Label interactions by the workers of a process, with these settings of specimens."""
    for one in given:
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: one.encode()})
    stop = asyncio.Event()
    url = f"unix://{redis.connection_pool.connection_kwargs['path']}"
    settings = Settings(specimens=specimens)
    running = asyncio.create_task(run_workers(settings, url, labeler or LocalLabeler(), stop))

    async def all_emitted() -> bool:
        return bool(await redis.xlen(STREAMS.metrics) == len(given)) or running.done()

    await until(all_emitted)
    stop.set()
    await running


async def stored(redis: Any, number: int) -> Specimen | None:
    payload = await redis.get(STREAMS.specimen(interaction_digest("shop", f"i-{number}")))
    return None if payload is None else Specimen.from_stored(payload)


async def test_a_worker_keeps_the_sample_with_the_scores_of_its_event(async_redis: Any) -> None:
    given = [as_run(interaction(n, question=f"Question {n} of anna@example.com?")) for n in range(3)]
    await worked(async_redis, given, sample=1.0)
    for number, event in enumerate(sorted(await events(async_redis), key=lambda one: one.interaction_id)):
        found = await stored(async_redis, number)
        assert found is not None
        assert found.labelings[0].scores == event.scores
        assert found.interaction.question == f"Question {number} of [email]?", "redacted unless settings say otherwise"
        kept = [call.model_copy(update={"query": None}) for call in found.interaction.calls]
        assert kept == [call.model_copy(update={"query": None}) for call in given[number].calls]
        assert found.interaction.calls[0].query == found.interaction.question
        assert (found.sample_probability, found.labeled_at) == (1.0, event.labeled_at)


class SecondLabeler:
    """The local labeler by another name."""

    name = "second"
    version = "1"
    profile = "ragbench"

    async def label(self, given: RagInteraction) -> Labeling:
        """Return the labels of the local labeler."""
        return LocalLabeler().label_now(given)


async def test_of_judged_interactions_those_that_chance_drew_are_kept_the_newest_of_them(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.specimens.lists.JUDGED_MAX", 10)
    choice = CascadeSettings(reference="second", rate=0.5, below={"trace.adherence": 2.0})  # every score is below it
    cascade = CascadeLabeler(LocalLabeler(), SecondLabeler(), choice)
    await worked(async_redis, [interaction(number) for number in range(40)], cascade, sample=0.0)
    drawn = [event for event in await events(async_redis) if event.judged is not None and event.judged.uniform]
    assert 10 < len(drawn) < 40
    kept = KeptSpecimens(async_redis, Settings().layout)
    found = [one.interaction.interaction_id for one in await kept.judged("shop")]
    assert len(found) == 10
    assert set(found) <= {one.interaction_id for one in drawn}
    assert {len(one.labelings) for one in await kept.judged("shop")} == {2}
    assert await kept.sample("shop") == []


@pytest.mark.parametrize(
    ("changes", "specimens"),
    [
        ({}, {"enabled": False}),
        ({"run": "nightly"}, {}),
        ({"documents": ["Too long. " * 30_000]}, {}),
    ],
)
async def test_no_specimen_is_kept(changes: dict[str, Any], specimens: dict[str, Any], async_redis: Any) -> None:
    await worked(async_redis, [interaction(0, **changes)], sample=1.0, **specimens)
    assert await async_redis.keys("*specimen*") == []


async def test_specimens_of_offline_runs_are_kept_if_they_are_asked_for(async_redis: Any) -> None:
    await worked(async_redis, [interaction(0, run="nightly")], sample=1.0, offline=True)
    assert await stored(async_redis, 0) is not None


def test_a_workspace_has_no_specimens_unless_they_are_asked_for() -> None:
    def ignored(_: str) -> None: ...

    assert SpecimenKeeper.of(Settings(prefix="ragtide.run.may"), ignored) is None
    assert SpecimenKeeper.of(Settings(prefix="ragtide.run.may", specimens={"offline": True}), ignored) is not None
    assert SpecimenKeeper.of(Settings(), ignored) is not None


OWN = """
import os, time

def hangs(text):
    time.sleep(60)

def dies(text):
    os._exit(7)

def fails(text):
    raise ValueError(text)

def masks(text):
    return text.replace("tower", "[building]")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module with functions that redact."""
    (tmp_path / "own_redaction_of_specimens.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_redaction_of_specimens"


@pytest.mark.processes
@pytest.mark.parametrize("name", ["hangs", "dies", "fails"])
async def test_an_interaction_that_cannot_be_redacted_is_scored_and_not_kept(
    name: str, own: str, async_redis: Any
) -> None:
    await worked(async_redis, [interaction(0)], sample=1.0, redact_function=f"{own}:{name}", redact_limit_s=0.2)
    assert len(await events(async_redis)) == 1
    assert await async_redis.keys("*specimen*") == []


@pytest.mark.processes
async def test_a_function_of_the_user_redacts_in_a_process_of_its_own(own: str, async_redis: Any) -> None:
    await worked(async_redis, [interaction(0)], sample=1.0, redact_function=f"{own}:masks")
    found = await stored(async_redis, 0)
    assert found is not None
    assert found.interaction.response_sentences == ("The [building] was built in 1889.",)
    assert found.redacted_by == ("email", "card", "phone", f"{own}:masks")


def test_a_function_that_is_not_there_is_an_error_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match=r"specimens\.redact_function: nowhere:at_all"):
        SpecimenKeeper(Settings(specimens={"redact_function": "nowhere:at_all"}))


async def test_a_bug_in_a_specimen_is_counted_and_keeps_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    keeper = SpecimenKeeper(Settings(specimens={"sample": 1.0}), lambda outcome: counts.update([outcome]))
    monkeypatch.setattr("ragtide_consumers.specimens.keeping.specimen", None)
    labeling = LocalLabeler().label_now(interaction(0))

    one = interaction(0)
    event = metric_event(one, labeler_id(LocalLabeler()), labeling, labeled_at=one.occurred_at, latency_s=0.0)
    places = keeper.places(one, event)
    assert places
    assert await keeper.proposed(one, labeling, event, places, trace_id=None) is None
    assert counts == {"failed": 1}
