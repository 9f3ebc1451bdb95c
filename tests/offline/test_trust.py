"""`ragtide trust`: what labelers are worth on labeled rows, from the pure function to the command."""

import asyncio
import csv
import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from scipy.stats import linregress, mannwhitneyu
from tests.aggregator.test_history_reading import committed
from tests.support.doc_pages import page_text, tagged_block
from tests.support.metric_events import event
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide.cli.printing.trust import trust_view
from ragtide.testing import JudgePrompt, Says, ScriptedJudge
from ragtide_aggregator.statistics.comparisons.agreement import slope
from ragtide_aggregator.statistics.drift.power import answers_to_find
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_offline.trust.worth import FALLS, LabeledScores, PipelineTraffic, worth_of
from ragtide_runtime.redis.measured_slopes import read_slopes, store_slopes
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Direction, Kind, MetricDefinition, utc_now
from ragtide_schemas.slopes import UNSUPPORTED, Slope

pytestmark = pytest.mark.simulation

ADHERENCE = "trace.adherence"
LOCAL = LabelerId("local", "1", "ragbench")
JUDGE = LabelerId("judge", "m", "ragbench")
PRICES = '{"scripted": {"input": 1.0, "output": 2.0}}'
TOWER = "The tower was built in 1889 by Gustave Eiffel. It stands in Paris."


def scores(seed: int, n: int = 120, *, labeler: LabelerId = JUDGE, noise: float = 0.3, **more: Any) -> LabeledScores:
    """Return scores that fall by .5 where the label is 0, with noise."""
    random = np.random.default_rng(seed)
    truth = (random.random(n) < 0.7).astype(float)
    predicted = np.clip(0.25 + 0.5 * truth + random.normal(0, noise, n) * 0.5, 0, 1)
    return LabeledScores(ADHERENCE, labeler, predicted, truth, **more)


@pytest.mark.parametrize("seed", range(5))
def test_slope_kappa_and_auroc_are_those_of_their_definitions(seed: int) -> None:
    given = scores(seed)
    found = worth_of(given, METRICS[ADHERENCE])
    good, bad = given.predicted[given.truth == 1], given.predicted[given.truth == 0]
    assert found.agreement.slope.value == pytest.approx(good.mean() - bad.mean())
    assert found.agreement.slope.value == pytest.approx(linregress(given.truth, given.predicted).slope)
    assert found.agreement.auroc.value == pytest.approx(mannwhitneyu(good, bad).statistic / (len(good) * len(bad)))
    table = np.zeros((2, 2))
    for label, score in zip(given.truth, given.predicted, strict=True):
        table[int(label), int(score >= 0.5)] += 1
    share = table / table.sum()
    chance = float(share.sum(axis=0) @ share.sum(axis=1))
    assert found.agreement.kappa.value == pytest.approx((np.trace(share) - chance) / (1 - chance))
    assert (found.good, found.bad, found.agreement.n) == (len(good), len(bad), 120)


def test_the_slope_of_shares_is_the_least_squares_slope() -> None:
    random = np.random.default_rng(2)
    truth = random.random(80)
    predicted = 0.1 + 0.4 * truth + random.normal(0, 0.1, 80)
    assert slope(predicted, truth) == pytest.approx(linregress(truth, predicted).slope)
    assert np.isnan(slope(predicted, np.full(80, 0.3)))
    found = worth_of(LabeledScores("trace.context_relevance", LOCAL, predicted, truth), None)
    assert (found.good, found.bad) == (None, None)


def test_nineteen_of_twenty_intervals_of_the_slope_have_it() -> None:
    inside = 0
    for seed in range(200):
        random = np.random.default_rng(1000 + seed)
        truth = (random.random(60) < 0.75).astype(float)
        predicted = np.where(random.random(60) < np.where(truth == 1, 0.9, 0.4), 1.0, 0.0)
        measured = worth_of(LabeledScores(ADHERENCE, JUDGE, predicted, truth), METRICS[ADHERENCE]).agreement.slope
        inside += (measured.lower or 0.0) <= 0.5 <= (measured.upper or 0.0)
    assert 178 <= inside <= 199, inside  # 95%, and the bootstrap of 60 rows is a little too narrow


