import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.alerts.contributors import CONTRIBUTORS_KEPT, Contributor, Contributors, contenders


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_the_worst_since_any_time_are_those_of_the_whole_list(excess: list[float], since: int, stored: int) -> None:
    worst = Contributors()
    bad = [Contributor(number, one, f"i-{number}") for number, one in enumerate(excess)]
    for one in bad:
        worst.add(one)
        if one.number == stored:
            again = Contributors()
            again.load(worst.dump())
            worst = again
    expected = sorted((one.excess for one in bad if one.number >= since), reverse=True)[:CONTRIBUTORS_KEPT]
    found = worst.since(since)
    assert [one.excess for one in found] == expected
    assert all(one.number >= since for one in found)


def test_the_list_stays_short() -> None:
    worst = Contributors()
    for number in range(5000):
        worst.add(Contributor(number, (number * 7919 % 1000) / 1000, str(number)))
    assert len(worst.dump()) < 60
    worst.drop_before(4999)
    assert [bad.number for bad in worst.since(0)] == [4999]


BADNESS = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), max_size=80)


@given(BADNESS, BADNESS)
def test_only_the_contenders_of_a_batch_need_to_be_added(before: list[float], batch: list[float]) -> None:
    whole, short = Contributors(), Contributors()
    for number, one in enumerate(before):
        whole.add(Contributor(number, one, f"i-{number}"))
        short.add(Contributor(number, one, f"i-{number}"))
    bad = [Contributor(len(before) + number, one, f"j-{number}") for number, one in enumerate(batch)]
    for later in bad:
        whole.add(later)
    chosen = contenders(np.array(batch, dtype=np.float64))
    for place in chosen.tolist():
        short.add(bad[place])
    assert short.dump() == whole.dump()
    assert len(chosen) == len([one for one in whole.dump() if one[0] >= len(before)])
    # They also forget the same values later on.
    for number, later_excess in enumerate((0.2, 0.5, 0.1, 0.9, 0.3, 0.9), len(before) + len(batch)):
        for worst in (whole, short):
            worst.add(Contributor(number, later_excess, f"k-{number}"))
        assert short.dump() == whole.dump()
