"""Waiting for a stop, and pauses between tries."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ragtide_runtime.processes.waiting import Backoff, blocking_iterator, sleep_or_stop


async def test_a_sleep_ends_with_the_stop() -> None:
    stop = asyncio.Event()
    sleeping = asyncio.create_task(sleep_or_stop(stop, 3600))
    await asyncio.sleep(0)
    stop.set()
    assert await sleeping


async def test_a_sleep_that_nothing_stops_ends_by_itself() -> None:
    assert not await sleep_or_stop(asyncio.Event(), 0.001)


async def test_a_stop_that_was_set_before_leaves_nothing_to_sleep() -> None:
    stop = asyncio.Event()
    stop.set()
    assert await sleep_or_stop(stop, 3600)


async def test_a_cancelled_sleep_is_cancelled() -> None:
    sleeping = asyncio.create_task(sleep_or_stop(asyncio.Event(), 3600))
    await asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.25, 1.5, random_share=0.0)
    assert not backoff.failing
    assert [backoff.pause_s() for _ in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]
    assert backoff.failing
    backoff.succeeded()
    assert not backoff.failing
    assert backoff.pause_s() == 0.25


def test_pauses_of_several_processes_differ() -> None:
    pauses = [Backoff(1.0, 1.0).pause_s() for _ in range(50)]
    assert len(set(pauses)) > 1
    assert all(0.5 <= pause <= 1.0 for pause in pauses)


async def numbers(closed: list[int]) -> AsyncGenerator[int]:
    try:
        for number in range(5):
            await asyncio.sleep(0)
            yield number
        raise LookupError("no more")
    finally:
        closed.append(1)


def test_an_asynchronous_generator_is_read_without_a_loop_and_while_one_runs() -> None:
    def read() -> list[int]:
        closed: list[int] = []
        found: list[int] = []
        with pytest.raises(LookupError, match="no more"):
            found.extend(blocking_iterator(lambda: numbers(closed)))  # the items before an error stay
        items = blocking_iterator(lambda: numbers(closed))
        found.append(next(items))
        del items
        assert closed == [1, 1]
        return found

    async def inside() -> list[int]:
        return read()

    assert read() == asyncio.run(inside()) == [0, 1, 2, 3, 4, 0]
