"""Answers to sentinels: an unchanged judge is unlike itself in a tenth of its answers, and a changed one in more."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.sentinels.answers import LEARNED, REMEMBERED_MAX, SentinelMemory, answer_of, smoothed_rank
from ragtide_schemas import SentenceLabels

FACTS = st.frozensets(st.sampled_from(["supported:a", "supported:b", "relevant:0a", "used:0a", "criteria.x:5"]))


@given(st.dictionaries(FACTS, st.integers(1, 5), min_size=1, max_size=8))
def test_over_all_places_and_draws_exactly_a_tenth_of_the_answers_is_in_the_most_unusual_tenth(
    counts: dict[frozenset[str], int],
) -> None:
    """The law behind the rule: the share at or below each level is the level itself, whatever the answers are."""
    n, steps = sum(counts.values()), 200
    draws = [(step + 0.5) / steps for step in range(steps)]
    within = sum(
        count * sum(smoothed_rank(counts, answer, draw) <= 0.1 for draw in draws) / steps
        for answer, count in counts.items()
    )
    assert within / n == pytest.approx(0.1, abs=1 / steps)


@pytest.mark.parametrize("steadiness", [1.0, 0.98, 0.5])
def test_an_unchanged_judge_is_unlike_itself_in_a_tenth_of_its_answers_in_runs_without_memory(
    steadiness: float,
) -> None:
    """Independent indicators: mean, variance of counts and correlation of neighbours are those of coin tosses."""
    seeded, found = random.Random(4), []
    for sentinel in range(60):
        memory = SentinelMemory()
        usual = [seeded.random() < 0.5 for _ in range(12)]
        for number in range(LEARNED + 100):  # longer than the memory, so that half of it is forgotten several times
            answer = frozenset(
                f"relevant:{place}" for place, label in enumerate(usual) if label != (seeded.random() > steadiness)
            )
            compared = memory.take(answer, name=f"{sentinel}\0{number}")
            assert (compared is None) == (number < LEARNED)
            if compared is not None:
                found.append(compared.unlike)
    unlike = np.array(found, float).reshape(60, 100)
    assert unlike.mean() == pytest.approx(0.1, abs=4 * 0.3 / np.sqrt(6_000))
    correlation = np.corrcoef(unlike[:, :-1].ravel(), unlike[:, 1:].ravel())[0, 1]
    assert abs(correlation) < 4 / np.sqrt(6_000)
    assert 0.5 < unlike.sum(axis=1).var() / (100 * 0.1 * 0.9) < 1.7


def test_a_judge_that_changes_a_verdict_is_unlike_at_every_answer_to_that_sentinel_at_first() -> None:
    memory, usual = SentinelMemory(), frozenset({"supported:a", "supported:b", "relevant:0a"})
    for number in range(20):
        memory.take(usual, name=f"{number}")
    found = [memory.take(usual - {"supported:b"}, name=f"new {number}") for number in range(2)]
    assert [compared is not None and compared.unlike for compared in found] == [True, True]
    assert found[0] is not None
    assert found[0].agreement == pytest.approx(2 / 3)


def test_memory_is_bounded_and_the_same_after_it_was_stored() -> None:
    seeded, memory = random.Random(1), SentinelMemory()
    for number in range(150):
        answer = frozenset(f"used:{place}" for place in range(6) if seeded.random() < 0.5)
        stored = SentinelMemory.of_json(json.loads(json.dumps(memory.as_json())))
        assert stored.take(answer, name=f"{number}") == memory.take(answer, name=f"{number}")
        assert stored.as_json() == memory.as_json()
        assert memory.n <= REMEMBERED_MAX


def test_facts_are_verdicts_labels_other_metrics_and_reasons() -> None:
    labels = SentenceLabels(relevant=("0a",), utilized=("0b",), support={"a": ("0a",), "b": ()}, n_document_sentences=2)
    labeling = Labeling(
        {"trace.adherence": 0.0, "sentences.documents": 2.0, "ragchecker.precision": 0.52},
        {"ragchecker.f1": "no_reference_answer", "trace.completeness": "part_absent"},
        labels=(labels,),
    )
    assert answer_of(labeling) == {
        "supported:a",
        "relevant:0a",
        "used:0b",
        "ragchecker.precision:5",
        "ragchecker.f1:no_reference_answer",
    }


def test_an_answer_without_labels_is_its_reasons() -> None:
    found = answer_of(Labeling({}, {"trace.adherence": "judge_unusable", "trace.completeness": "judge_unusable"}))
    assert found == {"trace.adherence:judge_unusable", "trace.completeness:judge_unusable"}
