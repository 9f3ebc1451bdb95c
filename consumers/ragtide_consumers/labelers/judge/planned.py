"""The calls that labeling would make: for a look at the cost before it is paid, and for batches. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request for a batch."""

    key: str
    """Key of the answer in the cache: 40 hexadecimal digits."""
    body: Mapping[str, Any]
    """Parameters of a chat completion."""
    expected_usd: float
    """Probable dollars at the ordinary price; 0 without a price."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Progress of a batch."""

    id: str
    status: str
    done: int
    total: int


ShowBatch = Callable[[BatchProgress], None]
"""Shows the progress of a batch."""


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """Calls that would be made, by estimate, without those that faults of answers add."""

    calls: int = 0
    cached: int = 0
    """Answers that are in the cache and cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    """Dollars at the known price; 0 without a price."""

    def __add__(self, other: "PlannedCalls") -> "PlannedCalls":
        """Return the sums."""
        return PlannedCalls(
            self.calls + other.calls,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
        )
