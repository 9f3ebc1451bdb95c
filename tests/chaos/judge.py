"""The judge of a chaos run: answers by content, now quickly, now slowly, and at times not at all."""

import asyncio
import random
from typing import Any

from tests.support.remembering_judge import RememberingJudge

from ragtide.testing import Drops, Hangs, Reply, Status

OUTAGES: dict[str, Reply] = {"503": Status(503, "down"), "500": Status(500), "drops": Drops(), "hangs": Hangs()}
"""Each way to be out of order, by name."""

LATENCIES_S = (0.005, 0.02, 0.05, 0.1, 0.4)
"""Seconds an answer may take."""


class UnevenJudge(RememberingJudge):
    """A judge server whose latency differs from answer to answer; the answers depend on the documents and response."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__()
        self._random = random_

    async def answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        self.latency_s = self._random.choice(LATENCIES_S)
        return await super().answer(request, writer)
