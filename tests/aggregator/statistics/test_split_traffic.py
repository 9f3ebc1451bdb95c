"""The difference of two pipelines among which a coin divides the traffic, and the checks of the coin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.comparisons.assignment import AssignmentTable
from ragtide_aggregator.statistics.comparisons.known_features import SCALED_BY, of_numbers, of_values
from ragtide_aggregator.statistics.comparisons.split_traffic import (
    has_share,
    is_anew,
    is_balanced,
    means_of,
    sessions_as_items,
    split_difference,
)

Array = np.ndarray[Any, Any]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False) | st.just(np.nan), max_size=30), st.integers(0, 130))
def test_later_items_change_no_feature_of_an_earlier_one(tail: list[float], stop: int) -> None:
    numbers = np.concatenate([np.random.default_rng(1).lognormal(3, 1, 110), np.array(tail)])
    found, first = of_numbers(numbers), of_numbers(numbers[:stop])
    assert found[:stop].tobytes() == first.tobytes()
    assert np.all((found >= 0) & (found <= 1))
    values = [None if np.isnan(number) else str(int(abs(number)) % 5) for number in numbers]
    assert of_values(values, 3)[:stop].tobytes() == of_values(values[:stop], 3).tobytes()


def test_a_feature_has_no_unit_and_a_constant_covariate_says_nothing() -> None:
    numbers = np.random.default_rng(2).normal(0.8, 0.02, 500)
    feature = of_numbers(numbers)[SCALED_BY:, 0]
    assert 0.1 < feature.std() < 0.25
    assert np.corrcoef(feature, numbers[SCALED_BY:])[0, 1] > 0.99
    assert set(of_numbers(np.full(300, 7.0)).ravel()) == {0.5}
    assert set(of_numbers(np.full(300, np.nan)).ravel()) == {0.5}
    assert of_numbers(np.zeros(0)).shape == (0, 1)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_fair_coin_passes_and_another_share_does_not(share: float) -> None:
    rng = np.random.default_rng(3)
    coins = rng.random((200, 3000)) < share
    assert all(has_share(coin, share) for coin in coins)
    assert not any(has_share(coin, share + 0.12) for coin in coins)
    assert has_share(np.zeros(0, dtype=bool), share)


def test_sessions_that_stay_with_their_pipeline_are_seen() -> None:
    rng = np.random.default_rng(4)
    sessions = rng.permutation(np.repeat(np.arange(400), 3))
    anew, kept = rng.random(1200) < 0.3, (rng.random(400) < 0.3)[sessions]
    assert is_anew(anew, sessions, 0.3)
    assert not is_anew(kept, sessions, 0.3)
    # Without sessions nothing is known, and a session of one answer says nothing.
    assert is_anew(kept, np.zeros(1200, dtype=np.int64), 0.3)
    assert is_anew(kept[:400], np.arange(1, 401), 0.3)


def test_a_covariate_that_depends_on_the_pipeline_is_not_balanced() -> None:
    rng = np.random.default_rng(5)
    to_a, z = rng.random(4000) < 0.5, rng.random((4000, 2))
    assert is_balanced(to_a, z, 0.5)
    assert is_balanced(to_a, z[:, :0], 0.5)
    z[:, 1] = np.clip(z[:, 1] + 0.15 * to_a, 0, 1)
    assert not is_balanced(to_a, z, 0.5)


def test_sessions_count_in_the_order_of_their_first_answer_and_only_when_all_before_have_ended() -> None:
    sessions = np.array([1, 2, 0, 1, 2, 1, 2, 3, 2])
    times = np.array([0, 1, 2, 3, 4, 50, 5, 60, 61])
    found = [places.tolist() for places in sessions_as_items(sessions, times, size=3, quiet_ms=10)]
    # The pause ended session 1, and its last answer is left out; session 3 has not ended.
    assert found == [[0, 3], [1, 4, 6], [2]]
    assert means_of(np.arange(9) / 10, [np.array(one) for one in found]).round(3).tolist() == [0.15, 0.367, 0.2]
    early = [places.tolist() for places in sessions_as_items(sessions[:5], times[:5], size=3, quiet_ms=10)]
    assert early == []
    # Nothing came after the first five, and ticks ended the sessions of one pipeline, or of both.
    ticks = np.array([0, 15, 15, 0, 15])
    ended = [
        [places.tolist() for places in sessions_as_items(sessions[:5], times[:5], size=3, quiet_ms=10, ticks_ms=at)]
        for at in (ticks, np.full(5, 15), np.full(5, 14))
    ]
    assert ended == [[], [[0, 3], [1, 4], [2]], [[0, 3]]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=60), st.integers(0, 60))
def test_items_of_an_earlier_look_stay_as_they_are(answers: list[tuple[int, int]], stop: int) -> None:
    sessions = np.array([session for session, _ in answers], dtype=np.int64)
    times = np.cumsum(np.array([pause for _, pause in answers], dtype=np.int64))
    whole = sessions_as_items(sessions, times, size=3, quiet_ms=20)
    part = sessions_as_items(sessions[:stop], times[:stop], size=3, quiet_ms=20)
    assert [one.tolist() for one in whole[: len(part)]] == [one.tolist() for one in part]


def test_a_share_outside_of_0_and_1_is_refused() -> None:
    for share in (0.0, 1.0, np.nan, -0.5):
        with pytest.raises(ValueError, match="share is"):
            split_difference(np.array([True]), np.array([0.5]), np.zeros((1, 0)), share=share, confidence=0.95)


RUNS, ITEMS, ALPHA = 300, 400, 0.2


@pytest.mark.simulation
@pytest.mark.parametrize("kind", ["dependent answers", "sessions"])
def test_the_interval_holds_at_every_look_whatever_happens_inside_sessions(kind: str) -> None:
    """Pipeline a is 0.05 better; sessions have a luck of their own, and a covariate that tells of it."""
    table, traffic = AssignmentTable(1, least_share=0.4), []
    for run in range(RUNS):
        table.add_row()
        rng = np.random.default_rng((run, kind == "sessions"))
        sessions = np.repeat(np.arange(1, ITEMS // 4 + 1), 4)
        luck = rng.uniform(-0.3, 0.3, ITEMS // 4 + 1)[sessions]
        to_a = (rng.random(ITEMS // 4 + 1)[sessions] if kind == "sessions" else rng.random(ITEMS)) < 0.4
        values = (rng.random(ITEMS) < 0.6 + luck + 0.05 * to_a).astype(float)
        features = of_numbers(luck + 0.1 * rng.standard_normal(ITEMS))
        if kind == "sessions":
            items = sessions_as_items(sessions, np.arange(ITEMS), size=4, quiet_ms=ITEMS)
            first = [places[0] for places in items]
            to_a, values, features = to_a[first], means_of(values, items), features[first]
        traffic.append((to_a, values, features))
    coins, scores, known = (np.stack(part) for part in zip(*traffic, strict=True))
    rows, missed = np.arange(RUNS), np.zeros(RUNS, dtype=bool)
    for start in range(0, scores.shape[1], 10):
        part = slice(start, start + 10)
        size = scores[0, part].size
        table.update(
            np.repeat(rows, size), coins[:, part].ravel(), np.full(RUNS * size, 0.4), scores[:, part].ravel(),
            known[:, part].reshape(-1, 1),
        )  # fmt: skip
        found = table.read(rows, confidence=1 - ALPHA)
        missed |= (found.lower > 0.05) | (found.upper < 0.05)
    assert missed.mean() <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)
    assert abs(found.estimate.mean() - 0.05) < 0.02
