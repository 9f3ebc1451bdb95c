"""What asks the judge alone, and what asks the evaluators, in a deployment that has evaluators."""

from types import SimpleNamespace
from typing import Any

import pytest

from ragtide_offline.criterion_trial import CriterionTrial
from ragtide_offline.demo import demo_interactions
from ragtide_offline.replay.plan import ReplayPlan, settings_of_replay
from ragtide_offline.replay.selection import Selection
from ragtide_producers import Row
from ragtide_roles.criteria.pricing import TYPICAL, criteria_prices
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion

pytestmark = pytest.mark.pure

KIND = Criterion(name="kind", question="Is it kind?", scale="yes_no")
SETTINGS = Settings.model_validate(
    {
        "judge": {"model": "m", "api_key": "none", "prices": {"m": {"input": 1.0, "output": 2.0}}},
        "evaluators": [
            {"name": "a", "labeler": "local", "pipelines": ["a"]},
            {"name": "rest", "labeler": "judge", "rate": 0.1, "model": "big"},
        ],
    }
)


async def test_criteria_are_priced_and_tried_with_the_judge_of_the_settings() -> None:
    found = await criteria_prices(SETTINGS, [KIND], demo_interactions()[:TYPICAL])
    assert found.model == "m"
    assert found.each[0].cost_usd
    rows = [Row(number, interaction) for number, interaction in enumerate(demo_interactions()[:3])]
    plan = await CriterionTrial(SETTINGS, KIND, rows).plan()
    assert (plan.calls.calls, plan.has_price) == (3, True)


def replayed(settings: Settings = SETTINGS, **fields: Any) -> tuple[dict[str, Any], Settings]:
    """Return the stored options of a replay and its settings."""
    recording: Any = SimpleNamespace(url="/recording", partitions=[0], redacted=lambda *_, **__: 0)
    info = ReplayPlan("again", recording, Selection(), relabel=True, **fields).info(settings, 10)
    return info.options, settings_of_replay(settings, info)


def test_a_replay_asks_the_evaluators_unless_it_names_a_labeler_or_criteria() -> None:
    assert replayed()[1].evaluators == SETTINGS.evaluators
    for fields, labeler in (({"labeling": {"labeler": "local"}}, "local"), ({"criteria": (KIND,)}, "judge")):
        _, found = replayed(**fields)
        assert (found.labeler, found.evaluators) == (labeler, ())


def test_a_replay_continues_with_the_evaluators_with_which_it_began() -> None:
    other = SETTINGS.model_copy(update={"evaluators": SETTINGS.evaluators[:1]})
    assert replayed()[0] != replayed(other)[0]
