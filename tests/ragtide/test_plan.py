"""`ragtide capacity plan`: judged items for a wanted width, from given numbers and from a deployment's estimates."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis
from tests.support.metric_events import event
from tests.support.owners import owners
from tests.support.screens import WIDTHS, drawn
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide.cli.printing.laboratory import plan_view
from ragtide_offline.capacity.judged_sample import JudgedScale, sample_plan
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import JudgedScores

pytestmark = pytest.mark.processes

GIVEN = ("plan", "criteria.x", "--half-width", 0.03, "--traffic", 5000, "--mean", 0.2, "--correlation", 0.6)


def run(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == exit_code, result.output + str(result.exception)
    return result


def test_given_numbers_are_planned_with_and_without_the_proxy_and_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", json.dumps({"m": {"input": 1.0, "output": 4.0}}))
    found: dict[str, Any] = json.loads(run(*GIVEN, "--json").stdout)
    scale = JudgedScale(0.2, 0.0, 1.0, 0.4, 0.6)
    expected = scale.judged_for(0.03, 35_000, confidence=0.95)
    assert found["with_proxy"]["judged"] == expected
    assert found["judged_alone"]["judged"] > expected
    assert found["usd_each"] > 0
    assert found["with_proxy"]["usd"] == pytest.approx(expected * found["usd_each"])
    assert found["interactions"] == 35_000
    assert "with the proxy" in run(*GIVEN).stdout


def test_a_width_that_everything_judged_does_not_give_fails() -> None:
    found = run(*GIVEN[:3], 0.0001, *GIVEN[4:], exit_code=4)
    assert "not reached" in found.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--mean", 1.5), "--mean is 1.5"), (("--mean", 0.5, "--deviation", 0.9), "--deviation is 0.9")],
)
def test_impossible_numbers_are_refused(options: tuple[object, ...], words: str) -> None:
    assert words in " ".join(run(*GIVEN[:6], *options, exit_code=2).stderr.split())


def test_a_metric_that_no_judge_scores_for_an_answer_is_refused_by_name(
    redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushdb()
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    solved = {"name": "solved", "question": "Was it solved?", "scale": "yes_no", "unit": "session"}
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([solved]))
    assert "about whole sessions" in str(run(*GIVEN[:1], "criteria.solved", *GIVEN[2:], exit_code=1).exception)
    for metric in ("criteria.solve", "solved", "trace.adherance"):
        assert f"no metric '{metric}'" in run(*GIVEN[:1], metric, *GIVEN[2:], exit_code=2).stderr
    assert "taken to be between 0 and 1" in run(*GIVEN[:1], "own.metric", *GIVEN[2:]).stderr


@pytest.mark.parametrize("width", WIDTHS)
def test_the_screen_fits(width: int) -> None:
    plan = sample_plan(
        "criteria.asks_back", JudgedScale(0.2, 0, 1, 0.4, 0.6), 0.03, days=7, interactions_a_day=5_000,
        confidence=0.95, usd_each=0.001,
    )  # fmt: skip
    assert "judged alone" in drawn(plan_view(plan, width), width)


async def _judged_sample(url: str, items: int) -> None:
    """Commit yes to 30% by a judge who sees half of the items, and a proxy that is often right."""
    rng, events = np.random.default_rng(2), []
    for number in range(items):
        yes = rng.random() < 0.3
        judged = JudgedScores(
            labeler="judge", labeler_version="1", profile="ragbench", scores={"trace.adherence": float(yes)},
            inclusion_probability=0.5, uniform=True,
        )  # fmt: skip
        guess = 0.8 if yes != (rng.random() < 0.1) else 0.2
        is_chosen = {"judged": judged} if rng.random() < 0.5 else {}
        events.append(event(number, {"trace.adherence": guess}, labeler="local", **is_chosen))
    client = Redis.from_url(url)
    await owners(client, Settings())[0].commit(*events)
    await client.aclose()


def test_the_estimates_of_a_deployment_give_mean_deviation_and_correlation(
    redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    redis.flushdb()
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    asked = ("plan", "trace.adherence", "--half-width", 0.02, "--traffic", 5000)
    assert "no sample with scores" in str(run(*asked, exit_code=1).exception)
    asyncio.run(_judged_sample(redis_url, 1_000))
    found = json.loads(run(*asked, "--json").stdout)
    assert found["scale"]["mean"] == pytest.approx(0.3, abs=0.05)
    assert found["scale"]["deviation"] == pytest.approx(0.46, abs=0.03)
    # That of the 495 judged items, by NumPy.
    assert found["scale"]["correlation"] == pytest.approx(0.832005, abs=1e-4)
    assert found["with_proxy"]["judged"] < 0.7 * found["judged_alone"]["judged"]
    assert found["usd_each"] is None
    assert "No price is known" in " ".join(run(*asked).stdout.split())
    listed = CliRunner().invoke(cli, ["estimates", "--json", "--estimator", "all"])
    (tmp_path / "estimates.json").write_text(listed.stdout, encoding="utf-8")
    monkeypatch.setenv("RAGTIDE_REDIS_URL", "redis://127.0.0.1:1/0")
    of_file = json.loads(run(*asked, "--estimates", tmp_path / "estimates.json", "--json").stdout)
    assert of_file == found
    (tmp_path / "estimates.json").write_text("{}", encoding="utf-8")
    assert "--estimator all" in run(*asked, "--estimates", tmp_path / "estimates.json", exit_code=2).stderr
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    assert "no sample of shpo" in str(run(*asked, "--pipeline", "shpo", exit_code=1).exception)


def test_the_price_of_a_criterion_has_the_criterion_whatever_its_pipelines_and_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "m")
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", json.dumps({"m": {"input": 1.0, "output": 4.0}}))

    def price(*criteria: dict[str, Any], pipeline: str = "shop") -> float:
        monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps(criteria))
        return float(json.loads(run(*GIVEN, "--pipeline", pipeline, "--json").stdout)["usd_each"])

    x = {"name": "x", "question": "Is it short?", "scale": "yes_no"}
    other = {"name": "other", "question": "Is it kind?", "scale": "yes_no", "pipelines": ["bank"]}
    alone = price(x)
    assert alone > price()
    assert price({**x, "rate": 0.1, "pipelines": ["shop*"], "segments": {"lang": ["de"]}}) == alone
    assert price(x, other) == alone
    assert price(x, other, pipeline="bank") > alone
