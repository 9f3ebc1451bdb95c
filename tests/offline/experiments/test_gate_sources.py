"""The measurements of a gate in an experiment: the leader is chosen by its scores, so its intervals are wider."""

from random import Random

import pytest
from tests.offline.experiments.scores import METRIC, filled
from tests.support.experiment_plans import plan

from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.measurements import Measurement
from ragtide_offline.gates.sources import measure_experiment
from ragtide_schemas.experiments import Look

pytestmark = pytest.mark.pure


def measured(state: ExperimentState, config: str | None, baseline: str | None = None) -> Measurement:
    return next(
        measurement for measurement in measure_experiment(state, config, baseline) if measurement.metric == METRIC
    )


def test_the_interval_of_the_leader_holds_for_all_configs_together() -> None:
    random = Random(5)
    scores = {f"c{number}": [random.random() for _ in range(40)] for number in range(4)}
    state = ExperimentState(plan(4, size=100), filled(scores))
    state.apply(Look(item=40))
    best = measured(state, None)
    name = best.scope
    alone = measured(state, name)
    assert (best.n, alone.n) == (40, 40)
    assert best.confidence == pytest.approx(1 - 0.05 / 4)
    assert alone.confidence == pytest.approx(0.95)
    assert best.estimate is not None
    assert alone.estimate is not None
    assert best.estimate.estimate == alone.estimate.estimate == pytest.approx(sum(scores[name]) / 40)
    assert best.estimate.lower is not None
    assert alone.estimate.lower is not None
    assert best.estimate.lower < alone.estimate.lower
    other = next(config for config in scores if config != name)
    gap = measured(state, name, other).difference
    assert gap is not None
    assert gap.estimate == pytest.approx((sum(scores[name]) - sum(scores[other])) / 40)
    with pytest.raises(ValueError, match="there is no config 'c9'"):
        measure_experiment(state, "c9")
    assert measure_experiment(ExperimentState(plan(2), filled({}))) == []
