"""Interactions for tests: valid, and the same in every run."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ragtide_schemas import RagInteraction

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of the first interaction."""


def interaction(number: int = 0, **changes: Any) -> RagInteraction:
    """Return an interaction; `changes` replaces or adds fields.

    >>> one = interaction(3, pipeline="search")
    >>> one.interaction_id, one.pipeline, one.response
    ('i-3', 'search', 'The tower was built in 1889.')

    Args:
        number: of its id; each number is one second later.
        changes: fields of `RagInteraction`.
    """
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "pipeline": "shop",
        "occurred_at": START + timedelta(seconds=number),
        "question": "When was the tower built?",
        "documents": ["The tower was built in 1889. It stands in Paris."],
        "response": "The tower was built in 1889.",
    }
    return RagInteraction(**{**fields, **changes})


def interactions(count: int, **changes: Any) -> list[RagInteraction]:
    """Return `count` interactions with the ids `i-0`, `i-1`, ...; `changes` as for `interaction`."""
    return [interaction(number, **changes) for number in range(count)]
