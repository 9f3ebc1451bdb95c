"""When an owner commits, and how long entries gather before it reads them."""

import pytest

from ragtide_aggregator.service.pace import GATHER_S, CommitTiming

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("took_s", "until_next_s"), [(0.0, 0.25), (0.1, 0.15), (0.125, 0.125), (0.2, 0.2), (3.0, 0.25)]
)
def test_a_commit_follows_the_begin_of_the_last_one_and_leaves_time_to_apply(
    took_s: float, until_next_s: float
) -> None:
    timing = CommitTiming(0.25, now=0.0)
    timing.committed(10.0, took_s=took_s, longest_pause_s=5.0, behind=False)
    assert timing.wait_s(10.0) == pytest.approx(until_next_s)
    assert not timing.is_due(10.0 + until_next_s - 0.01, behind=False)
    assert timing.is_due(10.0 + until_next_s, behind=False)


def test_entries_gather_until_the_next_commit_at_most() -> None:
    timing = CommitTiming(0.25, now=0.0)
    assert timing.gather_s(0.0, behind=False) == GATHER_S
    assert timing.gather_s(0.23, behind=False) == pytest.approx(0.02)
    assert timing.gather_s(1.0, behind=False) == 0


def test_an_owner_that_is_behind_reads_on_at_once() -> None:
    assert CommitTiming(0.25, now=0.0).gather_s(0.0, behind=True) == 0


def test_a_long_commit_of_an_owner_that_is_behind_is_followed_by_a_long_pause() -> None:
    timing = CommitTiming(0.25, now=0.0)
    timing.committed(10.0, took_s=0.4, longest_pause_s=3.0, behind=True)
    assert timing.wait_s(10.0) == 3.0
    # Once it is not behind, the pause ends.
    assert timing.is_due(10.25, behind=False)
