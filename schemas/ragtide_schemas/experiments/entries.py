"""Entries of an experiment's log, and the results of its calls.

The log is the experiment: read from the start, it says which config runs, and when and why a config was stopped. Any
process may add a command; the race adds commands too.
"""

from typing import Annotated, Any, Final, Literal, Self

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
    WireModel,
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
"""Author of the command that stops a config whose calls fail again and again."""


class Evidence(WireModel):
    """Why the race stopped a config: its scores and those of the config that beat it, on the items both have."""

    by: Name
    """Config that is better, or so close that the rest is not worth the money."""
    n: int
    """Items both were scored on."""
    item: int
    """Items of the permutation that had been looked at."""
    difference: float
    """Mean of the other minus its own, so far, in the metric's unit, on these items."""
    lower: float
    """Lower end of the interval for that difference over all items."""
    upper: float
    """Upper end."""
    e_value: float
    """Capital of the bet against "it is better by the margin or more", of 1 for all bets against it."""
    alpha: float
    """Probability that this config is stopped wrongly in any comparison."""
    margin: float
    """The difference that does not matter."""


class _Entry(VersionedModel):
    at: UtcTime = Field(default_factory=utc_now)
    """When it was written."""


class Begun(_Entry):
    """The experiment begins: the first entry."""

    kind: Literal["begun"] = "begun"
    """Kind of the entry."""
    plan: Plan
    """The plan."""


class Order(_Entry):
    """Somebody wants something of a config."""

    kind: Literal["order"] = "order"
    """Kind of the entry."""
    op: Literal["stop", "resume", "clone", "delete", "limits"]
    """The command: `limits` sets new limits of the whole experiment and lets it continue."""
    config: Name | None = None
    """Of which config."""
    clone: Name | None = None
    """Name of the clone."""
    knobs: Metadata = Field(default_factory=dict)
    """Parameters of the clone that differ from its parent."""
    keep: bool = False
    """With `resume`: the race must not stop it again. So a person overrules it."""
    limits: Limits | None = None
    """With `limits`: the new ones."""
    by: Name = "somebody"
    """Author of the command."""
    reason: str = ""
    """Why, in a sentence."""
    evidence: Evidence | None = None
    """Evidence of the race."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.config is None) != (self.op == "limits"):
            raise ValueError(
                f"an order to {self.op} {'needs a config: name one' if self.config is None else 'names no config'}"
            )
        if (self.clone is None) == (self.op == "clone"):
            raise ValueError("clone is the name of a new config: give one with op clone, and with no other")
        if (self.limits is None) == (self.op == "limits"):
            raise ValueError("limits are given with op limits, and with no other")
        return self


class Looked(_Entry):
    """The race has looked: so many items of the permutation are complete for every config that ran."""

    kind: Literal["looked"] = "looked"
    """Kind of the entry."""
    item: Count
    """Number of items."""


class Halted(_Entry):
    """Nothing more is executed, for a reason such as a limit; an order `limits` lets it go on."""

    kind: Literal["halted"] = "halted"
    """Kind of the entry."""
    reason: str
    """Why."""


class Completed(_Entry):
    """Every config that was not stopped has been run on every item."""

    kind: Literal["completed"] = "completed"
    """Kind of the entry."""


Entry = Begun | Order | Looked | Halted | Completed
"""Content of an entry of the log."""

_ENTRIES: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def decode_entry(payload: bytes) -> Entry:
    """Return the content of an entry of the log.

    Raises:
        InvalidEntryError: not JSON, of an unknown kind or schema version, or invalid in a field.
    """
    fields: dict[str, Any] = read_json_object(payload)
    try:
        return _ENTRIES.validate_python(fields)
    except ValidationError as error:
        raise InvalidEntryError(reason_of(error), describe(error)) from None


class Execution(VersionedModel):
    """The result of calling one config with one item: an answer that was published, or a failure. Never both."""

    config: Name
    """Config that was called."""
    item: Count
    """Place of the item in the permutation, from 0."""
    item_id: Name
    """The item's id in the data set."""
    interaction_id: Name | None = None
    """Id under which the answer was published; None if the call failed."""
    failure: str | None = None
    """Why there is no answer."""
    tries: Annotated[int, Field(ge=1, le=1000)] = 1
    """Calls it took."""
    latency_s: Seconds = 0.0
    """Seconds of the last call."""
    tokens: Tokens = 0
    """Tokens the answer took, prompt and completion, as the callable says."""
    cost_usd: Dollars = 0.0
    """Cost of the answer, as the callable reports it."""
    copied_from: Name | None = None
    """Config with the very same knobs whose answer this is: nothing was called."""
    at: UtcTime = Field(default_factory=utc_now)
    """When."""

    @model_validator(mode="after")
    def _answered_or_failed(self) -> Self:
        if (self.interaction_id is None) == (self.failure is None):
            raise ValueError("an execution has either an interaction_id or a failure")
        return self
