"""`ragtide explain`: a metric by any of its names, from its definition, with the labelers that give it."""

import json
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.screens import WIDTHS, drawn
from typer.testing import CliRunner

from ragtide.cli.app import cli
from ragtide.cli.printing import fitted
from ragtide.cli.printing.pages import METRIC_COLUMNS, explanation, given_by
from ragtide_schemas import METRICS
from ragtide_schemas.metric_definitions import definitions_of_errors


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def explained(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["explain", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@for_each(
    "given, name",
    [
        ("trace.adherence", "trace.adherence"),
        ("adherence", "trace.adherence"),
        ("context_utilization", "trace.context_utilization"),
        ("hallucination", "ragchecker.hallucination"),
        ("rmse.adherence", "rmse.trace.adherence"),
        ("rmse", "rmse.trace"),
        ("consistency_score", "consistency_score.trace"),
        ("retrieval.average_precision", "retrieval.average_precision"),
    ],
)
def test_a_metric_is_found_by_its_name_in_tables_and_without_its_family(given: str, name: str) -> None:
    assert explained(given)["metric"] == name


def test_the_explanation_comes_from_the_definition() -> None:
    found, metric = explained("hallucination"), METRICS["ragchecker.hallucination"]
    assert (found["meaning"], found["formula"]) == (metric.meaning, metric.definition)
    assert found["bands"] == {"acceptable": 0.15, "good": 0.1, "excellent": 0.05}
    assert (found["direction"], found["related"]) == ("lower", list(metric.related))
    assert found["does_not_tell"] == metric.does_not_tell


def test_a_metric_of_any_tool_is_explained() -> None:
    failed = explained("tool.search_docs.failed")
    assert (failed["direction"], failed["range"]) == ("lower", [0.0, 1.0])
    assert "search_docs" in failed["meaning"]
    assert failed["labelers"] == explained("agent.wasted")["labelers"]
    assert CliRunner().invoke(cli, ["explain", "tool.search_docs.fails"]).exit_code == 1


def test_the_labelers_are_those_that_publish_the_metric() -> None:
    assert explained("adherence")["labelers"] == ["local", "nli", "judge", "labels stored in a file"]
    assert explained("completeness")["labelers"] == ["judge", "labels stored in a file"]
    assert explained("recall")["labelers"] == ["nli", "judge with family ragchecker", "labels stored in a file"]
    assert explained("retrieval.empty")["labelers"] == ["every labeler"]


@for_each("given, meant", [("adherance", "'adherence'"), ("trace.adherance", "'trace.adherence'")])
def test_an_unknown_name_gets_a_suggestion(given: str, meant: str) -> None:
    result = CliRunner().invoke(cli, ["explain", given])
    assert result.exit_code == 1
    assert f"did you mean {meant}?" in result.output


def test_without_a_name_all_metrics_are_listed() -> None:
    result = CliRunner().invoke(cli, ["explain"])
    assert result.exit_code == 0
    assert all(name in result.stdout for name in METRICS)
    assert "higher is better; good from 0.8" in result.stdout


@for_each("width", WIDTHS)
def test_the_screens_fit(width: int) -> None:
    listed = drawn(fitted(METRIC_COLUMNS, [*METRICS.values()], width), width)
    assert all(name in listed for name in METRICS)
    for metric in (*METRICS.values(), *definitions_of_errors(METRICS).values()):
        text = " ".join(drawn(explanation(metric, given_by(metric.name, {}, {})), width).split())
        assert metric.direction.in_words in text


def test_every_metric_names_its_limit_and_related_metrics_that_exist() -> None:
    known = {**METRICS, **definitions_of_errors(METRICS)}
    for metric in known.values():
        assert metric.does_not_tell.endswith(".")
        assert metric.related
        assert metric.name not in metric.related
        assert set(metric.related) <= set(known)
