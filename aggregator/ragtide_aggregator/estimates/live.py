"""The strategies of live estimates; whoever checks one imports no NumPy."""

from typing import Final

from ragtide_schemas.suggestions import unknown

from ..statistics.tables.names import AUTO

LIVE: Final = (AUTO, "running", "asymptotic")
"""Strategies of live estimates: valid at every look, `asymptotic` once there are enough values."""


def check_live(strategy: str) -> None:
    """Check that live estimates have a strategy.

    Raises:
        ValueError: the strategy is one for offline evals, or unknown.

    >>> check_live("running")
    """
    if strategy in LIVE:
        return
    from ..statistics.means.strategies import STRATEGIES  # noqa: PLC0415 - only a mistake needs it

    if strategy in STRATEGIES:
        raise ValueError(
            f"strategy {strategy!r} is for offline evals: live estimates are looked at again and again, so use "
            f"{', '.join(LIVE[:-1])} or {LIVE[-1]}"
        )
    raise ValueError(unknown("strategy", strategy, LIVE))
