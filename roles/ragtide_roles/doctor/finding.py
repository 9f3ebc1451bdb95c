"""The result of one check of a deployment."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Level = Literal["ok", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("problem", "warning", "ok")
"""Levels, the worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    subject: str
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON fields."""
        return asdict(self)


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_of(1, "worker"), count_of(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
