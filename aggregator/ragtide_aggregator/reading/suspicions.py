"""Reads how far the evidence of alert rules on whole pipelines has come, before anything fires."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import from_milliseconds
from ragtide_schemas.alert_rule import AlertRule, Movement

from ..errors import DamagedFieldError
from ..events.keys import HIDDEN
from ..service.checkpoint import FIELDS_AT_ONCE, damaged
from ..service.commit import CHECKPOINT_VERSION
from ..state.options import NO_WINDOWS
from ..state.state import AggregatorState, StateOptions

KEPT_S: Final = 5.0
"""Seconds for which a result is used again."""

_PATTERNS: Final = (
    f'{CheckpointField.ESTIMATE}\\["*",null,null,*',
    f'{CheckpointField.RULE_STATE}\\["*","*","*",null,null,*',
)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The evidence of one rule on one metric of a whole pipeline."""

    pipeline: str
    metric: str
    labeler: str
    rule: str
    direction: Movement
    """Direction of the change that the rule looks for."""
    once_in: float
    """Without a change the evidence comes this far at most once in so many values, on average."""
    run_length: float
    """The same at the line at which the rule fires."""
    began_at: datetime | None
    """Probable beginning of the change, if there is one; the data chose it."""


class Suspicions:
    """The evidence of the rules of the settings, of those that look for a change.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state, with the rules.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = redis
        self._partitions = partitions
        self._options = replace(options, panes=NO_WINDOWS, quantiles=False, history=None, caps=None)
        self._clock = clock
        self._reading = asyncio.Lock()
        self._known: tuple[float, list[Suspicion]] | None = None

    def take_rules(self, rules: Sequence[AlertRule]) -> None:
        """Read the evidence of other rules from now on."""
        self._options, self._known = replace(self._options, rules=tuple(rules)), None

    async def read(self) -> list[Suspicion]:
        """Return the evidence, the strongest first; at most every few seconds anew.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if not self._options.rules:
            return []
        async with self._reading:
            if self._known is None or self._clock() - self._known[0] > KEPT_S:
                found = [one for streams in self._partitions for one in await self._of(streams)]
                self._known = self._clock(), sorted(found, key=lambda one: -one.once_in / one.run_length)
        return self._known[1]

    async def _of(self, streams: Streams) -> list[Suspicion]:
        version = cast("bytes | None", await self._redis.hget(streams.checkpoint, CheckpointField.VERSION))
        if version != CHECKPOINT_VERSION:
            return []
        fields: dict[str, bytes] = {}
        for pattern in _PATTERNS:
            async for name, data in self._redis.hscan_iter(streams.checkpoint, match=pattern, count=FIELDS_AT_ONCE):
                fields[name.decode(errors="replace")] = data
        try:
            return await asyncio.to_thread(_suspicions, self._options, fields)
        except DamagedFieldError as error:
            raise damaged(streams, error) from None


def _suspicions(options: StateOptions, fields: dict[str, bytes]) -> list[Suspicion]:
    state = AggregatorState.from_fields(options, fields)
    found = []
    for row, key in enumerate(state.keys):
        if key.segment is not None or key.run is not None or key.metric.startswith(HIDDEN):
            continue
        for rule in state.rules_of(row):
            evidence = rule.evidence()
            if evidence is not None:
                movement, once_in, run_length, began_ms = evidence
                found.append(
                    Suspicion(
                        key.pipeline,
                        key.metric,
                        key.labeler,
                        rule.rule.name,
                        movement,
                        once_in,
                        run_length,
                        from_milliseconds(began_ms) if began_ms else None,
                    )
                )
    return found
