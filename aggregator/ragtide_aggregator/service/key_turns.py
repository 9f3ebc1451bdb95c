"""Keys whose estimates are computed a few at a time, so that nothing waits long for a partition with many. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from ..events.keys import EstimateKey

Scope = tuple[str, str | None, str | None]
"""Pipeline, run and segment value."""


class KeyTurns:
    """Keys that wait for their turn, the longest waiting first.

    All keys of a scope have one turn, because the error of a family and the choice among labelers are over several.
    """

    def __init__(self) -> None:
        self._scopes: defaultdict[Scope, dict[EstimateKey, None]] = defaultdict(dict)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: EstimateKey) -> bool:
        return key in self._scopes.get(_scope(key), ())

    def add(self, keys: Iterable[EstimateKey]) -> None:
        """Let keys wait for a turn."""
        for key in keys:
            of_scope = self._scopes[_scope(key)]
            self._count += key not in of_scope
            of_scope[key] = None

    def take(self, most: int) -> list[EstimateKey]:
        """Return the keys of the next turn: of whole scopes, and more than `most` only of a single one."""
        keys: list[EstimateKey] = []
        while self._scopes:
            scope = next(iter(self._scopes))
            if keys and len(keys) + len(self._scopes[scope]) > most:
                break
            keys += self._scopes.pop(scope)
        self._count -= len(keys)
        return keys


def _scope(key: EstimateKey) -> Scope:
    return key.pipeline, key.run, key.segment
