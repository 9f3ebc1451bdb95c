"""The rows of a view are read together: estimates of many pipelines read the state as often as those of a few."""

from unittest.mock import patch

from tests.support.metric_events import event

from ragtide_aggregator.estimates.estimates import estimates, metric_means
from ragtide_aggregator.estimates.view import IntervalMethod, View, ViewNumbers
from ragtide_aggregator.state.state import AggregatorState, StateOptions

SCORES = {"trace.adherence": 0.8, "trace.utilization": 0.3, "trace.relevance": 0.4}


def with_gold(pipelines: int) -> AggregatorState:
    """Return a state in which each score of each pipeline has gold scores: a family of errors, and pairs."""
    state = AggregatorState(StateOptions())
    for number in range(4 * pipelines):
        gold = dict.fromkeys(SCORES, (number % 3) / 2)
        state.apply(event(number, SCORES, pipeline=f"p{number % pipelines}", gold_scores=gold))
    return state


def test_the_state_is_read_as_often_for_many_pipelines_as_for_a_few() -> None:
    counts = []
    for pipelines in (2, 20):
        state = with_gold(pipelines)
        with (
            patch.object(View, "read", autospec=True, side_effect=View.read) as reads,
            patch.object(ViewNumbers, "means", autospec=True, side_effect=ViewNumbers.means) as means,
        ):
            found = estimates(state)
            metric_means(state, IntervalMethod("auto", 0.95))
        counts.append((reads.call_count, means.call_count))
        named = {(estimate.pipeline, estimate.metric, estimate.estimator) for estimate in found}
        for metric, estimator in (("trace.adherence", "prediction_powered"), ("consistency_score.trace", "mean")):
            assert {pipeline for pipeline, *rest in named if rest == [metric, estimator]} == {
                f"p{number}" for number in range(pipelines)
            }
    assert counts[0] == counts[1]
