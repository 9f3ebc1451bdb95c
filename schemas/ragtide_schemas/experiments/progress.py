"""The progress of an experiment, folded from its log. Every reader of the log finds the same. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..suggestions import unknown
from .entries import Begun, Completed, Entry, Evidence, Halted, Looked, Order
from .plan import Config, Limits, Plan

Status = Literal["running", "stopped", "deleted"]


@dataclass(slots=True)
class Standing:
    """A config, whether it runs, and the items on which it counts."""

    config: Config
    place: int
    """Its number, from 0, in the order in which configs came."""
    status: Status = "running"
    spans: list[list[int | None]] = field(default_factory=list)
    """Items of the permutation it ran on: [first, end) each; the last end is None while it runs."""
    protected: bool = False
    """Whether a person has said that the race must not stop it."""
    last: Order | None = None
    """The last order about it."""

    def covers(self, item: int) -> bool:
        """Return whether it was to run on an item in its turn."""
        return any(first is not None and first <= item and (end is None or item < end) for first, end in self.spans)

    @property
    def evidence(self) -> Evidence | None:
        """Why the race stopped it; None if it runs, or a person stopped it."""
        return self.last.evidence if self.last is not None and self.status != "running" else None


class Progress:
    """An experiment's log, folded. Orders that make no sense change nothing and say why.

    Items are looked at in blocks. An order counts from the last look before it in the log, so that everybody who
    reads the log, whenever, counts the same items for the same configs.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.limits: Limits = plan.limits
        self.looked = 0
        """Number of items of the permutation that are complete for every config that ran on them."""
        self.halted: str | None = None
        self.completed = False
        self.configs: dict[str, Standing] = {}
        for config in plan.configs:
            self._add(config)

    @classmethod
    def begin(cls, entry: Entry) -> "Progress":
        """Return where an experiment stands after the first entry of its log.

        Raises:
            ValueError: that entry does not begin an experiment.
        """
        if not isinstance(entry, Begun):
            raise ValueError(f"the log begins with {entry.kind!r}: it must begin with 'begun'")  # noqa: TRY004
        return cls(entry.plan)

    @property
    def running(self) -> list[Standing]:
        """Configs that run, in the order in which they came."""
        return [one for one in self.configs.values() if one.status == "running"]

    @property
    def all_looked(self) -> bool:
        """Whether every item had its turn; only items remain that configs missed while they did not run."""
        return self.looked == self.plan.population_size

    def next_look(self) -> int:
        """Return the number of items at the next look."""
        return min(self.looked + self.plan.race.look_every, self.plan.population_size)

    def apply(self, entry: Entry) -> str | None:
        """Take an entry of the log; return why it changes nothing, if it does not."""
        match entry:
            case Begun():
                return "the experiment has begun before"
            case Looked(item=item):
                if not self.looked < item <= self.plan.population_size:
                    return f"item {item} was looked at before, or there are not so many"
                self.looked = item
            case Halted(reason=reason):
                self.halted = reason
            case Completed():
                self.completed = True
            case Order():
                return self._order(entry)
        return None

    def refusal(self, order: Order) -> str | None:
        """Return why an order would change nothing now; None if it would be followed."""
        if order.op == "limits":
            return None
        name, standing = order.config, self.configs.get(order.config or "")
        if standing is None:
            known = ", ".join(name for name, one in self.configs.items() if one.status != "deleted")
            return f"there is no config {name!r}: use one of {known}"
        running = standing.status == "running"
        reasons = (
            (standing.status == "deleted", f"config {name!r} was deleted"),
            (order.op == "stop" and not running, f"config {name!r} is stopped already"),
            (
                order.op == "stop" and order.evidence is not None and standing.protected,
                f"the race must not stop config {name!r}: a person has said so",
            ),
            (
                order.op == "resume" and running and (not order.keep or standing.protected),
                f"config {name!r} is running",
            ),
            (
                order.op == "clone" and order.clone in self.configs,
                f"there is a config {order.clone!r} already: give the clone another name",
            ),
        )
        refusal = next((reason for holds, reason in reasons if holds), None)
        if refusal is None and self.plan.parameters is not None:
            return _unknown_knob(order, self.plan.parameters)
        return refusal

    def doubt(self, order: Order) -> str | None:
        """Return why a knob of a clone is probably misspelt, where it is not known which ones the target takes.

        An entry of the log is not refused for it; a command is.
        """
        known = {knob for standing in self.configs.values() for knob in standing.config.knobs}
        return _unknown_knob(order, known) if known else None

    def _order(self, order: Order) -> str | None:
        refusal = self.refusal(order)
        if refusal is not None:
            return refusal
        if order.op == "limits":
            self.limits, self.halted = order.limits or Limits(), None
            return None
        standing = self.configs[order.config or ""]
        if order.op in {"clone", "resume"}:
            self.halted = None
        if order.op == "clone":
            assert order.clone is not None  # noqa: S101 - for the type checker: an order to clone has a name
            parent = standing.config
            self._add(Config(name=order.clone, knobs=parent.knobs | order.knobs, parent=parent.name), order)
            return None
        standing.last = order
        if order.op == "resume":
            standing.protected = standing.protected or order.keep
            if standing.status == "stopped":
                standing.status, self.completed = "running", False
                standing.spans.append([self.looked, None])
            return None
        if standing.status == "running":
            standing.spans[-1][1] = self.looked
        standing.status = "stopped" if order.op == "stop" else "deleted"
        return None

    def _add(self, config: Config, order: Order | None = None) -> None:
        self.completed = False
        self.configs[config.name] = Standing(config, len(self.configs), spans=[[self.looked, None]], last=order)


def _unknown_knob(order: Order, known: Iterable[str]) -> str | None:
    odd = [knob for knob in order.knobs if knob not in set(known)]
    return f"{unknown('knob', odd[0], known)}" if odd else None
