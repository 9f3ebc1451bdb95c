"""How an experiment's running numbers are shown, from the dictionary that RapidFire AI calls `online_strategy_kwargs`.

Its keys are `strategy_name`, `confidence_level` and `use_fpc`. Nothing is ignored: a key or a value that is not known
is refused, because a misspelt one would show intervals at another level than was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from .statistics.strategies import STRATEGIES, Kind, RunningIntervals


@dataclass(frozen=True, slots=True)
class OnlineStrategy:
    """An interval strategy with its settings."""

    strategy: str = "normal"
    """Name of the strategy."""
    confidence: float = 0.95
    """Level in (0, 1)."""
    use_fpc: bool = True
    """Whether use is made of how many items there are in all."""

    def intervals(
        self,
        *,
        keys: int,
        population: int,
        value_range: tuple[float, float] = (0.0, 1.0),
        kind: Kind = "algebraic",
    ) -> RunningIntervals:
        """Return running intervals by it.

        Args:
            keys: number of keys, such as configs.
            population: number of all items of each.
            value_range: lowest and highest possible value.
            kind: `algebraic` for means, `distributive` for totals.

        Raises: ValueError for an argument out of its range, or a total without the correction for a finite population.
        """
        if kind == "distributive" and not self.use_fpc:
            raise ValueError("use_fpc is False for a total, which is projected onto all items: set it to True")
        return RunningIntervals(
            self.strategy,
            keys=keys,
            confidence=self.confidence,
            value_range=value_range,
            kind=kind,
            population=population if self.use_fpc else None,
        )


KEYS: Final = ("strategy_name", "confidence_level", "use_fpc")
"""Keys of the dictionary; each may be left out."""


def online_strategy(kwargs: Mapping[str, object] | None) -> OnlineStrategy:
    """Return the strategy that a dictionary of RapidFire's `online_strategy_kwargs` names.

    Args:
        kwargs: any of `KEYS`; without one its default: `normal`, 0.95, True. Strategies are those of RapidFire
            (`normal`, `wilson`, `hoeffding`) and our others.

    Raises: ValueError for a key or a value that is not known.

    >>> online_strategy({"strategy_name": "wilson", "confidence_level": 0.9, "use_fpc": True})
    OnlineStrategy(strategy='wilson', confidence=0.9, use_fpc=True)
    """
    given = dict(kwargs or {})
    for key in given:
        if key not in KEYS:
            near = get_close_matches(str(key), KEYS, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"online_strategy_kwargs has {key!r}, which means nothing: use {', '.join(KEYS)}{meant}")
    default = OnlineStrategy()
    strategy = given.get("strategy_name", default.strategy)
    confidence = given.get("confidence_level", default.confidence)
    use_fpc = given.get("use_fpc", default.use_fpc)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy_name is {strategy!r}: use one of {', '.join(STRATEGIES)}")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ValueError(f"confidence_level is {confidence!r}: give a level between 0 and 1, such as 0.95")
    if not isinstance(use_fpc, bool):
        raise ValueError(  # noqa: TRY004 - as for the other settings
            f"use_fpc is {use_fpc!r}: give True or False"
        )
    return OnlineStrategy(strategy, float(confidence), use_fpc)
