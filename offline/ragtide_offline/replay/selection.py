"""Selects the part of a recording to replay, by time, pipeline and segment, and counts its entries for every scope."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, Self

from ragtide_aggregator.events.keys import EstimateKey, scored_metric
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas import MetricEvent

EARLY = timedelta(days=1)
"""A producer's clock may be this far ahead of Redis's clock, so reading begins this much before `since`."""

SCOPE_FIELDS: Final = ("pipeline", "run", "profile", "labeler", "labeler_version")
"""Fields that separate the estimates of a replay, besides segment and metric."""


class Selectable(Protocol):
    """The fields that interactions and metric events share."""

    @property
    def pipeline(self) -> str:
        """The pipeline."""

    @property
    def occurred_at(self) -> datetime:
        """Time of the response."""

    @property
    def segments(self) -> Mapping[str, str]:
        """The interaction's segments."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a recording: an interval of event time, pipelines and segment values; by default everything."""

    since: datetime | None = None
    """Start of the interval."""
    until: datetime | None = None
    """End of the interval, not selected itself."""
    pipelines: frozenset[str] | None = None
    segments: tuple[tuple[str, str], ...] = ()
    """Names and values; several values of one name are alternatives."""

    def takes(self, entry: Selectable) -> bool:
        """Return whether an interaction or a metric event is selected."""
        if self.pipelines is not None and entry.pipeline not in self.pipelines:
            return False
        is_tick = isinstance(entry, MetricEvent) and entry.is_tick  # it ends sessions of any segment
        return self.takes_time(entry.occurred_at) and (is_tick or self.takes_segments(entry.segments))

    def takes_time(self, time: datetime) -> bool:
        """Return whether a time is selected."""
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    def takes_segments(self, segments: Mapping[str, str]) -> bool:
        """Return whether the segments of an interaction are selected."""
        if not self.segments:
            return True
        names = {name for name, _ in self.segments}
        return all((name, segments.get(name)) in self.segments for name in names)

    def as_options(self) -> dict[str, str]:
        """Return the selection as texts, to be stored with a workspace."""
        options = {}
        if self.since is not None:
            options["since"] = self.since.isoformat()
        if self.until is not None:
            options["until"] = self.until.isoformat()
        if self.pipelines is not None:
            options["pipelines"] = ", ".join(sorted(self.pipelines))
        if self.segments:
            # Not `segments`: that is the setting.
            options["segment"] = ", ".join(sorted(f"{name}={value}" for name, value in self.segments))
        return options


def selection(
    since: str | None = None,
    until: str | None = None,
    pipelines: list[str] | None = None,
    segments: list[str] | None = None,
) -> Selection:
    """Return the selection that texts describe.

    Args:
        since: a date or time (ISO 8601), UTC unless it has a time zone.
        until: the end, as `since`, not selected itself.
        pipelines: names; all pipelines unless given.
        segments: `name=value`; several values of one name are alternatives.

    Raises:
        ConfigurationError: a time or a segment is malformed.
    """
    first, last = _time("--since", since), _time("--until", until)
    if first is not None and last is not None and first >= last:
        raise ConfigurationError(f"--until {until} is not after --since {since}: nothing would be selected")
    pairs = [text.partition("=") for text in segments or ()]
    for name, _, value in pairs:
        if not (name and value):
            raise ConfigurationError(f"--segment {name!r} has no value: give name=value, such as lang=de")
    return Selection(
        first,
        last,
        frozenset(pipelines) if pipelines else None,
        tuple((name, value) for name, _, value in pairs),
    )


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is not a time: give a date or a time such as 2026-11-01 or 2026-11-01T12:00:00Z"
        ) from None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)


class NothingSelectedError(ConfigurationError):
    """A selection of a recording holds no entry."""


OF_SESSIONS: Final = ("session",)
"""The value that a scope of whole sessions has after the others."""


class Scope(NamedTuple):
    """The values of the fields that separate scopes, and a segment value such as `lang=de`; None for all segments.

    A scope of whole sessions has `OF_SESSIONS` after them.
    """

    fields: tuple[str | None, ...]
    segment: str | None = None


MetricVersion = tuple[str, str | None]
"""The name of a metric, and its version; None for a metric without a declaration."""

ScopeCount = tuple[Scope, int, frozenset[MetricVersion]]
"""The number of entries of a scope in a part of a recording, and the metrics of those of them that are metric events
about whole sessions."""


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """Numbers of selected entries."""

    total: int = 0
    scopes: Counter[Scope] = field(default_factory=Counter)
    of_sessions: frozenset[MetricVersion] = frozenset()
    """Metrics of metric events about whole sessions. The unit is a part of the version of a criterion."""

    @classmethod
    def of(cls, counts: Iterable[ScopeCount]) -> Self:
        """Return the sum of numbers."""
        scopes: Counter[Scope] = Counter()
        of_sessions = set[MetricVersion]()
        for scope, count, metrics in counts:
            scopes[scope] += count
            of_sessions |= metrics
        total = sum(count for scope, count in scopes.items() if scope.segment is None)
        return cls(total, scopes, frozenset(of_sessions))

    def population_of(self, key: EstimateKey) -> int:
        """Return the number of metric events in the scope of a key, counted by `SCOPE_FIELDS`; 0 if it has none.

        The population of a metric of sessions is the number of sessions, and that of other metrics the number of
        answers.
        """
        version = scored_metric(key.metric), key.version
        unit = OF_SESSIONS if version in self.of_sessions else ()
        return self.scopes.get(Scope((*(getattr(key, name) for name in SCOPE_FIELDS), *unit), key.segment), 0)


def first_entry(selection: Selection) -> datetime | None:
    """Return the earliest time of publishing of a selected entry; None for any time."""
    return None if selection.since is None else selection.since - EARLY
