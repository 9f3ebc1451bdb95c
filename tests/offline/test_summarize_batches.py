"""`summarize_batches`: results of `score_batches` in any order and batches give the bits of one process."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.offline.test_score_batches import ALL, TABLE, row
from tests.support.cases import for_each

from ragtide import ConfigurationError, Summary, score, score_batches, summarize_batches
from ragtide_offline.score.summary import OF_ORDER
from ragtide_producers import UnreadableFileError

OF_THE_RUN = {"updated_at", *OF_ORDER}
"""Fields of an estimate that do not follow from the rows alone, or follow from their order."""


def bits(summary: Summary) -> list[str]:
    found = [estimate for estimate in summary.estimates if not estimate.metric.startswith("labeling.")]
    return [json.dumps(estimate.model_dump(mode="json", exclude=OF_THE_RUN)) for estimate in found]


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(60)), st.lists(st.integers(1, 25), max_size=8), st.sampled_from(["normal", "wilson"]))
def test_neither_order_nor_batches_change_a_bit(order: list[int], sizes: list[int], strategy: str) -> None:
    mixed, batches, at = ALL.take(pa.array(order)).combine_chunks(), [], 0
    for size in [*sizes, 60]:
        batches += mixed.slice(at, size).to_batches()
        at = min(at + size, 60)
    found = summarize_batches(iter(batches), strategy=strategy, confidence=0.9)
    assert bits(found) == bits(summarize_batches(ALL, strategy=strategy, confidence=0.9))
    assert bits(found)


def test_the_summary_is_that_of_score() -> None:
    rows = [{**row(number), "interaction_id": f"i-{number}"} for number in range(60)]
    results = score_batches(pa.Table.from_pylist(rows), labeler="local", pipeline="shop")
    assert bits(summarize_batches(results)) == bits(score(rows, labeler="local", pipeline="shop"))


def test_rows_with_problems_are_listed_and_count_nothing() -> None:
    bad = pa.Table.from_pylist([row(1), {**row(2), "answer": None}])
    found = summarize_batches(score_batches(bad, labeler="local", pipeline="shop"))
    (mean,) = [estimate for estimate in found.estimates if estimate.metric == "trace.adherence"]
    assert mean.n == 1
    assert [problem.partition(":")[0] for problem in found.problems] == ["row 2"]


@for_each("strategy", ["running", "auto", "bayes"])
def test_a_strategy_that_needs_the_order_is_refused(strategy: str) -> None:
    with pytest.raises(ConfigurationError, match=strategy):
        summarize_batches(ALL, strategy=strategy)


@for_each("data", [TABLE, pa.table({"a": [1]}), "scores.parquet", [{"a": 1}]])
def test_what_is_no_result_of_score_batches_is_refused_by_name(data: Any) -> None:
    with pytest.raises(UnreadableFileError, match="score"):
        summarize_batches(data)
