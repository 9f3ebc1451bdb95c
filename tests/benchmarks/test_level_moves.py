"""Moves of levels in simulated fleets: the measured claims hold here, short and, marked heavy, long."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtide_runtime.settings.alerting import MovesSettings

pytestmark = pytest.mark.simulation

_PATH = Path(__file__).parents[2] / "benchmarks" / "level_moves.py"
_SPEC = importlib.util.spec_from_file_location("simulated_level_moves", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
simulated_levels = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = simulated_levels
_SPEC.loader.exec_module(simulated_levels)


def found(fleets: int, answers: int, **changes: Any) -> Any:
    return simulated_levels.simulated(fleets, answers, **changes)


@pytest.mark.parametrize("sessions", [False, True])
def test_large_falls_are_found_within_200_answers(sessions: bool) -> None:
    delays = found(2, simulated_levels.BEFORE + 250, sessions=sessions, fall=0.4, seed=1).delays
    assert np.mean(delays <= simulated_levels.WITHIN) > 0.9


@pytest.mark.heavy
@pytest.mark.parametrize("sessions", [False, True])
def test_a_fleet_has_no_more_false_moves_a_month_than_the_settings_say(sessions: bool) -> None:
    moves = found(30, simulated_levels.ANSWERS, sessions=sessions, seed=2).moves.sum(axis=1)
    assert moves.mean() <= MovesSettings().false_per_month


def test_the_simulation_sees_false_moves_where_they_may_be_frequent() -> None:
    often = MovesSettings(false_per_month=3_000)
    moves = found(4, 1_500, sessions=False, seed=3, settings=often).moves.sum(axis=1)
    assert 10 < moves.mean() < often.false_per_month
