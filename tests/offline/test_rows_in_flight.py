"""How rows of `ragtide score` start, and in which order they end."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

from ragtide import RagInteraction
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_offline.score.scoring import STARTED_TOGETHER, score_rows
from ragtide_producers import Row

ID = LabelerId("own", "1", "own")


def rows(count: int, prepared: list[int]) -> Iterator[Row]:
    """Yield rows, and record each that is read."""
    for number in range(count):
        prepared.append(number)
        yield Row(number, RagInteraction(pipeline="p", question="q", documents=["d"], response="r"))


async def test_the_first_rows_are_labeled_before_all_rows_that_may_be_in_flight_are_read() -> None:
    prepared: list[int] = []
    read_before: list[int] = []

    async def label(row: Row) -> Labeling:
        read_before.append(len(prepared))
        await asyncio.sleep(0)
        return Labeling({"own.score": row.line / 1000}, {})

    async with aclosing(score_rows(rows(300, prepared), label, ID, at_once=256)) as outcomes:
        ended = [outcome.row.line async for outcome in outcomes]
    assert read_before[0] == STARTED_TOGETHER
    assert ended == list(range(300))


async def test_no_more_rows_are_in_flight_than_allowed() -> None:
    in_flight = most = 0

    async def label(row: Row) -> Labeling:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        for _ in range(10 + row.line % 3):
            await asyncio.sleep(0)
        in_flight -= 1
        return Labeling({"own.score": 0.5}, {})

    async with aclosing(score_rows(rows(200, []), label, ID, at_once=40)) as outcomes:
        assert len([outcome async for outcome in outcomes]) == 200
    assert STARTED_TOGETHER < most <= 40
