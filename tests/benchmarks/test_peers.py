"""The peers alarm where a loop over the values does, river's and SciPy's own included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift
from scipy import stats
from traffic.adwin import adwin_scores
from traffic.peers import (
    HOUR_LEAST,
    Peer,
    adwin,
    chunk_deviations,
    critical_distance,
    kolmogorov_smirnov,
    last_hour,
    page_hinkley,
    peers,
    stability_index,
    standard_errors,
    window_mean,
)
from traffic.records import Records, run_lengths
from traffic.scenarios import named
from traffic.scores import Change
from traffic.stream import Codes, Floats, Traffic
from traffic.windows import HOUR_S

START = 600


def falling(name: str = "independent", runs: int = 8, n: int = 2_400) -> Traffic:
    return named(name).draw(np.random.default_rng(11), runs, n, Change(1_500, system=0.7))


def river_alarms(make: Callable[[], Any], values: Floats) -> list[int]:
    """Return where a detector of river first finds a drift in each run."""
    found = []
    for run in values.tolist():
        detector, at = make(), -1
        for place, value in enumerate(run):
            detector.update(value)
            if detector.drift_detected:
                at = place
                break
        found.append(at)
    return found


def alarms(scores: Floats, threshold: float) -> list[int]:
    return [int(at) for at in Records.of(scores).first_alarms(threshold)]


@pytest.mark.parametrize("name", ["independent", "chat, shares of 5 statements"])
@pytest.mark.parametrize("delta", [0.9, 0.1, 0.002, 1e-6])
def test_adwin_alarms_where_river_does(name: str, delta: float) -> None:
    values = falling(name).value
    scores = adwin_scores(values, falls_only=False)
    kind: Any = drift.ADWIN
    expected = river_alarms(lambda: kind(delta=delta), values)
    assert alarms(scores, float(np.log(1 / delta))) == expected
    assert max(expected) > 0


def test_adwin_for_falls_finds_no_rise() -> None:
    values = falling().value
    fall, rise = (adwin_scores(one, falls_only=True).max() for one in (values, values[:, ::-1]))
    assert fall > np.log(1 / 0.002) > rise


@pytest.mark.parametrize("name", ["independent", "chat, shares of 5 statements"])
@pytest.mark.parametrize("threshold", [5.0, 15.0, 50.0])
def test_page_hinkley_alarms_where_river_does(name: str, threshold: float) -> None:
    traffic = falling(name)
    expected = river_alarms(lambda: drift.PageHinkley(threshold=threshold, mode="down"), traffic.value)
    assert alarms(page_hinkley(traffic, 0), threshold) == expected
    assert max(expected) > 0


@pytest.mark.parametrize("name", ["independent", "chat, shares of 5 statements"])
def test_kolmogorov_smirnov_is_scipys_statistic(name: str) -> None:
    traffic = falling(name, runs=2)
    scores = kolmogorov_smirnov(200)(traffic, START)
    for run, at in ((0, 19), (0, 199), (1, 1_799)):
        window = traffic.value[run, START + at - 199 : START + at + 1]
        found = stats.ks_2samp(traffic.value[run, :START], window, method="asymp")
        assert scores[run, at] == pytest.approx(found.statistic)
    assert np.all(scores[:, 20:39] == -np.inf)


@pytest.mark.parametrize("p", [0.05, 0.001])
def test_the_critical_distance_has_its_p_value(p: float) -> None:
    # 2,000 and 500 values whose distribution functions differ by exactly the distance somewhere.
    distance = critical_distance(p, 2_000, 500)
    level = round(distance * 2_000)
    reference, window = np.r_[np.zeros(level), np.ones(2_000 - level)], np.ones(500)
    assert stats.ks_2samp(reference, window, method="asymp").pvalue == pytest.approx(p, rel=0.2)


def test_the_stability_index_is_its_formula() -> None:
    traffic = falling("chat, shares of 5 statements", runs=2)
    scores = stability_index(200)(traffic, START)
    for run, at in ((0, 199), (1, 1_799)):
        window = traffic.value[run, START + at - 199 : START + at + 1]
        index = 0.0
        for level in np.arange(6) / 5:
            before = max(np.mean(np.isclose(traffic.value[run, :START], level)), 1e-4)
            now = max(np.mean(np.isclose(window, level)), 1e-4)
            index += (now - before) * np.log(now / before)
        assert scores[run, at] == pytest.approx(index)


def test_window_means_and_standard_errors_are_those_of_numpy() -> None:
    traffic = falling(runs=2)
    means = window_mean(100)(traffic, START)
    errors = standard_errors(100)(traffic, START)
    chunks = chunk_deviations(100)(traffic, START)
    reference = traffic.value[:, :START]
    parts = reference.reshape(2, -1, 100).mean(axis=2)
    for run, at in ((0, 99), (1, 1_799)):
        window = traffic.value[run, START + at - 99 : START + at + 1]
        assert means[run, at] == pytest.approx(-window.mean())
        error = np.sqrt(reference[run].var(ddof=1) * (1 / 100 + 1 / START))
        assert errors[run, at] == pytest.approx((reference[run].mean() - window.mean()) / error)
        assert chunks[run, at] == pytest.approx((parts[run].mean() - window.mean()) / parts[run].std(ddof=1))


def test_the_last_hour_is_that_of_the_clock() -> None:
    traffic = falling("chat with swing and outages", runs=2)
    scores = last_hour(traffic, START)
    looked = 0
    for run, at in ((0, 0), (0, 700), (1, 1_234), (1, 1_799)):
        now = traffic.labeled_s[run, START + at]
        times = traffic.labeled_s[run, : START + at + 1]
        window = traffic.value[run, : START + at + 1][times > now - HOUR_S]
        looked += window.size >= HOUR_LEAST
        assert scores[run, at] == pytest.approx(-window.mean() if window.size >= HOUR_LEAST else -np.inf)
    assert looked


@pytest.mark.parametrize("peer", peers(START), ids=lambda one: one.name)
def test_every_peer_finds_a_large_fall_and_not_before_it(peer: Peer) -> None:
    plain = named("independent")
    scores = [
        Records.of(peer.scores(plain.draw(np.random.default_rng(12), 40, 3_000, change), START))
        for change in (None, Change(1_600, system=0.4))
    ]
    threshold = scores[0].threshold_for(0.99 * (3_000 - START))
    found = scores[1].first_alarms(threshold)
    assert np.mean((found >= 1_000) & (found < 2_000)) > 0.8


@given(
    scores=st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=5),
    threshold=st.floats(-1, 6),
)
def test_records_know_the_first_alarm_at_every_threshold(scores: list[list[int]], threshold: float) -> None:
    array = np.array(scores, dtype=float)
    expected = [next((at for at, one in enumerate(run) if one > threshold), -1) for run in scores]
    both = Records.joined([Records.of(array), Records.of(array)])
    assert both.first_alarms(threshold).tolist() == expected * 2
    assert both.run_length(threshold) == np.mean([4 if at < 0 else at + 1 for at in expected])


@given(
    scores=st.lists(st.lists(st.integers(0, 5), min_size=9, max_size=9), min_size=1, max_size=5),
    run_length=st.floats(1.01, 9),
)
def test_the_threshold_for_a_run_length_is_the_lowest(scores: list[list[int]], run_length: float) -> None:
    records = Records.of(np.array(scores, dtype=float))
    threshold = records.threshold_for(run_length)
    assert records.run_length(threshold) >= run_length
    lower = records.run_length(threshold - 1e-6)
    assert lower < run_length


def test_a_run_length_beyond_the_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="no mean run length of 10"):
        Records.of(np.zeros((2, 9))).threshold_for(10)


def test_what_learns_by_itself_knows_no_reference() -> None:
    traffic = falling()
    later = traffic.columns(slice(START, None))
    assert np.array_equal(adwin(traffic, START), adwin_scores(later.value, falls_only=True))
    assert np.array_equal(page_hinkley(traffic, START), page_hinkley(later, 0))


def test_a_run_without_an_alarm_counts_with_its_length() -> None:
    found: Codes = np.array([-1, 0, 4])
    assert run_lengths(found, 9).tolist() == [9, 1, 5]
