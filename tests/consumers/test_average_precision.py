"""The optional metric `retrieval.average_precision`: worked examples, laws, and its way onto events."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, settings
from tests.support.cases import for_each

from ragtide import RagInteraction, SentenceLabels
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.metrics.optional import optional_metrics
from ragtide_consumers.metrics.optional.average_precision import average_precision, score_documents
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_roles.rule_checks import known_metrics
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent, utc_now

NAME = "retrieval.average_precision"
ranks = st.lists(st.booleans(), min_size=1, max_size=30)

pytestmark = pytest.mark.processes


def interaction(n_documents: int) -> RagInteraction:
    return RagInteraction(pipeline="p", question="q", documents=["One. Two."] * n_documents, response="r")


def labels(relevant: list[str] | None, **changes: Any) -> SentenceLabels:
    return SentenceLabels(relevant=relevant, utilized=[], n_document_sentences=8, **changes)


@for_each(
    "relevant, expected",
    [
        ("R", 1.0),
        ("RR", 1.0),
        ("NR", 1 / 2),
        ("RNR", (1 + 2 / 3) / 2),
        ("NRNRR", (1 / 2 + 2 / 4 + 3 / 5) / 3),
        ("RNRNNRNNRR", (1 + 2 / 3 + 3 / 6 + 4 / 9 + 5 / 10) / 5),  # the usual textbook example: 0.62
        ("N", None),
        ("", None),
    ],
)
def test_worked_examples(relevant: str, expected: float | None) -> None:
    found = average_precision([letter == "R" for letter in relevant])
    assert found == (None if expected is None else pytest.approx(expected))


@given(ranks.filter(any))
def test_it_is_one_exactly_if_the_relevant_documents_come_first(relevant: list[bool]) -> None:
    value = average_precision(relevant)
    assert value is not None
    assert 0 < value <= 1
    assert (value == pytest.approx(1.0)) == (sorted(relevant, reverse=True) == relevant)


@given(ranks.filter(any), st.data())
def test_moving_a_relevant_document_up_never_lowers_it(relevant: list[bool], data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([index for index, one in enumerate(relevant) if one]))
    higher = data.draw(st.integers(0, place))
    moved = [*relevant[:place], *relevant[place + 1 :]]
    moved.insert(higher, True)
    before, after = average_precision(relevant), average_precision(moved)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


def test_the_best_and_the_worst_order_are_the_sorted_ones() -> None:
    values = {order: average_precision(order) or 0.0 for order in permutations([True, True, False, False, False])}
    assert max(values, key=values.__getitem__) == (True, True, False, False, False)
    assert min(values, key=values.__getitem__) == (False, False, False, True, True)


@for_each(
    "found, expected",
    [
        (labels(["0a", "2b"]), (1 + 2 / 3) / 2),
        (labels([" [2A]. ", "2a", "2b"]), 1 / 3),
        (labels(["2a", "9z", "general", "99999999999a"]), 1 / 3),
        (
            labels(["0a", "2a"], document_keys=["1a", "1b", "2a", "2b", "3a", "3b", "4a", "4b"]),
            1 / 3,
        ),
        (labels([]), AbsentReason.NO_RELEVANT_SENTENCES),
        (labels(None), AbsentReason.INCOMPLETE_LABELS),
    ],
)
def test_a_document_is_relevant_if_one_of_its_sentences_is(found: SentenceLabels, expected: object) -> None:
    value = score_documents(interaction(4), [found])
    assert value == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_without_labels_or_documents_it_is_absent_with_the_reason() -> None:
    assert score_documents(interaction(2), []) is AbsentReason.NOT_LABELED
    assert score_documents(interaction(0), [labels(["0a"])]) is AbsentReason.NOTHING_RETRIEVED


async def test_the_setting_turns_it_on_and_events_declare_it(server: ScriptedJudge) -> None:
    given = settings(server).model_copy(update={"metrics": (NAME,)})
    async with labeler_of(given, None) as labeler:
        labeling = await labeler.label(TOWER)
        event = metric_event(TOWER, labeler_id(labeler), labeling, labeled_at=utc_now(), latency_s=0.0)
    assert MetricEvent.decode(event.encode()) == event
    assert event.scores[NAME] == 1.0
    assert event.declared is not None
    assert event.declared[NAME].measure == optional_metrics()[NAME].declaration.measure


async def test_a_labeler_without_such_labels_leaves_it_absent() -> None:
    async with labeler_of(Settings(metrics=(NAME,)), None) as labeler:
        assert (await labeler.label(TOWER)).absent[NAME] == "not_labeled"
    async with labeler_of(Settings(), None) as labeler:
        labeling = await labeler.label(TOWER)
    assert NAME not in {*labeling.scores, *labeling.absent}


def test_rules_know_it_if_the_settings_name_it() -> None:
    assert NAME in known_metrics(Settings(metrics=(NAME,)))
    assert NAME not in known_metrics(Settings())
