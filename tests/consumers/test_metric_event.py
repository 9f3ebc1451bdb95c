"""The metric event of an interaction says of it what the interaction says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from tests.consumers.specimens.test_keeping import worked
from tests.consumers.test_worker import STREAMS, events
from tests.support.models import INTERACTION

from ragtide import MetricEvent, RagInteraction, RetrievedDocument
from ragtide_consumers.labelers.event import COMPUTED, METRICS_LEFT_OUT, covariates_of, metric_event
from ragtide_consumers.labelers.plugins import CUSTOM_METRICS_MAX, check_number
from ragtide_consumers.labelers.protocol import EvaluatorLabeling, LabelerId, Labeling, ReferenceLabeling
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import EvaluatorScores, MetricDeclaration, utc_now
from ragtide_schemas.criterion import CRITERIA_MAX
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.interaction import usable
from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX, RetrievalStep
from ragtide_schemas.step_metrics import STEP_METRICS_MAX

SHARED = RagInteraction.model_fields.keys() & MetricEvent.model_fields.keys()


@given(INTERACTION)
def test_every_field_that_both_have_is_copied(interaction: RagInteraction) -> None:
    labeling = Labeling(scores={"trace.adherence": 0.5})
    event = metric_event(
        interaction, LabelerId("mine", "1", "p"), labeling, labeled_at=utc_now(), latency_s=0.1, entry_id="1-0"
    )
    assert {name: getattr(event, name) for name in SHARED} == {name: getattr(interaction, name) for name in SHARED}
    assert MetricEvent.decode(event.encode()) == event


@given(INTERACTION)
def test_computed_covariates_are_added_to_those_of_the_interaction(interaction: RagInteraction) -> None:
    event = metric_event(
        interaction, LabelerId("mine", "1", "p"), Labeling(scores={}), labeled_at=utc_now(), latency_s=0.1,
        covariates=COMPUTED,
    )  # fmt: skip
    own, found = interaction.covariates or {}, event.covariates or {}
    assert own.items() <= found.items()
    scores = [document.score for document in interaction.documents if document.score is not None]
    expected = {
        "question_length": len(interaction.question),
        "context_length": sum(len(document.text) for document in interaction.documents),
        "documents": len(interaction.documents),
        **({"top_score": max(scores)} if scores else {}),
    }
    assert {name: found[name] for name in expected.keys() - own.keys() if usable(expected[name])} == {
        name: number for name, number in expected.items() if name not in own and usable(number)
    }
    assert MetricEvent.decode(event.encode()) == event


def test_the_settings_name_every_computed_covariate() -> None:
    (names, _) = get_args(Settings.model_fields["covariates"].annotation)
    assert set(get_args(names)) == COMPUTED.keys()
    assert Settings().covariates == ()


def test_a_retriever_score_beyond_the_bounds_is_absent_and_nothing_else_changes() -> None:
    document = RetrievedDocument(text="d", score=1e300)
    interaction = RagInteraction(pipeline="shop", question="q", documents=[document], response="r")
    assert covariates_of(interaction, ("top_score", "mean_score", "documents")) == {"documents": 1.0}
    assert covariates_of(interaction, ()) is None


def test_both_have_the_fields_that_say_which_answers_depend_on_each_other() -> None:
    assert {"session_id", "turn", "user_id", "cluster", "covariates", "segments", "run"} <= SHARED


@pytest.mark.parametrize("sampled", [1.0, 0.05])
def test_the_probability_of_a_metric_is_that_of_the_sample_times_its_rate(sampled: float) -> None:
    asked = RagInteraction(pipeline="shop", question="q", documents=[], response="r")
    by_judge = Labeling({"criteria.kind": 1.0, "trace.adherence": 1.0}, rates={"criteria.kind": 0.2})
    judge = LabelerId("judge", "1", "p")
    judged = ReferenceLabeling(by_judge, judge, sampled, uniform_probability=1.0)
    of_sample = metric_event(
        asked, LabelerId("mine", "1", "p"), Labeling({}, judged=judged), labeled_at=utc_now(), latency_s=0.1
    ).judged
    assert of_sample is not None
    assert of_sample.probability_of("criteria.kind") == sampled * 0.2
    assert of_sample.probability_of("trace.adherence") == sampled
    alone = metric_event(asked, judge, by_judge, labeled_at=utc_now(), latency_s=0.1)
    assert (alone.probability_of("criteria.kind"), alone.probability_of("trace.adherence")) == (0.2, 1.0)
    assert MetricEvent.decode(alone.encode()) == alone
    assert b"inclusion" not in metric_event(
        asked, judge, Labeling({}), labeled_at=utc_now(), latency_s=0.1
    ).encode().replace(b"inclusion_probability", b"")


DECLARED = {f"mine.m{number:03}": MetricDeclaration(lower=0, upper=1) for number in range(DECLARED_MAX + 30)}
STEPS = [RetrievalStep(name=f"step{number}", kind="retriever", documents=(0,)) for number in range(STEP_NAMES_MAX)]


def labeling_of(declared: Mapping[str, MetricDeclaration]) -> Labeling:
    names = list(declared)
    by = LabelerId("judge", "1", "p")
    judged = ReferenceLabeling(Labeling(scores=dict.fromkeys(names, 0.2)), by, 0.5, uniform_probability=1.0)
    return Labeling(
        scores=dict.fromkeys(names[::2], 0.5), absent=dict.fromkeys(names[1::2], "undefined"), judged=judged,
        declared=declared, rates=dict.fromkeys(names, 0.5),
    )  # fmt: skip


def test_metrics_beyond_the_room_of_an_event_are_left_out_and_counted_and_the_same_of_each_event() -> None:
    given = RagInteraction(
        pipeline="shop", question="q", documents=[RetrievedDocument(text="A text.")], response="r", steps=STEPS
    )
    turned = dict(reversed(list(DECLARED.items())))
    part = EvaluatorLabeling(labeling_of(DECLARED), LabelerId("other", "1", "p"), 0.5)
    for labeling in (labeling_of(DECLARED), labeling_of(turned)):
        event = metric_event(
            given, LabelerId("mine", "1", "p"), replace(labeling, beside=(part,)), labeled_at=utc_now(), latency_s=0.1
        )
        assert MetricEvent.decode(event.encode()) == event
        of_steps = 3 * STEP_NAMES_MAX + 1
        assert event.counters == {METRICS_LEFT_OUT: 2 * (30 + of_steps)}
        parts: list[MetricEvent | EvaluatorScores] = [event, *(event.beside or ())]
        for scores in parts:
            assert list(scores.declared or ()) == sorted(DECLARED)[:DECLARED_MAX]
            named = {*scores.scores, *scores.absent, *(scores.judged.scores if scores.judged else ())}
            assert named >= set(scores.declared or ())
            assert not named & (DECLARED.keys() - (scores.declared or {}).keys())
            assert not any("step" in name for name in named)


def test_with_all_criteria_and_steps_there_is_room_for_the_most_custom_metrics() -> None:
    assert CUSTOM_METRICS_MAX + CRITERIA_MAX + STEP_METRICS_MAX == DECLARED_MAX
    check_number(range(CUSTOM_METRICS_MAX))
    with pytest.raises(ConfigurationError, match=f"at most {CUSTOM_METRICS_MAX}"):
        check_number(range(CUSTOM_METRICS_MAX + 1))


class Talkative:
    """A labeler that declares more metrics than an event has room for."""

    name, version, profile = "talkative", "1", "mine"

    async def label(self, interaction: RagInteraction) -> Labeling:
        return Labeling(scores=dict.fromkeys(DECLARED, 0.5), declared=DECLARED)


@pytest.mark.processes
async def test_a_worker_emits_the_event_and_no_dead_letter(async_redis: Any) -> None:
    given = [RagInteraction(pipeline="shop", question="q", documents=["A text."], response="r")]
    await worked(async_redis, given, Talkative())
    (event,) = await events(async_redis)
    assert (len(event.declared or {}), event.counters[METRICS_LEFT_OUT]) == (DECLARED_MAX, 30)
    assert await async_redis.xlen(STREAMS.dead_letters) == 0
