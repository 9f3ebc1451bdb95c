"""The parts of the journeys (`make journeys`) that need no installation: the pages, and the tests they refer to."""

from tests.journeys.pages import CLICKS, Answered, read_pages
from tests.journeys.record import is_tested
from tests.journeys.steps import JOURNEYS
from tests.support.cases import for_each


@for_each("answered", read_pages())
def test_a_newcomers_question_is_answered_within_two_clicks(answered: Answered) -> None:
    assert answered.clicks is not None
    assert answered.clicks <= CLICKS


def test_each_test_that_a_journey_refers_to_is_there() -> None:
    pains = [pain for journey in JOURNEYS for pain in journey.pains]
    assert [pain for pain in pains if pain.issue is None and not is_tested(pain)] == []


def test_each_pain_of_a_step_is_checked_on_its_screen() -> None:
    steps = [step for journey in JOURNEYS for step in journey.steps]
    assert [pain.was for step in steps for pain in step.pains if not (pain.shows or pain.hides)] == []
