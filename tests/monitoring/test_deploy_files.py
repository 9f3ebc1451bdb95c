"""The rules for Prometheus and the dashboard for Grafana use metrics and labels that ragtide has."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from tests.support.cases import for_each
from tests.support.monitoring_files import DASHBOARD, TESTS, dashboard, queries, rules

from ragtide_runtime.telemetry.catalogue import CATALOGUE
from ragtide_runtime.telemetry.metric import Metric
from ragtide_runtime.telemetry.quality_metrics import ALERT_LABELS
from ragtide_schemas import AlertRule

METRICS = {metric.name: metric for metrics in CATALOGUE.values() for metric in metrics}
SCRAPE_LABELS = {"job", "instance"}


def metric_of(name: str) -> Metric:
    bare = re.sub(r"_(bucket|sum|count)$", "", name)
    return METRICS[bare if METRICS.get(bare, METRICS["ragtide_redis_up"]).kind == "histogram" else name]


@for_each("place, query", queries())
def test_every_metric_and_label_of_a_query_exists(place: str, query: str) -> None:
    known = set(SCRAPE_LABELS)
    for name, matchers in re.findall(r"\b(ragtide_\w+|up)\b(?:\{([^}]*)\})?", query):
        labels = set(metric_of(name).labels) if name != "up" else set()
        if name.endswith("_bucket"):
            labels.add("le")
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= labels | SCRAPE_LABELS, name
        known |= labels
    for grouping in re.findall(r"\bby \(([^)]*)\)", query):
        assert {label.strip() for label in grouping.split(",")} <= known
    assert "ragtide_" in query or 'up{job="ragtide"}' in query


def test_an_alert_of_ragtide_is_one_alert_of_prometheus() -> None:
    (rule,) = [rule for rule in rules() if rule["alert"] == "RagtideQuality"]
    (labels,) = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    assert tuple(labels.split(", ")) == ("job", *ALERT_LABELS)


def test_every_rule_has_a_severity_of_ragtide_and_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    (severities,) = (
        one["enum"] for one in AlertRule.model_json_schema()["properties"]["severity"]["anyOf"] if "enum" in one
    )
    checks = [
        check
        for test in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
        for check in test["alert_rule_test"]
    ]
    for rule in rules():
        assert rule["alert"] == "RagtideQuality" or rule["labels"]["severity"] in severities
        assert {bool(check["exp_alerts"]) for check in checks if check["alertname"] == rule["alert"]} == {True, False}
        assert rule["annotations"]["summary"]


NOT_IN_THE_MODELS = {"definition", "titleFormat", "textFormat", "step", "maxPerRow"}
"""Fields of variables, of annotations by Prometheus, and of repeated panels: Grafana has them, its models do not."""


def lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yield the places of a dashboard that Grafana's models have changed or left out."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name in kept:
                yield from lost(value, kept[name], f"{path}/{name}")
            elif name not in NOT_IN_THE_MODELS:
                yield f"{path}/{name}"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, pair in enumerate(zip(given, kept, strict=True)):
            yield from lost(*pair, f"{path}/{number}")
    elif given != kept:
        yield path


def test_the_dashboard_is_one_by_the_models_of_grafana() -> None:
    board = dashboard()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert list(lost(board, kept)) == []
    board["panels"][1]["fieldConfig"]["unheard_of"] = 1
    board["time"]["until"] = "now"
    assert sorted(lost(board, kept)) == ["/panels/1/fieldConfig/unheard_of", "/time/until"]


def test_the_panels_of_the_dashboard_do_not_overlap_and_all_ask_the_chosen_prometheus() -> None:
    board = dashboard()
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not mine & cells, panel["title"]
        cells |= mine
        if panel["type"] != "row":
            assert {one["datasource"]["uid"] for one in (panel, *panel["targets"])} == {"${datasource}"}
            references = [target["refId"] for target in panel["targets"]]
            assert len(set(references)) == len(references)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    names = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", DASHBOARD.read_text(encoding="utf-8"))) == names
