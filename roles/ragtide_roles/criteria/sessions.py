"""Sessions of a file or a recording: its end is the end of every session in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ragtide_consumers.labelers.asked_criteria import asked_about, may_be_asked_of_session
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.conversation import sessions_of, turn_of
from ragtide_schemas.criterion import Criterion

if TYPE_CHECKING:
    from ragtide_producers import Row


def session_criteria(settings: Settings) -> tuple[Criterion, ...]:
    """Return the criteria about whole sessions that the labeler of the settings asks."""
    tables = [settings.of_evaluator(evaluator) for evaluator in settings.evaluators] or [settings]
    return tuple(
        criterion
        for table in tables
        if "judge" in table.labelers
        for criterion in table.judge.criteria
        if criterion.is_of_session
    )


_PARTS: Final = "score one file as a whole"


def refuse_sessions(criteria: Iterable[Criterion], remedy: str = _PARTS) -> None:
    """Refuse criteria about sessions where rows are scored in parts, because the turns of a session may be in several.

    Args:
        criteria: that are asked.
        remedy: what asks criteria about sessions, as words of a sentence.

    Raises:
        ConfigurationError: a criterion is about sessions.
    """
    for criterion in criteria:
        if criterion.is_of_session:
            raise ConfigurationError(
                f'unit of the criterion {criterion.name} is "session", and rows are scored here in parts, so a session '
                f"may be in several of them: {remedy}, or leave the criterion out"
            )


class CollectedSessions:
    """The turns of the sessions about which a criterion may be asked; it holds them in memory, without documents.

    Args:
        criteria: that are asked.
        quiet_s: seconds without a turn after which a session has ended.
    """

    def __init__(self, criteria: Sequence[Criterion], quiet_s: float) -> None:
        self._criteria = criteria
        self._quiet_s = quiet_s
        self._turns: dict[tuple[str, str | None, str], list[RagInteraction]] = {}

    def add(self, interaction: RagInteraction) -> None:
        """Add an interaction that is a turn of a session; others are left out."""
        if interaction.session_id is None or not may_be_asked_of_session(self._criteria, interaction):
            return
        name = interaction.pipeline, interaction.run, interaction.session_id
        self._turns.setdefault(name, []).append(turn_of(interaction))

    def sessions(self) -> Iterator[RagInteraction]:
        """Yield the interaction of each session that is asked about, in the order of their first turns."""
        for turns in self._turns.values():
            for session in sessions_of(turns, self._quiet_s):
                if asked_about(self._criteria, session):
                    yield session


def with_sessions(rows: "Iterable[Row]", criteria: Sequence[Criterion], quiet_s: float) -> "Iterator[Row]":
    """Yield the rows of a file, and after them a row for each session that a criterion is asked about.

    Args:
        criteria: those about sessions; without any the rows are yielded alone.
        quiet_s: seconds without a turn after which a session has ended.
    """
    from ragtide_producers import Row  # noqa: PLC0415 - the page prices criteria, and reads no file

    collected, last = CollectedSessions(criteria, quiet_s), Row(0)
    for row in rows:
        last = row
        if criteria and row.interaction is not None:
            collected.add(row.interaction)
        yield row
    for session in collected.sessions():
        yield replace(last, interaction=session, problem=None, labels=(), columns={})


def only_sessions(rows: "Iterable[Row]", criterion: Criterion, quiet_s: float) -> "list[Row]":
    """Return a row for each session among rows, in the order of their first turns, and the rows with a problem.

    Args:
        criterion: that is asked about the sessions.
        quiet_s: seconds without a turn after which a session has ended.
    """
    return [
        row
        for row in with_sessions(rows, [criterion], quiet_s)
        if row.interaction is None or row.interaction.is_session
    ]
