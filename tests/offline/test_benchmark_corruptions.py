"""Corruptions, of `ragtide trust figures` and `ragtide judge check`: which failures a labeler's numbers follow."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from tests.consumers.models.small_models import write_encoder
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide.cli.printing import out
from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_consumers.labelers.judge.plain_answers import in_lines
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_offline.benchmark.delays import WITHIN, Delay, simulated_delay
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil, without_own_sentences
from ragtide_schemas.slopes import slopes_of

pytestmark = pytest.mark.processes

DATA = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"


def benchmark(*arguments: str) -> Any:
    shown = CliRunner().invoke(cli, ["trust", "figures", "--corruptions", *arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def by_name(found: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(figure["corruption"], figure["metric"]): figure for figure in found["figures"]}


def test_figures_of_the_local_labeler_are_those_of_its_scores() -> None:
    found = benchmark(str(DATA), "--labeler", "local", "--only", "wrong documents,refusal,HTML", "--seed", "3")
    figures = by_name(found)
    rows = [row.interaction for row, _ in read_labeled(DATA) if row.interaction is not None]
    subsets = {row.segments["dataset"] for row in rows}
    label = LocalLabeler().label_now
    aurocs, before, after = [], [], []
    for subset in subsets:
        own = [row for row in rows if row.segments["dataset"] == subset]
        pairs = [(without_own_sentences(row), spoil(CORRUPTIONS["wrong documents"], row, own, seed=3)) for row in own]
        scores = [
            (label(clean).scores.get("trace.adherence"), label(other).scores.get("trace.adherence"))
            for clean, other in pairs
            if other is not None
        ]
        clean, other = np.array([pair for pair in scores if None not in pair]).T
        aurocs.append(mannwhitneyu(clean, other).statistic / (len(clean) * len(other)))
        before.append(clean.mean())
        after.append(other.mean())
    figure = figures["wrong documents", "trace.adherence"]
    assert found["rows"] == len(rows) == 80
    assert figure["applied"] == 1
    assert figure["auroc"]["value"] == pytest.approx(np.mean(aurocs))
    assert (figure["before"], figure["after"]) == pytest.approx((np.mean(before), np.mean(after)))
    change = figure["change"]
    assert change["value"] == pytest.approx(np.mean(after) - np.mean(before))
    assert change["lower"] < change["value"] < change["upper"] < 0
    assert figure["verdict"] == "sees"
    assert figure["delay"]["median"] < 50
    # Nothing in a refusal is supported or unsupported: the score is absent, and not 0.
    refused = figures["refusal", "trace.adherence"]
    assert (refused["n"], refused["absent"], refused["after"], refused["auroc"]["value"]) == (0, 1, None, None)
    assert refused["delay"] == {"median": None, "late": None, "within": WITHIN, "alerted": 0}
    assert figures["HTML", "trace.context_utilization"]["verdict"] == "stays"
    again = benchmark(str(DATA), "--labeler", "local", "--only", "wrong documents,refusal,HTML", "--seed", "3")
    assert again["figures"] == found["figures"]


def test_similarity_sees_wrong_documents_and_its_match_never_sees_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row.interaction for row, _ in read_labeled(DATA) if row.interaction is not None]
    texts = " ".join(part for row in rows for part in (row.question, row.response, *(d.text for d in row.documents)))
    words = sorted(set(re.findall(r"\w+|[^\w\s]+", texts.lower())))
    # A word has a direction of its own, so a sentence is the bag of its words.
    vectors = np.random.default_rng(1).normal(0, 1, (len(words) + 4, 64)).astype(np.float32)
    monkeypatch.setenv("RAGTIDE_MODELS_SIMILARITY", str(write_encoder(tmp_path / "bag", rows=vectors, words=words)))
    only = "wrong documents,wrong answer,foreign sentence,reversed documents"
    figures = by_name(benchmark(str(DATA), "--labeler", "model", "--only", only))
    support = {name: figure for (name, metric), figure in figures.items() if metric == "similarity.support"}
    match = {name: figure for (name, metric), figure in figures.items() if metric == "similarity.match"}
    assert [support[name]["verdict"] for name in ("wrong documents", "wrong answer")] == ["sees", "sees"]
    assert support["foreign sentence"]["change"]["upper"] < 0
    assert support["reversed documents"]["change"]["value"] == 0
    assert match["wrong documents"]["change"]["upper"] < 0
    for name in ("wrong answer", "foreign sentence", "reversed documents"):
        assert (match[name]["verdict"], match[name]["change"]["value"]) == ("stays", 0)


def test_the_tables_fit_a_terminal_and_name_what_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "_width", 80)
    command = ["trust", "figures", "--corruptions", str(DATA), "--labeler", "local", "--limit", "25"]
    shown = CliRunner().invoke(cli, [*command, "--only", "wrong documents,half wrong documents,refusal,HTML"])
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for text in ("should get worse", "should stay the same", "absent", "slope"):
        assert text in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corruptions", "--only", "negatoin"], "did you mean 'negation'"),
        (["--only", "negation"], "give --corruptions"),
        (["--corruptions", "--reorder", "0.5"], "--reorder"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str) -> None:
    refused = CliRunner().invoke(cli, ["trust", "figures", str(DATA), *arguments])
    assert refused.exit_code != 0
    assert message in str(refused.exception)


KEY = EstimateKey("p", None, None, "trace.adherence", "ragbench", "local", "1")


def delay(clean: list[float], after: list[float]) -> Delay:
    weights = np.full(len(clean), 1 / len(clean))
    return simulated_delay(np.array(clean), np.array(after), weights, KEY, seed=5)


def test_the_delay_is_longer_for_a_smaller_fall_and_none_without_one() -> None:
    clean = np.linspace(0.6, 1.0, 50)
    falls = [delay(clean.tolist(), (clean - fall).tolist()) for fall in (0.5, 0.3, 0.15, 0.0)]
    medians = [found.median for found in falls[:3]]
    assert None not in medians
    assert medians == sorted(medians, key=lambda median: median or 0)
    assert len({*medians}) == 3
    assert falls[3].median is None
    # A mean of 10,000 values between false alarms: at most about a fifth alarms within 2,000.
    assert falls[3].alerted <= 0.3


def test_absent_scores_delay_an_alert_and_are_no_zeros() -> None:
    clean = np.linspace(0.6, 1.0, 50)
    whole = delay(clean.tolist(), (clean - 0.5).tolist())
    sparse = np.where(np.arange(50) % 4 == 0, clean - 0.5, np.nan)
    part = delay(clean.tolist(), sparse.tolist())
    assert whole.median is not None
    assert part.median is not None
    assert 2.5 * whole.median < part.median < 6 * whole.median
    assert delay(clean.tolist(), [float("nan")] * 50) == Delay(None, None, WITHIN, 0.0)


LABELER = """
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_schemas import MetricDeclaration

