"""Finds the entry that a state cannot take: a failed step is tried again in halves. No clock, no I/O.

A step that fails is discarded with its state, and the next try begins from the checkpoint. It takes half of the entries
and commits them if that succeeds; otherwise it takes half of these, down to a single entry. Only that entry becomes a
dead letter. The state does not depend on the division of entries into steps, so all other entries count to the bit as
if the bad entry had never been there. Only a refusal of the state, a ValueError, begins this search.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Literal

from ragtide_runtime.errors import RagtideError

ONE_BY_ONE: Final = 8
"""Most feedback entries of one interaction that are tried one by one; more entries are rejected together."""

EntrySource = Literal["metrics", "feedback"]
"""Stream that entries come from."""


@dataclass(frozen=True, slots=True)
class Part:
    """The entries of one step during the search for a bad entry."""

    source: EntrySource
    count: int
    """Number of entries to take."""
    refused: frozenset[str] = frozenset()
    """Ids of entries that become dead letters in this step, including feedback that waited for its interaction."""


@dataclass(frozen=True, slots=True)
class TakenEntries:
    """Entries that a failed step had taken since the checkpoint."""

    metrics: int = 0
    feedback: int = 0
    last: str = ""
    """Id of the last entry."""
    waited: Sequence[str] = ()
    """Ids of feedback that had waited for the interactions of these entries."""


class StepFailedError(RagtideError):
    """The state cannot take an entry of a step; nothing was written, and the step is tried again in halves.

    Attributes:
        taken: the entries that the step had taken.
        error: the cause.
    """

    def __init__(self, taken: TakenEntries, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.taken = taken
        self.error = error


@contextmanager
def countable(taken: Callable[[], TakenEntries]) -> Iterator[None]:
    """Turn a refusal of the body of a `with` into a failed step.

    The state refuses an entry by a ValueError. Any other error, such as a KeyError, is a defect of this code: it passes
    through and ends the role, so that no entry is rejected because of it.

    Args:
        taken: returns the entries that the step had taken.

    Raises:
        StepFailedError: the state refused an entry.
    """
    try:
        yield
    except RagtideError:
        raise  # no entry causes these
    except ValueError as error:
        raise StepFailedError(taken(), error) from error


class Halving:
    """Limits the entries of the next step after a failure; without a failure a step may take any entry."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        # If the next part is a single entry: the sets of ids to reject, one set in each try.
        self._turns: list[frozenset[str]] = []
        self.reason = ""
        """Why the last step failed."""

    @property
    def part(self) -> Part | None:
        """The entries that the next step takes; None without a limit."""
        return self._parts[-1] if self._parts else None

    def failed(self, taken: TakenEntries, error: Exception) -> None:
        """Choose the entries to try instead of a step that failed.

        Raises:
            Exception: the given error, if no entry caused it: the step had taken no entry, or rejected all of them.
        """
        part = self._parts.pop() if self._parts else None
        if part is None:
            part = Part("metrics", taken.metrics) if taken.metrics else Part("feedback", taken.feedback)
        if not (taken.metrics or taken.feedback):
            raise error
        # A step may have taken fewer entries than its part.
        count = taken.metrics if part.source == "metrics" else taken.feedback
        if taken.metrics and taken.feedback:
            self._parts += [Part("feedback", taken.feedback), part]
        elif count > 1:
            first = count // 2
            self._parts += [Part(part.source, part.count - first), Part(part.source, first)]
        else:
            if part.count > 1:
                self._parts.append(Part(part.source, part.count - 1))
            self._next_turn(part, taken, error)
        text = f"{type(error).__name__}: {error}"
        self.reason = text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."

    def _next_turn(self, part: Part, taken: TakenEntries, error: Exception) -> None:
        if not part.refused:
            # Feedback that waited for the entry may have caused the error instead.
            single = [frozenset([entry]) for entry in taken.waited] if len(taken.waited) <= ONE_BY_ONE else []
            together = [frozenset(taken.waited)] if len(taken.waited) > 1 else []
            self._turns = [*single, *together, frozenset([taken.last])]
        if not self._turns:
            raise error
        self._parts.append(Part(part.source, 1, self._turns.pop(0)))

    def passed(self, count: int) -> None:
        """Continue after a committed step with so many entries."""
        if not self._parts:
            return
        part = self._parts.pop()
        if count < part.count:
            self._parts.append(replace(part, count=part.count - count))
        else:
            self._turns = []


SHOWN_CHARS: Final = 300
"""Most characters of an error in a message."""
