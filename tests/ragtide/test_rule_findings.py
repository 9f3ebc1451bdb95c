"""A rule on a metric that does not exist, or that the labeler never publishes, is refused or warned of."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.cases import for_each
from tests.support.conditions import until
from typer.testing import CliRunner

from ragtide import AlertRule, CustomMetric, MetricDefinition
from ragtide.cli.app import cli
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_offline.replay.result import without_values
from ragtide_roles.doctor.examination import examine
from ragtide_roles.rule_checks import rule_findings, scored_metrics
from ragtide_roles.serving import serve
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import Direction, Kind, RagInteraction

WORDS = CustomMetric(
    MetricDefinition("mine.words", 0, 1000, Direction.NEITHER, Kind.ALGEBRAIC, "Words of the response.", "us"),
    lambda interaction, labels: 1.0,
)


def rule(metric: str, name: str = "floor") -> AlertRule:
    return AlertRule(name=name, kind="threshold", metric=metric, target=0.5, direction="fall")


@for_each(
    "metric, words",
    [
        ("trace.adherance", "there is no metric 'trace.adherance'; did you mean 'trace.adherence'?"),
        ("ragchecker.faithfullness", "did you mean 'ragchecker.faithfulness'?"),
        ("sentences.unsuported", "did you mean 'sentences.unsupported'?"),
        ("rmse.trace.adherance", "use kind rmse with the metric trace.adherence"),
    ],
)
def test_a_metric_that_a_closed_family_has_not_is_refused(metric: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(metric)
    assert words in str(refused.value)


def test_a_metric_of_ones_own_is_not_named_into_a_closed_family() -> None:
    with pytest.raises(ValueError, match="give it a family of your own, such as mine"):
        CustomMetric(
            MetricDefinition("trace.words", 0, 1, Direction.NEITHER, Kind.ALGEBRAIC, "Words.", "us"),
            lambda interaction, labels: 1.0,
        )


def test_a_rule_on_self_consistency_without_second_answers_is_warned_of() -> None:
    watching = AlertRule(name="judge", kind="drift", metric="judge.self_consistency")
    (found,) = rule_findings([watching], Settings(labeler="judge"))
    assert found.level == "warning"
    assert "set judge.repeat_share, such as 0.02" in found.message
    assert rule_findings([watching], Settings(labeler="judge", judge=JudgeSettings(repeat_share=0.02))) == []
    (found,) = rule_findings([watching], Settings(labeler="local"))
    assert "never publishes judge.self_consistency" in found.message


def test_a_declared_metric_is_known_and_a_misspelt_one_is_warned_of() -> None:
    settings = Settings(metrics=("tests.ragtide.test_rule_findings:WORDS",))
    assert rule_findings([rule("mine.words")], settings) == []
    (found,) = rule_findings([rule("mine.wrods")], settings)
    assert found.level == "warning"
    assert "did you mean mine.words?" in found.message
    (unknown,) = rule_findings([rule("mine.words")], Settings())
    assert unknown.level == "warning"
    assert "name it in the setting metrics" in unknown.message


@for_each(
    "labeler, families, metric, fires",
    [
        ("local", ("trace",), "trace.completeness", False),
        ("local", ("trace",), "trace.adherence", True),
        ("local", ("trace",), "retrieval.empty", True),
        ("local", ("trace",), "ragchecker.f1", False),
        ("judge", ("trace",), "trace.completeness", True),
        ("judge", ("trace",), "sentences.unsupported", True),
        ("judge", ("ragchecker",), "trace.adherence", False),
        ("cascade", ("ragchecker",), "trace.adherence", True),
        ("cascade", ("ragchecker",), "trace.average", False),
        ("tests.own:labeler", ("trace",), "ragchecker.f1", True),
    ],
)
def test_a_metric_that_the_labeler_never_publishes_is_warned_of(
    labeler: str, families: Any, metric: str, fires: bool
) -> None:
    settings = Settings(labeler=labeler, judge={"families": families})
    found = [one for one in rule_findings([rule(metric)], settings) if "never fires" in one.message]
    assert [one.level for one in found] == ([] if fires else ["warning"])
    if not fires:
        assert f"the labeler {labeler} (setting labeler) never publishes {metric}" in found[0].message


async def test_the_local_labeler_publishes_what_is_said_of_it() -> None:
    labeling = await LocalLabeler().label(
        RagInteraction(
            pipeline="p",
            question="Where is the tower of the city?",
            documents=[{"text": "The tower of the city is in Paris. It is made of iron."}],
            response="The tower of the city is in Paris.",
        )
    )
    said = scored_metrics(Settings())
    assert said is not None
    assert {metric for metric in said if metric.startswith(("trace.", "retrieval.match"))} == set(labeling.scores)


RULES = """
[[alerts]]
name = "fine"
kind = "drift"
metric = "trace.adherence"

