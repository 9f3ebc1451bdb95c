import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragtide_runtime.ownership.owner import Membership, rebalance


def settled(owned: dict[str, int], partitions: int) -> list[dict[str, int]]:
    """Let every aggregator give up and take what it should, until nobody moves; return every state on the way."""
    history = [dict(owned)]
    for _ in range(4 * len(owned) + 4):
        before = dict(owned)
        for name in owned:
            owned[name] -= rebalance(name, owned, partitions).release
        for name in owned:
            free = partitions - sum(owned.values())
            owned[name] += min(rebalance(name, owned, partitions).acquire, free)
        history.append(dict(owned))
        if owned == before:
            return history
    raise AssertionError(f"still moving: {history[-3:]}")


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 20))
def test_whatever_they_own_all_end_with_equal_shares_and_every_partition_has_an_owner(
    counts: list[int], free: int
) -> None:
    partitions = max(sum(counts) + free, 1)
    last = settled({f"a{number}": count for number, count in enumerate(counts)}, partitions)[-1]
    assert sum(last.values()) == partitions
    assert max(last.values()) - min(last.values()) <= 1


@given(st.integers(1, 6), st.integers(1, 40))
def test_equal_shares_stay_as_they_are(aggregators: int, partitions: int) -> None:
    each, left_over = divmod(partitions, aggregators)
    owned = {f"a{number}": each + (number >= aggregators - left_over) for number in range(aggregators)}
    assert settled(dict(owned), partitions)[-1] == owned


def test_a_newcomer_moves_no_more_than_its_share() -> None:
    assert settled({"old": 8, "new": 0}, 8)[-1] == {"old": 4, "new": 4}
    assert settled({"old": 1, "new": 0}, 1)[-1] == {"old": 1, "new": 0}


async def test_one_that_is_silent_no_longer_counts(async_redis: Any) -> None:
    here, gone = (
        Membership(async_redis, "ragtide", member=name, silent_s=silent_s) for name, silent_s in (("a", 5), ("b", 0.05))
    )
    assert await gone.heartbeat(3) == {"b": 3}
    async with asyncio.timeout(120):
        while await here.heartbeat(1) != {"a": 1}:  # noqa: ASYNC110 - time passes in Redis
            await asyncio.sleep(0.01)
    await gone.heartbeat(0)
    await gone.leave()
    assert await here.heartbeat(2) == {"a": 2}
