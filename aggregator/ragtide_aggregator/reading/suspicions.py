"""Reads how far the evidence of alert rules on whole pipelines has come, before anything fires."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import from_milliseconds
from ragtide_schemas.alert_kinds import Movement

from ..alerts.rule_state import RuleState
from ..alerts.stored_evidence import WHOLE, KeyEvidence, StoredEvidence
from ..errors import reading
from ..events.keys import EstimateKey
from ..state.options import NO_WINDOWS, StateOptions
from .field_names import FieldNames, Listing
from .selected_fields import FieldSelection, SelectedFields, reporting
from .states import PartitionStates

_COVARIATES: Final = FieldSelection(
    (CheckpointField.RULE_STATE,),
    lambda listing: (
        name for name in listing.of(CheckpointField.RULE_STATE) if ',"covariate.' in name or ',"segment.' in name
    ),
)
"""The states of rules on covariates, of all scopes."""


def rules_of(pipeline: str | None) -> FieldSelection:
    """Return the states of rules on whole live pipelines.

    Args:
        pipeline: only of this pipeline; all unless given.
    """

    def choose(listing: Listing) -> Iterator[str]:
        for name in listing.of_pipeline(CheckpointField.RULE_STATE, pipeline):
            if WHOLE in name:
                yield name

    return FieldSelection((CheckpointField.RULE_STATE,), choose, pipeline=pipeline)


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
        self._reading = asyncio.Lock()
        self.take_rules(options)

    def take_rules(self, options: StateOptions) -> None:
        """Read the evidence of the rules of these options from now on."""
        self._rules = options.rules
        self._stored = StoredEvidence(options.rules)
        self._known: dict[Streams, _KnownEvidence] = {}
        self._fields = SelectedFields(self._redis, self._select, self._names)

    async def read(self) -> list[Suspicion]:
        """Return the evidence at the last commits, the strongest first.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if not self._rules:
            return []
        async with self._reading, self._fields.changes(self._partitions) as changes:
            for streams, changed in changes.items():
                before = None if changed.anew else self._known.get(streams)
                with reporting(streams):
                    self._known[streams] = await asyncio.to_thread(_known, self._stored, before, changed.values)
            evidence = [
                suspicion
                for streams in self._partitions
                if streams in self._known
                for suspicion in self._known[streams].suspicions
            ]
        return sorted(evidence, key=lambda suspicion: -suspicion.once_in / suspicion.run_length)


class _KnownEvidence(NamedTuple):
    """The evidence in one partition."""

    of_fields: Mapping[str, Suspicion | None]
    """By the name of the field of the rule's state."""
    of_new_rules: Sequence[Suspicion]

    @property
    def suspicions(self) -> list[Suspicion]:
        """All evidence."""
        return [*(suspicion for suspicion in self.of_fields.values() if suspicion is not None), *self.of_new_rules]


def _known(stored: StoredEvidence, before: _KnownEvidence | None, changed: Mapping[str, bytes]) -> _KnownEvidence:
    own: dict[str, Suspicion | None] = dict.fromkeys(changed)
    for name, state in changed.items():
        if RuleState.may_look_for_change(state):
            with reading(name):
                own[name] = _suspicion(stored.of_field(name, state))
    if before is not None and before.of_fields.keys() >= own.keys():
        return _KnownEvidence({**before.of_fields, **own}, before.of_new_rules)
    of_fields = own if before is None else {**before.of_fields, **own}
    begun = (_suspicion(evidence) for evidence in stored.of_new_rules(of_fields))
    return _KnownEvidence(of_fields, [suspicion for suspicion in begun if suspicion is not None])


def _suspicion(known: KeyEvidence | None) -> Suspicion | None:
    if known is None:
        return None
    key, rule, (movement, once_in, run_length, began_ms) = known
    began_at = from_milliseconds(began_ms) if began_ms else None
    return Suspicion(key.pipeline, key.metric, key.labeler, rule, movement, once_in, run_length, began_at)
