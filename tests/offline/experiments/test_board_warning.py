"""The leaderboard warns if its metric does not follow a broken retriever and the configs retrieve other documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.offline.experiments.scores import event, executed
from tests.support.experiment_plans import plan

from ragtide_offline.experiments.board import OTHER_DOCUMENTS, board
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.report.findings import cautions_of
from ragtide_schemas.experiments import Look

BLIND = "trace.context_utilization"


def state_of(metric: str, matches: list[list[float | None]], labeler: str = "local") -> ExperimentState:
    """Return an experiment with the `retrieval.match` of each config, by item."""
    size = len(matches[0])
    state = ExperimentState(plan(len(matches), size=size, metric=metric, race={"enabled": False}))
    for number, of_config in enumerate(matches):
        for item, match in enumerate(of_config):
            scores = {metric: 0.5} | ({} if match is None else {"retrieval.match": match})
            state.results.add_execution(executed(f"c{number}", item))
            found = event(f"c{number}", item, 0.5).model_copy(update={"labeler": labeler, "scores": scores})
            state.results.add_event(found)
    assert state.apply(Look(item=size)) is None
    return state


MATCH = st.sampled_from([0.0, 0.25, 0.5, None])


@given(st.lists(st.tuples(MATCH, MATCH), min_size=1, max_size=40))
def test_it_warns_if_enough_items_have_different_documents(pairs: list[tuple[float | None, float | None]]) -> None:
    known = [pair for pair in pairs if None not in pair]
    different = sum(first != second for first, second in known)
    warning = board(state_of(BLIND, [list(column) for column in zip(*pairs, strict=True)])).warning
    if different and different >= OTHER_DOCUMENTS * len(known):
        assert warning is not None
        assert f"{different:,} of {len(known):,} items" in warning
        assert BLIND in warning
        assert "retrieval.match" in warning
    else:
        assert warning is None


@pytest.mark.parametrize("metric", ["trace.context_relevance", "retrieval.match", "own.f1"])
def test_a_metric_that_follows_a_broken_retriever_or_was_not_measured_has_no_warning(metric: str) -> None:
    if metric == "own.f1":
        state = ExperimentState(plan(2, metric=metric, metrics=[{"name": metric}]))
        assert board(state).warning is None
        return
    assert board(state_of(metric, [[0.5] * 20, [0.0] * 20])).warning is None


def test_a_labeler_that_was_not_measured_has_no_warning() -> None:
    assert board(state_of(BLIND, [[0.5] * 20, [0.0] * 20], labeler="judge")).warning is None


@pytest.mark.parametrize(
    ("metric", "lengths", "warns"),
    [
        ("retrieval.match", (100, 300), True),
        ("trace.context_relevance", (100, 119), False),
        ("trace.context_relevance", (130, 100), True),
        ("trace.adherence", (100, 300), False),
    ],
)
def test_a_share_of_the_context_does_not_choose_between_contexts_of_different_lengths(
    metric: str, lengths: tuple[int, int], warns: bool
) -> None:
    state = ExperimentState(plan(2, size=20, metric=metric, race={"enabled": False}))
    for number, length in enumerate(lengths):
        for item in range(20):
            state.results.add_execution(executed(f"c{number}", item).model_copy(update={"context_chars": length}))
            state.results.add_event(event(f"c{number}", item, 0.5).model_copy(update={"scores": {metric: 0.5}}))
    assert state.apply(Look(item=20)) is None
    # The caution is about the metric itself: it holds for every labeler.
    assert (board(state).warning is not None) == warns


def test_another_order_of_the_same_documents_is_no_difference() -> None:
    assert board(state_of(BLIND, [[0.5] * 20, [0.5 + 1e-16 + 1e-12] * 20])).warning is None


def test_the_report_has_the_warning_among_its_cautions() -> None:
    state = state_of(BLIND, [[0.5] * 20, [0.0] * 20])
    found = board(state)
    assert found.warning in cautions_of(state, found, ["local 6 (ragbench)"])
