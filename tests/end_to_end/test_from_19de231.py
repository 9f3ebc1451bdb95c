"""State, recording and experiment that commit 19de231 wrote, read by the code of today (tests/data/from_19de231)."""

import base64
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import command, interactions, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.layout import Layout

DATA = Path(__file__).parents[1] / "data" / "from_19de231"
CONFIG = {"RAGTIDE_CONFIG": str(DATA / "ragtide.toml")}
PRINTED: dict[str, Any] = json.loads(gzip.decompress((DATA / "printed.json.gz").read_bytes()))
"""The output of the commands of 19de231, by name."""


@pytest.fixture
def restored(redis: Any, redis_url: str) -> str:
    """Return the URL of a Redis with the keys that 19de231 left there."""
    for line in gzip.decompress((DATA / "redis.jsonl.gz").read_bytes()).splitlines():
        stored = json.loads(line)
        if "hash" in stored:
            fields = {name: value.encode("latin-1") for name, value in stored["hash"].items()}
            redis.hset(stored["key"], mapping=fields)
        else:
            redis.restore(stored["key"], 0, base64.b64decode(stored["dump"]))
    return redis_url


def shown(url: str, *arguments: str) -> Any:
    """Return what a command prints as JSON; `alerts` prints an object a line."""
    done = command(url, *arguments, "--json", extra=CONFIG)
    assert done.returncode == 0, done.stderr
    if arguments == ("alerts",):
        return [json.loads(line) for line in done.stdout.splitlines()]
    return json.loads(done.stdout)


def known(old: Any, new: Any) -> Any:
    """Return a new object without the fields that the old one does not have."""
    values = {name: value for name, value in new.items() if name in old}
    if "n_effective" in old and new.get("design_effect") is not None:
        # Only weighted estimates had an effective number then.
        values["n_effective"] = None
    return values


def last_id(redis: Any, stream: str) -> bytes:
    """Return the id of the last entry of a stream."""
    entry_id: bytes = redis.xrevrange(stream, count=1)[0][0]
    return entry_id


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(rounded(row), sort_keys=True) for row in rows)


def rounded(value: Any) -> Any:
    """Return a value with its numbers to 12 digits: the last digits depend on the processor's arithmetic of vectors."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def assert_same_rows(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> None:
    """Fail unless all old rows are there and no others, to 12 digits; new fields and another order are allowed."""
    assert old
    assert in_any_order([known(old[0], row) for row in new]) == in_any_order(old)


def without_prose(alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return alerts without message and diagnosis, which are worded anew now and then, and without `began_at`.

    An alert keeps the beginning of the change for which it fired; commit 19de231 replaced it. The diagnosis goes by the
    means since then.
    """
    left_out = ("message", "diagnosis", "began_at")
    return [{name: value for name, value in one.items() if name not in left_out} for one in alerts]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("estimates", ["estimates", "--strategy", "running", "--estimator", "all"]),
        ("estimates_1h", ["estimates", "--strategy", "running", "--window", "1h"]),
        ("estimates_3h", ["estimates", "--strategy", "running", "--window", "3h/1h"]),
        ("labeling", ["estimates", "--strategy", "running", "--labeling"]),
        ("alerts", ["alerts"]),
        ("runs", ["workspaces"]),
    ],
)
def test_a_checkpoint_gives_the_numbers_that_19de231_printed(name: str, arguments: list[str], restored: str) -> None:
    assert_same_rows(shown(restored, *arguments), PRINTED[name])  # stored alerts keep their message


def test_live_pipelines_are_compared_by_the_same_means(restored: str) -> None:
    """The interval of a difference is another now: one for both pipelines, in place of one for each."""

    def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert all(row["difference"]["lower"] <= row["difference"]["upper"] for row in rows)
        return [{**row, "difference": row["difference"]["estimate"], "verdict": None} for row in rows]

    assert_same_rows(means(shown(restored, "compare", "shop", "search")), means(PRINTED["compare"]))


def test_only_metrics_whose_range_19de231_did_not_store_are_dropped_with_a_warning(restored: str) -> None:
    done = command(restored, "estimates", "--workspace", "race", "--strategy", "running", "--json", extra=CONFIG)
    old = PRINTED["experiment_estimates"]
    assert_same_rows(json.loads(done.stdout), [row for row in old if row["metric"] != "own.right"])
    assert any(row["metric"] == "own.right" for row in old)
    assert "numbers of metrics of your own are dropped: the older version did not store their range" in done.stderr


def test_the_log_of_an_experiment_gives_the_leaderboard_that_19de231_printed(restored: str) -> None:
    old, new = PRINTED["experiment"], shown(restored, "experiment", "show", "race")
    for name, was in (("run", "run"), ("metric", "metric"), ("compared", "looked"), ("completed", "completed")):
        assert new[name] == old[was]
    assert new["population_size"] == old["population_size"]
    assert len(new["rows"]) == len(old["rows"]) == 3
    for was, row in zip(old["rows"], new["rows"], strict=True):
        for name in (
            "name",
            "status",
            "n_items",
            "n_failed",
            "n_executed",
            "cost_usd",
            "stopped_by",
            "reason",
        ):
            assert row[name] == was[name]
        assert row["parameters"] == was["knobs"]
        for metric, estimate in was["estimates"].items():
            assert rounded(known(estimate, row["estimates"][metric])) == rounded(estimate)


def test_roles_go_on_from_a_checkpoint(redis: Any, restored: str, tmp_path: Path) -> None:
    extra = {**CONFIG, "RAGTIDE_LABELER": "local"}
    streams = Layout("ragtide", 2, {"search": 2}).of("shop", "i-00000")
    last, letters = last_id(redis, streams.metrics), redis.xlen(streams.dead_letters)
    with running("up", restored, tmp_path / "up.log", extra):
        with InteractionProducer(restored, partitions=2, splits={"search": 2}) as producer:
            producer.publish_many([one.model_copy(update={"segments": {}}) for one in interactions(20)])
        wait_until(lambda: len(redis.xrange(streams.metrics, min=f"({last.decode()}")) == 20)
        wait_until(lambda: redis.hget(streams.checkpoint, "position") == last_id(redis, streams.metrics))

    def n_by_pipeline(rows: list[dict[str, Any]]) -> Counter[str]:
        n: Counter[str] = Counter()
        for row in rows:
            if (row["segment"], row["metric"], row["labeler"]) == (None, "trace.context_relevance", "local"):
                n[row["pipeline"]] += row["n"]  # each version of the labeler has a row
        return n

    old = n_by_pipeline([row for row in PRINTED["estimates"] if row["estimator"] == "mean"])
    assert n_by_pipeline(shown(restored, "estimates")) == {**old, "shop": old["shop"] + 20}
    assert redis.xlen(streams.dead_letters) == letters


def test_a_recording_is_replayed_to_the_numbers_that_19de231_printed(redis_url: str) -> None:
    old = PRINTED["replay"]
    new = shown(redis_url, "replay", str(DATA / "recording"), "--workspace", "again")
    for name in ("n", "population_size", "complete", "refused", "feedback", "feedback_refused", "rules"):
        assert new[name] == old[name]
    assert_same_rows(without_prose(new["alerts"]), without_prose(old["alerts"]))
    strategy = ["--workspace", "again", "--strategy", "running"]
    assert_same_rows(shown(redis_url, "estimates", *strategy), old["estimates"])
