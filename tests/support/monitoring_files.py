"""The rules for Prometheus, the dashboard for Grafana, and the queries in them and on the page about them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.doc_pages import page_text

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "ragtide.rules.yml"
TESTS: Final = DEPLOY / "prometheus" / "ragtide.test.yml"
DASHBOARD: Final = DEPLOY / "grafana" / "ragtide.json"

VARIABLES: Final = {
    "$__rate_interval": "1m",
    "$window": "all",
    "$job": ".*",
    "$pipeline": ".*",
    "$metric": ".*",
}
"""A value for each variable of the dashboard."""


def rules() -> list[dict[str, Any]]:
    """Return every alerting rule."""
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def panel_queries() -> Iterator[tuple[str, str]]:
    """Yield the title of a panel and a query of it, for each query of the dashboard."""
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], filled(target["expr"])
    for one in board["annotations"]["list"]:
        yield one["name"], filled(one["expr"])


def filled(query: str) -> str:
    """Return a query of the dashboard with a value for each variable."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def page_queries() -> list[str]:
    """Return the queries on the page about Prometheus."""
    page = page_text("prometheus")
    blocks: list[str] = re.findall(r"^```promql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block.strip() for block in blocks]


def queries() -> list[tuple[str, str]]:
    """Return every query of the rules, the dashboard and the page, each with its place."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    return [*found, *panel_queries(), *(("docs/operate/prometheus.md", query) for query in page_queries())]
