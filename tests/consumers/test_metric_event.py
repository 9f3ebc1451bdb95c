"""The metric event of an interaction says of it what the interaction says."""

from hypothesis import given
from tests.support.models import INTERACTION

from ragtide import MetricEvent, RagInteraction
from ragtide_consumers.labelers.event import metric_event
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_schemas import utc_now

SHARED = RagInteraction.model_fields.keys() & MetricEvent.model_fields.keys()


@given(INTERACTION)
def test_every_field_that_both_have_is_copied(interaction: RagInteraction) -> None:
    labeling = Labeling(scores={"trace.adherence": 0.5})
    event = metric_event(
        interaction, LabelerId("mine", "1", "p"), labeling, labeled_at=utc_now(), latency_s=0.1, entry_id="1-0"
    )
    assert {name: getattr(event, name) for name in SHARED} == {name: getattr(interaction, name) for name in SHARED}
    assert MetricEvent.decode(event.encode()) == event


def test_both_have_the_fields_that_say_which_answers_depend_on_each_other() -> None:
    assert {"session_id", "turn", "user_id", "cluster", "segments", "run"} <= SHARED
