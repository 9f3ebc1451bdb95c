"""What an experiment has used up, and which of its limits that reaches. No I/O."""

from ragtide_schemas.experiments import Limits


class Spent:
    """The cost and tokens that an experiment has used up: answers and labeling together."""

    def __init__(self) -> None:
        self.cost_usd = 0.0
        self.tokens = 0

    def add(self, cost_usd: float, tokens: int) -> None:
        """Take note of what was used up."""
        self.cost_usd += cost_usd
        self.tokens += tokens

    def over(self, limits: Limits) -> str | None:
        """Return which limit is reached, in words; None if none is."""
        if limits.max_cost_usd is not None and self.cost_usd >= limits.max_cost_usd:
            return f"cost {self.cost_usd:.4f} USD of at most {limits.max_cost_usd:g}: raise max_cost_usd to go on"
        if limits.max_tokens is not None and self.tokens >= limits.max_tokens:
            return f"{self.tokens:,} tokens of at most {limits.max_tokens:,}: raise max_tokens to go on"
        return None
