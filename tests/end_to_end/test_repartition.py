import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import command, interactions, running

from ragtide import InteractionProducer, RagInteraction
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import Feedback, MetricEvent


def many(count: int, *, first: int = 0) -> list[RagInteraction]:
    rows = interactions(first + count)[first:]
    return [
        row.model_copy(update={"pipeline": f"p-{number % 7}", "gold_scores": {}}) for number, row in enumerate(rows)
    ]


def settings(layout: Layout) -> dict[str, str]:
    return {"RAGTIDE_PARTITIONS": str(layout.partitions), "RAGTIDE_SPLITS": json.dumps(dict(layout.splits))}


def shown(url: str, layout: Layout) -> dict[tuple[str, str, str], tuple[int, float | None]]:
    done = command(url, "estimates", "--json", extra=settings(layout))
    assert done.returncode == 0, done.stderr
    return {
        (e["pipeline"], e["metric"], e["window"]): (e["n"], e["estimate"])
        for e in json.loads(done.stdout)
        if e["segment"] is None and e["window"] == "all"
    }


def at_rest(redis: Any, layout: Layout) -> bool:
    """Return whether everything was labeled and aggregated."""
    for streams in layout.all():
        for group in redis.xinfo_groups(streams.interactions) if redis.exists(streams.interactions) else ():
            after = f"({group['last-delivered-id'].decode()}"
            if group["pending"] or redis.xrange(streams.interactions, min=after, count=1):
                return False
        for stream, field in ((streams.metrics, "position"), (streams.feedback, "feedback")):
            if redis.exists(stream):
                last = redis.xinfo_stream(stream)["last-generated-id"]
                if last != b"0-0" and redis.hget(streams.checkpoint, field) != last:
                    return False
    return True


def run(redis: Any, url: str, layout: Layout, folder: Path, batch: list[RagInteraction]) -> None:
    """Publish, label and aggregate, and stop everything."""
    # A stopped owner's lease is gone at once; that of one that was killed would have to run out.
    with (
        running("up", url, folder / "up.log", settings(layout)),
        InteractionProducer(url, partitions=layout.partitions, splits=layout.splits) as producer,
    ):
        producer.publish_many(batch)
        wait_until(lambda: _n(redis, layout) > 0)
        wait_until(lambda: at_rest(redis, layout))


def _n(redis: Any, layout: Layout) -> int:
    return sum(redis.xlen(streams.metrics) for streams in layout.all())


@pytest.mark.heavy
def test_more_and_fewer_partitions_lose_nothing_and_count_nothing_twice(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    two, five = Layout("ragtide", 2), Layout("ragtide", 5, {"p-3": 3})
    first, second, third = many(140), many(140, first=140), many(70, first=280)
    bad = redis.xadd(two.all()[1].interactions, {DATA_FIELD: "no JSON"})
    run(redis, redis_url, two, tmp_path, first)
    before = shown(redis_url, two)
    assert sum(n for (_, metric, _), (n, _) in before.items() if metric == "trace.context_relevance") == 140

    refused = command(redis_url, "capacity", "repartition", "5", "--split", "p-3=9", extra=settings(two))
    assert refused.returncode == 1
    assert "give it fewer parts" in refused.stderr
    done = command(redis_url, "capacity", "repartition", "5", "--split", "p-3=3", extra=settings(two))
    assert done.returncode == 0, done.stderr
    assert "RAGTIDE_PARTITIONS=5" in done.stderr
    assert shown(redis_url, five) == before
    wrong = command(redis_url, "estimates", extra=settings(two))
    assert wrong.returncode == 1
    assert "this deployment has 5 partitions" in wrong.stderr
    with InteractionProducer(redis_url, partitions=2) as producer, pytest.raises(ConfigurationError, match="has 5"):
        producer.publish_many(first)

    # Earlier interactions are still known, and feedback still finds them.
    grades = [
        Feedback(pipeline=one.pipeline, interaction_id=one.interaction_id, gold_scores={"trace.context_relevance": 0.5})
        for one in first[:50]
    ]
    with InteractionProducer(redis_url, partitions=5, splits={"p-3": 3}) as producer:
        assert [one.added for one in producer.publish_many(first)] == [False] * len(first)
        producer.publish_feedback(grades)
    run(redis, redis_url, five, tmp_path, second)
    parts = [streams.partition for streams in five.all_of("p-3")]
    events = {
        partition: [MetricEvent.decode(f[DATA_FIELD]) for _, f in redis.xrange(five.all()[partition].metrics)]
        for partition in parts
    }
    assert all(any(event.pipeline == "p-3" for event in found) for found in events.values())
    after = shown(redis_url, five)
    assert sum(n for (_, metric, _), (n, _) in after.items() if metric == "trace.context_relevance") == 280
    assert sum(n for (_, metric, _), (n, _) in after.items() if metric == "rmse.trace.context_relevance") == 50

    refused = command(redis_url, "capacity", "repartition", "1", extra=settings(five))
    assert refused.returncode == 1, "parts cannot be put together"
    three = Layout("ragtide", 3, {"p-3": 3})
    done = command(redis_url, "capacity", "repartition", "3", "--split", "p-3=3", extra=settings(five))
    assert done.returncode == 0, done.stderr
    assert shown(redis_url, three) == after
    letters = [json.loads(line) for line in command(
        redis_url, "dead-letters", "--json", extra=settings(three)
    ).stdout.splitlines()]  # fmt: skip
    assert [letter["entry_id"] for letter in letters] == [bad.decode()]
    run(redis, redis_url, three, tmp_path, third)
    last = shown(redis_url, three)
    assert sum(n for (_, metric, _), (n, _) in last.items() if metric == "trace.context_relevance") == 350
    assert not list(redis.scan_iter(match="ragtide:{4}:*"))


def test_it_is_refused_while_anything_runs_or_waits(redis: Any, redis_url: str, tmp_path: Path) -> None:
    one = Layout("ragtide", 1)
    with running("aggregator", redis_url, tmp_path / "a.log"):
        wait_until(lambda: redis.exists(one.all()[0].lease))
        done = command(redis_url, "capacity", "repartition", "2")
        assert done.returncode == 1
        assert "stop all roles and producers first" in done.stderr
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(many(3))
    done = command(redis_url, "capacity", "repartition", "2")
    assert done.returncode == 1
    assert "3 interactions that wait" in done.stderr
    assert not redis.exists(one.all()[0].repartition)


@pytest.mark.heavy
def test_one_that_was_interrupted_is_finished_before_anything_starts(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    one, two = Layout("ragtide", 1), Layout("ragtide", 2)
    run(redis, redis_url, one, tmp_path, many(40))
    before = shown(redis_url, one)
    assert command(redis_url, "capacity", "repartition", "2").returncode == 0
    # As if it had died after everything was copied, before the checkpoints were in place.
    home = one.all()[0]
    for streams in two.all():
        redis.rename(streams.checkpoint, streams.next_checkpoint)
    redis.hset(home.repartition, mapping={"layout": redis.get(home.layout), "prepared": 1})
    for arguments in (("worker",), ("estimates",)):
        refused = command(redis_url, *arguments, extra=settings(two))
        assert refused.returncode == 1
        assert "being repartitioned" in refused.stderr
    other = command(redis_url, "capacity", "repartition", "3")
    assert other.returncode == 1
    assert "ragtide capacity repartition 2" in other.stderr
    assert command(redis_url, "capacity", "repartition", "2").returncode == 0
    assert shown(redis_url, two) == before
