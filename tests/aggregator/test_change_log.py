"""A step names the pipelines that it changed, and a reader that follows the steps has the numbers of a new reader."""

from typing import Any

import pytest
from tests.support.metric_events import adherence, event
from tests.support.owners import owners

from ragtide import Deployment
from ragtide_aggregator.checkpoint.change_log import PIPELINES_MAX, STEPS_KEPT, ChangeLog, changed_pipelines, slot
from ragtide_aggregator.checkpoint.field_pipelines import pipeline_of_field
from ragtide_aggregator.checkpoint.name_index import LISTED
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.options import Changes
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, MetricEvent, utc_now

NAMES = ("shop", "bank", 'a"b', "é")
SETTINGS = [
    {"windows": ("10s",), "history": {"fine": "1m", "coarse": "1h"}},
    {"windows": (), "clusters": {"by": "session_id", "quiet_s": 30}},
    {"windows": (), "partitions": 2, "splits": {"shop": 2}},
]
MINUTE = 60


def step_of(number: int, start: int) -> list[MetricEvent]:
    """Return the events of a step: of some pipelines, some of them new, with new metrics, judges and gold scores."""
    events = []
    for place, name in enumerate(NAMES):
        if (number + place) % 3 == 0:
            continue
        at = start + number * 7 * MINUTE + place
        metrics = {"trace.adherence": (number % 5) / 5, **({"trace.completeness": 0.5} if number > 4 else {})}
        labelers = ("local", "judge") if number % 2 else ("local",)
        events += [
            event(
                at,
                metrics,
                interaction_id=f"{name}-{number}",
                pipeline=name,
                labeler=labeler,
                segments={"lang": f"l{number % 2}"},
                cluster=f"c{number // 3}",
                **({"gold_scores": {"trace.adherence": 0.5}} if number > 6 else {}),
            )
            for labeler in labelers
        ]
    return events


def start_of_steps() -> int:
    """Return the seconds of the first step, so that the steps are in the last hours."""
    from tests.support.metric_events import START

    return int((utc_now() - START).total_seconds()) - 3 * 3600


def comparable(headlines: list[Headline]) -> list[Headline]:
    return [headline.model_copy(update={"start": None, "end": None, "would_see": None}) for headline in headlines]


@pytest.mark.parametrize("given", SETTINGS, ids=["windows", "sessions", "split"])
async def test_a_reader_that_follows_the_steps_has_the_numbers_of_a_new_reader(
    async_redis: Any, given: dict[str, Any]
) -> None:
    settings = Settings(**given)
    committing = owners(async_redis, settings)
    following, start = Deployment(async_redis, settings), start_of_steps()
    for number in range(12):
        for owner in committing:
            mine = [one for one in step_of(number, start) if owner.streams in settings.layout.all_of(one.pipeline)]
            await owner.commit(*mine)
        new = Deployment(async_redis, settings)
        for span in ("default", "1h", "all"):
            shown, expected = [comparable(await reader.headlines(span)) for reader in (following, new)]
            for own, other in zip(shown, expected, strict=True):
                assert dict(own) == dict(other), (number, span)
        assert await following.level_watches() == await new.level_watches()
        assert await following.suspicions() == await new.suspicions()


