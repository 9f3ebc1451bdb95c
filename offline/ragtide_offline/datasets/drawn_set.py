"""A data set that is drawn from a source: the strata that are asked for, rows with their probabilities, a summary."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from ragtide_roles.kept.queue import DISPUTED_BY
from ragtide_roles.kept.rows import row_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import METRICS, RagInteraction
from ragtide_schemas.drawn import PROVENANCE
from ragtide_schemas.limits import PROBABILITY_MIN
from ragtide_schemas.suggestions import unknown

from .drawing import DrawnSample, DrawSource, Floats, TooFewAnswersError, draw
from .near_duplicates import duplicate_groups
from .sources import AnswerSource, Key, Scores, bounded, key_of

LOCAL: Final = "local"
DEFAULT_METRIC: Final = "trace.adherence"
SCORE, SEGMENT, DISAGREEMENT, FEEDBACK = "score", "segment", "disagreement", "feedback"
KINDS: Final = (f"{SEGMENT}:NAME", f"{SCORE}:METRIC", DISAGREEMENT, FEEDBACK)
NO_VALUE: Final = "none"
MOST_MEANS: Final = 20
"""Most metrics whose cheap scores a row has."""

ABOUT: Final = "drawn"
"""Name of the draw in the provenance of a row."""

_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """What is drawn, and how."""

    rows: int
    """Number of rows."""
    by: Sequence[str] = (SCORE,)
    """What makes strata: `segment:NAME`, `score` or `score:METRIC`, `disagreement`, `feedback`."""
    most_per: tuple[str, int] | None = None
    """`user` or `session`, and the most rows of each."""
    seed: int = 0
    labeler: str | None = None
    """Labeler whose scores are the cheap ones; None for `local`, or the only other."""
    keep_duplicates: bool = False
    """Whether near duplicates may all be rows."""


@dataclass(frozen=True, slots=True)
class DrawnSet:
    """The rows of a data set, and how they were drawn."""

    rows: Sequence[dict[str, Any]]
    """Rows as values that JSON can hold, in the order of the source."""
    draw: DrawnSample
    id: str
    """8 hexadecimal digits that change with the source and the options."""
    source: str
    answers: int
    """Number of answers of the source."""
    labeler: str | None
    """Labeler of the cheap scores; None without any."""
    metric: str | None
    """Metric whose scores decided how many rows a stratum has."""
    options: DrawOptions
    keys: frozenset[Key] = field(repr=False)
    """Pipeline and id of every answer of the source."""
    unknown: int = 0
    """Number of kept items that stand for no traffic."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as values that JSON can hold; without texts and without names of users."""
        per = self.options.most_per
        left_out = {
            "near_duplicates": self.draw.near_duplicates,
            **({f"most_per_{per[0]}": self.draw.of_owners} if per else {}),
        }
        return {
            "draw": self.id,
            "source": self.source,
            "answers": self.answers,
            "rows": len(self.rows),
            "seed": self.options.seed,
            "by": list(self.options.by),
            "labeler": self.labeler,
            "metric": self.metric,
            "strata": [
                {
                    "stratum": stratum.name,
                    "of": stratum.of,
                    "answers": stratum.answers,
                    "rows": stratum.rows,
                    "probability": stratum.probability,
                }
                for stratum in self.draw.strata
            ],
            "left_out": left_out | ({"no_probability": self.unknown} if self.unknown else {}),
        }


class _SourceAnswer(NamedTuple):
    key: Key
    text: str
    segments: Mapping[str, str]
    owner: str | None
    probability: float
    scores: Scores
    feedback: str


@dataclass(frozen=True, slots=True)
class _DrawStrata:
    segments: list[str] = field(default_factory=list)
    metric: str | None = None
    by_score: bool = False
    disagreement: bool = False
    feedback: bool = False

    @classmethod
    def of(cls, by: Iterable[str]) -> "_DrawStrata":
        segments: list[str] = []
        metric, kinds = None, set()
        for text in by:
            kind, _, name = text.partition(":")
            if kind == SEGMENT and name:
                segments += [name] if name not in segments else []
            elif kind == SCORE and metric in (None, name or metric):
                metric = name or metric
            elif kind == SCORE:
                raise ConfigurationError(
                    f"--by names two scores, {metric} and {name}: give one, and segments beside it"
                )
            elif kind not in (DISAGREEMENT, FEEDBACK) or name:
                raise ConfigurationError(f"--by: {unknown('kind of strata', text, KINDS)}")
            kinds.add(kind)
        return cls(segments, metric, SCORE in kinds, DISAGREEMENT in kinds, FEEDBACK in kinds)


