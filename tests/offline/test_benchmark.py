"""Benchmarks of labelers: formats, figures, and the command on rows as the data sets publish them."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_offline.benchmark.figures import SubsetScores, calibration_error, metric_figures
from ragtide_offline.benchmark.formats import read_labeled, stored_judges
from ragtide_offline.benchmark.preferences import ASPECTS, PreferencePairs
from ragtide_producers import UnreadableFileError

pytestmark = pytest.mark.simulation

TOWER = "The tower was built in 1889 by Gustave Eiffel. It stands in Paris."


def written(folder: Path, name: str, rows: list[Any]) -> Path:
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def halubench(number: int, *, good: bool, **more: Any) -> dict[str, Any]:
    answer = "The tower was built in 1889 by Gustave Eiffel." if good else "Penguins swim near Antarctic glaciers."
    return {
        "id": str(number),
        "passage": TOWER,
        "question": f"When was tower {number} built?",
        "answer": answer,
        "label": "PASS" if good else "FAIL",
        "source_ds": "DROP",
        **more,
    }


RAGTRUTH = {
    "id": "0",
    "source_id": "15592",
    "model": "gpt-4",
    "labels": [{"start": 0, "end": 5, "text": "Wrong", "label_type": "Evident Conflict"}],
    "split": "test",
    "quality": "good",
    "response": "Wrong words.",
}
SOURCE = {
    "source_id": "15592",
    "task_type": "QA",
    "source_info": {"question": "Who built it?", "passages": "passage 1: Eiffel built it."},
    "prompt": "Answer the question.",
}


def one(path: Path) -> Any:
    (row, _), *_ = read_labeled(path)
    assert row.problem is None, row.problem
    return row.interaction


def test_rows_of_each_benchmark_become_interactions_with_true_scores(tmp_path: Path) -> None:
    clapnq = {
        "question": "Who?",
        "passage": "A b. C d.",
        "passage_sentences": ["A b.", "C d."],
        "answer": "C.",
        "selected_sentence_ids": [1, 1],
    }
    found = one(written(tmp_path, "clapnq.jsonl", [clapnq]))
    assert found.gold_scores == {"trace.context_utilization": 0.5}
    assert found.documents[0].sentences == ("A b.", "C d.")
    claims: list[dict[str, str | None]] = [{"support": "Complete"}, {"support": None}]
    expertqa = {"question": "Who?", "contexts": ["A."], "response": "A.", "claims": claims}
    assert one(written(tmp_path, "e.jsonl", [expertqa])).gold_scores == {"trace.adherence": 1.0}
    claims[1] = {"support": "Partial"}
    assert one(written(tmp_path, "e.jsonl", [expertqa])).gold_scores == {"trace.adherence": 0.0}
    bench = one(written(tmp_path, "halubench.jsonl.gz", [halubench(1, good=False)]))
    assert bench.gold_scores == {"trace.adherence": 0.0}
    assert bench.segments == {"dataset": "DROP"}
    written(tmp_path, "source_info.jsonl", [SOURCE])
    truth = one(written(tmp_path, "response.jsonl", [RAGTRUTH]))
    assert (truth.question, truth.documents[0].text) == ("Who built it?", "passage 1: Eiffel built it.")
    assert truth.gold_scores == {"trace.adherence": 0.0}
    assert truth.segments == {"dataset": "QA", "model": "gpt-4"}


def test_ragtruth_without_its_sources_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=r"source_info\.jsonl is missing"):
        list(read_labeled(written(tmp_path, "response.jsonl", [RAGTRUTH])))


def test_an_unusable_row_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    rows = [halubench(1, good=True), halubench(2, good=True, label="MAYBE"), {"passage": 1}, halubench(4, good=False)]
    found = [row for row, _ in read_labeled(written(tmp_path, "h.jsonl", rows))]
    assert [row.problem is None for row in found] == [True, False, False, True]
    assert "label" in str(found[1].problem)
    assert "question" in str(found[2].problem) or "label" in str(found[2].problem)


def test_scores_of_other_judges_are_those_in_range() -> None:
    row = {"ragas_faithfulness": 0.5, "trulens_groundedness": None, "gpt3_adherence": 7, "gpt35_utilization": 1}
    assert stored_judges(row) == {("ragas", "trace.adherence"): 0.5, ("gpt35", "trace.context_utilization"): 1.0}


SCORES = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=20, max_size=60).filter(
    lambda rows: len({truth for _, truth in rows}) == 2
)


@settings(max_examples=8)
@given(SCORES)
def test_figures_of_a_metric_that_is_0_or_1_are_those_of_their_definitions(rows: list[tuple[float, bool]]) -> None:
    p, y = np.array([p for p, _ in rows]), np.array([float(truth) for _, truth in rows])
    found = metric_figures("m", {"a": SubsetScores(p, y, np.arange(len(p)).astype(str), {})})
    named = {figure.name: figure.mean.value or 0.0 for figure in found.figures}
    higher = [(a < b) + (a == b) / 2 for a in p[y == 0] for b in p[y == 1]]
    assert named["AUROC of low"] == pytest.approx(np.mean(higher))
    assert named["Brier score"] == pytest.approx(np.mean((p - y) ** 2))
    assert named["Brier score of a constant"] == pytest.approx(y.mean() * (1 - y.mean()))
    assert 0 <= named["calibration error"] <= 1
    assert found.n_low == (y == 0).sum()


def test_the_mean_is_over_subsets_and_a_judge_is_compared_on_its_own_rows() -> None:
    random = np.random.default_rng(1)
    subsets = {}
    for name, n in (("large", 300), ("small", 40), ("tiny", 5)):
        truth = random.random(n)
        predicted = np.clip(truth + random.normal(0, 0.1 if name == "large" else 0.4, n), 0, 1)
        judge = np.where(np.arange(n) % 2 == 0, truth, np.nan)
        subsets[name] = SubsetScores(predicted, truth, np.arange(n).astype(str), {"other": judge})
    found = metric_figures("trace.context_relevance", subsets)
    rmse = found.figures[0]
    assert set(rmse.subsets) == {"large", "small"}, "a subset with few rows has no figures"
    assert rmse.mean.value == pytest.approx(np.mean([*rmse.subsets.values()]))
    assert (rmse.mean.lower or 1) < (rmse.mean.value or 0) < (rmse.mean.upper or 0)
    spearman = next(figure for figure in found.figures if figure.name == "Spearman")
    expected = spearmanr(subsets["large"].predicted, subsets["large"].truth)[0]
    assert spearman.subsets["large"] == pytest.approx(expected)
    (other,) = found.judges
    assert (other.judge, other.n, other.theirs.value) == ("other", 170, 0.0)
    assert other.ours.value == pytest.approx(rmse.mean.value, rel=0.3)


def test_calibration_is_0_if_each_bin_is_right() -> None:
    truth = np.tile([0.0, 0.0, 0.0, 1.0], 50)
    assert calibration_error(np.full(200, 0.25), truth) == pytest.approx(0)
    assert calibration_error(np.full(200, 0.75), truth) == pytest.approx(0.5)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["trust", "figures", *arguments])


def test_the_command_measures_the_local_labeler_and_names_bad_rows(tmp_path: Path) -> None:
    rows = [halubench(number, good=number % 3 > 0) for number in range(60)]
    path = written(tmp_path, "halubench.jsonl", [*rows, halubench(60, good=True, label="MAYBE"), 7])
    done = command(str(path), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rows"], found["problems"], found["cost_usd"]) == (60, 2, 0)
    (metric,) = found["metrics"]
    figures = {each["name"]: each for each in metric["figures"]}
    assert (metric["metric"], metric["n_low"]) == ("trace.adherence", 20)
    assert figures["AUROC of low"]["mean"]["value"] > 0.95
    assert figures["AUROC of low"]["subsets"].keys() == {"DROP"}
    shown = command(str(path))
    assert "trace.adherence · n 60 · 20 low" in shown.output
    assert f"{path}:61: " in shown.output
    tables = shown.stdout.partition(f"local {SHIPPED_VERSION}")[0]
    assert max(map(len, tables.splitlines())) <= 80
    assert json.loads(command(str(path), "--json", "--limit", "30").stdout)["rows"] == 30


def test_without_enough_rows_the_command_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "h.jsonl", [halubench(1, good=True)])
    assert "No metric has 20 rows" in command(str(path)).output
    assert isinstance(command(str(tmp_path / "none.jsonl")).exception, UnreadableFileError)


def test_a_damaged_gzip_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, "h.jsonl.gz", [halubench(number, good=True) for number in range(200)])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UnreadableFileError, match="cannot be decompressed"):
        list(read_labeled(path))
    path.write_bytes(b"no gzip")
    with pytest.raises(UnreadableFileError, match="cannot be decompressed"):
        list(read_labeled(path))


def test_a_bias_of_length_and_of_position_is_found() -> None:
    random = np.random.default_rng(2)
    n = 200
    truth, lengths = random.random(n), random.integers(10, 1000, n).astype(float)
    alternating = 0.1 * (-1.0) ** np.argsort(np.argsort(lengths))
    reordered = np.where(np.arange(n) < 50, 0.1, np.nan)
    questions = np.arange(n).astype(str)
    fair = SubsetScores(truth + alternating, truth, questions, {}, lengths)
    biased = SubsetScores(truth + lengths / 2000, truth, questions, {}, lengths, truth + lengths / 2000 + reordered)
    (fair_length,) = metric_figures("trace.context_relevance", {"a": fair}).biases
    order, length = metric_figures("trace.context_relevance", {"a": biased}).biases
    assert (fair_length.mean.lower or 0) < 0 < (fair_length.mean.upper or 0)
    assert length.mean.value == pytest.approx(1)
    assert order.mean.value == pytest.approx(0.1)


def test_reordered_rows_are_those_of_a_hash_and_change_no_other_figure(tmp_path: Path) -> None:
    claims = [{"support": "Complete"}]
    rows = [
        {
            "question": f"When was tower {number} built?",
            "contexts": [TOWER, f"Penguins swim {number} miles.", "Eiffel was an engineer."],
            "response": "The tower was built in 1889. Eiffel was an engineer.",
            "claims": claims if number % 2 else [{"support": "Missing"}],
        }
        for number in range(60)
    ]
    path = written(tmp_path, "expertqa.jsonl", rows)
    plain, half = (json.loads(command(str(path), "--json", "--reorder", share).stdout) for share in ("0", "0.5"))
    assert plain["reordered"] == 0
    assert 10 < half["reordered"] < 50
    (before,), (after,) = plain["metrics"], half["metrics"]
    assert before["figures"] == after["figures"]
    assert [bias["name"] for bias in before["biases"]] == ["error with length of response, Spearman"]
    order = after["biases"][0]
    assert order["name"] == "change by another order of documents"
    assert 0 <= order["mean"]["value"] < 0.5


def preference(number: int, opinions: list[int], *responses: str) -> dict[str, Any]:
    first, second = responses or ("Penguins swim near Antarctic glaciers.", "The tower was built in 1889.")
    return {
        "query": f"When was tower {number} built?",
        "gt_answer": TOWER,
        "model1": {"name": "a", "response": first},
        "model2": {"name": "b", "response": second},
        "human": dict.fromkeys(ASPECTS.values(), opinions),
    }


def test_a_pair_becomes_two_answers_with_the_right_answer_as_document(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", [preference(0, [1, 2])])
    first, second = [row.interaction for row, _ in read_labeled(path)]
    assert first is not None
    assert second is not None
    assert first.response == "Penguins swim near Antarctic glaciers."
    assert second.response == "The tower was built in 1889."
    assert [document.text for document in first.documents] == [TOWER]
    assert first.reference_answer == TOWER
    for wrong_one in (preference(0, [3]), preference(0, []), {**preference(0, [1]), "human": {"overall_label": [1]}}):
        wrong = written(tmp_path, "wrong.jsonl", [wrong_one])
        assert [row.problem is not None for row, _ in read_labeled(wrong)] == [True, True]


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(-2, 2), st.integers(-2, 2)), min_size=20, max_size=30))
@settings(max_examples=5)
def test_every_opinion_of_a_person_counts_by_itself(pairs: list[tuple[float, int, int]]) -> None:
    found = PreferencePairs()
    for number, (difference, *opinions) in enumerate(pairs):
        fields = preference(number, opinions)
        found.take(1, {"m": 1.0, "only first": 1.0}, fields)
        found.take(2, {"m": 1.0 + difference, "only second": 1.0}, fields)
    figures = found.figures(confidence=0.95, seed=0)
    assert {one.metric for one in figures} <= {"m"}
    guesses = np.repeat([1.0 + pair[0] - 1.0 for pair in pairs], 2)
    people = np.array([value for pair in pairs for value in pair[1:]], np.float64)
    for one in figures:
        assert one.n == len(pairs)
        assert [figure.name for figure in one.figures] == ["correctness", "completeness", "overall"]
        for figure in one.figures:
            assert figure.mean.value == pytest.approx(spearmanr(guesses, people).statistic, abs=1e-9)


def test_a_pair_with_an_answer_that_has_no_scores_is_left_out() -> None:
    found = PreferencePairs()
    for number in range(60):
        fields = preference(number, [number % 5 - 2])
        found.take(1, None if number % 3 == 0 else {"m": 0.0}, fields)
        found.take(2, None if number % 3 == 1 else {"m": float(number % 5)}, fields)
    (one,) = found.figures(confidence=0.95, seed=0)
    assert one.n == 20
    assert one.figures[0].mean.value == pytest.approx(1)


def test_the_command_shows_which_metrics_agree_with_people(tmp_path: Path) -> None:
    good, bad = "The tower was built in 1889 by Gustave Eiffel.", "Penguins swim near Antarctic glaciers."
    rows = [preference(n, [2, 2] if n % 2 else [-2, -1], *((bad, good) if n % 2 else (good, bad))) for n in range(24)]
    path = written(tmp_path, "pairs.jsonl", rows)
    shown = command(str(path), "--labeler", "local")
    assert shown.exit_code == 0, shown.output
    assert "people's preferences" in shown.stdout
    found = json.loads(command(str(path), "--labeler", "local", "--json").stdout)
    of = {one["metric"]: one for one in found["preferences"]}
    assert of["trace.supported_fraction"]["n"] == 24
    assert all(figure["mean"]["value"] > 0.8 for figure in of["trace.supported_fraction"]["figures"])
    assert found["rows"] == 48
    assert found["metrics"] == []
