"""A cascade of three: the proxy on all, the middle and the reference on samples apart, with exact probabilities."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.consumers.models.small_models import write
from tests.consumers.test_cascade import event_of, interaction
from tests.support.metric_events import START

from ragtide import LabelerUnavailable, Labeling, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.labelers.cascade import CascadeLabeler, draw, draw_middle, position
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_runtime.settings.labelers import CascadeSettings, ModelsSettings

METRIC = "trace.adherence"


def truth_of(one: RagInteraction) -> float:
    return position("truth", one.interaction_id)


class Stage:
    """A labeler whose scores differ from the truth by a shift and by noise that are known."""

    version, profile = "1", "ragbench"
    metrics = (METRIC,)

    def __init__(self, name: str, shift: float, noise: float) -> None:
        self.name, self._shift, self._noise = name, shift, noise
        self.asked: list[str] = []
        self.down = False
        self.closed = 0

    def score(self, one: RagInteraction) -> float:
        noise = self._noise * (position(self.name, one.interaction_id) - 0.5)
        return min(max(0.6 * truth_of(one) + 0.2 + self._shift + noise, 0.0), 1.0)

    async def label(self, one: RagInteraction) -> Labeling:
        if self.down:
            raise LabelerUnavailable(because="asleep")
        self.asked.append(one.interaction_id)
        return Labeling({METRIC: self.score(one)})

    async def aclose(self) -> None:
        self.closed += 1


def three() -> tuple[Stage, Stage, Stage]:
    return Stage("quick", 0.15, 0.3), Stage("middle", 0.05, 0.1), Stage("judge", 0.0, 0.02)


RULES: list[dict[str, Any]] = [
    {},
    {"middle_below": {METRIC: 0.5}},
    {"below": {METRIC: 0.4}},
    {"below": {METRIC: 0.4}, "middle_below": {METRIC: 0.6}, "segment_rates": {"lang=ru": 0.5}},
]


@pytest.mark.parametrize(
    ("rules", "n"), [*(pytest.param(rule, 4000, marks=pytest.mark.heavy) for rule in RULES), (RULES[-1], 800)]
)
async def test_the_means_of_middle_and_reference_over_all_interactions_are_estimated_without_bias(
    rules: dict[str, Any], n: int
) -> None:
    settings = CascadeSettings(rate=0.15, middle="middle", middle_rate=0.3, **rules)
    quick, middle, judge = three()
    cascade = CascadeLabeler(quick, judge, settings, middle=middle)
    state = AggregatorState(StateOptions())
    asked = [interaction(number, lang="ru" if number % 3 else "en") for number in range(n)]
    for one in asked:
        labeling = await cascade.label(one)
        event = metric_event(one, labeler_id(cascade), labeling, labeled_at=START, latency_s=0.0)
        state.apply(event.model_copy(update={"occurred_at": START}))
    assert not set(middle.asked) & set(judge.asked)
    assert len(quick.asked) == len(asked)
    found = {
        (one.labeler, one.estimator): one
        for one in chosen(estimates(state), estimator="all")
        if one.metric == METRIC and not one.segment
    }
    for stage in (middle, judge):
        mean = float(np.mean([stage.score(one) for one in asked]))
        for estimator in ("weighted", "prediction_powered"):
            powered = found[stage.name, estimator]
            assert powered.estimate == pytest.approx(mean, abs=0.02 if n > 1000 else 0.05)
            assert (powered.lower or 0.0) < mean < (powered.upper or 0.0)
        if "mean" in {estimator for name, estimator in found if name == stage.name}:
            assert found[stage.name, "mean"].estimate == pytest.approx(mean, abs=0.04)
    # All quick scores count for the proxy, whoever else labeled the interaction.
    assert found["quick", "mean"].n == len(asked)


def test_the_shares_are_the_rates() -> None:
    settings = CascadeSettings(rate=0.1, middle="middle", middle_rate=0.25)
    counts = Counter[str]()
    for number in range(3000):
        one, scores = interaction(number), Labeling({METRIC: 0.9})
        counts["judge"] += draw(one, scores, settings).chosen
        counts["middle"] += draw_middle(one, scores, settings).chosen
    for name, rate in (("judge", 0.1), ("middle", 0.25)):
        assert abs(counts[name] / 3000 - rate) < 4 * (rate * (1 - rate) / 3000) ** 0.5


RATES = st.floats(0, 1)


@given(st.integers(0, 10**6), st.tuples(RATES, RATES, RATES, RATES, RATES), st.sampled_from(["ru", "de"]), RATES)
def test_the_samples_are_apart_and_their_uniform_parts_depend_on_the_id_alone(
    number: int, rates: tuple[float, ...], language: str, score: float
) -> None:
    rate, extra, share, low, middle_low = rates
    rate, extra = rate * (1 - share), extra * (1 - share)
    settings = CascadeSettings(
        rate=rate,
        segment_rates={"lang=ru": min(extra, 1 - share)},
        below={METRIC: low},
        middle="middle",
        middle_rate=share if rate + share <= 1 and extra + share <= 1 else 0.0,
        middle_below={METRIC: middle_low},
    )
    one, scores = interaction(number, lang=language), Labeling({METRIC: score})
    judge, middle = draw(one, scores, settings), draw_middle(one, scores, settings)
    assert not (judge.chosen and middle.chosen)
    assert judge.inclusion_probability + middle.inclusion_probability <= 1 + 1e-12
    for drawn, again in (
        (judge, draw(interaction(number, lang="xx"), Labeling({}), settings)),
        (middle, draw_middle(interaction(number, lang="xx"), Labeling({}), settings)),
    ):
        assert drawn.uniform == again.uniform
        assert drawn.chosen or not drawn.uniform


async def test_an_unavailable_middle_is_skipped_and_counted_and_reported() -> None:
    quick, middle, judge = three()
    settings = CascadeSettings(rate=0.0, middle="middle", middle_rate=1.0)
    cascade = CascadeLabeler(quick, judge, settings, middle=middle)
    middle.down = True
    labeling = await cascade.label(interaction(1))
    assert labeling.judged is not None
    assert (labeling.judged.by.name, labeling.judged.labeling.absent) == ("middle", {METRIC: "judge_unavailable"})
    assert [outage.ready().ok for outage in cascade.outages] == [True, False]
    with pytest.raises(LabelerUnavailable):
        await CascadeLabeler(quick, judge, settings, wait=True, middle=middle).label(interaction(1))
    await cascade.aclose()
    assert [stage.closed for stage in (quick, middle, judge)] == [1, 1, 1]


async def test_local_then_a_model_then_a_judge(server: ScriptedJudge, tmp_path: Path) -> None:
    models = {"models": ModelsSettings(support=str(write(tmp_path / "small")))}
    for rates, labeler in (({"rate": 0.0, "middle_rate": 1.0}, "model"), ({"rate": 1.0, "middle_rate": 0.0}, "judge")):
        event = await event_of(server, interaction(1), {"middle": "model", **rates}, models)
        assert event.labeler == "local"
        assert event.judged is not None
        assert (event.judged.labeler, event.judged.inclusion_probability, event.judged.uniform) == (labeler, 1.0, True)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"middle": "local"}, "the middle of a cascade is a third labeler, such as model, and is local"),
        ({"middle": "judge"}, "the middle of a cascade is a third labeler"),
        ({"middle": "cascade"}, "the middle of a cascade is a third labeler"),
        ({"middle": "model", "middle_rate": 0.96}, r"middle_rate is 0\.96, and the reference labels up to 0\.05"),
        ({"middle": "model", "middle_rate": 0.6, "segment_rates": {"lang=ru": 0.5}}, r"labels up to 0\.5: together"),
        ({"middle_below": {METRIC: 0.5}}, "middle_below is given without a middle"),
    ],
)
def test_rules_that_do_not_fit_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CascadeSettings(**rules)
