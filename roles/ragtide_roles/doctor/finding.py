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


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "worker"), counted(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
