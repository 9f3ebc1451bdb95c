"""The part of a recording that is replayed. No I/O."""

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
        """When the response was given."""

    @property
    def segments(self) -> Mapping[str, str]:
        """The interaction's segments."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a recording: an interval of event time, some pipelines, some segment values; by default everything."""

    since: datetime | None = None
    """The first time that is in it."""
    until: datetime | None = None
    """The first time after it."""
    pipelines: frozenset[str] | None = None
    segments: tuple[tuple[str, str], ...] = ()
    """Names and values; of a name given twice either value will do."""

    def takes(self, one: Selectable) -> bool:
        """Return whether an interaction or a metric event is in it."""
        if self.pipelines is not None and one.pipeline not in self.pipelines:
            return False
        return self.takes_time(one.occurred_at) and self.takes_segments(one.segments)

    def takes_time(self, time: datetime) -> bool:
        """Return whether a time is in it."""
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    def takes_segments(self, segments: Mapping[str, str]) -> bool:
        """Return whether the segments of an interaction are in it."""
        if not self.segments:
            return True
        names = {name for name, _ in self.segments}
        return all((name, segments.get(name)) in self.segments for name in names)

    def as_options(self) -> dict[str, str]:
        """Return it as words, to be kept with a run."""
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
    """Return the selection that words mean.

    Args:
        since: a date or time (ISO 8601), UTC unless it says otherwise.
        until: the same, not in it.
        pipelines: names; all of them without any.
        segments: `name=value`; of a name given twice either value will do.

    Raises:
        ConfigurationError: a time that is none or a segment without a value.
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
