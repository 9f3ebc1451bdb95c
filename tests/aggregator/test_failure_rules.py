"""A rule on failures fires on a rising share of answers with the worst possible score."""

import numpy as np
from tests.support.metric_events import adherence

from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import AlertRule

RULE = AlertRule(name="failures", kind="failure", metric="trace.adherence", run_length=1_000)


def test_it_fires_on_more_failures_although_the_mean_is_as_before() -> None:
    rng = np.random.default_rng(3)
    before = np.where(rng.random(400) < 0.05, 0.0, 0.6)
    since = np.where(rng.random(400) < 0.4, 0.0, 0.95)
    state = AggregatorState(StateOptions(rules=(RULE,)))
    for event in adherence([*before.tolist(), *since.tolist()]):
        state.apply(event)
    (alert,) = state.take_changes().alerts
    assert (alert.kind, alert.quantity, alert.direction) == ("failure", "share", "rise")
    assert alert.normal is not None
    assert alert.observed is not None
    assert alert.normal < 0.1
    assert alert.observed > 0.3
    assert "failures of trace.adherence" in alert.message
