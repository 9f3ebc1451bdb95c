"""Selects the part of a recording to replay: by time, pipeline and segment. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ragtide_runtime.errors import ConfigurationError


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

    def takes(self, one: Selectable) -> bool:
        """Return whether an interaction or a metric event is selected."""
        if self.pipelines is not None and one.pipeline not in self.pipelines:
            return False
        return self.takes_time(one.occurred_at) and self.takes_segments(one.segments)

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
        found = {}
        if self.since is not None:
            found["since"] = self.since.isoformat()
        if self.until is not None:
            found["until"] = self.until.isoformat()
        if self.pipelines is not None:
            found["pipelines"] = ", ".join(sorted(self.pipelines))
        if self.segments:
            # Not `segments`: that is the setting.
            found["segment"] = ", ".join(sorted(f"{name}={value}" for name, value in self.segments))
        return found


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
    pairs = [one.partition("=") for one in segments or ()]
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
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is not a time: give a date or a time such as 2026-11-01 or 2026-11-01T12:00:00Z"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
