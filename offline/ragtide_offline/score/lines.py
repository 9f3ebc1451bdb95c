"""The output of `ragtide score`: a line of JSON for each interaction, which a later run continues."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from ragtide_consumers.labelers.protocol import Labeling
from ragtide_producers.files.formats import RecordError
from ragtide_producers.files.formats.text import lines_of
from ragtide_runtime.errors import RagtideError
from ragtide_schemas import InvalidEntryError, MetricEvent
from ragtide_schemas.base import read_json_object
from ragtide_schemas.diagnosis import diagnose
from ragtide_schemas.printable import printable_json

EXTRAS: Final = ("diagnosis", "labels")
"""Fields of a line that do not belong to the event."""


class UnusableScoresError(RagtideError):
    """A file of scores cannot be continued."""


def patterns_of(event: MetricEvent) -> list[str]:
    """Return the names of the patterns that the scores of an event show."""
    return [diagnosis.pattern.name for diagnosis in diagnose(event.scores)]


def line_of(event: MetricEvent, labeling: Labeling | None = None) -> dict[str, Any]:
    """Return one line: the event, the diagnoses of its scores, and the labels of `labeling`."""
    line = event.model_dump(mode="json", exclude_none=True)
    line["diagnosis"] = patterns_of(event)
    if labeling is not None:
        line["labels"] = [labels.model_dump(mode="json", exclude_none=True) for labels in labeling.labels]
    return line


def read_lines(path: Path) -> Iterator[tuple[MetricEvent, dict[str, Any]]]:
    """Yield the events in a file of scores, each with its whole line.

    Raises:
        UnusableScoresError: the file cannot be read, or a line has no valid scores.
    """
    try:
        lines = list(lines_of(path))
    except RecordError as error:
        raise UnusableScoresError(f"{path}: {error}") from None
    except OSError as error:
        raise UnusableScoresError(
            f"{path} cannot be read ({error.strerror}): give a file that ragtide score --output has written"
        ) from None
    for number, line in enumerate(lines, start=1):
        try:
            fields = read_json_object(line, None)
            event = MetricEvent.from_fields({name: value for name, value in fields.items() if name not in EXTRAS})
        except InvalidEntryError as error:
            raise UnusableScoresError(
                f"{path}:{number}: {error.detail}; this is not an output of ragtide score, give another path"
            ) from None
        yield event, fields


class ScoreFile:
    """A file of scores that grows by a line per interaction. If a crash left an incomplete last line, it is removed."""

    def __init__(self, path: Path, *, labeler: str | None, profiles: Collection[str] = ()) -> None:
        """Open the file and read its lines.

        Args:
            path: created if it does not exist.
            labeler: name, version and profile that its lines must have; None takes any.
            profiles: of which the profile of each line must be made; none take any.

        Raises:
            UnusableScoresError: it is not a file of scores, or has scores of another labeler.
        """
        self.path = path
        self.done: defaultdict[tuple[str, str], deque[MetricEvent]] = defaultdict(deque)
        """Events of the existing lines by pipeline and id, in order; several lines may have one id."""
        try:
            self._is_new = not path.exists()
            if not self._is_new:
                content = path.read_bytes()
                whole = content[: content.rfind(b"\n") + 1]
                if len(whole) < len(content):
                    path.write_bytes(whole)
                self._read(labeler, profiles)
            self._file = path.open("ab")
        except OSError as error:
            raise UnusableScoresError(f"{path} cannot be written ({error.strerror}): give another --output") from None

    def _read(self, labeler: str | None, profiles: Collection[str]) -> None:
        for event, _ in read_lines(self.path):
            by = " ".join(filter(None, (event.labeler, event.labeler_version, event.profile)))
            if labeler is not None and by != labeler:
                raise UnusableScoresError(
                    f"{self.path} has scores of {by}, and the labeler is {labeler} now: choose another --output"
                )
            if profiles and not set(event.profile.split("+")) <= set(profiles):
                raise UnusableScoresError(
                    f"{self.path} has scores of the profile {event.profile}, and the profiles are "
                    f"{' and '.join(profiles)} now: choose another --output"
                )
            self.done[event.pipeline, event.interaction_id].append(event)

    def add(self, line: dict[str, Any]) -> None:
        """Write one complete line and flush it."""
        self._file.write(printable_json(line).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; one that was made here and has no line is removed."""
        if self._is_new and not self._file.tell():
            self.path.unlink(missing_ok=True)
        self._file.close()
