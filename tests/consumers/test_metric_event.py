"""The metric event of an interaction says of it what the interaction says."""

from typing import get_args

from hypothesis import given
from tests.support.models import INTERACTION

from ragtide import MetricEvent, RagInteraction, RetrievedDocument
from ragtide_consumers.labelers.event import COMPUTED, covariates_of, metric_event
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_schemas.interaction import usable

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
