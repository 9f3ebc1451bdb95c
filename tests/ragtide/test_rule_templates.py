"""The templates of alert rules are rules that can fire, for any name of a pipeline."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.in_process import run_command

from ragtide import AlertRule
from ragtide_roles.rule_templates import TEMPLATES, about, fill_template


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_can_be_checked_and_fire(template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "rules", "template", template, "--pipeline", "shop-*")
    assert shown.code == 0
    file = tmp_path / "rules.toml"
    file.write_text(shown.stdout)
    checked = run_command(capsys, "rules", "check", str(file), "--strict")
    assert checked.code == 0, checked.stdout
    rules = [AlertRule.model_validate(alert) for alert in tomllib.loads(shown.stdout)["alerts"]]
    assert {rule.pipeline for rule in rules} == {"shop-*"}
    assert all(rule.name.startswith("shop-") for rule in rules)


@given(st.text(min_size=1, max_size=80))
def test_any_name_of_a_pipeline_is_quoted(pipeline: str) -> None:
    try:
        given = AlertRule(name="a", kind="drift", metric="trace.adherence", pipeline=pipeline)
    except ValidationError:
        return
    for template in TEMPLATES:
        rules = [
            AlertRule.model_validate(alert) for alert in tomllib.loads(fill_template(template, pipeline))["alerts"]
        ]
        assert {rule.pipeline for rule in rules} == {given.pipeline}
        assert len({rule.name for rule in rules}) == len(rules)


def test_without_a_name_the_templates_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "rules", "template")
    assert shown.code == 0
    for template in TEMPLATES:
        assert template in shown.stdout
        assert about(template).split(":")[0] in shown.stdout.replace("\n", " ")


def test_an_unknown_template_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "rules", "template", "bussy")
    assert shown.code == 1
    assert "did you mean 'busy'?" in shown.told
