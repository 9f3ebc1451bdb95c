"""The settings of evaluators: what they override, and the errors that name evaluator, field and remedy."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.evaluators import CascadeOverrides, JudgeOverrides
from ragtide_runtime.settings.model import Settings, load_settings

pytestmark = pytest.mark.pure


def loaded(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Settings:
    file = tmp_path / "ragtide.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("RAGTIDE_CONFIG", str(file))
    return load_settings(**given)


TWO = """
[judge]
model = "small"
temperature = 0.3
max_in_flight = 10

[[evaluators]]
name = "one"
labeler = "judge"
pipelines = ["shop*", "help"]
segments = { lang = ["de"] }
rate = 0.1
model = "large"
judge = { max_in_flight = 6, prompt = "keys", grammar = "vllm" }

[[evaluators]]
name = "two"
labeler = "cascade"
cascade = { rate = 0.25 }
"""


def test_an_evaluator_overrides_the_tables_of_the_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(TWO, tmp_path, monkeypatch)
    one, two = (settings.of_evaluator(evaluator) for evaluator in settings.evaluators)
    assert (one.labeler, one.judge.model, one.judge.temperature, one.judge.grammar) == ("judge", "large", 0.3, "vllm")
    assert (two.labeler, two.judge.model, two.cascade.rate) == ("cascade", "small", 0.25)
    assert settings.labelers == ("judge", "local")
    assert settings.evaluators[0].takes("shop-1", {"lang": "de", "x": "y"})
    assert not settings.evaluators[0].takes("shop-1", {"lang": "en"})
    assert not settings.evaluators[0].takes("search", {"lang": "de"})
    assert (one.evaluators, one.evaluator) == ((), settings.evaluators[0])


def test_processes_of_a_worker_divide_the_limits_that_an_evaluator_overrides() -> None:
    given = [{"name": "one", "labeler": "judge", "judge": {"max_in_flight": 6, "tokens_per_minute": 300.0}}]
    settings = Settings.model_validate({"judge": {"max_in_flight": 10}, "evaluators": given})
    shares = [settings.of_process(number, 3) for number in range(3)]
    judges = [share.of_evaluator(share.evaluators[0]).judge for share in shares]
    assert [judge.max_in_flight for judge in judges] == [2, 2, 2]
    assert [judge.tokens_per_minute for judge in judges] == [100.0] * 3
    assert sum(share.judge.max_in_flight for share in shares) == 10


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[evaluators]]\nname = "a"\nlabeler = "judge"\nrate = 0', "ragtide.toml, line 4: evaluators.rate"),
        ('[[evaluators]]\nname = "a"\nlabeler = "judge"\njudge = { temprature = 1 }', "temperature"),
        (
            '[[evaluators]]\nname = "a"\nlabeler = "judge"\njudge = { repeat_share = 2 }',
            "evaluators.judge.repeat_share",
        ),
        ('[[evaluators]]\nname = "A b"\nlabeler = "judge"', "evaluators.name"),
        ('[[evaluators]]\nlabeler = "judge"', "evaluators.name is missing"),
        (
            '[[evaluators]]\nname = "a"\nlabeler = "judge"\njudge = { grammar = "vllm" }',
            "evaluators[0] (a): judge: grammar is vllm, and prompt is full",
        ),
        ('[[evaluators]]\nname = "a"\nlabeler = "local"\n' * 2, "two named 'a'"),
        ('labeler = "judge"\n[[evaluators]]\nname = "a"\nlabeler = "local"', "remove labeler"),
        (
            '[judge]\nover_budget = "local"\n[[evaluators]]\nname = "a"\nlabeler = "judge"',
            'evaluators[0] (a): judge.over_budget is "local"',
        ),
        ('[[evaluators]]\nname = "a"\nlabeler = "judge"\nmodel = "x"\njudge = { model = "y" }', "write one of them"),
        ('[[evaluators]]\nname = "a"\nlabeler = "judge"\npipelines = []', "evaluators.pipelines"),
    ],
)
def test_a_mistake_names_the_evaluator_the_field_and_the_remedy(
    text: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(text, tmp_path, monkeypatch)
    assert named in str(raised.value)


def test_a_caller_that_names_a_labeler_has_no_evaluators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(TWO, tmp_path, monkeypatch, labeler="nli")
    assert (settings.labelers, settings.evaluators) == (("nli",), ())
    with pytest.raises(ConfigurationError, match="several evaluators"):
        _ = loaded(TWO, tmp_path, monkeypatch).one_labeler


@pytest.mark.parametrize("overrides", [JudgeOverrides, CascadeOverrides])
def test_rules_about_several_settings_are_checked_with_the_whole_table_only(overrides: type[BaseModel]) -> None:
    """A table of an evaluator has a few of its settings: the others are those of the deployment."""
    table = overrides.__base__
    assert table is not None
    assert issubclass(table, BaseModel)
    rules = table.__pydantic_decorators__.model_validators
    assert rules
    assert all(name in vars(overrides) for name in rules)