def draw_set(
    source: AnswerSource, options: DrawOptions, label: Callable[[RagInteraction], Mapping[str, float]] | None = None
) -> DrawnSet:
    """Return rows that are drawn from a source, with their probabilities in the traffic.

    Args:
        label: returns the scores of the local labeler; it is called for each answer if the source has no scores by
            the labeler of the options. None refuses such a source.

    Raises:
        ConfigurationError: a segment, a metric or a labeler is unknown, the source has no answers or too many, fewer
            answers than rows are left, or datasketch is not installed.
    """
    strata = _DrawStrata.of(options.by)
    labeler = _labeler(source, options, strata, label)
    per = None if options.most_per is None else options.most_per[0]
    answers = []
    for interaction in bounded(source.interactions()):
        key = key_of(interaction)
        scores = source.scores.get(key, {})
        if label is not None and labeler == LOCAL and LOCAL not in scores:
            scores = {**scores, LOCAL: dict(label(interaction))}
        answers.append(_answer(source, interaction, scores, per))
    if not answers:
        raise ConfigurationError(f"{source.name} has no answers to draw from: select others")
    answers.sort(key=lambda answer: answer.key)
    if options.rows > len(answers):
        raise ConfigurationError(_too_few(source, options, len(answers), len(answers)))
    table = _cheap_scores(answers, labeler)
    metric = _metric(strata.metric, table, labeler)
    if strata.by_score and metric is None:
        raise ConfigurationError(f"{source.name} has no scores for --by score: give a file of scores beside it")
    if per is not None and not any(answer.owner for answer in answers):
        raise ConfigurationError(f"no answer of {source.name} has a {per}: leave --most-per out")
    texts = [answer.text for answer in answers]
    known = DrawSource(
        weights=np.array([1 / answer.probability for answer in answers]),
        duplicates=range(len(answers)) if options.keep_duplicates else duplicate_groups(texts),
        owners=[answer.owner for answer in answers],
        values=_values(source, answers, strata, metric or DEFAULT_METRIC, labeler),
        band=metric if strata.by_score else None,
        scores=table,
        spread_by=metric,
    )
    most = None if options.most_per is None else options.most_per[1]
    try:
        drawn = draw(known, options.rows, seed=options.seed, most_per_owner=most)
    except TooFewAnswersError as error:
        raise ConfigurationError(_too_few(source, options, len(answers), error.left)) from None
    hashed = blake2b(repr((options, [answer.key for answer in answers])).encode(), digest_size=4)
    number = hashed.hexdigest()
    return DrawnSet(
        _rows(source, answers, drawn, number, labeler, table),
        drawn,
        number,
        source.name,
        len(answers),
        labeler if table else None,
        metric,
        options,
        frozenset(answer.key for answer in answers),
        source.unknown,
    )


def _labeler(
    source: AnswerSource,
    options: DrawOptions,
    strata: _DrawStrata,
    label: Callable[[RagInteraction], Mapping[str, float]] | None,
) -> str | None:
    counts = Counter(labeler for scores in source.scores.values() for labeler in scores)
    if options.labeler is not None:
        if options.labeler not in counts and (options.labeler != LOCAL or label is None):
            raise ConfigurationError(f"--labeler: {unknown('labeler', options.labeler, sorted(counts))}")
        return options.labeler
    wanted = strata.metric
    if wanted is not None:
        counts = Counter(
            labeler
            for scores in source.scores.values()
            for labeler, table in scores.items()
            if any(_is_metric(name, wanted) for name in table)
        )
    if LOCAL in counts or not counts:
        return LOCAL if LOCAL in counts or label is not None else None
    return counts.most_common(1)[0][0]


def _is_metric(name: str, wanted: str) -> bool:
    return wanted in (name, name.rpartition(".")[2])


def _metric(wanted: str | None, table: Mapping[str, Floats], labeler: str | None) -> str | None:
    if wanted is None:
        return DEFAULT_METRIC if DEFAULT_METRIC in table else None
    names = [name for name in table if _is_metric(name, wanted)]
    if not names:
        raise ConfigurationError(f"--by score: {unknown('metric', wanted, sorted(table))}; they are of {labeler}")
    return names[0]


def _answer(source: AnswerSource, interaction: RagInteraction, scores: Scores, per: str | None) -> _SourceAnswer:
    key = key_of(interaction)
    earlier = [turn.question for turn in interaction.history or ()]
    owner = {None: None, "user": interaction.user_id, "session": interaction.session_id}[per]
    gold = {**interaction.gold_scores, **source.feedback.get(key, {})}
    return _SourceAnswer(
        key,
        "\n".join([interaction.question, *reversed(earlier)]),
        interaction.segments,
        None if owner is None else f"{interaction.pipeline}\n{owner}",
        max(source.probability(interaction), PROBABILITY_MIN),
        scores,
        _opinion(gold),
    )


def _opinion(gold: Mapping[str, float]) -> str:
    """Return whether people's scores are good: by a thumb, else by the mean of scores of which more is better."""
    thumb = gold.get("feedback.positive")
    shares = [thumb] if thumb is not None else []
    for metric, score in gold.items() if thumb is None else ():
        definition = METRICS.get(metric)
        if definition is not None and definition.direction != "neither":
            share = (score - definition.lower) / (definition.upper - definition.lower)
            shares.append(share if definition.direction == "higher" else 1 - share)
    if not shares:
        return NO_VALUE
    return "positive" if sum(shares) / len(shares) >= 0.5 else "negative"


