"""How the rows of a data set differ from the traffic: in segments, in the questions, and in scores. No I/O.

A trait is a value in [0, 1] that an answer has, such as 1 for a question with a word. The means of each trait in the
set and in the traffic are compared. All intervals hold together: each kind of traits has an equal part of the
probability of a miss, and each trait an equal part of that (Bonferroni). Which traits there are does not depend on
whether an answer is a row.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ragtide_aggregator.statistics.comparisons.weighted_samples import WeightedSample, sample_difference, weighted_mean
from ragtide_aggregator.statistics.drift.value_groups import NameBins, NumberBins
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.tables.batches import Floats

Kind = Literal["segment", "length", "word", "score"]

SEGMENTS_MOST: Final = 20
"""Most segment names that are compared: the most frequent."""

WORDS_MOST: Final = 100
"""Most words that are compared: those in the most questions."""

WORD_LEAST: Final = 5
"""Fewest questions, of different sessions, that have a compared word: a rarer word may name a person."""

ANSWERS_LEAST: Final = 10
"""Fewest answers with a trait's value, in the set and in the traffic, for a comparison."""

WITHOUT: Final = "(none)"
"""Value of a segment that an answer does not have."""


@dataclass(frozen=True)
class AnswerProfile:
    """What is compared of an answer of the set or of the traffic."""

    key: tuple[str, str]
    """Pipeline and id."""
    question: str
    segments: Mapping[str, str]
    unit: str
    """Session, or the answer itself: answers of one unit may depend on each other."""
    weight: float
    """Number of answers of the traffic that it stands for."""
    scores: Mapping[str, float]
    """Score by metric and labeler."""
    occurred_at: datetime | None = None
    """Time of the response, if it is known."""
    words: frozenset[str] = field(init=False)
    """The words of the question, of letters only."""
    length: int = field(init=False)
    """Number of words of the question."""

    def __post_init__(self) -> None:
        """Cut the question into words."""
        parts = self.question.casefold().split()
        object.__setattr__(self, "length", len(parts))
        stripped = (part.strip(".,;:!?\"'()[]{}«»„“”‘’¿¡…") for part in parts)
        # A word with a digit or a sign may be a number or an address, which nobody should read in a status.
        object.__setattr__(self, "words", frozenset(part for part in stripped if part.isalpha()))


class Trait(NamedTuple):
    """A value in [0, 1] of answers."""

    kind: Kind
    name: str
    """Such as `lang=de`, `above 4, up to 7 words`, a word, or a metric with its labeler."""
    of: Callable[[AnswerProfile], float | None]
    """Returns the value of an answer; None for an answer that has none."""


@dataclass(frozen=True, slots=True)
class TraitDifference:
    """The means of a trait in the set and in the traffic."""

    trait: Trait
    in_set: float
    in_traffic: float
    difference: Interval[float, float]
    """Set minus traffic; the intervals of all traits hold together."""

    @property
    def is_certain(self) -> bool:
        """Whether the set certainly differs."""
        return self.difference.verdict != "undecided"

    def closes(self, answer: AnswerProfile) -> bool:
        """Return whether this answer as a row would make the set more like the traffic."""
        value = self.trait.of(answer)
        if value is None:
            return False
        return value > self.in_set if self.difference.estimate < 0 else value < self.in_set

    def rows_to_add(self, n_rows: int) -> int:
        """Return how many such rows close the gap, beside so many that are there."""
        share = self.in_traffic if self.difference.estimate < 0 else 1 - self.in_traffic
        return int(np.ceil(abs(self.difference.estimate) * n_rows / max(1 - share, 1 / max(n_rows, 1))))


def compare_traits(
    rows: Sequence[AnswerProfile], traffic: Sequence[AnswerProfile], *, confidence: float = 0.95
) -> list[TraitDifference]:
    """Return the differences of all traits, by kind.

    Args:
        rows: the rows of the set; each stands for its weight of answers.
        traffic: the answers of the traffic.
        confidence: level of all intervals together.
    """
    sides = [_Side(rows), _Side(traffic)]
    samples = {trait: (sides[0].sample(trait), sides[1].sample(trait)) for trait in traits_of(rows, traffic)}
    samples = {trait: pair for trait, pair in samples.items() if all(map(_is_comparable, pair))}
    kinds = Counter(trait.kind for trait in samples)
    return [
        TraitDifference(
            trait,
            weighted_mean(pair[0]),
            weighted_mean(pair[1]),
            sample_difference(*pair, confidence=1 - (1 - confidence) / (len(kinds) * kinds[trait.kind])),
        )
        for trait, pair in samples.items()
    ]


