"""What an application itself saw, compared with what ragtide recorded."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

from ragtide_schemas import RagInteraction
from ragtide_schemas.retrieval_steps import step_name

RIGHT: Final = "right"
NOT_RECORDED: Final = "not recorded"
_FIELDS: Final = ("question", "documents", "response", "calls")


def check_recorded(found: Sequence[RagInteraction], truth: dict[str, Any]) -> None:
    """Fail unless the interactions of a construction are what its application saw, and no others.

    Args:
        found: what was recorded.
        truth: `outcome` of the construction, and the answers that were `seen`, as `apps/truth.py` notes them.
    """
    if truth["outcome"] != RIGHT:
        assert [_content(interaction, _FIELDS) for interaction in found] == []
        return
    seen = sorted(map(_with_calls, truth["seen"]), key=lambda answer: str(answer["question"]))
    assert seen
    pairs = zip_longest(sorted(found, key=lambda interaction: interaction.question), seen)
    came = [_content(interaction, answer or _FIELDS) for interaction, answer in pairs if interaction]
    assert [_with_seen_response(*pair) for pair in zip_longest(came, seen)] == seen


def _with_calls(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its calls by the names of their steps; without a call with an empty list."""
    calls = [[number, step_name(name), failed] for number, name, failed in answer.get("calls", ())]
    return {**answer, "calls": calls}


def _content(interaction: RagInteraction, fields: Any) -> dict[str, Any]:
    """Return an interaction in the form of the truth, with these fields of it."""
    texts = [document.text for document in interaction.documents]
    own = {
        "documents": sorted(texts) if "documents_in_any_order" in fields else texts,
        "documents_in_any_order": True,
        "calls": [[call.round, call.name, call.error is not None] for call in interaction.calls],
        "history": [turn.question for turn in interaction.history or ()],
        "ids": [document.id for document in interaction.documents],
        "response_is_cut": interaction.metadata.get("response_cut") == "true",
    }
    given = interaction.model_dump(mode="json")
    return {field: own[field] if field in own else given[field] for field in fields}


def _with_seen_response(came: dict[str, Any] | None, seen: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an interaction with the response that the user saw of a stream, if its own lacks at most the last word."""
    if came and seen and "response_is_cut" in seen and came["response"]:
        words, all_words = came["response"].split(), seen["response"].split()
        if words in (all_words, all_words[:-1]):
            return came | {"response": seen["response"]}
    return came
