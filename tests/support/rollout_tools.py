"""What Argo Rollouts and Flagger do with the files in deploy/rollouts, after their own rules, without Kubernetes."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

import yaml
from tests.support.monitoring_files import DEPLOY

ROLLOUTS: Final = DEPLOY / "rollouts"

Phase = Literal["Running", "Successful", "Failed", "Inconclusive", "Error"]
Fetch = Callable[[str, Mapping[str, str]], tuple[int, bytes]]
"""Returns status and body of a GET request with these headers."""


@cache
def resources(name: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a file in deploy/rollouts by their kind."""
    return {item["kind"]: item for item in yaml.safe_load_all((ROLLOUTS / name).read_text(encoding="utf-8"))}


def _with_args(text: str, args: Mapping[str, str]) -> str:
    return re.sub(r"\{\{\s*args\.([\w-]+)\s*\}\}", lambda found: args[found[1]], text)


def _holds(condition: str, value: object) -> bool:
    comparison = re.fullmatch(r'result == "(\w+)"', condition)
    assert comparison, f"this reader knows no condition such as {condition}"
    return bool(value == comparison[1])


@dataclass
class AnalysisRun:
    """An AnalysisRun of the committed AnalysisTemplate: one web metric, measured once a call of `measure`.

    Source: argoproj/argo-rollouts, metricproviders/webmetric, utils/evaluate, analysis.assessMetricStatus.
    """

    args: Mapping[str, str]
    """Values of the arguments that the template leaves open, with that of the Secret."""
    phase: Phase = "Running"
    values: list[object] = field(default_factory=list)
    """What the measurements gave."""
    counts: dict[Phase, int] = field(default_factory=dict)
    errors_in_turn: int = 0

    def __post_init__(self) -> None:
        """Give the arguments their values, as Argo does."""
        spec = resources("argo.yaml")["AnalysisTemplate"]["spec"]
        values = {arg["name"]: arg["value"] for arg in spec["args"] if "value" in arg} | dict(self.args)
        missing = [arg["name"] for arg in spec["args"] if arg["name"] not in values]
        assert missing == []
        (self.metric,) = spec["metrics"]
        web = self.metric["provider"]["web"]
        self.url = _with_args(web["url"], values)
        self.headers = {header["key"]: _with_args(header["value"], values) for header in web["headers"]}

    def measure(self, fetch: Fetch) -> Phase:
        """Take one measurement, and return the phase of the run: `Failed` aborts the rollout."""
        assert self.phase == "Running"
        status, body = fetch(self.url, self.headers)
        outcome = self._outcome(status, body)
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        self.errors_in_turn = self.errors_in_turn + 1 if outcome == "Error" else 0
        self.phase = self._assess(outcome)
        return self.phase

    def _outcome(self, status: int, body: bytes) -> Phase:
        path = re.fullmatch(r"\{\$\.(\w+)\}", self.metric["provider"]["web"]["jsonPath"])
        assert path
        if not 200 <= status < 300:
            return "Error"
        document = json.loads(body)
        if path[1] not in document:
            return "Error"
        value = document[path[1]]
        self.values.append(value)
        if _holds(self.metric["failureCondition"], value):
            return "Failed"
        return "Successful" if _holds(self.metric["successCondition"], value) else "Inconclusive"

    def _assess(self, outcome: Phase) -> Phase:
        if self.errors_in_turn > self.metric["consecutiveErrorLimit"]:
            return "Error"
        for phase, limit in (("Inconclusive", "inconclusiveLimit"), ("Failed", "failureLimit")):
            if self.counts.get(phase, 0) > self.metric[limit]:  # type: ignore[call-overload]
                return phase  # type: ignore[return-value]
        if outcome == "Successful" and self.metric["consecutiveSuccessLimit"] == 1:
            return "Successful"
        measured = sum(n for phase, n in self.counts.items() if phase != "Error")
        return "Inconclusive" if measured >= self.metric["count"] else "Running"


def flagger_hook(kind: str) -> dict[str, Any]:
    """Return the committed webhook of a type, such as `rollback`."""
    webhooks = resources("flagger.yaml")["Canary"]["spec"]["analysis"]["webhooks"]
    (hook,) = (hook for hook in webhooks if hook["type"] == kind)
    return dict(hook)


def flagger_payload(hook: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what Flagger posts to a webhook.

    Source: fluxcd/flagger, pkg/controller/webhook.go.
    """
    return {
        "name": "helpdesk",
        "namespace": "test",
        "phase": "Progressing",
        "checksum": "85d557f47b",
        "metadata": {**hook["metadata"], **(metadata or {})},
    }
