"""Every block of docs/offline/duckdb-polars.md, over what a real `ragtide recorder` recorded, beside sums by hand."""

import random
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from math import isclose, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb
import pytest
from tests.support.conditions import wait_until
from tests.support.doc_pages import blocks_of, page_text, tagged_block
from tests.support.metric_events import START, event
from tests.support.roles import STREAMS, running

from ragtide import Feedback, MetricEvent, RagInteraction, Recording, interval
from ragtide_runtime.redis.client import connect

pytestmark = pytest.mark.processes

PAGE = page_text("duckdb-polars")
METRIC = "trace.adherence"


def publish(redis: Any) -> tuple[list[MetricEvent], list[float]]:
    """Add two days of traffic to the streams; a metric appears on the second day. Return events and gold scores."""
    chance, events, gold = random.Random(1), [], []
    for number in range(120):
        at = START + timedelta(hours=number // 60 * 24, minutes=number)
        entry_id = f"{at.timestamp() * 1000:.0f}-0"
        of_both: dict[str, Any] = {
            "interaction_id": f"i-{number}",
            "pipeline": ("shop", "help desk Ä")[number % 2],
            "segments": {"lang": "de" if number % 3 else "en"},
            "occurred_at": at,
        }
        interaction = RagInteraction(
            **of_both, question=f"What is {number}?", documents=({"text": "A."},), response="B."
        )
        scores = {} if number % 40 == 7 else {METRIC: chance.random()}
        absent = {METRIC: "no_response"} if not scores else {}
        if number >= 60:
            scores["retrieval.match"] = 0.5
        found = event(number, scores, **{**of_both, "absent": absent, "entry_id": entry_id, "labeler": "local"})
        redis.xadd(STREAMS.interactions, {"data": interaction.encode()}, id=entry_id)
        redis.xadd(STREAMS.metrics, {"data": found.encode()}, id=entry_id)
        events.append(found)
        if number % 10 == 0:
            gold.append(chance.random())
            said = Feedback(
                pipeline=found.pipeline, interaction_id=f"i-{number}", gold_scores={METRIC: gold[-1]}, given_at=at
            )
            redis.xadd(STREAMS.feedback, {"data": said.encode()}, id=entry_id)
    return events, gold


@pytest.fixture(scope="module")
def recorded(_redis_of_the_session: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a recording, its metric events and gold scores."""
    folder = tmp_path_factory.mktemp("sql")
    with connect(_redis_of_the_session) as redis:
        redis.flushall()
        events, gold = publish(redis)
        extra = {"RAGTIDE_RECORDER_URL": str(folder / "recording"), "RAGTIDE_RECORDER_ROLL_S": "0.1"}
        with running("recorder", _redis_of_the_session, folder / "log", extra):
            wait_until(lambda: count(folder) == len(events) * 2 + len(gold))
    return folder, events, gold


def count(folder: Path) -> int:
    if not list((folder / "recording").glob("manifests/p*.json")):
        return 0
    recording = Recording.open(str(folder / "recording"))
    return sum(recording.count(kind) for kind in ("interactions", "metrics", "feedback"))


@pytest.fixture
def ask(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Run the query of the page that has a tag, after the block that makes the tables."""
    monkeypatch.chdir(recorded[0])
    database = duckdb.connect()
    database.execute(tagged_block(PAGE, "duckdb"))
    return lambda tag: database.execute(tagged_block(PAGE, f"duckdb {tag}")).fetchall()


def means(events: list[MetricEvent], key: Callable[[MetricEvent], Any]) -> dict[Any, tuple[int, float]]:
    """Return number and mean of the scores by a key."""
    found = defaultdict(list)
    for one in events:
        if METRIC in one.scores:
            found[key(one)].append(one.scores[METRIC])
    return {name: (len(values), fmean(values)) for name, values in found.items()}


def same(rows: list[Any], wanted: dict[Any, tuple[int, float]]) -> bool:
    """Return whether rows of a key, a number and a mean are those."""
    found = {row[:-2]: row[-2:] for row in rows}
    return found.keys() == wanted.keys() and all(
        found[key][0] == n and isclose(found[key][1], mean) for key, (n, mean) in wanted.items()
    )


def test_scores_by_day_and_by_segment_are_those_of_the_events(ask: Any, recorded: Any) -> None:
    _, events, _ = recorded
    by_day = means(events, lambda one: (one.occurred_at.date(), one.pipeline, "local"))
    assert len(by_day) == 4
    assert same(ask("by-day"), by_day)
    assert same(ask("by-segment"), means(events, lambda one: (one.pipeline, one.segments["lang"])))
    assert ask("absent") == [("help desk Ä", "no_response", 3)]


def test_the_worst_answers_come_with_their_texts(ask: Any, recorded: Any) -> None:
    _, events, _ = recorded
    found = [one for one in events[60:] if one.pipeline == "shop" and METRIC in one.scores]
    worst = sorted(found, key=lambda one: one.scores[METRIC])[:5]
    assert ask("worst") == [
        (one.scores[METRIC], one.interaction_id, f"What is {one.interaction_id[2:]}?", "B.", 1) for one in worst
    ]


def test_the_error_against_people_is_that_of_the_joined_scores(ask: Any, recorded: Any) -> None:
    _, events, gold = recorded
    pairs = [(one.scores[METRIC], score) for one, score in zip(events[::10], gold, strict=True)]
    ((labeler, n, rmse),) = ask("gold")
    assert (labeler, n) == ("local", 12)
    assert isclose(rmse, sqrt(fmean((ours - theirs) ** 2 for ours, theirs in pairs)))


def test_polars_finds_the_same(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, events, _ = recorded
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(compile(tagged_block(PAGE, "polars"), "documentation", "exec"), names)
    by_segment = means(events, lambda one: (one.occurred_at.date(), one.pipeline, one.segments["lang"]))
    assert same(names["by_segment"].rows(), by_segment)
    worst = sorted((one for one in events if METRIC in one.scores), key=lambda one: one.scores[METRIC])[:5]
    assert [row[:3] for row in names["worst"].rows()] == [
        (one.scores[METRIC], one.interaction_id, f"What is {one.interaction_id[2:]}?") for one in worst
    ]


def test_the_interval_is_that_of_the_mean(
    recorded: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, events, _ = recorded
    monkeypatch.chdir(folder)
    exec(compile(tagged_block(PAGE, "interval"), "documentation", "exec"), {})
    shop = [one.scores[METRIC] for one in events if one.pipeline == "shop" and METRIC in one.scores]
    mean = fmean(shop)
    variance = sum((value - mean) ** 2 for value in shop) / (len(shop) - 1)
    wanted = interval("normal", mean=mean, n=len(shop), variance=variance, confidence=0.95, value_range=(0.0, 1.0))
    line = f"shop: {mean:.3f} ({wanted.lower:.3f} to {wanted.upper:.3f}), n {len(shop)}"
    assert line in capsys.readouterr().out.splitlines()


def test_every_query_of_the_page_is_checked_here() -> None:
    tags = {block.tag for block in blocks_of(PAGE)}
    assert tags == {"duckdb", "polars", "interval"} | {
        f"duckdb {name}" for name in ("by-day", "by-segment", "absent", "worst", "gold")
    }
