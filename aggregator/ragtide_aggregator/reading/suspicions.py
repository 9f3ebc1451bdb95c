"""Reads how far the evidence of alert rules on whole pipelines has come, before anything fires."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import from_milliseconds
from ragtide_schemas.alert_kinds import Movement

from ..checkpoint.field_pipelines import key_of_rule_state
from ..events.keys import HIDDEN, EstimateKey
from ..state.options import NO_WINDOWS, StateOptions
from ..state.state import AggregatorState
from .field_names import FieldNames, Listing
from .states import FieldSelection, PartitionStates

_COVARIATES: Final = FieldSelection(
    (CheckpointField.RULE_STATE,),
    lambda listing: (
        name for name in listing.of(CheckpointField.RULE_STATE) if ',"covariate.' in name or ',"segment.' in name
    ),
)
"""The states of rules on covariates, of all scopes."""


def rules_of(pipeline: str | None) -> FieldSelection:
    """Return the states of rules on whole live pipelines, and the counts of their keys.

    Args:
        pipeline: only of this pipeline; all unless given.
    """

    def choose(listing: Listing) -> Iterator[str]:
        for name in listing.of_pipeline(CheckpointField.RULE_STATE, pipeline):
            if ",null,null," in name:  # run and segment of such a key
                yield name
                yield CheckpointField.ESTIMATE + key_of_rule_state(name)

    return FieldSelection((CheckpointField.RULE_STATE,), choose)


async def covariate_keys(
    redis: Redis, partitions: Sequence[Streams], options: StateOptions, names: FieldNames
) -> list[EstimateKey]:
    """Return the keys of the rules on covariates of which values came; their metric stands for the covariate.

    Raises:
        CheckpointError: a checkpoint cannot be read.
    """
    only = replace(options, panes=NO_WINDOWS, quantiles=False, history=None, caps=None)
    states = PartitionStates(redis, only, split=False, select=_COVARIATES, names=names)
    return await states.compute(partitions, "covariates", lambda state: state.covariate_keys)


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
        names: lists the fields.
        pipeline: only the rules on this pipeline; all unless given.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        names: FieldNames,
        pipeline: str | None = None,
    ) -> None:
        self._redis = redis
        self._partitions = partitions
        self._names = names
        self._select = rules_of(pipeline)
        self.take_rules(options)

    def take_rules(self, options: StateOptions) -> None:
        """Read the evidence of the rules of these options from now on."""
        only = replace(options, panes=NO_WINDOWS, quantiles=False, history=None, caps=None)
        self._rules = only.rules
        self._states = PartitionStates(self._redis, only, split=False, select=self._select, names=self._names)

    async def read(self) -> list[Suspicion]:
        """Return the evidence at the last commits, the strongest first.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if not self._rules:
            return []
        evidence = await self._states.compute(self._partitions, "suspicions", _suspicions)
        return sorted(evidence, key=lambda suspicion: -suspicion.once_in / suspicion.run_length)


def _suspicions(state: AggregatorState) -> list[Suspicion]:
    suspicions = []
    for row, key in enumerate(state.keys):
        if key.segment is not None or key.run is not None or key.metric.startswith(HIDDEN):
            continue
        for rule in state.rules_of(row):
            evidence = rule.evidence()
            if evidence is not None:
                movement, once_in, run_length, began_ms = evidence
                suspicions.append(
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
    return suspicions
