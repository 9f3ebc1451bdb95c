import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.drift.budget import FORECAST, Budget
from ragtide_aggregator.statistics.drift.drift import DetectorTable


@given(st.floats(0.01, 100), st.lists(st.lists(st.integers(0, 30_000), max_size=8), min_size=1, max_size=6))
def test_never_more_than_the_budget_is_spent_in_a_period_whatever_the_traffic(
    false_alarms: float, periods: list[list[int]]
) -> None:
    budget = Budget(false_alarms, 1000)
    for number, batches in enumerate(periods):
        assert budget.begins(1000 * number)
        budget.begin(1000 * number)
        spent = sum(float(budget.spend(count).sum()) for count in batches)
        assert spent <= false_alarms * (1 + 1e-9)


@given(st.lists(st.integers(0, 20_000), max_size=6))
def test_cutting_into_batches_and_storing_in_between_changes_nothing(counts: list[int]) -> None:
    whole, cut = Budget(2, 1000), Budget(2, 1000)
    whole.begin(0)
    cut.begin(0)
    expected = whole.spend(sum(counts))
    pieces = []
    for count in counts:
        stored = Budget(2, 1000)
        stored.load(cut.to_bytes())
        cut = stored
        pieces.append(cut.spend(count))
    assert np.concatenate([np.zeros(0), *pieces]).tolist() == expected.tolist()


def test_the_next_period_is_thought_to_be_like_the_last() -> None:
    budget = Budget(1, 1000)
    budget.begin(0)
    first = budget.spend(50_000)
    assert first[0] == 0.5 / FORECAST
    budget.begin(1000)
    again = budget.spend(50_000)
    assert again[0] == again[-1] == 0.5 / 50_000


def test_an_older_time_begins_no_period() -> None:
    budget = Budget(1, 1000)
    budget.begin(5000)
    assert not budget.begins(4999)
    assert not budget.begins(5999)
    assert budget.begins(6000)


@pytest.mark.parametrize(("false_alarms", "period_ms"), [(0, 1), (-1, 1), (float("inf"), 1), (1, 0)])
def test_a_budget_is_positive(false_alarms: float, period_ms: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        Budget(false_alarms, period_ms)


@pytest.mark.simulation
def test_a_deployment_has_at_most_its_budget_of_false_alarms_on_average() -> None:
    """200 keys of very different traffic whose mean is just at the line, four false alarms a period allowed."""
    rng = np.random.default_rng(20261121)
    keys, periods, allowed = 200, 25, 4.0
    table, budget = DetectorTable(), Budget(allowed, 1000)
    for _ in range(keys):
        table.configure(table.add_row(), limit=0.8, direction="fall", run_length=100)
    share = rng.pareto(1.0, keys) + 0.05
    alarms = 0
    for period in range(periods):
        budget.begin(1000 * period)
        rows = rng.choice(keys, 20_000, p=share / share.sum())
        values = (rng.random(rows.size) < 0.8).astype(float)
        costs = budget.spend(rows.size)
        left = np.arange(rows.size)
        while left.size:
            found, again = table.update(rows[left], values[left], np.zeros(left.size, dtype=int), costs=costs[left])
            alarms += len(found)
            left = left[again]
    assert 0 < alarms <= periods * allowed