@pytest.mark.parametrize("given", SETTINGS[:2], ids=["windows", "sessions"])
async def test_a_step_names_every_pipeline_that_it_changed_and_says_whether_there_are_new_fields(
    async_redis: Any, given: dict[str, Any]
) -> None:
    settings = Settings(**given)
    (owner,) = owners(async_redis, settings)
    before: dict[bytes, bytes] = {}
    start = start_of_steps()
    for number in range(12):
        await owner.commit(*step_of(number, start))
        now = await async_redis.hgetall(owner.streams.checkpoint)
        ring = {name.decode(): data for name, data in now.items() if name.startswith(b"changed:")}
        if before:
            revisions = [
                tuple(of.get(field.encode()) for field in ("steps", "position", "feedback")) for of in (before, now)
            ]
            changed = changed_pipelines(revisions[0], revisions[1], ring)
            assert changed is not None
            touched = {name.decode() for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
            assert {pipeline_of_field(name) for name in touched} <= {*changed.names, None}
            new = {name.decode() for name in now.keys() - before.keys()}
            assert changed.adds or not any(name[: name.find(":") + 1] in LISTED for name in new)
        before = now


def test_a_ring_that_does_not_have_all_steps_says_nothing() -> None:
    key = EstimateKey("shop", None, None, "trace.adherence", "ragbench", "local", "1")
    log = ChangeLog()
    ring: dict[str, bytes | None] = {}
    for steps in range(1, 10):
        ring |= log.fields(steps, (f"{steps}-0", "0-0"), Changes(keys=[key], sizes=(1 if steps < 8 else 2,)))

    def revision(steps: int) -> tuple[bytes, bytes, bytes]:
        return f"{steps}".encode(), f"{steps}-0".encode(), b"0-0"

    changed = changed_pipelines(revision(3), revision(6), ring)
    assert changed is not None
    assert (sorted(changed.names), changed.adds) == (["shop"], False)
    assert (changed_pipelines(revision(3), revision(9), ring) or changed).adds
    assert changed_pipelines(revision(3), revision(3), ring) is not None
    assert changed_pipelines((b"3", b"4-0", b"0-0"), revision(6), ring) is None, "another history of the partition"
    assert changed_pipelines(revision(6), revision(3), ring) is None, "the checkpoint went back"
    assert changed_pipelines(revision(3), revision(6), {**ring, slot(5): None}) is None
    assert changed_pipelines(revision(3), revision(3 + STEPS_KEPT), ring) is None
    many = Changes(keys=[key._replace(pipeline=f"p{number}") for number in range(PIPELINES_MAX + 1)], sizes=(2,))
    ring |= log.fields(10, ("10-0", "0-0"), many)
    assert changed_pipelines(revision(9), revision(10), ring) is None, "of so many pipelines everything is read"
    ring |= ChangeLog().fields(11, ("11-0", "0-0"), Changes(keys=[key], sizes=(2,)))
    assert changed_pipelines(revision(10), revision(11), ring) is None, "a new owner knows nothing of the steps before"


async def test_another_history_with_as_many_steps_is_read_anew(async_redis: Any) -> None:
    settings = Settings()
    (owner,) = owners(async_redis, settings)
    for number in range(3):
        await owner.commit(*adherence([0.9], first=number), *adherence([0.9], first=number, pipeline="bank"))
    following = Deployment(async_redis, settings)
    await following.headlines("all")
    await async_redis.flushdb()
    (other,) = owners(async_redis, settings)
    for number in range(4):
        await other.commit(*adherence([0.1], first=number, pipeline="bank" if number < 3 else "shop"))
    new = Deployment(async_redis, settings)
    assert await following.headlines("all") == await new.headlines("all")


async def walked_and_sent(redis: Any, deployment: Deployment) -> tuple[int, int, int]:
    """Return the commands, the walks through the checkpoint, and the bytes of the replies of a look at the fleet."""

    async def costs() -> list[int]:
        found, commands = await redis.info(), await redis.info("commandstats")
        walks = commands.get("cmdstat_hscan", {}).get("calls", 0)
        return [found["total_commands_processed"], walks, found["total_net_output_bytes"]]

    before = await costs()
    await deployment.standings()
    commands, walks, sent = (now - then for now, then in zip(await costs(), before, strict=True))
    return commands, walks, sent


async def test_a_look_after_a_commit_reads_the_changed_pipelines_however_many_there_are(async_redis: Any) -> None:
    settings, looks = Settings(history={"series_max": 5000}), []
    for pipelines in (20, 200):
        await async_redis.flushdb()
        (owner,) = owners(async_redis, settings)
        for part in range(2):
            await owner.commit(
                *(one for n in range(pipelines) for one in adherence([0.4, 0.8], first=2 * part, pipeline=f"p{n:04}"))
            )
        deployment = Deployment(async_redis, settings)
        for number, pipeline in enumerate(("p0001", "p0007")):
            await owner.commit(*adherence([0.6], first=4 + number, pipeline=pipeline))
            if not number:
                await deployment.standings()
        looks.append(await walked_and_sent(async_redis, deployment))
    few, many = looks
    assert abs(many[0] - few[0]) <= 2, "a command of a clock may fall into one look"
    assert many[1] == few[1] == 0, "no walk through the checkpoint"
    assert many[2] < few[2] + 5_000


def test_the_ring_is_in_the_checkpoint_and_small() -> None:
    assert {slot(steps) for steps in range(10 * STEPS_KEPT)} == {
        f"{CheckpointField.CHANGED}{n}" for n in range(STEPS_KEPT)
    }
