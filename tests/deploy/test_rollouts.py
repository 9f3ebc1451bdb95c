"""The files in deploy/rollouts fit the schemas of Argo Rollouts, Flagger and GitHub, and do what they say."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.support.cases import for_each
from tests.support.rollout_tools import ROLLOUTS, AnalysisRun, Phase, flagger_hook, resources

from ragtide_schemas.release import Release

pytestmark = pytest.mark.pure

SCHEMAS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "rollouts" / "schemas.json").read_text(encoding="utf-8")
)
ARGS = {"pipeline": "helpdesk", "from": "6b9c7d8f5c", "to": "7c9d8f6b5d", "token": "t"}


def strict(schema: Any) -> Any:
    """Return a schema of Kubernetes as it is checked by `kubectl --validate=strict`: unknown fields are errors."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(value) for name, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def problems(kind: str, resource: Any) -> list[str]:
    """Return what is wrong with a resource."""
    errors = Draft202012Validator(strict(SCHEMAS[kind])).iter_errors(resource)
    return [f"{error.json_path}: {error.message}" for error in errors]


@for_each("name, kind", [("argo.yaml", "AnalysisTemplate"), ("argo.yaml", "Rollout"), ("flagger.yaml", "Canary")])
def test_a_resource_fits_its_schema_and_a_misspelt_field_does_not(name: str, kind: str) -> None:
    resource = resources(name)[kind]
    assert problems(kind, resource) == []
    assert problems(kind, {**resource, "spec": {**resource["spec"], "metricz": []}}) != []


def test_the_rollout_gives_the_template_every_argument_that_it_needs() -> None:
    template, rollout = resources("argo.yaml")["AnalysisTemplate"], resources("argo.yaml")["Rollout"]
    needed = {arg["name"] for arg in template["spec"]["args"] if not arg.keys() & {"value", "valueFrom"}}
    (analysis,) = (step["analysis"] for step in rollout["spec"]["strategy"]["canary"]["steps"] if "analysis" in step)
    assert [given["templateName"] for given in analysis["templates"]] == [template["metadata"]["name"]]
    assert {arg["name"] for arg in analysis["args"]} == needed
    # An analysis in a step must end: Argo refuses one without a count.
    (metric,) = template["spec"]["metrics"]
    assert metric["inconclusiveLimit"] < metric["count"]


def ended(*answers: tuple[int, str]) -> Phase:
    """Return the phase of a run after these answers, the last of them for ever."""
    run, given = AnalysisRun(ARGS), list(answers)
    while run.phase == "Running":
        status, verdict = given.pop(0) if len(given) > 1 else given[0]
        run.measure(lambda *_, status=status, verdict=verdict: (status, json.dumps({"verdict": verdict}).encode()))
    return run.phase


@for_each(
    "answers, phase",
    [
        ([(200, "not_worse")], "Successful"),
        ([(200, "worse")], "Failed"),
        ([(404, "")] * 20 + [(200, "undecided")] * 100 + [(200, "worse")], "Failed"),
        ([(200, "not_comparable")] * 50 + [(200, "not_worse")], "Successful"),
        ([(200, "undecided")], "Inconclusive"),
        ([(200, "undecided")] * 10 + [(503, "")], "Error"),
    ],
)
def test_argo_promotes_aborts_or_asks_a_person(answers: list[tuple[int, str]], phase: Phase) -> None:
    assert ended(*answers) == phase


def test_every_verdict_that_the_conditions_name_is_one_of_a_release() -> None:
    verdicts = Release.model_json_schema()["properties"]["verdict"]["enum"]
    (metric,) = resources("argo.yaml")["AnalysisTemplate"]["spec"]["metrics"]
    named = {metric[name].split('"')[1] for name in ("successCondition", "failureCondition")}
    hooks = {flagger_hook(kind)["url"].rsplit("pass=")[1] for kind in ("rollback", "confirm-promotion")}
    assert named == hooks == {"not_worse", "worse"}
    assert named < set(verdicts)
    assert metric["provider"]["web"]["jsonPath"] == "{$.verdict}"


def test_a_hook_of_flagger_ends_before_the_next_and_names_its_release_in_texts() -> None:
    analysis = resources("flagger.yaml")["Canary"]["spec"]["analysis"]
    seconds = [int(hook["timeout"].removesuffix("s")) for hook in analysis["webhooks"]]
    assert analysis["interval"] == "1m"
    assert sum(seconds) < 60
    assert all(isinstance(value, str) for hook in analysis["webhooks"] for value in hook["metadata"].values())


def test_no_file_holds_a_token() -> None:
    for path in ROLLOUTS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load_all(text)
        assert "Bearer {{args.token}}" in text or "TOKEN" in text
