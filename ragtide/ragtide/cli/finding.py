"""One thing that `ragtide doctor` looked at."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON fields."""
        return asdict(self)