[[alerts]]
name = "quiet"
kind = "drift"
metric = "trace.completeness"
"""


def checked(file: Path, text: str, *options: str) -> Any:
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(cli, ["rules", "check", str(file), *options])


def test_rules_check_passes_warns_and_fails_by_its_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    result = checked(file, RULES)
    assert result.exit_code == 0
    assert f"{file}: alert rule quiet: the labeler local" in result.stdout
    assert "1 of 2 rules can fire" in result.stdout
    assert checked(file, RULES, "--strict").exit_code == 1
    found = json.loads(checked(file, RULES, "--json").stdout)
    assert [(one["rule"], one["level"]) for one in found] == [("quiet", "warning")]
    twice = checked(file, RULES.replace("quiet", "fine"))
    assert twice.exit_code == 1
    assert "another rule has this name" in twice.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RULES.replace("trace.adherence", "trace.adherance"), "did you mean 'trace.adherence'?"),
        (RULES.replace('metric = "trace.adherence"', 'metric = "trace.adherence"\ntraget = 1'), "traget"),
        ("[[alerts]\n", "rules.toml"),
        ("", "has no rules"),
    ],
)
def test_rules_check_tells_file_rule_and_remedy_and_never_a_regular_expression(
    tmp_path: Path, text: str, words: str
) -> None:
    result = checked(tmp_path / "rules.toml", text)
    assert result.exit_code == 1
    said = str(result.exception) + result.output
    assert "rules.toml" in said
    assert words in said
    assert "[a-z]" not in said


async def test_doctor_and_a_starting_role_tell_of_a_rule_that_never_fires(
    async_redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(redis_url=redis_url, alerts=(rule("trace.completeness", "quiet"),))
    found = {finding.subject: finding for finding in await examine(async_redis, settings, "a Redis")}
    assert found["alert rule quiet"].level == "warning"
    assert "never publishes trace.completeness" in found["alert rule quiet"].found
    stop = asyncio.Event()
    told: list[str] = []

    def warned() -> bool:
        told.append(capsys.readouterr().out)
        return "an alert rule never fires" in "".join(told)

    task = asyncio.create_task(
        serve(settings, redis_url, stop, worker=False, aggregator=True, process=ProcessTelemetry())
    )
    await until(warned)
    stop.set()
    await task
    assert "quiet" in "".join(told)


def test_a_replay_tells_which_rules_saw_no_value() -> None:
    errors = AlertRule(name="errors", kind="rmse", metric="trace.adherence", target=0.2)
    told = list(without_values([rule("trace.completeness"), rule("trace.adherence"), errors], {"trace.adherence"}))
    assert told == [
        "Rule floor could not fire: no interaction has a value of trace.completeness.",
        "Rule errors could not fire: no interaction has a gold score of trace.adherence.",
    ]


@for_each(
    "covariate, words",
    [
        ("question_length", None),
        ("segment:topic", None),
        ("question_lenght", "did you mean question_length?"),
        ("difficulty", 'publish it with the interactions (covariates = {"difficulty": ...})'),
    ],
)
def test_a_covariate_that_ragtide_does_not_compute_is_warned_of(covariate: str, words: str | None) -> None:
    watching = AlertRule(name="inputs", kind="distribution", covariate=covariate, run_length=1000)
    found = rule_findings([watching], Settings())
    assert [finding.level for finding in found] == ([] if words is None else ["warning"])
    assert words is None or words in found[0].message


def test_a_replay_says_which_rules_saw_no_covariate() -> None:
    watching = AlertRule(name="inputs", kind="distribution", covariate="difficulty", run_length=1000)
    assert list(without_values([watching], {"trace.adherence"})) == [
        "Rule inputs could not fire: no interaction has the covariate difficulty."
    ]
    assert list(without_values([watching], {"covariate.difficulty"})) == []


EVALUATORS = [
    {"name": "judged", "labeler": "judge", "pipelines": ["shop*"]},
    {"name": "plain", "labeler": "local", "pipelines": ["search"]},
]
ASKS_BACK = {"name": "asks_back", "question": "Does it ask back?", "scale": "yes_no"}


@for_each(
    "metric, pipeline, words",
    [
        ("trace.completeness", "*", None),
        ("trace.completeness", "shop-1", None),
        ("trace.completeness", "s*", None),
        ("trace.completeness", "search", "trace.completeness is scored in other pipelines only"),
        ("trace.adherence", "search", None),
        ("trace.adherence", "bank", "trace.adherence is scored in other pipelines only"),
        ("retrieval.empty", "bank", None),
        ("answer.refused", "*", 'add name = "answer.refused" to [[judge.criteria]]'),
        ("ragchecker.f1", "*", "none of the labelers judge, local (setting evaluators) publishes ragchecker.f1"),
        ("criteria.asks_back", "shop", None),
        ("criteria.asks_back", "search", "is scored in other pipelines only"),
        ("criteria.own", "shop", None),
        ("criteria.some", "shop", None),
        ("criteria.some", "shop-2", "is scored in other pipelines only"),
    ],
)
def test_a_metric_of_one_evaluator_is_watched_in_its_pipelines(metric: str, pipeline: str, words: str | None) -> None:
    own = {
        "name": "own",
        "labeler": "judge",
        "pipelines": ["shop"],
        "judge": {"criteria": [{**ASKS_BACK, "name": "own"}]},
    }
    some = {**ASKS_BACK, "name": "some", "pipelines": ["shop"]}
    settings = Settings.model_validate({"evaluators": [*EVALUATORS, own], "judge": {"criteria": [ASKS_BACK, some]}})
    if metric.startswith(("ragchecker", "answer")):
        settings = Settings.model_validate({"evaluators": EVALUATORS})
    watching = AlertRule(name="floor", kind="threshold", metric=metric, target=0.5, direction="fall", pipeline=pipeline)
    found = rule_findings([watching], settings)
    assert [finding.level for finding in found] == ([] if words is None else ["warning"]), found
    assert words is None or words in found[0].message


def test_a_rule_on_a_labeler_that_scores_nothing_here_is_warned_of() -> None:
    watching = AlertRule(name="judged", kind="drift", metric="trace.adherence", baseline="earlier", labeler="judge")
    (warning,) = rule_findings([watching], Settings(labeler="local"))
    assert (warning.rule, warning.level) == ("judged", "warning")
    assert rule_findings([watching], Settings(labeler="cascade")) == []


def test_a_target_beside_a_judge_is_for_the_judges_number() -> None:
    (warning,) = rule_findings([rule("trace.adherence")], Settings(labeler="cascade"))
    assert 'labeler = "judge"' in warning.message
    by_judge = rule("trace.adherence").model_copy(update={"labeler": "judge"})
    assert rule_findings([by_judge], Settings(labeler="cascade")) == []
    assert rule_findings([rule("trace.adherence")], Settings(labeler="local")) == []
    assert rule_findings([rule("trace.context_utilization")], Settings(labeler="cascade")) == []