def test_a_fall_is_seen_as_the_rule_finds_it_at_the_measured_slope() -> None:
    given = scores(3, cost_usd=0.002)
    found = worth_of(given, METRICS[ADHERENCE], rates=(0.05, 0.2), traffic=2400.0)
    measured = found.agreement.slope.value
    assert measured is not None
    assert [sight.rate for sight in found.sights] == [0.05, 0.2]
    for sight in found.sights:
        for fall, seen in zip(FALLS, sight.falls, strict=True):
            mean, sd = float(given.predicted.mean()), float(given.predicted.std())
            expected = answers_to_find(fall, mean=mean, sd=sd, slope=measured, rate=sight.rate)
            assert seen.fall == fall
            assert seen.answers == pytest.approx(expected)
            assert seen.hours == pytest.approx(expected / 100)
        assert sight.usd_per_1000 == pytest.approx(1000 * sight.rate * 0.002)
        assert sight.usd_a_day == pytest.approx(2400 * sight.rate * 0.002)
    assert found.slope == Slope(
        UNSUPPORTED, measured, found.agreement.slope.lower or 0, found.agreement.slope.upper or 0, 120
    )


def test_a_free_labeler_scores_every_answer() -> None:
    found = worth_of(scores(4, labeler=LOCAL), METRICS[ADHERENCE], rates=(0.05,))
    (sight,) = found.sights
    assert (sight.rate, sight.usd_a_day) == (1.0, None)


def test_a_labeler_that_does_not_follow_the_labels_sees_no_fall() -> None:
    random = np.random.default_rng(5)
    blind = LabeledScores(ADHERENCE, JUDGE, random.random(100), (random.random(100) < 0.5).astype(float))
    found = worth_of(blind, METRICS[ADHERENCE], traffic=100.0)
    assert (found.agreement.slope.lower or 0) <= 0
    assert not found.follows_the_labels
    assert {(seen.answers, seen.hours) for sight in found.sights for seen in sight.falls} == {(None, None)}


def test_one_class_has_no_slope_and_no_rows_have_none_either() -> None:
    one = worth_of(LabeledScores(ADHERENCE, LOCAL, np.array([0.2, 0.9, 0.4]), np.ones(3)), METRICS[ADHERENCE])
    assert (one.agreement.slope.value, one.agreement.auroc.value, one.slope) == (None, None, None)
    assert (one.good, one.bad) == (3, 0)
    none = worth_of(LabeledScores(ADHERENCE, LOCAL, np.zeros(0), np.zeros(0)), METRICS[ADHERENCE])
    assert (none.mean, none.agreement.n, none.agreement.kappa.value) == (None, 0, None)


def test_a_metric_whose_lower_values_are_better_rises_by_a_fall() -> None:
    lower = MetricDefinition("mine.errors", 0, 10, Direction.LOWER, Kind.ALGEBRAIC, "", "")
    given = scores(6)
    turned = LabeledScores("mine.errors", JUDGE, 10 * (1 - given.predicted), 10 * (1 - given.truth))
    found, same = worth_of(turned, lower), worth_of(given, METRICS[ADHERENCE])
    assert (found.good, found.bad) == (same.good, same.bad)
    for mine, theirs in zip(found.sights, same.sights, strict=True):
        for seen, other in zip(mine.falls, theirs.falls, strict=True):
            assert seen.answers == pytest.approx(other.answers)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_screen_has_at_most_80_columns_whatever_the_names_and_numbers(width: int) -> None:
    random = np.random.default_rng(7)
    truth = (random.random(150) < 0.7).astype(float)
    predicted = np.where(random.random(150) < 0.9, truth, 1 - truth)
    names = (LOCAL, JUDGE, LabelerId("a_labeler_with_a_long_name:OfItsOwn", "1", ""))
    worths = [
        worth_of(LabeledScores(metric, labeler, predicted, truth, absent=3), None, traffic=1e6)
        for metric in (ADHERENCE, "mine.a_metric_with_a_name_that_is_rather_long.and_longer")
        for labeler in names
    ]
    console = Console(width=width, record=True, file=StringIO())
    console.print(trust_view(worths, 12_345, PipelineTraffic(1e6, "shop"), width, 0.95))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= min(width, 80)
    assert sum(" (" in line for line in lines) >= len(worths)


# --- The command ---