class Errors:
    name, version, profile = "errors", "1", "own"

    async def label(self, interaction):
        documents = " ".join(document.text for document in interaction.documents)
        missing = sum(word not in documents for word in interaction.response.split())
        declaration = MetricDeclaration(lower=0, upper=1000, direction="lower", meaning="Words that no document has.")
        return Labeling({"mine.errors": float(missing)}, declared={"mine.errors": declaration})
"""


def test_a_metric_of_a_users_own_counts_by_its_declared_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_errors.py").write_text(LABELER)
    monkeypatch.syspath_prepend(tmp_path)
    found = benchmark(str(DATA), "--labeler", "own_errors:Errors", "--only", "wrong documents")
    figure = by_name(found)["wrong documents", "mine.errors"]
    assert figure["auroc"]["lower"] > 0.8
    assert figure["change"]["lower"] > 0
    assert (figure["expected"], figure["verdict"]) == (None, None)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    found = []
    for number in range(24):
        town = f"{'ABCDEFGH'[number % 8]}{('rles', 'rest', 'igny')[number // 8]}"
        facts = [f"The tower of {town} is {120 + 7 * number} metres high.", f"It was built in {1800 + number}."]
        found.append(
            {
                "interaction_id": f"i-{number}",
                "question": f"How high is the tower of {town}?",
                "documents": [" ".join(facts), f"The river of {town} is {20 + number} metres deep."],
                "response": " ".join(facts),
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def truth(prompt: JudgePrompt) -> Says | Labels | None:
    """Answer as a judge that knows the truth: a sentence is supported if a document has it word by word."""
    if prompt.kind != "trace":
        return None
    places = {sentence: key for key, sentence in prompt.documents.items()}
    town = prompt.question.removeprefix("How high is the tower of ").rstrip("?")
    relevant = [key for key, sentence in prompt.documents.items() if town in sentence and "tower" in sentence]
    support = {key: [places[sentence]] if sentence in places else [] for key, sentence in prompt.response.items()}
    fields: dict[str, object] = {
        "relevance_explanation": "by strings",
        "all_relevant_sentence_keys": relevant,
        "overall_supported_explanation": "by strings",
        "overall_supported": all(support.values()),
        "sentence_support_information": [
            {
                "response_sentence_key": key,
                "explanation": "by strings",
                "supporting_sentence_keys": keys,
                "fully_supported": bool(keys),
            }
            for key, keys in support.items()
        ],
        "all_utilized_sentence_keys": sorted({key for keys in support.values() for key in keys}),
    }
    return Says(in_lines("trace", fields) if prompt.in_lines else json.dumps(fields))


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with ScriptedJudge(always=truth) as running:
        yield running


PRICES = '{"scripted": {"input": 1.0, "output": 2.0}}'


def check(server: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, *arguments: str, **extra: str) -> Result:
    for name, value in {**server.environment, "RAGTIDE_JUDGE_PRICES": PRICES, **extra}.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(cli, ["judge", "check", "--corruptions", *arguments])


@pytest.mark.parametrize("prompt", ["full", "short", "keys"])
def test_a_judge_that_knows_the_truth_sees_every_failure(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    """The whole table with the usual prompt; two corruptions with the others, which differ in form only."""
    only = "broken retriever,wrong documents,wrong answer,changed numbers,negation,swapped entity,reversed documents"
    only = only if prompt == "full" else "broken retriever,changed numbers,reversed documents"
    shown = check(server, monkeypatch, str(rows), "--only", only, "--json", RAGTIDE_JUDGE_PROMPT=prompt)
    assert shown.exit_code == 0, shown.output
    figures = by_name(json.loads(shown.stdout))
    for name in only.split(",")[1:-1]:
        assert figures[name, "trace.adherence"]["verdict"] == "sees", name
        assert figures[name, "trace.adherence"]["after"] == 0
    retriever = figures["broken retriever", "trace.context_relevance"]
    assert (retriever["verdict"], retriever["after"]) == ("sees", 0)
    assert figures["broken retriever", "trace.adherence"]["after"] == 1
    assert figures["reversed documents", "trace.adherence"]["verdict"] == "stays"


def test_the_check_states_its_cost_and_pays_once(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [str(rows), "--only", "negation,HTML", "--rows", "20", "--json"]
    done = check(server, monkeypatch, *arguments)
    assert done.exit_code == 0, done.output
    assert "20 rows" not in done.stdout
    assert "60 rows, 60 calls" in done.stderr
    assert len(server.requests) == 60
    found = json.loads(done.stdout)
    assert found["rows"] == 20
    assert 0 < found["cost_usd"] < 1
    again = check(server, monkeypatch, *arguments)
    assert again.exit_code == 0
    assert len(server.requests) == 60
    assert json.loads(again.stdout)["figures"] == found["figures"]
    # More rows pay for the new ones only: a row is spoilt in the same way in any sample.
    more = check(server, monkeypatch, str(rows), "--only", "negation,HTML,wrong answer", "--rows", "20")
    assert more.exit_code == 0
    assert len(server.requests) == 80
    more = check(server, monkeypatch, str(rows), "--only", "negation,HTML,wrong answer", "--rows", "22")
    assert more.exit_code == 0
    assert len(server.requests) == 88


def test_bad_rows_and_rows_without_an_answer_are_counted_once(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rows.open("a") as file:
        file.write('{"question": "", "documents": [], "response": ""}\n')
        file.write('{"question": "Why?", "documents": ["Because."], "response": " "}\n')
    done = check(server, monkeypatch, str(rows), "--only", "negation", "--rows", "20", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rows"], found["problems"], found["nothing_to_spoil"]) == (20, 1, 1)
    assert f"{rows}:25: " in done.stderr


def test_a_check_that_may_cost_more_or_has_no_price_does_not_begin(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dear = check(server, monkeypatch, str(rows), "--max-cost-usd", "0.001")
    assert "--max-cost-usd is 0.001" in str(dear.exception)
    unknown = check(server, monkeypatch, str(rows), RAGTIDE_JUDGE_PRICES="{}")
    assert "judge.prices" in str(unknown.exception)
    assert server.requests == []


def test_a_dry_run_counts_every_spoilt_row(server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    planned = benchmark(str(rows), "--only", "negation,HTML", "--limit", "10", "--dry-run")
    assert (planned["rows"], planned["calls"]) == (30, 30)
    assert server.requests == []


def test_explain_shows_the_slopes_of_the_shipped_labeler() -> None:
    explained = CliRunner().invoke(cli, ["explain", "adherence", "--json"])
    shown = {slope["failure"]: slope for slope in json.loads(explained.stdout)["slopes"]["local"]}
    assert shown == {slope.failure: asdict(slope) for slope in slopes_of("local", "trace.adherence")}
    text = " ".join(CliRunner().invoke(cli, ["explain", "adherence"]).stdout.split())
    for slope in slopes_of("local", "trace.adherence"):
        assert f"{slope.failure} {slope.slope:.2f}" in text


def test_the_slope_of_a_corruption_is_the_mean_fall_between_those_of_the_data_sets() -> None:
    (figure,) = (
        figure
        for figure in benchmark(str(DATA), "--labeler", "local", "--only", "wrong documents")["figures"]
        if figure["metric"] == "trace.adherence"
    )
    rows = [row.interaction for row, _ in read_labeled(DATA) if row.interaction is not None]
    label, falls = LocalLabeler().label_now, []
    for subset in sorted({row.segments["dataset"] for row in rows}):
        own = [row for row in rows if row.segments["dataset"] == subset]
        of_subset = []
        for row in own:
            spoilt = spoil(CORRUPTIONS["wrong documents"], row, own, seed=0)
            scores = [label(version).scores for version in (without_own_sentences(row), spoilt) if version is not None]
            if len(scores) == 2 and all("trace.adherence" in score for score in scores):
                of_subset.append(scores[0]["trace.adherence"] - scores[1]["trace.adherence"])
        falls.append(np.mean(of_subset))
    slope = figure["slope"]
    assert slope["slope"] == pytest.approx(np.mean(falls))
    assert (slope["lower"], slope["upper"]) == pytest.approx((min(falls), max(falls)))
    assert (slope["failure"], slope["rows"]) == ("wrong documents", figure["n"])


def test_the_slope_of_labels_is_the_difference_between_rows_that_they_call_supported_and_not() -> None:
    shown = CliRunner().invoke(cli, ["trust", "figures", str(DATA), "--labeler", "local", "--json"])
    (row,) = (row for row in json.loads(shown.stdout)["metrics"] if row["metric"] == "trace.adherence")
    (figure,) = (figure for figure in row["figures"] if figure["name"] == "slope")
    groups: dict[tuple[str, float], list[float]] = {}
    for read, _ in read_labeled(DATA):
        assert read.interaction is not None
        truth = read.interaction.gold_scores["trace.adherence"]
        score = LocalLabeler().label_now(read.interaction).scores.get("trace.adherence")
        if score is not None:
            groups.setdefault((read.interaction.segments["dataset"], truth), []).append(score)
    expected = {
        subset: np.mean(groups[subset, 1.0]) - np.mean(groups[subset, 0.0]) for subset, truth in groups if truth == 1.0
    }
    assert figure["subsets"] == pytest.approx(expected)
    assert figure["mean"]["value"] == pytest.approx(np.mean([*expected.values()]))
