"""The simulation of `make mixshift`, short: its claims must hold here too."""

import importlib.util
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.simulation

RUNS = 25


def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "simulated_mix_shift", Path(__file__).parents[3] / "benchmarks" / "mix_shift.py"
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


mix_shift = module()


@pytest.mark.parametrize(
    ("grows", "session"), [(False, 5), *(pytest.param(one, 1, marks=pytest.mark.heavy) for one in (False, True))]
)
def test_of_runs_looked_at_every_10_items_at_most_a_twentieth_ever_misses(grows: bool, session: int) -> None:
    """Seeded: 25 runs of all causes in turn; 5% and two standard errors of it."""
    rng = np.random.default_rng((3, grows, session))
    causes = mix_shift.CAUSES
    found = [mix_shift.missed(rng, causes[k % len(causes)], grows=grows, session=session) for k in range(RUNS)]
    most = 0.05 + 2 * sqrt(0.05 * 0.95 / RUNS)
    rates = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    assert {name: rate for name, rate in rates.items() if rate > most} == {}


def test_drifts_larger_than_the_stated_resolution_are_named_right_and_none_gets_a_cause_it_has_not() -> None:
    """Seeded: 150 drifts, 30 of each cause."""
    found = mix_shift.drifts(30)
    larger = [one for one in found if one.is_larger]
    assert len(larger) > 45
    assert np.mean([one.right for one in larger]) >= 0.95
    assert np.mean([one.wrong for one in found]) <= 0.02
    spread = [one for one in found if one.spread_right is not None and one.spread_is_larger]
    assert len(spread) > 20
    assert np.mean([bool(one.spread_right) for one in spread]) >= 0.95
    assert np.mean([one.spread_wrong for one in found]) <= 0.02


@pytest.mark.parametrize("cause", ["mix", "within all", "none"])
def test_after_an_alarm_that_chose_the_time_few_drifts_get_a_cause_they_have_not(cause: str) -> None:
    """Seeded: 15 alarms of each cause, 0, 200 and 1,000 items later."""
    rng = np.random.default_rng(5)
    found = [one for one in (mix_shift.after_alarm(rng, cause) for _ in range(15)) if one is not None]
    assert len(found) > 10
    allowed = {"unresolved", "neither", mix_shift.NAMES.get(cause)}
    assert sum(not set(one.verdicts) <= allowed for one in found) <= 2
    named = sum(one.verdicts[-1] == mix_shift.NAMES.get(cause) for one in found)
    assert named == 0 if cause == "none" else named > len(found) / 3
