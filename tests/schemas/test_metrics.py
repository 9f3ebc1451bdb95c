import dataclasses

import pytest
from tests.support.cases import for_each

from ragtide_offline.score.reference_results import REFERENCE_RESULTS, reference_results
from ragtide_schemas import METRICS, RAGTIDE_METRICS, Direction, Kind, MetricDefinition, range_of

MINE = MetricDefinition("mine.length", 0.0, 50.0, Direction.NEITHER, Kind.ALGEBRAIC, "Words.", "us")


@for_each("metric", RAGTIDE_METRICS)
def test_every_metric_says_what_it_is(metric: MetricDefinition) -> None:
    assert METRICS[metric.name] == metric
    for text in (metric.meaning, metric.source, metric.definition):
        assert text.strip()
    assert metric.needs
    assert metric.lower < metric.upper
    if metric.bands is not None:
        levels = (metric.bands.minimum, metric.bands.good, metric.bands.excellent)
        assert list(levels) == sorted(levels, reverse=metric.direction is Direction.LOWER)


def test_the_table_of_ragtides_own_metrics_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        METRICS["mine.length"] = MINE  # type: ignore[index]
    assert "mine.length" not in METRICS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "words"}, "not family.metric"),
        ({"name": "Mine.words"}, "not family.metric"),
        ({"name": "mine.more", "upper": 0.0}, "0 to 0"),
        ({"name": "mine.more", "upper": float("inf")}, "two finite numbers"),
        ({"upper": 1e300}, "choose another unit"),
        ({"upper": 1e-300}, "choose another unit"),
        ({"edges": (1.0, 1.0)}, "give rising numbers"),
    ],
)
def test_a_metric_that_cannot_be_is_refused_with_what_to_do(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(MINE, **changes)  # type: ignore[arg-type]


@for_each("result", REFERENCE_RESULTS)
def test_published_results_are_of_known_metrics_and_in_range(result: object) -> None:
    for metric, mean in result.means.items():  # type: ignore[attr-defined]
        lower, upper = range_of(metric, None)
        assert metric in METRICS
        assert lower <= mean <= upper


def test_published_ragchecker_results_obey_its_identities() -> None:
    """A typing mistake of a percent or more shows here; the published means themselves are off by up to a percent."""
    for result in REFERENCE_RESULTS:
        m = {name.removeprefix("ragchecker."): mean for name, mean in result.means.items()}
        if "precision" in m:
            assert m["faithfulness"] + m["hallucination"] + m["self_knowledge"] == pytest.approx(1, abs=0.0011)
            noise = m["noise_sensitivity_in_relevant"] + m["noise_sensitivity_in_irrelevant"]
            assert m["precision"] + m["hallucination"] + noise == pytest.approx(1, abs=0.0121)


def test_published_results_are_found_by_data_set() -> None:
    assert len(reference_results("ClapNQ")) == 8
    assert reference_results("ragbench") == reference_results("RAGBench")
    assert [name for name in {result.dataset for result in REFERENCE_RESULTS} if not name.isalnum()] == []
    with pytest.raises(ValueError, match="There are: ClapNQ"):
        reference_results("nothing")