class _Side:
    def __init__(self, answers: Sequence[AnswerProfile]) -> None:
        self._answers = answers
        self._weights = np.array([answer.weight for answer in answers])
        self._units = np.unique([answer.unit for answer in answers], return_inverse=True)[1]

    def sample(self, trait: Trait) -> WeightedSample:
        values: Floats = np.array([trait.of(answer) for answer in self._answers], dtype=np.float64)
        known = ~np.isnan(values)
        return WeightedSample(values[known], self._weights[known], self._units[known])


def _is_comparable(sample: WeightedSample) -> bool:
    values = sample.values
    return bool(values.size >= ANSWERS_LEAST and values.min() >= 0 and values.max() <= 1)


def traits_of(rows: Sequence[AnswerProfile], traffic: Sequence[AnswerProfile]) -> Iterator[Trait]:
    """Yield the traits that are compared."""
    both = [*rows, *traffic]
    names = Counter(chain.from_iterable(answer.segments for answer in both))
    for name, _ in names.most_common(SEGMENTS_MOST):
        bins = NameBins.learned([answer.segments.get(name, WITHOUT) for answer in both])
        for value in bins.named:
            yield Trait("segment", f"{name}={value}", _has_segment(name, value))
    lengths = [float(answer.length) for answer in both]
    if lengths:
        cuts = NumberBins.learned(lengths).cuts[:-1]
        for cut in cuts:
            yield Trait("length", f"up to {cut:g} words", _is_up_to(cut))
    units_of_words: dict[str, set[str]] = {}
    for answer in both:
        for word in answer.words:
            units_of_words.setdefault(word, set()).add(answer.unit)
    frequent = sorted(units_of_words.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:WORDS_MOST]
    for word, units in frequent:
        if len(units) >= WORD_LEAST:
            yield Trait("word", word, _has_word(word))
    for score in sorted({name for answer in rows for name in answer.scores}):
        yield Trait("score", score, _score(score))


def _has_segment(name: str, value: str) -> Callable[[AnswerProfile], float]:
    return lambda answer: float(answer.segments.get(name, WITHOUT) == value)


def _is_up_to(cut: float) -> Callable[[AnswerProfile], float]:
    return lambda answer: float(answer.length <= cut)


def _has_word(word: str) -> Callable[[AnswerProfile], float]:
    return lambda answer: float(word in answer.words)


def _score(name: str) -> Callable[[AnswerProfile], float | None]:
    return lambda answer: answer.scores.get(name)


class RowToAdd(NamedTuple):
    """An answer of the traffic that would make the set more like it."""

    answer: AnswerProfile
    closes: list[str]
    """Names of the traits."""


def rows_to_add(
    differences: Sequence[TraitDifference], rows: Sequence[AnswerProfile], traffic: Sequence[AnswerProfile]
) -> list[RowToAdd]:
    """Return answers that are not rows yet and close the certain gaps, those that close the most of them first.

    Together they are at most as many as the set has rows.

    Args:
        differences: of all traits.
        rows: all rows of the set.
        traffic: the answers of the traffic.
    """
    open_gaps = {number: gap.rows_to_add(len(rows)) for number, gap in enumerate(differences) if gap.is_certain}
    present = {row.key for row in rows}
    closing = [
        (answer, [number for number in open_gaps if differences[number].closes(answer)])
        for answer in traffic
        if answer.key not in present
    ]
    chosen: list[RowToAdd] = []
    for answer, numbers in sorted(closing, key=lambda pair: -len(pair[1])):
        wanted = [number for number in numbers if open_gaps[number] > 0]
        if not wanted or len(chosen) == len(rows):
            continue
        for number in numbers:
            open_gaps[number] -= 1
        chosen.append(RowToAdd(answer, [differences[number].trait.name for number in numbers]))
    return chosen


def fields_of(difference: TraitDifference) -> dict[str, Any]:
    """Return a difference as values of JSON."""
    return {
        "kind": difference.trait.kind,
        "name": difference.trait.name,
        "set": difference.in_set,
        "traffic": difference.in_traffic,
        "difference": difference.difference.estimate,
        "lower": difference.difference.lower,
        "upper": difference.difference.upper,
        "differs": difference.is_certain,
    }