def _cheap_scores(answers: Sequence[_SourceAnswer], labeler: str | None) -> dict[str, Floats]:
    tables = [answer.scores.get(labeler or "", {}) for answer in answers]
    names = [metric for metric, _ in Counter(name for table in tables for name in table).most_common(MOST_MEANS)]
    return {name: np.array([table.get(name, np.nan) for table in tables]) for name in sorted(names)}


def _values(
    source: AnswerSource, answers: Sequence[_SourceAnswer], strata: _DrawStrata, metric: str, labeler: str | None
) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    names = {name for answer in answers for name in answer.segments}
    for name in strata.segments:
        if name not in names:
            raise ConfigurationError(f"--by segment: {unknown('segment', name, names)}")
        values[name] = [answer.segments.get(name, NO_VALUE) for answer in answers]
    if strata.disagreement:
        disputes = [_dispute(answer.scores, metric, labeler) for answer in answers]
        if not any(disputes):
            raise ConfigurationError(
                f"no answer of {source.name} has {metric} of {labeler} and of another labeler, for --by disagreement: "
                "give the scores of a judge, too"
            )
        values[""] = [dispute or "not judged" for dispute in disputes]
    if strata.feedback:
        values[FEEDBACK] = [answer.feedback for answer in answers]
        if not set(values[FEEDBACK]) - {NO_VALUE}:
            raise ConfigurationError(f"no answer of {source.name} has feedback, for --by feedback: leave it out")
    return values


def _dispute(scores: Scores, metric: str, labeler: str | None) -> str:
    own = scores.get(labeler or "", {}).get(metric)
    others = [table[metric] for name, table in scores.items() if name != labeler and metric in table]
    if own is None or not others:
        return ""
    return "disputed" if max(abs(own - other) for other in others) >= DISPUTED_BY else "agreed"


def _rows(  # noqa: PLR0917
    source: AnswerSource,
    answers: Sequence[_SourceAnswer],
    drawn: DrawnSample,
    number: str,
    labeler: str | None,
    table: Mapping[str, Floats],
) -> list[dict[str, Any]]:
    by_key = {answers[row.place].key: row for row in drawn.rows}
    ids = Counter(identity for _, identity in by_key)
    rows = []
    for interaction in bounded(source.interactions()):
        row = by_key.get(key_of(interaction))
        if row is None:
            continue
        stratum = row.stratum
        scores = {name: float(table[name][row.place]) for name in stratum.means}
        about: dict[str, Any] = {
            "draw": number,
            "stratum": stratum.name,
            "of": stratum.of,
            "rows": stratum.rows,
            "probability": row.probability,
            "source": source.name,
        }
        if stratum.means:
            about |= {
                "labeler": labeler,
                "scores": {name: round(score, _DECIMALS) for name, score in scores.items() if not np.isnan(score)},
                "means": {name: round(mean, _DECIMALS) for name, mean in stratum.means.items()},
            }
        origin = {**source.origin(interaction), ABOUT: about}
        probability = max(answers[row.place].probability * row.probability, PROBABILITY_MIN)
        fields = {**row_of(interaction, origin), "sampling_probability": probability}
        alone = ids[interaction.interaction_id] == 1
        rows.append(fields if alone else {"item_id": interaction_digest(*key_of(interaction)), **fields})
    return rows


def added_rows(before: Sequence[Mapping[str, Any]], drawn: DrawnSet, path: object) -> list[dict[str, Any]]:
    """Return the rows of a set with the rows of a draw behind them.

    A row that was put in by hand gives way to the drawn row of the same answer. The answers of two draws are different
    ones, so that each row stands for answers of its own.

    Raises:
        ConfigurationError: a drawn row of the set is of the same answers.
    """
    if any(_identity(row) in drawn.keys and ABOUT in _origin(row) for row in before):
        raise ConfigurationError(
            f"{path} has rows that were drawn from these answers before: select later answers with --since, or draw a "
            "new set with more rows"
        )
    new = {_identity(row) for row in drawn.rows}
    return [*(dict(row) for row in before if _identity(row) not in new), *drawn.rows]


def _identity(row: Mapping[str, Any]) -> tuple[object, object]:
    return row.get("pipeline"), row.get("interaction_id")


def _origin(row: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = row.get("metadata")
    origin = metadata.get(PROVENANCE) if isinstance(metadata, Mapping) else None
    return origin if isinstance(origin, Mapping) else {}


def _too_few(source: AnswerSource, options: DrawOptions, answers: int, left: int) -> str:
    given = f"--rows is {options.rows:,}, and {source.name} has {answers:,} {'answer' if answers == 1 else 'answers'}"
    if left == answers:
        more = ""
        if source.name == "kept":
            more = (
                "; workers keep a share of the traffic with a known probability (specimens.sample, "
                "specimens.sample_n), and larger numbers count from now on"
            )
        return f"{given}: give at most {left:,}, or another source{more}"
    limit = "" if options.most_per is None else f" and the most of a {options.most_per[0]}"
    remedy = "" if options.keep_duplicates else ", or --keep-duplicates"
    return f"{given}, of which {left:,} are left without near duplicates{limit}: give at most {left:,}{remedy}"