def rows(n: int = 60) -> list[dict[str, Any]]:
    """Return rows of which every third is unsupported."""
    return [
        {
            "interaction_id": f"i-{number}",
            "question": f"When was tower {number} built?",
            "documents": [TOWER, f"Tower {number} has stairs."],
            "response": "The tower was built in 1889 by Gustave Eiffel." if number % 3 else "Penguins swim far south.",
            "gold_scores": {ADHERENCE: float(number % 3 > 0)},
        }
        for number in range(n)
    ]


def file_of(folder: Path, lines: list[dict[str, Any]], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No deployment runs in the data directory."""
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("RAGTIDE_REDIS_URL", raising=False)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["trust", *map(str, arguments)])


def record_of(*arguments: object) -> dict[str, Any]:
    done = command(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refusal(*arguments: object) -> str:
    done = command(*arguments)
    assert done.exit_code == 1, done.output
    return str(done.exception)


def test_the_local_labeler_is_measured_and_the_screen_has_80_columns(tmp_path: Path) -> None:
    path = file_of(tmp_path, rows())
    found = record_of(path, "--traffic", 2400)
    (worth,) = found["worth"]
    assert (worth["labeler"], worth["metric"], worth["rows"]) == ("local", ADHERENCE, 60)
    assert (worth["good"], worth["bad"], found["rows"]) == (40, 20, 60)
    assert worth["slope"]["lower"] > 0.2
    assert (found["cost_usd"], found["traffic_a_day"], found["pipeline"]) == (0, 2400, None)
    (sight,) = worth["sees"]
    assert [seen["fall"] for seen in sight["falls"]] == [0.1, 0.2, 0.4]
    assert all(seen["hours"] == pytest.approx(seen["answers"] / 100) for seen in sight["falls"])
    shown = command(path, "--traffic", 2400)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert len(shown.stdout.splitlines()) <= 24


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_labels_may_be_words_in_a_column_of_any_file(tmp_path: Path, form: str) -> None:
    given = rows()
    verdicts = [{**row, "verdict": "pass" if row.pop("gold_scores")[ADHERENCE] else "Fail"} for row in given]
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, verdicts[0].keys())
            writer.writeheader()
            writer.writerows({**row, "documents": json.dumps(row["documents"])} for row in verdicts)
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(verdicts), path)
    else:
        file_of(tmp_path, verdicts)
    (worth,) = record_of(path, "--map", f"gold_scores.{ADHERENCE}=verdict")["worth"]
    (same,) = record_of(file_of(tmp_path, rows(), "own.jsonl"))["worth"]
    assert worth["slope"] == same["slope"]
    assert (worth["good"], worth["bad"]) == (40, 20)


def test_few_rows_one_class_and_mistakes_of_a_file_are_named(tmp_path: Path) -> None:
    few = command(file_of(tmp_path, rows(9)))
    assert few.exit_code == 0
    assert "fewer than 50" in " ".join(few.stdout.split())
    same = command(file_of(tmp_path, [row for row in rows() if row["gold_scores"][ADHERENCE]]))
    assert same.exit_code == 0
    assert "all labels are the same" in " ".join(same.stdout.split())
    bare = [{name: value for name, value in row.items() if name != "gold_scores"} for row in rows()]
    assert "no row of" in refusal(file_of(tmp_path, bare))
    assert "--map gold_scores.trace.adherence=COLUMN" in refusal(file_of(tmp_path, bare))
    words = [{**row, "gold_scores": {ADHERENCE: "meh"}} for row in bare]
    assert "gold_scores.trace.adherence is no value" in refusal(file_of(tmp_path, words))
    missing = refusal(file_of(tmp_path, bare), "--map", f"gold_scores.{ADHERENCE}=verdict")
    assert "'verdict', which the row lacks" in missing
    other = [{**row, "gold_scores": {"mine.tone": 1.0}} for row in bare]
    assert "mine.tone" in refusal(file_of(tmp_path, other))
    assert "trace.adherence" in refusal(file_of(tmp_path, rows()), "--metric", "trace.adherance")
    assert "--pipeline" in refusal(file_of(tmp_path, rows()), "--pipeline", "shop")
    partly = [*rows(), {**bare[0], "interaction_id": "bare"}, {"question": 7}]
    found = record_of(file_of(tmp_path, partly))
    assert (found["rows"], found["without_labels"], found["problems"]) == (60, 1, 1)


def verdict_of(prompt: JudgePrompt) -> Says:
    """Return the labels of a judge that is wrong about one row in ten."""
    wrong = sum(prompt.question.encode()) % 10 == 0
    supported = ("Eiffel" in " ".join(prompt.response.values())) is not wrong
    keys = list(prompt.documents)[:1] if supported else []
    return Says(
        json.dumps(
            {
                "relevance_explanation": "",
                "all_relevant_sentence_keys": keys,
                "overall_supported_explanation": "",
                "overall_supported": supported,
                "sentence_support_information": [
                    {
                        "response_sentence_key": key,
                        "explanation": "",
                        "supporting_sentence_keys": keys,
                        "fully_supported": supported,
                    }
                    for key in prompt.response
                ],
                "all_utilized_sentence_keys": keys,
            }
        )
    )


def test_a_judge_is_asked_once_its_price_is_known_and_kept_below_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(tmp_path, rows())
    with ScriptedJudge(always=verdict_of) as server:
        for name, value in {**server.environment, "RAGTIDE_JUDGE_PRICES": PRICES}.items():
            monkeypatch.setenv(name, value)
        plan = json.loads(command(path, "--dry-run", "--json").stdout)
        assert (plan["calls"], len(server.requests)) == (60, 0)
        assert "--max-cost-usd is 0.001" in refusal(path, "--max-cost-usd", 0.001)
        assert not server.requests
        found = record_of(path, "--rate", 0.05)
        asked = len(server.requests)
        again = record_of(path, "--rate", 0.05)
        assert len(server.requests) == asked, "the answers are kept"
    local, judge = found["worth"]
    assert (local["labeler"], judge["labeler"]) == ("local", "judge")
    wrong = [sum(row["question"].encode()) % 10 == 0 for row in rows()]
    truth = np.array([row["gold_scores"][ADHERENCE] for row in rows()])
    said = np.where(wrong, 1 - truth, truth)
    assert judge["slope"]["value"] == pytest.approx(said[truth == 1].mean() - said[truth == 0].mean())
    assert judge["cost_usd_per_item"] == pytest.approx(found["cost_usd"] / 60)
    (sight,) = judge["sees"]
    assert sight["usd_per_1000"] == pytest.approx(1000 * 0.05 * judge["cost_usd_per_item"])
    assert again["cost_usd"] == 0
    estimated = again["worth"][1]["cost_usd_per_item"]
    assert judge["cost_usd_per_item"] / 5 < estimated < judge["cost_usd_per_item"] * 5, "a cached answer is no price"
    assert again["worth"][1]["slope"] == judge["slope"]


def test_scores_of_files_are_compared_without_asking_anybody(tmp_path: Path) -> None:
    path = file_of(tmp_path, rows())
    lines = [
        {
            "pipeline": "elsewhere",
            "interaction_id": row["interaction_id"],
            "labeler": "judge",
            "labeler_version": "m",
            "profile": "ragbench",
            "scores": {ADHERENCE: row["gold_scores"][ADHERENCE] if number % 5 else 1.0},
            "cost_usd": 0.003,
            "gold_scores": row["gold_scores"],
        }
        for number, row in enumerate(rows())
    ]
    judged = file_of(tmp_path, lines, "judged.jsonl")
    local, judge = record_of(path, "--scores", judged)["worth"]
    (alone,) = record_of(judged)["worth"]
    assert (local["labeler"], judge["labeler"]) == ("local", "judge")
    assert judge["cost_usd_per_item"] == pytest.approx(0.003)
    assert (alone["rows"], alone["cost_usd_per_item"]) == (60, judge["cost_usd_per_item"])
    for name in ("slope", "kappa", "auroc"):
        # Without texts the questions are not known, so the bootstrap draws other samples.
        assert alone[name]["value"] == judge[name]["value"], name
        assert alone[name]["lower"] == pytest.approx(judge[name]["lower"], abs=0.05), name
    shown = json.loads(CliRunner().invoke(cli, ["trust", "agreement", str(judged), "--json"]).stdout)
    for name in ("slope", "kappa", "auroc"):
        assert shown["metrics"][ADHERENCE][name]["value"] == judge[name]["value"], "one function for all"
    strangers = file_of(tmp_path, [{**line, "interaction_id": "x"} for line in lines[:1]], "strangers.jsonl")
    assert "--scores" in refusal(path, "--scores", strangers)
    assert "beside the rows" in refusal(path, judged)


def test_the_screen_of_the_page_is_what_the_command_prints() -> None:
    folder = Path(__file__).parents[2]
    rows_of_page = folder / "tests/data/ragbench/ragbench_sample.jsonl"
    done = command(rows_of_page, "--metric", ADHERENCE, "--traffic", 2000)
    assert tagged_block(page_text("trust"), "trust") == done.stdout


def test_a_check_of_the_judge_has_its_worth_where_the_items_have_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(tmp_path, rows())
    bare = file_of(tmp_path, [{**row, "gold_scores": None} for row in rows()], "bare.jsonl")
    with ScriptedJudge(always=verdict_of) as server:
        for name, value in {**server.environment, "RAGTIDE_JUDGE_PRICES": PRICES}.items():
            monkeypatch.setenv(name, value)
        check = ["judge", "check", "--rows", "60", "--json"]
        found = json.loads(CliRunner().invoke(cli, [*check, str(path)]).stdout)
        without = json.loads(CliRunner().invoke(cli, [*check, str(bare)]).stdout)
        _, judge = record_of(path)["worth"]
    (worth,) = found["worth"]
    assert (worth["slope"], worth["kappa"]) == (judge["slope"], judge["kappa"])
    assert without["worth"] == []
    assert without["checks"] == found["checks"]


# --- Beside a deployment ---


@pytest.mark.redis
async def test_the_traffic_is_that_of_now_and_slopes_are_stored_beside_others(
    async_redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    now = utc_now()
    busy = [event(n, {ADHERENCE: 0.9}, occurred_at=now - timedelta(minutes=20), labeled_at=now) for n in range(50)]
    quiet = [event(n, {ADHERENCE: 0.9}, pipeline="docs", occurred_at=now, labeled_at=now) for n in range(4)]
    await committed(async_redis, [*busy, *quiet], Settings())
    path = file_of(tmp_path, rows())
    other = Slope("negation", 0.4, 0.3, 0.5, 100)
    old = Slope(UNSUPPORTED, 0.9, 0.8, 1.0, 10)
    await store_slopes(async_redis, "ragtide", "local", SHIPPED_VERSION, {ADHERENCE: (other, old)})
    found = await asyncio.to_thread(record_of, path, "--store")
    assert (found["traffic_a_day"], found["pipeline"]) == (24 * 50, "shop")
    named = await asyncio.to_thread(record_of, path, "--pipeline", "docs")
    assert (named["traffic_a_day"], named["pipeline"]) == (24 * 4, "docs")
    assert "has no traffic now" in await asyncio.to_thread(refusal, path, "--pipeline", "shap")
    (worth,) = found["worth"]
    stored = await read_slopes(async_redis, "ragtide")
    measured = worth["slope"]
    expected = Slope(UNSUPPORTED, measured["value"], measured["lower"], measured["upper"], 60)
    assert stored["local", worth["labeler_version"]] == {ADHERENCE: (other, expected)}


@pytest.mark.redis
async def test_the_setup_of_a_judge_reckons_with_its_measured_slope(
    async_redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = file_of(tmp_path, rows())

    def setup(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, ["judge", "setup", "--json", *arguments])
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    with ScriptedJudge(always=verdict_of) as server:
        known = {**server.environment, "RAGTIDE_JUDGE_PRICES": PRICES, "RAGTIDE_REDIS_URL": redis_url}
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("RAGTIDE_LABELER")
        before = await asyncio.to_thread(setup)
        _, judge = (await asyncio.to_thread(record_of, path, "--labeler", "local", "--labeler", "judge", "--store"))[
            "worth"
        ]
        after, given = await asyncio.to_thread(setup), await asyncio.to_thread(setup, "--kappa", "0.5")
        monkeypatch.setenv("RAGTIDE_JUDGE_PROMPT", "keys")
        another = await asyncio.to_thread(setup)
    assert (before["kappa"], before["measured_rows"]) == (0.6, 0)
    assert (after["kappa"], after["measured_rows"]) == (pytest.approx(judge["slope"]["value"]), 60)
    assert (given["kappa"], given["measured_rows"]) == (0.5, 0)
    assert (another["kappa"], another["measured_rows"]) == (0.6, 0), "another version is another judge"
    assert after["rates"] != before["rates"]
