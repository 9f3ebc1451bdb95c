"""Summaries merged: any split of the rows, in any order, gives the bits of one summary over all of them."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.metric_events import event
from tests.support.state_cuts import ADHERENCE, BALANCE, WORDS, WRONG_BALANCE, Stretch, Traffic, steps_of

from ragtide import Estimate, MetricEvent, Summary, score
from ragtide_aggregator.estimates.estimates import ORDERED, STRATEGIES, estimates
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.tables import sums
from ragtide_offline.score.summary import OF_ORDER, OPTIONS, UnusableSummaryError, summarize

MERGED = tuple(name for name in STRATEGIES if name not in ORDERED)
TRAFFIC = Traffic(
    (Stretch(80),), absent=0.1, declared=0.3, gold=0.3, judged=0.4, sampled=0.5, disorder_s=60, runs=0.2, wrong=0.02
)  # fmt: skip


@cache
def events(seed: int) -> tuple[MetricEvent, ...]:
    return tuple(step for step in steps_of(TRAFFIC, seed) if isinstance(step, MetricEvent))


@cache
def whole(seed: int, strategy: str) -> Summary:
    return summarize(events(seed), strategy=strategy, confidence=0.9)


def bits(summary: Summary) -> list[str]:
    """Every field that does not depend on the order, with all digits and the order of its names."""
    return [json.dumps(estimate.model_dump(mode="json", exclude=set(OF_ORDER))) for estimate in summary.estimates]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 3), st.lists(st.integers(0, 3), min_size=80, max_size=80), st.sampled_from(MERGED), st.data())
def test_any_split_gives_the_bits_of_one_summary(seed: int, of: list[int], strategy: str, data: st.DataObject) -> None:
    shards = [
        summarize(
            [found for found, part in zip(events(seed), of, strict=True) if part == number],
            strategy=strategy,
            confidence=0.9,
        )
        for number in range(4)
    ]
    shards = data.draw(st.permutations(shards))
    while len(shards) > 1:
        at = data.draw(st.integers(0, len(shards) - 2))
        shards[at : at + 2] = [shards[at].merge(shards[at + 1])]
    assert bits(shards[0]) == bits(whole(seed, strategy))
    assert shards[0] == whole(seed, strategy)
    assert sorted(shards[0].problems) == sorted(whole(seed, strategy).problems)


def test_the_rows_have_weights_errors_and_metrics_of_their_own() -> None:
    found = whole(0, "normal").estimates
    assert any(estimate.n_traffic for estimate in found)
    assert any(estimate.baseline is not None for estimate in found)
    assert any(estimate.run for estimate in found)
    assert any(estimate.metric == WORDS for estimate in found)
    assert whole(0, "normal").problems


def test_pairs_and_quantiles_of_states_are_merged_to_the_bit() -> None:
    options = replace(OPTIONS, quantiles=True)
    good = [found for found in events(1) if found.scores.get(BALANCE) != WRONG_BALANCE]

    def of(some: Any) -> AggregatorState:
        state = AggregatorState(options)
        for found in some:
            state.apply(found)
        return state

    def all_bits(state: AggregatorState) -> list[str]:
        state.settle()
        found = estimates(state, strategy="asymptotic")
        kept = [each for each in found if not each.metric.startswith("labeling.latency")]
        return [json.dumps(each.model_dump(mode="json", exclude=set(OF_ORDER))) for each in kept]

    one = all_bits(of(good))
    assert any('"prediction_powered"' in each for each in one)
    assert any('"p95"' in each for each in one)
    for parts in (2, 7):
        merged = AggregatorState.merged([of(good[part::parts]) for part in range(parts)], options)
        assert all_bits(merged) == one


def means(values: list[float]) -> list[Estimate]:
    found = [event(number, {ADHERENCE: value}) for number, value in enumerate(values)]
    every = summarize(found, strategy="normal", confidence=0.9).estimates
    return [each for each in every if each.metric == ADHERENCE]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.floats(0, 1e-9))
def test_the_spread_of_exact_sums_is_that_of_the_values(values: list[float], width: float) -> None:
    for some in (values, [0.3 + width * value for value in values]):
        (mean,) = means(some)
        assert mean.standard_deviation == pytest.approx(float(np.std(some, ddof=1)), rel=1e-6, abs=1e-12)


def test_values_that_are_all_equal_have_no_spread() -> None:
    assert [each.standard_deviation for each in means([0.1] * 50)] == [0.0]


def test_a_whole_sum_has_all_its_parts() -> None:
    values = np.array([0.1, 2.75, 2.0**-79])
    for value in values:
        assert sums.whole(sums.limbs(np.array(value))) == int(value * 2**80)


def test_a_saved_summary_is_the_same_summary(tmp_path: Path) -> None:
    found = whole(0, "wilson")
    found.save(tmp_path / "part.json")
    loaded = Summary.load(tmp_path / "part.json")
    assert [each.model_dump() for each in loaded.estimates] == [each.model_dump() for each in found.estimates]
    assert (loaded.diagnoses, loaded.problems) == (found.diagnoses, tuple(found.problems))
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "part.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.json", "part.json"]
    both = loaded.merge(found)
    both.save(tmp_path / "both.json")
    assert bits(Summary.load(tmp_path / "both.json")) == bits(both)
    for summary in (both, Summary.load(tmp_path / "both.json")):
        assert all(each.recent is None for each in summary.estimates)
        assert "recent" not in summary.as_dict()["estimates"][0]
        assert "n_out_of_order" not in summary.as_dict()["estimates"][0]


def test_summaries_are_equal_if_their_numbers_are(tmp_path: Path) -> None:
    rows = [
        {"pipeline": "shop", "question": "q?", "documents": [text], "response": "The sky is blue."}
        for text in ("The sky is blue.", "The sea is deep.", "The sky is blue. It is high.")
    ]
    first, again, other = score(rows), score(list(reversed(rows))), score(rows[:2])
    assert first == again
    assert first != other
    assert first != "a summary"
    first.save(tmp_path / "summary.json")
    assert Summary.load(tmp_path / "summary.json") == first
    assert replace(first, problems=("row 4: no question",)) != first


def test_the_time_of_labeling_is_no_part_of_a_summary() -> None:
    one, other = (
        [event(number, {ADHERENCE: 0.5}, latency_s=latency_s) for number in range(9)] for latency_s in (0.1, 7.0)
    )
    first, second = (summarize(found, strategy="normal", confidence=0.9) for found in (one, other))
    assert first.sums == second.sums


@for_each("strategy", ORDERED)
def test_intervals_that_need_the_order_are_not_merged(strategy: str) -> None:
    found = summarize(events(0), strategy=strategy, confidence=0.9)
    with pytest.raises(UnusableSummaryError, match=strategy):
        found.merge(found)


def test_summaries_that_differ_or_have_no_sums_are_not_merged(tmp_path: Path) -> None:
    live = Summary((), ())
    with pytest.raises(UnusableSummaryError, match="live traffic"):
        whole(0, "normal").merge(live)
    with pytest.raises(UnusableSummaryError, match="live traffic"):
        live.save(tmp_path / "live.json")
    with pytest.raises(UnusableSummaryError, match=r"normal, 0\.9, the other wilson"):
        whole(0, "normal").merge(whole(0, "wilson"))


@for_each(
    "content",
    [
        b"", b"{}", b"[]", b"null", b'{"ragtide": "summary", "form": 99}',
        b'{"ragtide":"summary","form":1,"strategy":"normal","confidence":0.9,"ordered":true,"problems":[],"fields":{"estimate:[]":"AA=="}}',
        b'{"ragtide":"summary","form":1,"strategy":"normal","confidence":0.9,"ordered":true,"problems":[],"fields":{"a":"?"}}',
        b'{"ragtide":"summary","form":1,"strategy":"magic","confidence":0.9,"ordered":true,"problems":[],"fields":{}}',
        b'{"ragtide":"summary","form":1,"strategy":"normal","confidence":9,"ordered":true,"problems":[],"fields":{}}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_summary_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UnusableSummaryError, match=r"x\.json"):
        Summary.load(path)
    with pytest.raises(UnusableSummaryError, match="cannot be read"):
        Summary.load(tmp_path / "nothing.json")


def test_the_summary_of_score_is_merged() -> None:
    rows = [
        {
            "interaction_id": f"i-{number}",
            "pipeline": "shop",
            "question": "When?",
            "documents": [f"The tower was built in {1800 + number}."],
            "response": f"In {1800 + number % 7}.",
        }
        for number in range(12)
    ]
    first, second, all_of_them = (score(some, labeler="local") for some in (rows[:5], rows[5:], rows))
    merged = first.merge(second)
    assert [replace_time(each) for each in bits(merged)] == [replace_time(each) for each in bits(all_of_them)]
    assert len(merged.events) == 12


def replace_time(line: str) -> dict[str, Any]:
    """The rows state no time, so each call gives them that of reading."""
    return {**json.loads(line), "updated_at": None}
