"""The example answers, its grid is worth racing, and its README says what comes out."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.roles import command

from ragtide import Item, read_items
from ragtide_offline.experiments.drafts import plan_of, read_draft

EXAMPLE = Path(__file__).parents[2] / "examples" / "bm25_rag"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
EXPERIMENT = tomllib.loads((EXAMPLE / "experiment.toml").read_text(encoding="utf-8"))
PARAMETERS = ("top_k", "chunk_sentences", "answer_sentences")
SHOWN = ("own.token_f1", "own.reciprocal_rank", "trace.context_utilization", "trace.adherence")


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[Any, Any]]:
    """`rag` and `run` of the example, imported as a script beside them would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        yield import_module("rag"), import_module("run")
        for name in ("rag", "run"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def rag(modules: tuple[Any, Any]) -> Any:
    return modules[0]


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return read_items(EXAMPLE / "questions.jsonl")


@pytest.fixture(scope="module")
def means(modules: tuple[Any, Any]) -> dict[tuple[int, ...], dict[str, float]]:
    """Mean scores of each config over all questions."""
    run = modules[1]
    found = run.run(EXPERIMENT, everything=True)
    configs = [tuple(parameters[name] for name in PARAMETERS) for parameters in run.configs_of(EXPERIMENT["grid"])]
    return {
        config: {metric: fmean(scores[metric]) for metric in SHOWN}
        for config, scores in zip(configs, found, strict=True)
    }


def test_the_grid_has_16_configs_and_is_not_flat(means: dict[tuple[int, ...], dict[str, float]]) -> None:
    f1 = sorted(scores["own.token_f1"] for scores in means.values())
    assert len(f1) == 16
    assert f1[-1] - f1[0] > 0.08
    assert f1[-1] - f1[-2] > EXPERIMENT["race"]["margin"], "the best one is better by more than the race cares about"


def test_more_documents_hold_the_right_one_more_often(means: dict[tuple[int, ...], dict[str, float]]) -> None:
    for chunk in EXPERIMENT["grid"]["chunk_sentences"]:
        ranks = [means[top_k, chunk, 1]["own.reciprocal_rank"] for top_k in EXPERIMENT["grid"]["top_k"]]
        assert ranks == sorted(ranks)


def test_the_readme_has_the_means_of_all_configs(means: dict[tuple[int, ...], dict[str, float]]) -> None:
    best_first = sorted(means.items(), key=lambda one: -one[1]["own.token_f1"])
    table = "\n".join(
        f"| {' | '.join(map(str, config))} | {' | '.join(f'{scores[name]:.3f}' for name in SHOWN)} |"
        for config, scores in best_first
    )
    assert table in README, f"the means changed; paste:\n{table}"


def test_the_readme_has_the_means_of_the_data_sets(rag: Any, items: list[Item]) -> None:
    text = " ".join(README.split())
    for dataset, between in (
        ("clapnq", "token_f1 {} with three, {} with one"),
        ("hotpotqa", "{} and {}"),
        ("hagrid", "{} and {}"),
    ):
        asked = [item for item in items if item.segments["dataset"] == dataset]
        found = [
            [
                rag.token_f1(
                    rag.answer(item.question, top_k=1, chunk_sentences=0, answer_sentences=count)[1],
                    item.reference_answer,
                )
                for item in asked
            ]
            for count in (3, 1)
        ]
        assert f"{dataset}: {between.format(*(f'{fmean(scores):.3f}' for scores in found))}" in text


@pytest.mark.heavy
def test_the_race_finds_the_best_config_for_what_the_readme_says(
    means: dict[tuple[int, ...], dict[str, float]],
) -> None:
    """The script as a user starts it: it says which configs are stopped, which wins, and the work."""
    done = subprocess.run([sys.executable, EXAMPLE / "run.py"], capture_output=True, text=True, check=True)
    stops = [line for line in done.stdout.splitlines() if " stopped; " in line]
    assert len(stops) == 15
    winner = done.stdout.split("adherence\n")[1].split()[0]
    best = max(means, key=lambda config: means[config]["own.token_f1"])
    assert winner == ",".join(f"{name}={value}" for name, value in zip(PARAMETERS, best, strict=True))
    answers = done.stdout.splitlines()[-1].split(" answers of ")[0]
    assert f"{answers} of 2,336 answers" in README, f"the race took {answers}"
    first = stops[0].split(":")[0]
    assert f"the first stop comes at {' '.join(first.split())}" in README, first


@pytest.mark.heavy
def test_the_command_stops_the_same_configs_at_the_same_questions_as_the_script(
    modules: tuple[Any, Any], redis_url: str, tmp_path: Path
) -> None:
    """With four of the configs, because every answer goes through Redis, a worker and an aggregator."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "experiment.toml").read_text(encoding="utf-8")
    for whole, part in (
        ("top_k = [1, 2, 4, 8]", "top_k = [1, 8]"),
        ("chunk_sentences = [0, 3]", "chunk_sentences = [0]"),
    ):
        assert whole in text
        text = text.replace(whole, part)
    (folder / "experiment.toml").write_text(text, encoding="utf-8")
    experiment, run = tomllib.loads(text), modules[1]
    asked = {
        run.config_name(parameters): len(scores["own.token_f1"])
        for parameters, scores in zip(run.configs_of(experiment["grid"]), run.run(experiment), strict=True)
    }
    assert len(asked) == 4
    done = command(redis_url, "experiment", "run", str(folder / "experiment.toml"), "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["name"]: row["n_items"] for row in rows} == asked
    assert [row["name"] for row in rows if row["status"] == "complete"] == [max(asked, key=lambda name: asked[name])]


def test_the_experiment_is_one_that_ragtide_takes(items: list[Item]) -> None:
    plan, order = plan_of(read_draft(EXAMPLE / "experiment.toml"), items, labeler="local")
    assert len(plan.configs) == 16
    assert (plan.metric, plan.population_size, len(order)) == ("own.token_f1", len(items), len(items))
    assert {metric.name for metric in plan.metrics} == {"own.token_f1", "own.reciprocal_rank"}


def test_every_question_has_a_right_answer_and_documents_that_hold_it(items: list[Item]) -> None:
    lines = (EXAMPLE / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    documents = {document["id"]: document["sentences"] for document in map(json.loads, lines)}
    assert len(documents) == len(lines) == 393
    assert all(documents.values())
    assert len(items) == 146
    for item in items:
        assert item.reference_answer
        assert item.metadata["gold_documents"]
        assert set(item.metadata["gold_documents"]) <= documents.keys()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    question=st.one_of(st.text(max_size=60), st.sampled_from(["zzz qqq", "who was the first king of Italy", ""])),
    top_k=st.integers(1, 2000),
    chunk_sentences=st.sampled_from([0, 1, 3]),
    answer_sentences=st.integers(1, 5),
)
def test_any_question_is_answered_from_what_was_retrieved(
    rag: Any, question: str, top_k: int, chunk_sentences: int, answer_sentences: int
) -> None:
    parameters = {"top_k": top_k, "chunk_sentences": chunk_sentences, "answer_sentences": answer_sentences}
    documents, response = rag.answer(question, **parameters)
    assert len(documents) == min(top_k, len(rag.index(chunk_sentences).chunks))
    assert [document["score"] for document in documents] == sorted(
        (document["score"] for document in documents), reverse=True
    )
    assert response.strip()
    assert set(rag.words(response)) <= {word for document in documents for word in rag.words(document["text"])}
    assert rag.answer(question, **parameters) == (documents, response)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_chunks_are_the_whole_document_in_its_order(rag: Any, size: int) -> None:
    document = {"id": "d", "sentences": [f"Sentence {number}." for number in range(7)]}
    chunks = rag.cut(document, size)
    assert [sentence for chunk in chunks for sentence in chunk.sentences] == document["sentences"]
    assert {len(chunk.sentences) for chunk in chunks[:-1]} <= {size or 7}


TEXTS = st.lists(st.sampled_from(["river", "nile", "long", "a"]), max_size=6).map(" ".join)


@given(one=TEXTS, other=TEXTS)
def test_token_f1_is_1_for_the_same_words_0_for_none_in_common_and_the_same_both_ways(
    rag: Any, one: str, other: str
) -> None:
    value = rag.token_f1(one, other)
    assert 0 <= value <= 1
    assert value == rag.token_f1(other, one)
    assert (value == 1) == (bool(one) and sorted(one.split()) == sorted(other.split()))
    assert (value == 0) == (not set(one.split()) & set(other.split()))


def test_a_question_without_a_right_answer_has_no_token_f1(rag: Any) -> None:
    item = Item("1", "q", None, {}, {"gold_documents": ["b"]})
    answer = type("Answer", (), {"documents": [{"id": "a"}, {"id": "b"}], "response": "r"})()
    assert rag.measure(item, answer) == {"token_f1": None, "reciprocal_rank": 0.5}
