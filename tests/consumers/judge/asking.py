"""How these tests ask a judge."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ragtide import Labeler, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.model import Settings

SECRET = "sk-very-secret-0123456789"

TOWER = RagInteraction(
    interaction_id="tower",
    pipeline="shop",
    question="When was the tower built?",
    documents=["The tower was built in 1889. It stands in Paris.", "The river flows through Paris."],
    response="The tower was built in 1889. Penguins admire it.",
    reference_answer="The tower was built in 1889.",
)


def settings(server: ScriptedJudge, *, labeler: str = "judge", **changes: Any) -> Settings:
    """Return settings with which this server is asked; changes are of the judge."""
    judge = {"model": "test-model", "api_key": SECRET, "attempts": 3, "timeout_s": 5.0, "cache_ttl_s": 0.0, **changes}
    return server.settings(labeler=labeler, **judge)


@asynccontextmanager
async def judge(
    server: ScriptedJudge, redis: Any = None, *, patient: bool = False, **changes: Any
) -> AsyncIterator[Labeler]:
    """Give a judge that asks this server."""
    async with labeler_of(settings(server, **changes), redis, patient=patient) as labeler:
        yield labeler


def entry(key: str, supporting: list[str], verdict: object) -> dict[str, object]:
    """Return what a judge says of one response sentence."""
    return {
        "response_sentence_key": key,
        "explanation": "",
        "supporting_sentence_keys": supporting,
        "fully_supported": verdict,
    }


def with_documents(*texts: str) -> RagInteraction:
    """Return the tower with other documents."""
    return RagInteraction(**TOWER.model_dump() | {"documents": texts})
