"""Gates on the command line: exit codes, baselines, reports, and JSON, for each of the four commands."""

import json
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from tests.ragtide.test_experiment import QUESTIONS, Target, experiment
from tests.ragtide.test_labelings import labeled, scored
from tests.support.in_process import Done, run_command

import ragtide
from ragtide.testing import interactions
from ragtide_runtime.redis.client import connect_async

pytestmark = pytest.mark.processes

METRIC = "trace.adherence"
ROWS = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"
SUMMARY = "GITHUB_STEP_SUMMARY"


@pytest.fixture(autouse=True)
def _no_step_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)


@pytest.fixture
def scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A file of 20 scores, which a command continues without labeling again."""
    output = tmp_path / "scores.jsonl"
    assert run_command(capsys, "score", str(ROWS), "--limit", "20", "--output", str(output)).code == 0
    return output


def gated(capsys: pytest.CaptureFixture[str], scores: Path, *arguments: str) -> Done:
    return run_command(capsys, "score", str(ROWS), "--limit", "20", "--output", str(scores), *arguments)


def test_score_ends_with_the_exit_code_of_its_gate(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    file = scores.with_name("summary.json")
    assert gated(capsys, scores, "--json", "--summary-json", str(file)).code == 0
    found = json.loads(file.read_text())["estimates"]
    lower, mean, upper = next((e["lower"], e["estimate"], e["upper"]) for e in found if e["metric"] == METRIC)
    for condition, code in (
        (f"{METRIC} < {lower}", 0),
        (f"{METRIC} < {mean}", 5),
        (f"{METRIC} < {upper + 0.001}", 4),
        (f"{METRIC}.lower < {mean}", 4),
    ):
        done = gated(capsys, scores, "--fail-if", condition)
        assert (done.code, f": {condition}" in done.stdout) == (code, True), done
    both = gated(capsys, scores, "--fail-if", f"{METRIC} < {lower}", "--fail-if", f"{METRIC}.n < 21")
    assert both.code == 4
    assert gated(capsys, scores, "--fail-if", f"{METRIC} < {mean}", "--undecided", "pass").code == 0
    assert gated(capsys, scores, "--fail-if", f"{METRIC} < {mean}", "--undecided", "fail").code == 4


def test_a_gate_says_before_it_runs_what_it_can_see(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    files = {name: scores.with_name(name) for name in ("summary.json", "gate.xml", "gate.md")}
    reports = (
        "--summary-json", str(files["summary.json"]), "--junit", str(files["gate.xml"]),
        "--summary", str(files["gate.md"]),
    )  # fmt: skip
    done = gated(capsys, scores, "--fail-if", f"{METRIC} < 0.1", "--fail-if", f"{METRIC}.n < 5", *reports)
    [seen] = json.loads(files["summary.json"].read_text())["gate"]["sees"]
    assert seen["sentence"] in done.stderr
    assert seen["sentence"] in fromstring(files["gate.xml"].read_text()).findtext(".//testsuite/system-out", "")
    assert "20 rows" in files["gate.md"].read_text()
    assert seen["rows"] == 20
    assert [fall for fall, _ in seen["found"]] == [0.05, 0.03]


def test_the_power_of_a_data_set_is_that_of_its_gate(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    file = scores.with_name("summary.json")
    condition = f"{METRIC} < 0.8"
    gated(capsys, scores, "--fail-if", condition, "--summary-json", str(file))
    shorter = scores.with_name("rows.jsonl")
    shorter.write_text("".join(ROWS.read_text().splitlines(keepends=True)[:20]))
    done = run_command(capsys, "dataset", "power", str(shorter), "--fail-if", condition, "--json")
    assert json.loads(done.stdout) == json.loads(file.read_text())["gate"]["sees"]
    paired = run_command(
        capsys, "dataset", "power", str(shorter), "--metric", METRIC, "--fall", "0.5", "--power", "0.8"
    )
    assert paired.code == 0
    assert METRIC in paired.stdout
    for wrong in (("--fail-if", f"{METRIC}.n < 3"), ("--metric", "trace.adherance"), ()):
        assert run_command(capsys, "dataset", "power", str(shorter), *wrong).code == 2


def test_mistakes_end_before_anything_is_scored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scores: Path
) -> None:
    missing = str(tmp_path / "missing.jsonl")
    for arguments, words in (
        (["--fail-if", "trace.adherance < 0.8"], "did you mean 'trace.adherence'"),
        (["--fail-if", "trace.adherence.lwer < 0.8"], "did you mean 'lower'"),
        (["--fail-if", "trace.adherence = 0.8"], "operator '='"),
        (["--junit", "x.xml"], "give --fail-if"),
        (["--fail-if", f"{METRIC} < 1", "--junit", "no/x.xml"], "there is no folder no"),
        (["--fail-if", f"{METRIC} < 1", "--summary", "no/x.md"], "there is no folder no"),
        (["--fail-if", f"{METRIC}.difference.lower < 0"], "has no baseline: give --baseline FILE"),
        (["--baseline", str(scores)], "give --fail-if"),
    ):
        done = run_command(capsys, "score", missing, *arguments)
        assert done.code == 2, done
        assert words in " ".join(done.stderr.split()), done.stderr
    done = run_command(capsys, "score", missing, "--fail-if", f"{METRIC} < 1", "--baseline", missing)
    assert done.code == 1
    assert "ragtide score --output" in done.stderr


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (("estimates",), "use ragtide compare"),
        (("experiment", "show", "try"), "give --baseline CONFIG"),
        (("experiment", "show", "try", "--config", "a"), "give --baseline CONFIG"),
    ],
)
def test_a_difference_without_a_baseline_is_refused_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], remedy: str
) -> None:
    done = run_command(capsys, *command, "--fail-if", f"{METRIC}.difference < 0")
    assert done.code == 2
    assert remedy in " ".join(done.stderr.split())


def test_no_empty_file_and_no_bad_row_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for more in ([], ["--undecided", "pass"]):
        done = run_command(capsys, "score", str(empty), "--fail-if", f"{METRIC} < 0", *more)
        assert done.code != 0
        assert "there are no scored interactions" in done.stdout
    row = {"pipeline": "p", "question": "q", "documents": ["Built in 1889."], "response": "Built in 1889."}
    bad = tmp_path / "bad.jsonl"
    bad.write_text(f"{json.dumps(row)}\nnonsense\n")
    assert run_command(capsys, "score", str(bad), "--fail-if", f"{METRIC} < 0").code == 1
    assert run_command(capsys, "score", str(bad), "--fail-if", f"{METRIC}.n < 9").code == 4


def test_scores_that_are_not_counted_do_not_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wide_labeler.py").write_text(
        "from ragtide.testing import FakeLabeler\n"
        f"labeler = FakeLabeler({{'{METRIC}': 0.9}}, script=[{{'{METRIC}': 2.0}}])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(interaction.encode().decode() + "\n" for interaction in interactions(3)))
    gate = ("--fail-if", f"{METRIC}.mean < 0.5")
    done = run_command(capsys, "score", str(rows), "--labeler", "wide_labeler:labeler", *gate)
    assert done.code == 1
    assert "its range is 0 to 1" in done.stderr


def test_a_baseline_is_paired_by_interaction_id(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scores: Path
) -> None:
    better = tmp_path / "better.jsonl"
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    for line in lines:
        line["pipeline"] = "of another name"
    # A refusal claims nothing, so it has no such score.
    lines = [{**line, "scores": {**line["scores"], METRIC: 1.0}} for line in lines if METRIC in line["scores"]]
    better.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ours = [
        found
        for line in scores.read_text().splitlines()
        if (found := json.loads(line)["scores"].get(METRIC)) is not None
    ]
    gap = sum(ours) / len(ours) - 1
    condition = f"{METRIC}.difference.mean < {gap + 1e-6}"
    done = gated(capsys, scores, "--baseline", str(better), "--fail-if", condition)
    assert done.code == 4, done
    assert gated(
        capsys, scores, "--baseline", str(better), "--fail-if", f"{METRIC}.difference.mean < {gap - 1e-6}"
    ).code == 0  # fmt: skip
    same = gated(capsys, scores, "--baseline", str(scores), "--fail-if", f"{METRIC}.difference < 0")
    assert same.code == 5  # an interval around 0: neither surely worse nor surely as good
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps({**line, "interaction_id": f"x{i}"}) + "\n" for i, line in enumerate(lines)))
    none = gated(capsys, scores, "--baseline", str(other), "--fail-if", f"{METRIC}.difference < 0")
    assert none.code == 5
    assert "the same interaction ids" in none.stdout


def test_reports_are_written_and_the_step_summary_is_added_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junit, page, step = tmp_path / "gate.xml", tmp_path / "gate.md", tmp_path / "step.md"
    condition = ("--fail-if", f"{METRIC}.n < 21")
    step.write_text("before\n")
    monkeypatch.setenv(SUMMARY, str(step))
    assert gated(capsys, scores, *condition, "--junit", str(junit)).code == 4
    suite = fromstring(junit.read_bytes())[0]
    assert (suite.get("name"), suite.get("failures")) == ("ragtide score", "1")
    assert step.read_text().startswith("before\n### ragtide score: ❌ fail")
    assert gated(capsys, scores, *condition, "--summary", str(page)).code == 4
    assert page.read_text().startswith("### ragtide score")
    assert step.read_text().count("###") == 1
    done = gated(capsys, scores, *condition, "--junit", str(tmp_path))  # a folder
    assert (done.code, "--junit" in done.told) == (1, True)


def test_json_has_one_object_per_interaction_and_the_summary_is_in_a_file_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scores: Path
) -> None:
    file = tmp_path / "summary.json"
    command = ("score", str(ROWS), "--limit", "20", "--json", "--summary-json", str(file))
    done = run_command(capsys, *command, "--fail-if", f"{METRIC}.n < 21")
    lines, summary = [json.loads(line) for line in done.stdout.splitlines()], json.loads(file.read_text())
    assert done.code == 4
    assert ["interaction_id" in line for line in lines] == [True] * 20
    assert (summary["scored"], summary["problems"]) == (20, 0)
    assert summary["gate"]["outcome"] == "fail"
    assert summary["gate"]["exit_code"] == 4
    values = [line["scores"][METRIC] for line in lines if METRIC in line["scores"]]
    (mean,) = [estimate["estimate"] for estimate in summary["estimates"] if estimate["metric"] == METRIC]
    assert mean == pytest.approx(sum(values) / len(values))
    saved = tmp_path / "saved.jsonl"
    saved.write_text(done.stdout)
    assert run_command(capsys, "trust", "agreement", str(saved), "--against", str(scores)).code == 0
    assert gated(capsys, saved).code == 0
    assert gated(capsys, scores, "--baseline", str(saved), "--fail-if", f"{METRIC}.difference.lower < -1").code == 0


async def _two_workspaces(url: str) -> None:
    async with connect_async(url) as redis:
        await labeled(redis, "old", scored([0.9] * 400))
        await labeled(redis, "new", scored([0.5] * 400))


@pytest.fixture
def _workspaces(redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    redis.flushdb()
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    asyncio.run(_two_workspaces(redis_url))


@pytest.mark.usefixtures("_workspaces")
def test_estimates_and_compare_have_gates(capsys: pytest.CaptureFixture[str]) -> None:
    estimates = ("estimates", "--workspace", "new", "--fail-if")
    assert run_command(capsys, *estimates, f"{METRIC} < 0.8").code == 4
    assert run_command(capsys, *estimates, f"{METRIC} < 0.2").code == 0
    done = run_command(capsys, *estimates, f"{METRIC} < 0.5", "--json")
    assert done.code == 5
    assert json.loads(done.stdout)["gate"]["outcome"] == "undecided"
    assert json.loads(done.stdout)["estimates"]
    assert isinstance(json.loads(run_command(capsys, "estimates", "--workspace", "new", "--json").stdout), list)
    # An unknown pipeline is an error, and no pass.
    assert run_command(capsys, *estimates, f"{METRIC} < 0", "--pipeline", "shpo").code == 1
    # Live traffic has no estimates: undecided, however undecided conditions count.
    assert run_command(capsys, "estimates", "--fail-if", f"{METRIC} < 0", "--undecided", "pass").code == 5

    compare = ("compare", "shop", "--workspace", "new", "--workspace", "old", "--fail-if")
    assert run_command(capsys, *compare, f"{METRIC}.difference < -0.1").code == 4
    assert run_command(capsys, *compare, f"{METRIC}.difference < -0.9").code == 0
    refused = run_command(capsys, *compare, f"{METRIC} < 0.8")
    assert refused.code == 2
    assert "write trace.adherence.difference" in " ".join(refused.stderr.split())
    assert json.loads(run_command(capsys, *compare, f"{METRIC}.difference < -0.1", "--json").stdout)["differences"]


def test_an_experiment_has_a_gate_on_a_config(
    capsys: pytest.CaptureFixture[str], redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushdb()
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    made = experiment(redis_url, Target(), data=QUESTIONS[:10], race={"enabled": False}, grid={"quality": [0.3, 0.7]})
    metric = made.run().metric
    show = ("experiment", "show", "try")
    assert run_command(capsys, *show, "--fail-if", f"{metric} < 0.5").code == 0  # the leader, on all items
    assert run_command(capsys, *show, "--fail-if", f"{metric} < 0.5", "--config", "quality=0.3").code == 4
    worse = ("--config", "quality=0.3", "--baseline", "quality=0.7")
    assert run_command(capsys, *show, "--fail-if", f"{metric}.difference < 0", *worse).code == 4
    done = run_command(capsys, *show, "--json", "--fail-if", f"{metric}.difference < 0", "--baseline", "quality=0.3")
    assert done.code == 0
    assert json.loads(done.stdout)["gate"]["outcome"] == "pass"
    one = run_command(capsys, "experiment", "resume", "try", "quality=0.3", "--fail-if", f"{metric} < 0.5")
    assert (one.code, "a gate is about a whole experiment" in one.told) == (2, True)
    wrong = run_command(capsys, *show, "--fail-if", f"{metric} < 0.5", "--config", "quality=0.8")
    assert wrong.code == 2
    assert "did you mean" in " ".join(wrong.stderr.split())


def test_failed_calls_of_a_config_fail_a_gate_on_its_coverage(
    capsys: pytest.CaptureFixture[str], redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushdb()
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    target = Target(fails=lambda question, quality: quality == 0.7 and question in QUESTIONS[:3])
    race = {"enabled": False}
    made = experiment(redis_url, target, tries=1, data=QUESTIONS[:4], race=race, grid={"quality": [0.3, 0.7]})
    metric = made.run().metric
    show = ("experiment", "show", "try", "--config", "quality=0.7", "--fail-if")
    assert run_command(capsys, *show, f"{metric}.mean < 0").code == 0
    assert run_command(capsys, *show, f"{metric}.coverage < 0.9").code == 4
    assert run_command(capsys, *show, f"{metric}.n_absent > 2").code == 4


@pytest.mark.parametrize(
    ("condition", "outcome"), [("trace.adherence.n < 1", "pass"), ("trace.adherence.n > 0", "fail"), ("", "undecided")]
)
def test_a_result_is_true_only_if_its_gate_passed(condition: str, outcome: str) -> None:
    row = {"pipeline": "shop", "question": "When?", "documents": ["Built in 1889."], "response": "Built in 1889."}
    summary = ragtide.score([row] if condition else [], labeler="local")
    result = ragtide.gate(summary, condition or "trace.adherence < 0.8")
    assert result.outcome == outcome
    assert (result.passed, bool(result)) == (outcome == "pass", outcome == "pass")
