"""The calls that labeling would make, for a look at the cost before it is paid. No I/O."""

from dataclasses import dataclass


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
