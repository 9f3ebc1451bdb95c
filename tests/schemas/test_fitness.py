"""The purposes of a labeler's numbers are stated in one place, and the docs say the same."""

import re

import pytest
from tests.support.doc_pages import page_text

from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_schemas import METRICS
from ragtide_schemas.fitness import PURPOSES, Stated, fit_for, fitness_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("labeler", sorted({*BUILT_IN, "gold"} - {"cascade"}))
def test_every_labeler_of_ragtide_states_its_purposes_for_every_metric(labeler: str) -> None:
    for metric in METRICS:
        found = fit_for(labeler, metric)
        assert found, metric
        assert [purpose for purpose in PURPOSES if purpose in found] == [*found], "in their order"


def test_the_local_labeler_is_for_no_threshold_and_no_single_item_but_its_counts_are() -> None:
    assert fit_for("local", "trace.adherence") == ("trend", "ranking")
    assert fit_for("local", "retrieval.empty") == PURPOSES


def test_an_unknown_labeler_and_a_metric_of_your_own_state_nothing() -> None:
    assert fit_for("mine", "trace.adherence") is None
    assert fit_for("local", "own.politeness") is None
    assert fitness_of("mine", ["trace.adherence"]) == "fit for: not stated"
    assert fit_for("stored", "trace.adherence") is None
    assert fitness_of("mine", ["own.politeness"]) is None


def test_stated_purposes_replace_those_of_ragtide_and_hold_for_metrics_of_your_own() -> None:
    stated: Stated = {"mine": ("ranking",), "judge": PURPOSES[:3]}
    assert fit_for("mine", "trace.adherence", stated) == fit_for("mine", "own.politeness", stated) == ("ranking",)
    assert fit_for("mine", "response.empty", stated) == PURPOSES
    assert fit_for("local", "trace.adherence", stated) == PURPOSES[:2]
    assert fitness_of("mine", ["response.empty", "own.politeness"], stated) == (
        "fit for ranking; not for trend, threshold, single items"
    )
    assert "measure its agreement" in (fitness_of("judge", ["trace.adherence"]) or "")
    assert fitness_of("judge", ["trace.adherence"], stated) == "fit for trend, ranking, threshold; not for single items"


def test_the_docs_say_the_same() -> None:
    text = page_text("labelers")
    rows = re.findall(r"^\| \[`(\w+)`\].*\| ([^|]+) \|$", text, re.MULTILINE)
    assert {name for name, _ in rows} == set(BUILT_IN)
    for name, purposes in rows:
        if name != "cascade":
            said = fitness_of(name, ["trace.adherence"]) or ""
            assert said.startswith(f"fit for {purposes.partition(';')[0]};")
            assert ("measure its agreement" in said) == purposes.endswith("; the rest as measured")
