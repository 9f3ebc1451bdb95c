"""Drafts of experiments, their grids, and the order of their items."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_offline.experiments.drafts import Draft, draft_of, grid_of, permutation, plan_of, read_draft
from ragtide_offline.experiments.errors import ExperimentError
from ragtide_producers.files.items import items_of
from ragtide_schemas.criterion import Criterion


def draft(**more: Any) -> Draft:
    fields = {"name": "e", "metric": "trace.adherence", "grid": {"k": [1, 2]}, **more}
    return draft_of(fields)


def test_a_grid_is_every_combination() -> None:
    configs = grid_of({"k": [1, 2], "mode": ["a", "b"], "fast": [True]})
    assert [config.name for config in configs] == [
        "k=1,mode=a,fast=true", "k=1,mode=b,fast=true", "k=2,mode=a,fast=true", "k=2,mode=b,fast=true",
    ]  # fmt: skip
    assert configs[1].parameters == {"k": 1, "mode": "b", "fast": True}


@settings(max_examples=50)
@given(size=st.integers(1, 300), seed=st.integers(0, 10**9))
def test_the_order_is_a_permutation_that_the_seed_decides(size: int, seed: int) -> None:
    order = permutation(size, seed)
    assert sorted(order) == list(range(size))
    assert order == permutation(size, seed)


def test_items_are_shuffled_uniformly_before_they_are_cut_into_shards() -> None:
    # Of data sorted by difficulty, every place of the order has every item about as often: chi-squared over 20 x 20.
    counts = [[0] * 20 for _ in range(20)]
    for seed in range(4000):
        for place, item in enumerate(permutation(20, seed)):
            counts[place][item] += 1
    chi_squared = sum((count - 200) ** 2 / 200 for row in counts for count in row)
    assert 361 - 5 * (2 * 361) ** 0.5 < chi_squared < 361 + 5 * (2 * 361) ** 0.5


def test_a_plan_records_the_order_and_gives_the_items_in_it() -> None:
    items = items_of([f"question {number}" for number in range(50)])
    made, ordered = plan_of(draft(seed=3), items, labeler="local")
    assert [one.question for one in ordered] == [items[place].question for place in permutation(50, 3)]
    other, _ = plan_of(draft(seed=4), items, labeler="local")
    fewer, _ = plan_of(draft(seed=3), items[:49], labeler="local")
    assert len({one.order_digest for one in (made, other, fewer)}) == 3
    assert made.data_digest == other.data_digest != fewer.data_digest
    assert (made.population_size, made.shards, made.labeler) == (50, 8, "local")


def test_what_rapidfire_says_of_intervals_and_metrics_is_taken() -> None:
    made, _ = plan_of(
        draft(
            metric="Precision",
            metrics={
                "Precision": {"is_algebraic": True, "value_range": (0, 1)},
                "Hits": {"is_distributive": True, "value_range": (0, 10)},
            },
            online_strategy_kwargs={"strategy_name": "wilson", "confidence_level": 0.9, "use_fpc": False},
        ),
        items_of(["a", "b"]),
        labeler="local",
    )
    assert made.metric == "own.precision"
    assert [(metric.name, metric.kind.value, metric.upper) for metric in made.metrics] == [
        ("own.precision", "algebraic", 1.0), ("own.hits", "distributive", 10.0),
    ]  # fmt: skip
    assert (made.intervals.strategy, made.intervals.confidence, made.intervals.use_fpc) == ("wilson", 0.9, False)


@for_each(
    "wrong, words",
    [
        # A setting under another name than the right one is never ignored.
        (
            {"online_strategy_kwargs": {"strategy": "wilson"}},
            "did you mean 'strategy_name'?",
        ),
        ({"online_strategy_kwargs": {"confidence": 0.9}}, "There are: strategy_name, confidence_level, use_fpc"),
        ({"online_strategy_kwargs": {"strategy_name": "best"}}, "online_strategy_kwargs: strategy"),
        ({"online_strategy_kwargs": {"confidence_level": 95}}, "online_strategy_kwargs: confidence"),
        ({"online_strategy_kwargs": {"confidence_level": "0.95"}}, "online_strategy_kwargs: confidence"),
        ({"online_strategy_kwargs": {"use_fpc": "no"}}, "online_strategy_kwargs: use_fpc"),
        ({"online_strategy_kwargs": {"use_fpc": True}, "intervals": {"strategy": "normal"}}, "give one of them"),
        ({"confidence_level": 0.9}, "confidence_level is not a field"),
        ({"race": {"looks": 3}}, "race.looks is not a field"),
        ({"metric": "Recall"}, "no metric 'Recall'"),
        ({"metrics": {"x": {"is_algebraic": True, "is_distributive": True}}}, "a mean or a sum"),
        ({"metrics": {"x": {"range": (0, 1)}}}, "range is not a field"),
        ({"grid": {}}, "configs and grid are both missing"),
        ({"grid": {"k": []}}, "grid.k"),
        ({"name": "a b"}, "name"),
        ({"grid": {"k": [1, 1]}}, "configs has two named 'k=1'"),
    ],
)
def test_what_is_wrong_in_a_draft_is_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words.replace("(", r"\(")):
        plan_of(draft(**wrong), items_of(["a"]), labeler="local")


def test_a_criterion_about_sessions_decides_no_experiment() -> None:
    resolved = Criterion(name="resolved", question="Was the problem solved?", scale="yes_no", unit="session")
    with pytest.raises(ExperimentError, match="compares single answers"):
        plan_of(draft(metric="criteria.resolved"), items_of(["a"]), labeler="judge", criteria=[resolved])


def test_an_experiment_needs_items() -> None:
    with pytest.raises(ExperimentError, match="has no items"):
        plan_of(draft(), [], labeler="local")


def test_a_file_names_data_beside_it(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question": "why?"}\n')
    file = tmp_path / "experiment.toml"
    file.write_text('name = "e"\nmetric = "trace.adherence"\ndata = "questions.jsonl"\n[grid]\nk = [1]\n')
    assert read_draft(file).data == str(tmp_path / "questions.jsonl")
    file.write_text("name = ")
    with pytest.raises(ExperimentError, match="not TOML"):
        read_draft(file)
    with pytest.raises(ExperimentError, match="cannot be read"):
        read_draft(tmp_path / "nothing.toml")


def test_a_parameter_may_be_anything_json_can_say() -> None:
    (config,) = grid_of({"prompt": [{"system": "short", "temperature": 0}]})
    assert json.loads(config.name.removeprefix("prompt=")) == {"system": "short", "temperature": 0}
