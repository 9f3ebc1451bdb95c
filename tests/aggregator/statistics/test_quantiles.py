import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.intervals.quantiles import RELATIVE_ERROR, Quantiles

VALUES = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), max_size=60)


def sketch(values: list[float]) -> Quantiles:
    found = Quantiles()
    found.add(values)
    return found


def test_quantiles_are_within_their_error() -> None:
    values = np.random.default_rng(1).lognormal(0, 0.5, 20_000)
    found = sketch(values.tolist()).read()
    for name, share in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert found[name] == pytest.approx(np.quantile(values, share), rel=RELATIVE_ERROR + 0.01)


def test_quantiles_of_yes_or_no_are_yes_or_no() -> None:
    found = sketch([0.0] * 30 + [1.0] * 70).read()
    assert found == {"p5": 0.0, "p50": 1.0, "p95": 1.0, "p99": 1.0}


@given(VALUES, st.integers(0, 60))
def test_merging_storing_and_order_change_no_bit(values: list[float], cut: int) -> None:
    whole = sketch(values)
    merged = sketch(values[:cut])
    merged.merge(sketch(values[cut:]))
    stored = Quantiles.from_bytes(sketch(values[:cut]).to_bytes())
    stored.add(values[cut:])
    for other in (merged, stored, sketch(values[::-1])):
        assert other.to_bytes() == whole.to_bytes()
        assert other.read() == whole.read()
        assert other.n == len(values)


@given(VALUES.filter(bool))
def test_no_quantile_is_outside_the_values(values: list[float]) -> None:
    found = sketch(values).read(min(values), max(values))
    assert all(min(values) <= value <= max(values) for value in found.values())
    # A known range moves no quantile that is inside.
    anywhere = sketch(values).read()
    assert all(found[name] == value for name, value in anywhere.items() if min(values) <= value <= max(values))


def test_nothing_has_no_quantiles() -> None:
    assert Quantiles().read() == {}


def test_a_sketch_stays_small() -> None:
    values = np.random.default_rng(2).random(50_000) ** 8
    assert len(sketch(values.tolist()).to_bytes()) < 1100
