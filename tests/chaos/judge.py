"""The judge of a chaos run: answers by content, now quickly, now slowly, and at times not at all."""

import asyncio
import random
from typing import Any

from tests.support.judge_server import Behavior, Drops, Hangs, JudgeServer, Status, rules_model

OUTAGES: dict[str, Behavior] = {"503": Status(503, "down"), "500": Status(500), "drops": Drops(), "hangs": Hangs()}
"""Each way to be out of order, by name."""

LATENCIES_S = (0.005, 0.02, 0.05, 0.1, 0.4)
"""Seconds an answer may take."""


class UnevenJudge(JudgeServer):
    """A judge server whose latency differs from answer to answer; the answers depend on the documents and response."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__(model=self._remembered)
        self.keep = False
        self._random = random_
        self._known: dict[str, str] = {}

    def _remembered(self, request: dict[str, Any]) -> str:
        # The same sentences get the same answer whatever the question, which alone differs between interactions.
        sentences = request["messages"][1]["content"].partition("DOCUMENT SENTENCES")[2]
        if sentences not in self._known:
            self._known[sentences] = rules_model(request)
        return self._known[sentences]

    async def answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        self.latency_s = self._random.choice(LATENCIES_S)
        return await super().answer(request, writer)
