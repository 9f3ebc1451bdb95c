"""The status of a data set beside the traffic: what differs, what expired, which rows to add and to remove. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from heapq import nsmallest
from typing import Any, Final

from ragtide_schemas import RagInteraction

from .expiry import DocumentSightings, RowExpiry, session_of
from .rows import SetRow
from .sources import AnswerSource
from .traits import AnswerProfile, RowToAdd, TraitDifference, compare_traits, fields_of, rows_to_add

ANSWERS_MOST: Final = 20_000
"""Most answers of the traffic that are compared; of more, as many by a hash of their ids."""


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """A data set beside the traffic of the last days."""

    source: str
    """Name of the source of the traffic."""
    since: datetime
    """Time from which the answers of the traffic are compared."""
    until: datetime
    """Time of the last answer."""
    n_traffic: int
    """Number of compared answers of the traffic."""
    n_recent: int
    """Number of answers among which these are."""
    n_compared: int
    """Number of compared rows: those with a probability, or all if none has one."""
    weighted: bool
    """Whether rows count by their probabilities."""
    confidence: float
    """Level of all intervals together."""
    differences: Sequence[TraitDifference]
    expires_after: timedelta
    expiries: Sequence[RowExpiry]
    """State of each row."""
    to_add: Sequence[RowToAdd]
    add_since: datetime
    """Time from which answers may be drawn for further rows: each draw is of answers of its own."""

    @property
    def certain(self) -> list[TraitDifference]:
        """The certain differences, the largest of each kind first."""
        differ = [difference for difference in self.differences if difference.is_certain]
        kinds = list(dict.fromkeys(difference.trait.kind for difference in differ))
        return sorted(differ, key=lambda gap: (kinds.index(gap.trait.kind), -abs(gap.difference.estimate)))

    @property
    def strata(self) -> list[str]:
        """Strata of a draw that closes the certain differences: segments, and at most one score."""
        segments = [gap.trait.name.partition("=")[0] for gap in self.certain if gap.trait.kind == "segment"]
        scores = [gap.trait.name.partition(" of ")[0] for gap in self.certain if gap.trait.kind == "score"]
        return [*(f"segment:{name}" for name in dict.fromkeys(segments)), *(f"score:{name}" for name in scores[:1])]

    @property
    def to_remove(self) -> list[str]:
        """Ids of the expired rows."""
        return [expiry.row for expiry in self.expiries if expiry.state == "expired"]

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON; it has words of questions, and no question."""
        return {
            "traffic": {
                "source": self.source,
                "since": self.since.isoformat(),
                "until": self.until.isoformat(),
                "answers": self.n_recent,
                "compared": self.n_traffic,
            },
            "compared_rows": self.n_compared,
            "weighted": self.weighted,
            "confidence": self.confidence,
            "differences": [fields_of(difference) for difference in self.differences],
            "expires_after_s": self.expires_after.total_seconds(),
            "expiry": [
                {
                    "row": expiry.row,
                    "state": expiry.state,
                    "last_seen": None if expiry.last_seen is None else expiry.last_seen.isoformat(),
                    "chance": expiry.chance,
                    "reason": expiry.reason or None,
                }
                for expiry in self.expiries
            ],
            "add": [
                {"pipeline": row.answer.key[0], "interaction_id": row.answer.key[1], "closes": row.closes}
                for row in self.to_add
            ],
            "remove": self.to_remove,
        }


def compare_with_traffic(
    rows: Sequence[SetRow],
    recent: AnswerSource,
    whole: Iterable[RagInteraction],
    *,
    since: datetime,
    until: datetime,
    expires_after: timedelta,
    confidence: float = 0.95,
) -> ComparedSet:
    """Return a data set beside the traffic.

    Args:
        rows: the rows of the set.
        recent: the answers of the traffic; those before `since` are not compared.
        whole: all answers of the traffic that are known, in any order, for the expiry of rows.
        since: time from which answers are compared.
        until: time of the last answer.
        expires_after: time for which the documents of an expired row have not appeared.
        confidence: level of all intervals together.
    """
    sightings = DocumentSightings({row.item.item_id: row.interaction for row in rows}, until - expires_after)
    sightings.add(answer for answer in whole if not answer.is_session)
    compared = [_of_row(row) for row in rows]
    drawn = [answer for answer, row in zip(compared, rows, strict=True) if row.probability is not None]
    n_recent, traffic = _of_traffic(recent, since)
    differences = compare_traits(drawn or compared, traffic, confidence=confidence)
    last = max((answer.occurred_at for answer in drawn if answer.occurred_at is not None), default=since)
    add_since = max(since, last + timedelta(seconds=1)).replace(microsecond=0) if drawn else since
    return ComparedSet(
        source=recent.name,
        since=since,
        until=until,
        n_traffic=len(traffic),
        n_recent=n_recent,
        n_compared=len(drawn or compared),
        weighted=bool(drawn),
        confidence=confidence,
        differences=differences,
        expires_after=expires_after,
        expiries=sightings.expiries(),
        to_add=rows_to_add(differences, compared, [answer for answer in traffic if _is_from(answer, add_since)]),
        add_since=add_since,
    )


def pipelines_of(rows: Sequence[SetRow]) -> frozenset[str]:
    """Return the pipelines that the rows name."""
    return frozenset(_key(row)[0] for row in rows) - {""}


def _key(row: SetRow) -> tuple[str, str]:
    origin = row.provenance
    pipeline, name = (row.fields.get(field) or origin.get(field) for field in ("pipeline", "interaction_id"))
    return str(pipeline or ""), str(name or row.item.item_id)


def _of_row(row: SetRow) -> AnswerProfile:
    key = _key(row)
    scores = {
        _score_name(metric, str(labeling.get("labeler"))): float(score)
        for labeling in row.labelings
        for metric, score in (labeling.get("scores") or {}).items()
        if isinstance(score, int | float)
    }
    session = row.fields.get("session_id") or row.item.cluster
    unit = f"{key[0]}\n{session or key[1]}"
    interaction = row.interaction
    return AnswerProfile(
        key,
        row.item.question,
        row.item.segments,
        unit,
        1 / (row.probability or 1.0),
        scores,
        None if interaction is None else interaction.occurred_at,
    )


def _is_from(answer: AnswerProfile, since: datetime) -> bool:
    return answer.occurred_at is not None and answer.occurred_at >= since


def _of_traffic(source: AnswerSource, since: datetime) -> tuple[int, list[AnswerProfile]]:
    n_recent = 0

    def recent() -> Iterable[RagInteraction]:
        nonlocal n_recent
        for answer in source.interactions():
            if answer.occurred_at >= since and not answer.is_session:
                n_recent += 1
                yield answer

    chosen = nsmallest(ANSWERS_MOST, recent(), key=_rank)
    return n_recent, [
        AnswerProfile(
            (answer.pipeline, answer.interaction_id),
            answer.question,
            answer.segments,
            session_of(answer),
            1 / source.probability(answer),
            {
                _score_name(metric, labeler): score
                for labeler, scores in source.scores.get((answer.pipeline, answer.interaction_id), {}).items()
                for metric, score in scores.items()
            },
            answer.occurred_at,
        )
        for answer in {(each.pipeline, each.interaction_id): each for each in chosen}.values()
    ]


def _rank(answer: RagInteraction) -> bytes:
    return blake2b(f"{answer.pipeline}\n{answer.interaction_id}".encode(), digest_size=8).digest()


def _score_name(metric: str, labeler: str) -> str:
    return f"{metric} of {labeler}"
