"""Compares a judge's answer to a sentinel with its earlier answers to the same sentinel. No clock, no I/O.

A judge at temperature 0 does not always repeat itself, so one different verdict says nothing. What is compared is how
unusual an answer is among all answers to its sentinel, itself included. If the judge has not changed, these answers
come in any order with the same probability, so the new one is among the most unusual tenth with probability 0.1,
whatever the judge and the sentinel are like. Ties are broken by a draw, which makes the probability exact. The
indicators of further answers are independent of each other.

An answer is a set of facts, and it is unusual if it has facts that are rare, or lacks facts that are frequent: the
score is its negative log-likelihood if facts were independent, with a weight for verdicts. That only decides which
changes are found soon.

Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005), section 8.2 (smoothed conformal
p-values are independent and uniform).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, log
from typing import Any, Final, NamedTuple, Self

from ragtide_runtime.draws import draw_number
from ragtide_schemas import SentenceLabels
from ragtide_schemas.declared import definition_of
from ragtide_schemas.metric_definitions import SENTINEL_UNLIKE_SHARE

from ..labelers.protocol import Labeling
from ..metrics.trace import SENTENCES, supported_sentences

LEARNED: Final = 9
"""Earlier answers to a sentinel from which on a new one is compared: with fewer, no answer can be among a tenth."""


def learned_s(sentinels: int, every_s: float) -> float:
    """Return the seconds in which no change of the judge is seen, because the first answers are learned.

    Args:
        sentinels: number of sentinels, which take turns.
        every_s: seconds between two answers.

    >>> learned_s(40, 600) / 3600
    60.0
    """
    return sentinels * LEARNED * every_s


REMEMBERED_MAX: Final = 40
"""Most answers to a sentinel that are remembered; a random half of more is forgotten."""

FACTS_MAX: Final = 2_000
"""Most facts of an answer; further ones, in alphabetical order, are left out."""

SUPPORTED: Final = "supported:"
"""Beginning of a fact about a response sentence."""

VERDICT_WEIGHT: Final = 3
"""How much more a verdict on a response sentence counts than other facts: there are few, and they decide adherence."""

Answer = frozenset[str]
"""What the judge answered to a sentinel, as a set of facts."""


def answer_of(labeling: Labeling) -> Answer:
    """Return the facts of a labeling.

    They are the supported response sentences (`supported:KEY`), the relevant and the used document sentences
    (`relevant:KEY`, `used:KEY`), and for each other metric its value in tenths of its range, or why it is absent.
    """
    labels = next((labels for labels in labeling.labels if isinstance(labels, SentenceLabels)), None)
    follow = ("trace.", SENTENCES) if labels is not None else ()  # these follow from the labels
    facts = {f"{metric}:{reason}" for metric, reason in labeling.absent.items() if not metric.startswith(follow)}
    for metric, score in labeling.scores.items():
        definition = definition_of(metric, labeling.declared)
        if not metric.startswith(follow) and definition is not None and definition.upper > definition.lower:
            facts.add(f"{metric}:{round(10 * (score - definition.lower) / (definition.upper - definition.lower))}")
    if labels is not None:
        facts |= {f"{SUPPORTED}{key}" for key, supported in supported_sentences(labels).items() if supported}
        facts |= {f"relevant:{key}" for key in labels.relevant or ()}
        facts |= {f"used:{key}" for key in labels.utilized or ()}
    return frozenset(sorted(facts)[:FACTS_MAX])


class ComparedAnswer(NamedTuple):
    """A new answer beside the earlier ones."""

    unlike: bool
    """Whether it is among the most unusual tenth; of an unchanged judge with probability 0.1."""
    agreement: float
    """Mean over the earlier answers of the share of facts that both have, among the facts of either; in [0, 1]."""


class SentinelMemory:
    """The answers to one sentinel that are remembered: each different answer, and how often it was given.

    Forgetting a random half keeps the indicators independent: what is kept does not depend on the order of the answers.

    Args:
        counts: how often each different answer was given.
    """

    def __init__(self, counts: Mapping[Answer, int] | None = None) -> None:
        self._counts: dict[Answer, int] = dict(counts or {})

    @property
    def n(self) -> int:
        """Number of remembered answers."""
        return sum(self._counts.values())

    def take(self, answer: Answer, *, name: str) -> ComparedAnswer | None:
        """Compare an answer with those that are remembered, and remember it; None while too few are.

        Args:
            answer: the new answer.
            name: of the answer, unique for all answers of a deployment: it decides the draws.
        """
        earlier = self.n
        agreement = fsum(count * agreement_of(answer, other) for other, count in self._counts.items())
        self._counts[answer] = self._counts.get(answer, 0) + 1
        compared = None
        if earlier >= LEARNED:
            rank = smoothed_rank(self._counts, answer, draw_number(name, purpose=b"ragtide sentinel"))
            compared = ComparedAnswer(rank <= SENTINEL_UNLIKE_SHARE, agreement / earlier)
        if earlier >= REMEMBERED_MAX:
            self._forget(name)
        return compared

    def _forget(self, name: str) -> None:
        answers = self._sorted_answers()
        drawn = sorted(
            (draw_number(f"{name}\0{kind}\0{copy}", purpose=b"ragtide forgets"), kind)
            for kind, answer in enumerate(answers)
            for copy in range(self._counts[answer])
        )
        self._counts = dict(Counter(answers[kind] for _, kind in drawn[: REMEMBERED_MAX // 2]))

    def _sorted_answers(self) -> list[Answer]:
        return sorted(self._counts, key=sorted)

    def as_json(self) -> list[Any]:
        """Return what `of_json` reads."""
        return [[self._counts[answer], sorted(answer)] for answer in self._sorted_answers()]

    @classmethod
    def of_json(cls, rows: Iterable[Sequence[Any]]) -> Self:
        """Return a memory from what `as_json` returned."""
        return cls({frozenset(facts): int(count) for count, facts in rows})


def smoothed_rank(counts: Mapping[Answer, int], answer: Answer, draw: float) -> float:
    """Return the share of the answers that are more unusual than one of them, those as unusual counted by a draw.

    Args:
        counts: how often each different answer was given, `answer` among them.
        answer: one of them.
        draw: uniform in [0, 1).

    >>> usual, other = frozenset({"supported:a"}), frozenset[str]()
    >>> smoothed_rank({usual: 9, other: 1}, other, 0.5), smoothed_rank({usual: 9, other: 1}, usual, 0.5)
    (0.05, 0.55)
    """
    n = sum(counts.values())
    having: Counter[str] = Counter()
    for other, count in counts.items():
        for fact in other:
            having[fact] += count
    # Facts that no answer has, or all have, make no difference between answers.
    odds = {
        fact: (VERDICT_WEIGHT if fact.startswith(SUPPORTED) else 1) * log((n - count + 0.5) / (count + 0.5))
        for fact, count in having.items()
        if count < n
    }
    # A correctly rounded sum does not depend on the order of its numbers.
    scores = {other: fsum(odds[fact] for fact in other if fact in odds) for other in counts}
    more = sum(count for other, count in counts.items() if scores[other] > scores[answer])
    equal = sum(count for other, count in counts.items() if scores[other] == scores[answer])
    return (more + draw * equal) / n


def agreement_of(left: Answer, right: Answer) -> float:
    """Return the share of the facts of either answer that both have, in [0, 1]; 1 for two answers without facts."""
    either = len(left | right)
    return len(left & right) / either if either else 1.0
