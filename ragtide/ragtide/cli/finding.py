"""The result of one check by `ragtide doctor`."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warning", "problem"]


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
