"""The entries of an experiment's log, and the result of each execution.

The log is the state of an experiment: the status of every config follows from its entries. Any process may add a
command; the race stops configs by commands, too.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from ..base import (
    Count,
    Dollars,
    Metadata,
    Name,
    Seconds,
    Tokens,
    UtcTime,
    VersionedModel,
    WireInterval,
    describe,
    read_json_object,
    reason_of,
)
from ..errors import InvalidEntryError
from ..times import utc_now
from .plan import Limits, Plan

RACE: Final = "race"
"""Author of the commands of the race."""

DRIVER: Final = "driver"
"""Author of the command that stops a config whose calls keep failing."""


class Evidence(WireInterval[float]):
    """Evidence with which the race stopped a config: its difference to the leader, on the items that both have."""

    ends_follow = "difference"

    by: Name
    """The leader of the race: better than the config, or so close that further items are not worth their cost."""
    n: int
    """Items on which both have a score."""
    item: int
    """Items up to the comparison point."""
    difference: float
    """Mean of the leader minus the mean of the stopped config, on these items, in the metric's unit.

    Its interval is for the difference over all items.
    """
    e_value: float
    """Capital, which began with 1, of the bet against "the config is better than the leader by the margin or more"."""
    alpha: float
    """Probability that the race stops this config wrongly, over all comparisons."""
    margin: float
    """The difference that does not matter."""


class _Timed(VersionedModel):
    at: UtcTime = Field(default_factory=utc_now)
    """Time of writing."""


class Begun(_Timed):
    """The first entry: the experiment begins."""

    kind: Literal["begun"] = "begun"
    """Kind of the entry."""
    plan: Plan
    """Plan of the experiment."""


class Command(_Timed):
    """A command to an experiment, which takes effect from the most recent comparison point before it in the log."""

    kind: Literal["command"] = "command"
    """Kind of the entry."""
    op: Literal["stop", "resume", "clone", "delete", "limits"]
    """Operation; `limits` sets new limits of the whole experiment and lets it continue."""
    config: Name | None = None
    """Config of the command."""
    clone: Name | None = None
    """Name of the clone."""
    parameters: Metadata = Field(default_factory=dict)
    """With `clone`: the parameters in which the clone differs from its parent."""
    keep: bool = False
    """With `resume`: a veto, so that the race must not stop the config again."""
    limits: Limits | None = None
    """With `limits`: the new limits."""
    by: Name = "unknown"
    """Author of the command."""
    reason: str = ""
    """Reason for the report, in a sentence."""
    evidence: Evidence | None = None
    """Evidence of the race."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.config is None) != (self.op == "limits"):
            raise ValueError(
                f"a command to {self.op} {'needs a config: name one' if self.config is None else 'names no config'}"
            )
        if (self.clone is None) == (self.op == "clone"):
            raise ValueError("clone is the name of a new config: give one with op clone, and with no other")
        if (self.limits is None) == (self.op == "limits"):
            raise ValueError("limits are given with op limits, and with no other")
        return self


class Look(_Timed):
    """A comparison point: every running config has results on all items up to it."""

    kind: Literal["look"] = "look"
    """Kind of the entry."""
    item: Count
    """Number of items."""


class Paused(_Timed):
    """The experiment is paused, for example at a limit: no config is called until a command lets it continue."""

    kind: Literal["paused"] = "paused"
    """Kind of the entry."""
    reason: str
    """Reason in a sentence."""


class Completed(_Timed):
    """The experiment is complete: every config that was not stopped has run on every item."""

    kind: Literal["completed"] = "completed"
    """Kind of the entry."""


LogEntry = Begun | Command | Look | Paused | Completed
"""An entry of the log."""

_MODELS: Final[Mapping[str, type[LogEntry]]] = {
    model.model_fields["kind"].default: model for model in (Begun, Command, Look, Paused, Completed)
}
_ENTRIES: TypeAdapter[LogEntry] = TypeAdapter(Annotated[LogEntry, Field(discriminator="kind")])


def decode_entry(payload: bytes) -> LogEntry:
    """Return an entry of the log.

    Raises:
        InvalidEntryError: the entry is not JSON, has an unknown kind or schema version, or a field is invalid.
    """
    fields = read_json_object(payload)
    model = _MODELS.get(str(fields.get("kind")))
    try:
        return model.model_validate(fields) if model else _ENTRIES.validate_python(fields)
    except ValidationError as error:
        raise InvalidEntryError(reason_of(error), describe(error)) from None


class Execution(VersionedModel):
    """The result of calling one config on one item: a published answer, or a failure."""

    config: Name
    """The called config."""
    item: Count
    """Index of the item in the order in which items are run, from 0."""
    item_id: Name
    """The item's id in the data set."""
    interaction_id: Name | None = None
    """Interaction id of the answer; None if the call failed."""
    failure: str | None = None
    """Error of the call; None if it has an answer."""
    tries: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of tries."""
    latency_s: Seconds = 0.0
    """Seconds of the last call."""
    tokens: Tokens = 0
    """Tokens of prompt and completion that the target reports."""
    cost_usd: Dollars = 0.0
    """Cost of the answer that the target reports."""
    context_chars: Count | None = None
    """Characters of all retrieved documents; None for a failed call, and in logs of earlier versions."""
    copied_from: Name | None = None
    """Config with the same parameters whose answer was copied without a call."""
    at: UtcTime = Field(default_factory=utc_now)
    """End of the call."""

    @model_validator(mode="after")
    def _answered_or_failed(self) -> Self:
        if (self.interaction_id is None) == (self.failure is None):
            raise ValueError("an execution has either an interaction_id or a failure")
        return self
