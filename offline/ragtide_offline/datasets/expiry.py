"""Which rows of a data set rest on documents that no longer appear in the traffic. No clock, no I/O.

A row rests on its documents. It expires if answers of other sessions were given at least one of them before a moment,
and none was since. That may be chance: a rare question does not come every week. Let k sessions have had one of them
among m answers before, and n answers come since. If the documents were as likely as before, each of these sessions
would be among the m with the probability m / (m + n) at most, so all of them with (m / (m + n))^k. Only a row for which
this is below `CHANCE` is expired. That takes the uncertainty of the former share into account: it is the conditional
test of two rates. The session of the row itself does not count, because the row is there on account of it.

Assumes: what users ask did not change. Questions of a season give an expired row, too.
Source: Przyborowski and Wilenski (1940), Biometrika 31: 313-323.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final, Literal

from ragtide_schemas import RagInteraction
from ragtide_schemas.interaction import RetrievedDocument

CHANCE: Final = 0.01
"""Largest probability with which a row whose documents are as likely as before is called expired."""

SESSIONS_MOST: Final = 1_000
"""Sessions that are remembered of a row; more decide nothing."""

State = Literal["in_traffic", "expired", "may_have_expired", "not_known"]


@dataclass(frozen=True, slots=True)
class RowExpiry:
    """Whether the documents of a row still appear."""

    row: str
    """Id of the row."""
    state: State
    last_seen: datetime | None
    """When one of its documents appeared last; None if none did."""
    chance: float | None
    """Probability that they would be missed since if nothing had changed; None unless that is the question."""
    reason: str = ""
    """Why it is not known."""


def document_names(document: RetrievedDocument) -> list[str]:
    """Return the names by which a document is found again: its id, and the digest of its text without its form.

    >>> one, two = (RetrievedDocument(text=text) for text in ("It is  HERE.", "It is here."))
    >>> document_names(one) == document_names(two)
    True
    """
    text = " ".join(document.text.casefold().split())
    names = [f"text {blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"]
    return names if document.id is None else [f"id {document.id}", *names]


class DocumentSightings:
    """Counts in which answers the documents of rows appear, before a moment and since; needs memory for the rows only.

    Args:
        rows: the interaction of each row, by the id of the row.
        since: the moment.
    """

    def __init__(self, rows: Mapping[str, RagInteraction | None], since: datetime) -> None:
        self._rows, self._since = list(rows), since
        self._by_document: defaultdict[str, set[str]] = defaultdict(set)
        self._own: dict[str, str] = {}
        for row, interaction in rows.items():
            if interaction is None or not interaction.documents:
                continue
            self._own[row] = session_of(interaction)
            for document in interaction.documents:
                for name in document_names(document):
                    self._by_document[name].add(row)
        self._sessions: defaultdict[str, set[str]] = defaultdict(set)
        self._last: dict[str, datetime] = {}
        self._answers: Counter[bool] = Counter()
        self._first: datetime | None = None

    def add(self, interactions: Iterable[RagInteraction]) -> None:
        """Count answers, in any order."""
        for interaction in interactions:
            time, session = interaction.occurred_at, session_of(interaction)
            self._first = time if self._first is None else min(self._first, time)
            self._answers[time >= self._since] += 1
            for row in {
                row
                for document in interaction.documents
                for name in document_names(document)
                for row in self._by_document.get(name, ())
            }:
                self._last[row] = max(time, self._last.get(row, time))
                sessions = self._sessions[row]
                if time < self._since and session != self._own[row] and len(sessions) < SESSIONS_MOST:
                    sessions.add(session)

    def expiries(self) -> list[RowExpiry]:
        """Return the state of each row, in order."""
        return [self._expiry(row) for row in self._rows]

    def _expiry(self, row: str) -> RowExpiry:
        last = self._last.get(row)
        if last is not None and last >= self._since:
            return RowExpiry(row, "in_traffic", last, None)
        if row not in self._own:
            return RowExpiry(row, "not_known", None, None, "it has no documents")
        if self._first is None or self._first >= self._since:
            return RowExpiry(row, "not_known", last, None, "the traffic does not reach back so far")
        if last is None:
            return RowExpiry(row, "not_known", None, None, "its documents appear nowhere in this traffic")
        before, after = self._answers[False], self._answers[True]
        chance = float((before / (before + after)) ** len(self._sessions[row]))
        return RowExpiry(row, "expired" if chance < CHANCE else "may_have_expired", last, chance)


def session_of(interaction: RagInteraction) -> str:
    """Return the session of an answer, or the answer itself without one."""
    name = interaction.session_id or interaction.interaction_id
    return f"{interaction.pipeline}\n{name}"
