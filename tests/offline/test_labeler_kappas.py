"""Kappa of two labelers on the sentences of kept items: the formula, its interval, and the items that count."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metric_events import START

from ragtide_aggregator.statistics.comparisons.agreement import accuracy, kappa
from ragtide_roles.kept.kappas import LEAST_ITEMS, LabelerKappa, labeler_kappas
from ragtide_schemas import (
    RagInteraction,
    SentenceLabels,
    SentenceProbabilities,
    Specimen,
    SpecimenLabeling,
)

pytestmark = pytest.mark.pure
LETTERS = "abcdefgh"


def item(number: int, local: list[float], judge: list[bool], *, version: str = "1", **fields: Any) -> Specimen:
    """Return an item whose response sentences two labelers called supported or not."""
    keys = LETTERS[: len(local)]
    interaction = RagInteraction.model_validate(
        {
            "interaction_id": f"i-{number}",
            "pipeline": "shop",
            "question": "q",
            "documents": [{"text": "D.", "sentences": ["D."]}],
            "response": "R. " * len(local),
            "response_sentences": ["R."] * len(local),
            **fields,
        }
    )
    by_local = SentenceProbabilities(relevant=(0.9,), utilized=(0.9,), supported=tuple(local))
    by_judge = SentenceLabels(
        relevant=None,
        utilized=("0a",),
        support={key: ("0a",) if yes else () for key, yes in zip(keys, judge, strict=True)},
        fully_supported=dict(zip(keys, judge, strict=True)),
        n_document_sentences=1,
    )
    labelings = [
        SpecimenLabeling(labeler=name, labeler_version=of, profile="ragbench", labels=(labels,), scores={})
        for name, of, labels in (("local", "1", by_local), ("judge", version, by_judge))
    ]
    return Specimen(interaction=interaction, labelings=tuple(labelings), labeled_at=START + timedelta(seconds=number))


def supported(specimens: list[Specimen]) -> LabelerKappa:
    (found,) = [one for one in labeler_kappas(specimens) if one.mark == "supported"]
    return found


pairs = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=8)
@given(st.lists(pairs, min_size=LEAST_ITEMS, max_size=LEAST_ITEMS + 5))
def test_kappa_is_that_of_all_sentences_together(drawn: list[list[tuple[float, bool]]]) -> None:
    found = supported([item(n, [p for p, _ in one], [yes for _, yes in one]) for n, one in enumerate(drawn)])
    local = np.array([p >= 0.5 for one in drawn for p, _ in one])
    judge = np.array([yes for one in drawn for _, yes in one])
    assert (found.items, found.sentences) == (len(drawn), len(local))
    assert found.agreed == pytest.approx(accuracy(local, judge))
    if found.kappa is not None:
        assert found.kappa.estimate == pytest.approx(kappa(local, judge))
        assert -1 <= found.kappa.lower <= found.kappa.upper <= 1


def agreeing(count: int, flipped: int = 4, **fields: Any) -> list[Specimen]:
    found = []
    for number in range(count):
        yes = number % 3 != 0
        found.append(item(number, [0.8, 0.2], [yes, False] if number % flipped else [True, True], **fields))
    return found


def test_there_is_no_kappa_without_an_interval() -> None:
    few = supported(agreeing(LEAST_ITEMS - 1))
    assert (few.items, few.kappa) == (LEAST_ITEMS - 1, None)
    assert few.agreed > 0.5
    enough = supported(agreeing(LEAST_ITEMS))
    assert enough.kappa is not None
    assert enough.kappa.lower < enough.kappa.estimate < enough.kappa.upper
    constant = supported([item(n, [0.9], [True]) for n in range(50)])
    assert (constant.agreed, constant.kappa) == (1.0, None), "chance alone always agrees"
    perfect = supported([item(n, [0.9, 0.1], [True, False]) for n in range(50)])
    assert (perfect.agreed, perfect.kappa) == (1.0, None), "no disagreement tells no interval"


def test_items_of_a_session_count_once_and_narrow_no_interval() -> None:
    alone = agreeing(LEAST_ITEMS + 10)
    assert supported(alone).kappa is not None
    together = supported(agreeing(LEAST_ITEMS + 10, session_id="s"))
    assert (together.items, together.kappa) == (1, None)


def test_only_the_newest_versions_are_compared() -> None:
    old, new = agreeing(100), [item(200 + n, [0.9], [True], version="2") for n in range(7)]
    assert supported([*old, *new]).items == 7


def test_a_verdict_that_a_labeler_did_not_give_is_not_compared() -> None:
    found = labeler_kappas(agreeing(LEAST_ITEMS))
    assert [one.mark for one in found] == ["supported", "utilized"], "the judge said nothing about relevance"
    alone = item(0, [0.9], [True])
    assert labeler_kappas([alone.model_copy(update={"labelings": alone.labelings[:1]})]) == []


@pytest.mark.heavy
def test_intervals_hold_the_true_kappa_although_sentences_of_an_item_are_alike() -> None:
    draws, truth, held = np.random.default_rng(0), (0.9 - 0.644) / (1 - 0.644), 0
    for _ in range(100):
        items = []
        for number in range(50):
            judge = draws.random(1 + draws.poisson(3)) < 0.8
            wrong = draws.random(len(judge)) < (0.0 if draws.random() < 0.5 else 0.2)  # a tenth of all sentences
            judge, wrong = judge[:8], wrong[:8]
            items.append(item(number, [0.9 if yes else 0.1 for yes in judge ^ wrong], judge.tolist()))
        found = supported(items)
        assert found.kappa is not None
        held += found.kappa.lower <= truth <= found.kappa.upper
    assert 85 <= held <= 100
