"""Reports of runs that were really judged, from a real Redis, through the command line."""

import json
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ragtide.judged_runs import METRIC, NASTY, Run, plan_of, settings_for, write_experiment
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.report.experiment import ScoredItem, worst_items
from ragtide_offline.report.reports import names_given
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.workspaces import settings_of_workspace
from ragtide_schemas import Direction, Kind
from ragtide_schemas.experiments import (
    Command,
    Config,
    IntervalOptions,
    Limits,
    Look,
    OwnMetric,
    Paused,
    RaceOptions,
)

CONFIGS = ("top_k=2", "top_k=4", "top_k=8")
MEANS = {"top_k=2": 0.55, "top_k=4": 0.85, "top_k=8": 0.83}
COST = {"top_k=2": 0.001, "top_k=4": 0.002, "top_k=8": 0.004}


@pytest.fixture
def may(redis_url: str) -> Run:
    run = Run(
        plan_of("may", CONFIGS, race=RaceOptions(margin=0.0, look_every=10)),
        MEANS,
        cost=COST,
        orders=[
            Command(op="stop", config="nobody", by="bob"),
            Command(op="stop", config="top_k=8", by="ann <b>", reason="slow | dear"),
        ],
    )
    write_experiment(redis_url, run)
    return run


def report(redis_url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--redis-url", redis_url, "report", *arguments])


def fields(redis_url: str, *arguments: str) -> dict[str, Any]:
    done = report(redis_url, *arguments, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Outline(HTMLParser):
    """Tags that were opened and closed, ids, references to them, and texts; complains of what does not nest."""

    VOID = frozenset({"meta", "br", "line", "circle", "path", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.referred: list[str] = []
        self.outside: list[str] = []
        self.svgs: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        given = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.referred += (given.get("aria-labelledby") or "").split()
        self.outside += [value for name, value in attrs if name in {"src", "href"} and value]
        if tag == "svg":
            self.svgs.append(given)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_says_who_leads_who_was_stopped_when_and_why(redis_url: str, may: Run) -> None:
    found = fields(redis_url, "may")
    board = found["board"]
    assert board["rows"][0]["name"] == "top_k=4"
    assert board["completed"]
    race, person = (
        next(command for command in found["commands"] if command["command"]["by"] == by) for by in ("race", "ann <b>")
    )
    assert (person["item"], person["command"]["config"]) == (0, "top_k=8")
    evidence = race["command"]["evidence"]
    assert race["command"]["config"] == "top_k=2"
    assert race["item"] == evidence["item"] < 120
    assert evidence["e_value"] >= 1 / evidence["alpha"]
    # One call failed, so the two have one item less in common.
    assert evidence["n"] == evidence["item"] - 1
    (refused,) = found["refused"]
    assert "there is no config 'nobody'" in refused["reason"]
    (failure,) = found["failures"]
    assert (failure["count"], failure["reason"], failure["configs"]) == (1, "503 from the <model>", ["top_k=2"])


def test_the_first_line_is_the_verdict(redis_url: str, may: Run) -> None:
    page = report(redis_url, "may", "-o", "-", "--format", "html").stdout
    assert page.index(" leads; 2 stopped") < page.index(" leads: ")


@pytest.mark.parametrize("margin", [0.0, 0.02, 0.1])
def test_two_configs_have_one_difference_with_one_interval_the_races(redis_url: str, margin: float) -> None:
    names = ("a", "b", "c", "d")
    means = dict(zip(names, (0.9, 0.5, 0.7, 0.89), strict=True))
    write_experiment(redis_url, Run(plan_of("may", names, race=RaceOptions(margin=margin, look_every=10)), means))
    found = fields(redis_url, "may")
    shown: dict[tuple[str, str], set[tuple[float, ...]]] = {}

    def show(first: str, second: str, gap: dict[str, float]) -> None:
        ends = (gap["estimate"], gap["lower"], gap["upper"])
        if first > second:
            first, second, ends = second, first, (-ends[0], -ends[2], -ends[1])
        shown.setdefault((first, second), set()).add(tuple(round(end, 12) + 0.0 for end in ends))

    rows = {row["name"]: row for row in found["board"]["rows"]}
    for name, row in rows.items():
        if row["behind"] is not None:
            show(row["against"], name, row["behind"])
    pairs = {frozenset((pair["first"], pair["second"])): pair for pair in found["pairs"]["pairs"]}
    for pair in pairs.values():
        show(pair["first"], pair["second"], pair["difference"])
    stops = [one["command"] for one in found["commands"] if one["command"]["by"] == "race"]
    assert stops
    for command in stops:
        evidence = command["evidence"]
        show(evidence["by"], command["config"], {**evidence, "estimate": evidence["difference"]})
        # A stopped config stands beside the one it lost to, and is marked as decided.
        assert rows[command["config"]]["against"] == evidence["by"]
        pair = pairs[frozenset((command["config"], evidence["by"]))]
        assert (pair["source"], pair["stopped"]) == ("decision", command["config"])
        # The race decided that it is not better by the margin.
        assert evidence["lower"] >= -margin
    assert {len(intervals) for intervals in shown.values()} == {1}
    assert {pair["source"] for pair in pairs.values()} <= {"decision", "race"}
    page = report(redis_url, "may", "--output", "-").stdout
    assert "undecided" not in page
    assert page.count("surely at ") >= len(stops)


def test_the_board_shows_the_same_differences_as_the_report(redis_url: str, may: Run) -> None:
    of_report = {row["name"]: row["behind"] for row in fields(redis_url, "may")["board"]["rows"]}
    done = CliRunner().invoke(cli, ["--redis-url", redis_url, "experiment", "show", "may", "--json"])
    assert {row["name"]: row["behind"] for row in json.loads(done.stdout)["rows"]} == of_report


def test_the_worst_item_is_the_one_on_which_all_do_badly(redis_url: str, may: Run) -> None:
    found = fields(redis_url, "may", "--items", "3")
    assert len(found["worst"]) == 3
    worst_items = found["worst"][0]
    assert (worst_items["item_id"], worst_items["place"], worst_items["mean"]) == ("q2", 2, 0.01)
    assert NASTY in worst_items["question"]
    assert {answer["config"] for answer in worst_items["answers"]} == {"top_k=2", "top_k=4"}
    disputed = [item["spread"] for item in found["disputed"]]
    assert disputed == sorted(disputed, reverse=True)
    assert min(disputed) > 0


def test_pairs_hold_together_and_say_at_which_level(redis_url: str) -> None:
    names = ("a", "b", "c")
    write_experiment(
        redis_url,
        Run(
            plan_of("may", names, race=RaceOptions(enabled=False)),
            dict(zip(names, (0.9, 0.5, 0.7), strict=True)),
            items=60,
        ),
    )
    found = fields(redis_url, "may")
    pairs = found["pairs"]
    assert pairs["confidence_each"] == pytest.approx(1 - 0.05 / 3)
    by_names = {(pair["first"], pair["second"]): pair for pair in pairs["pairs"]}
    assert list(by_names) == [("a", "c"), ("a", "b"), ("c", "b")]
    gap = by_names["a", "b"]["difference"]
    assert 0 < gap["lower"] < gap["estimate"] < gap["upper"]
    assert {pair["source"] for pair in pairs["pairs"]} == {"pairs"}
    # The leaderboard has the same interval.
    assert next(row["behind"] for row in found["board"]["rows"] if row["name"] == "b") == gap
    assert any("not complete: 60 of 120" in caution for caution in found["cautions"])
    assert {parameter["name"] for parameter in found["parameters"]["parameters"]} == {"top_k", "style"}
    style = next(parameter for parameter in found["parameters"]["parameters"] if parameter["name"] == "style")
    assert [(value["value"], value["configs"]) for value in style["values"]] == [("short", 2), ("long", 1)]
    assert style["values"][0]["mean"] > style["values"][1]["mean"]


def test_the_page_is_one_well_formed_file_that_needs_nothing_else(redis_url: str, may: Run, tmp_path: Path) -> None:
    done = report(redis_url, "may")
    assert done.exit_code == 0, done.output
    assert "report written to may.html" in done.stderr
    page = Path("may.html").read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(outline.referred) <= set(outline.ids)
    assert outline.outside == []
    assert "script" not in outline.seen
    assert "url(" not in page
    assert all(
        svg.get("role") == "img" and (svg.get("aria-label") or svg.get("aria-labelledby")) for svg in outline.svgs
    )
    assert outline.seen.count("caption") == outline.seen.count("table")
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
    assert "prefers-color-scheme: dark" in page


def test_what_people_and_models_wrote_is_text_and_no_markup(redis_url: str, may: Run) -> None:
    page = report(redis_url, "may", "--output", "-").stdout
    assert "<script>" not in page
    assert "&lt;script&gt;alert(" in page
    assert "ann &lt;b&gt;" in page
    assert "503 from the &lt;model&gt;" in page


def test_cost_and_pareto_front_are_drawn(redis_url: str, may: Run) -> None:
    rows = fields(redis_url, "may")["board"]["rows"]
    # top_k=8 has no score: it was stopped before the first item.
    assert {row["name"] for row in rows if row["pareto"]} == {"top_k=2", "top_k=4"}
    assert "On the Pareto front: top_k=2, top_k=4." in report(redis_url, "may", "-o", "-").stdout


def test_the_leaderboard_has_the_quality_per_dollar_where_answers_have_costs(redis_url: str, may: Run) -> None:
    run = Run(plan_of("dear", ("a", "b")), {"a": 0.8, "b": 0.7}, own={"answer.cost_usd": 0.5}, items=20)
    write_experiment(redis_url, run)
    page = report(redis_url, "dear", "-o", "-").stdout
    cells = re.findall(
        r'data-label="quality per dollar">([0-9.]+)<br><span class="soft">([0-9.]+) to (.+?)</span>', page
    )
    assert len(cells) == 2, page
    assert "quality per dollar" not in report(redis_url, "may", "-o", "-").stdout


def test_without_cost_quality_stands_against_latency(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("free", ("a", "b")), {"a": 0.8, "b": 0.7}, items=20))
    found = fields(redis_url, "free")["board"]
    assert found["price"] == "latency"
    page = report(redis_url, "free", "-o", "-").stdout
    assert "median seconds of an answer" in page
    assert "US dollars an item" not in page
    best = next(row for row in found["rows"] if row["name"] == "a")
    fastest = min(found["rows"], key=lambda row: row["latency_quantiles_s"]["p50"])
    assert best["pareto"]
    assert fastest["pareto"]


def test_an_experiment_without_any_score_has_a_report(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("none", ("a", "b")), {}, items=0))
    page = report(redis_url, "none", "-o", "-")
    assert page.exit_code == 0, page.output
    assert "No answer has a score of trace.adherence yet." in page.stdout
    assert fields(redis_url, "none")["pairs"] is None


def test_cautions_name_halts_looks_local_scores_and_missing_answers(redis: Any, redis_url: str) -> None:
    plan = plan_of("may", ("a", "b"), intervals=IntervalOptions(strategy="normal"))
    write_experiment(redis_url, Run(plan, {"a": 0.8, "b": 0.7}, items=20, labeler="local"))
    stream = settings_of_workspace(settings_for(redis_url), "may").layout.all()[0].experiment
    redis.xadd(stream, {DATA_FIELD: Paused(reason="cost 1 USD of at most 1").encode()})
    said = "\n".join(fields(redis_url, "may")["cautions"])
    assert "paused: cost 1 USD of at most 1" in said
    assert "20 of 120 items" in said
    assert "a has no score on 1 of 20 items (5%)" in said
    assert "normal intervals. They are valid once" in said
    assert "looked about 2 times" in said
    assert "scored by local, which does not see unsupported claims" in said


def test_texts_that_were_trimmed_are_said_to_be_gone(redis: Any, redis_url: str, may: Run) -> None:
    redis.delete(settings_of_workspace(settings_for(redis_url), "may").layout.all()[0].interactions)
    worst_items = fields(redis_url, "may")["worst"][0]
    assert worst_items["question"] is None
    assert {answer["note"] for answer in worst_items["answers"]} == {"its text is no longer on the stream"}
    assert "no longer on the stream" in report(redis_url, "may", "-o", "-").stdout


def test_two_versions_on_the_same_items_are_paired_whatever_their_order(redis_url: str) -> None:
    ids = [f"q{place}" for place in range(120)]
    shuffled = np.random.default_rng(3).permutation(ids).tolist()
    write_experiment(redis_url, Run(plan_of("old", ("a", "b")), {"a": 0.6, "b": 0.5}, item_ids=ids, items=80))
    write_experiment(
        redis_url, Run(plan_of("new", ("a", "b")), {"a": 0.8, "b": 0.5}, item_ids=shuffled, items=80, seed=2)
    )
    found = fields(redis_url, "new", "--compare", "old", "--config", "a=a")
    (gap,) = [one for one in found["gaps"] if one["metric"] == METRIC]
    in_both = len(set(ids[:80]) & set(shuffled[:80]))
    assert gap["method"] == "paired"
    # In each one call failed, and only one in each may be shared.
    assert in_both - 2 <= gap["n"][0] <= in_both
    assert gap["verdict"] == "better"
    assert gap["difference"]["lower"] < 0.19 < gap["difference"]["upper"]
    both = fields(redis_url, "new", "--compare", "old")
    assert {(one["first"], one["second"]) for one in both["gaps"]} == {("a", "a"), ("b", "b")}
    assert both["confidence_each"] == pytest.approx(0.975)
    assert {one["verdict"] for one in both["gaps"] if one["first"] == "b" and one["metric"] == METRIC} == {"undecided"}
    page = report(redis_url, "new", "--compare", "old")
    assert "report written to new-vs-old.html" in page.stderr
    assert "a of new is better than a of old in trace.adherence" in Path("new-vs-old.html").read_text(encoding="utf-8")


def test_runs_without_common_items_are_compared_unpaired_with_wider_intervals(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("old", ("a",), data_digest="d0"), {"a": 0.5}))
    others = [f"other{place}" for place in range(120)]
    write_experiment(redis_url, Run(plan_of("new", ("a",)), {"a": 0.9}, item_ids=others))
    write_experiment(redis_url, Run(plan_of("same", ("a",), data_digest="d0"), {"a": 0.9}))
    (unpaired,) = [gap for gap in fields(redis_url, "new", "--compare", "old")["gaps"] if gap["metric"] == METRIC]
    (paired,) = [gap for gap in fields(redis_url, "same", "--compare", "old")["gaps"] if gap["metric"] == METRIC]
    assert (unpaired["method"], paired["method"]) == ("unpaired", "paired")
    assert unpaired["difference"]["lower"] < 0.4 < unpaired["difference"]["upper"]
    # Both saw all items: nothing is left to be uncertain about.
    assert paired["difference"]["lower"] == paired["difference"]["upper"] == pytest.approx(0.4, abs=0.05)


def test_scores_of_different_labelers_are_not_compared(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("old", ("a",)), {"a": 0.5}, items=20))
    write_experiment(redis_url, Run(plan_of("new", ("a",)), {"a": 0.5}, items=20, labeler="judge"))
    found = fields(redis_url, "new", "--compare", "old")
    assert found["gaps"] == []
    assert "The labelers differ (judge 1 (ragbench) and test 1 (ragbench))" in found["cautions"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "there is no workspace 'nothing'. There are: may"),
        (("may", "--compare", "june"), "there is no workspace 'june'"),
        (("may", "--config", "a=b"), "give --compare OTHER too"),
        (("may", "--tracking-uri", "x"), "give --mlflow too"),
        (("may", "--compare", "may", "--config", "a=b"), "'a=b' names no pair A=B of both. There are: top_k=2"),
        (("may", "--output", "no/such/folder/x.html"), "cannot be written (No such file or directory)"),
        (("may", "--json", "--format", "html"), "contradict each other"),
        (("may", "--output", "may.md"), "a report is HTML or JSON: give a file such as may.html"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(redis_url: str, may: Run, arguments: tuple[str, ...], words: str) -> None:
    done = report(redis_url, *arguments)
    said = done.output if not isinstance(done.exception, ConfigurationError) else str(done.exception)
    assert done.exit_code != 0
    assert words in " ".join(re.sub(r"[│╭╮╰╯─]", " ", said).split())


def test_names_with_equals_signs_are_told_apart() -> None:
    assert names_given("top_k=2=top_k=4", CONFIGS, CONFIGS) == ("top_k=2", "top_k=4")
    with pytest.raises(ValueError, match="names no pair"):
        names_given("top_k=2", CONFIGS, CONFIGS)


def test_what_is_reported_twice_is_the_same_but_for_its_time(redis_url: str, may: Run) -> None:
    first, second = (fields(redis_url, "may") for _ in range(2))
    assert first.pop("made_at") <= second.pop("made_at") <= datetime.now(UTC).isoformat()
    assert first == second


def test_commands_are_reported_with_the_items_compared_before_them() -> None:
    state = ExperimentState(plan_of("may", ("a", "b")))
    commands = [
        Command(op="stop", config="a", by="ann"),
        Command(op="resume", config="a", keep=True, by="ann"),
        Command(op="resume", config="b", keep=True, by="ann"),
        Command(op="clone", config="a", clone="c", parameters={"top_k": 9}, by="ann"),
        Command(op="limits", limits=Limits(max_cost_usd=3.0), by="ann"),
        Command(op="stop", config="b", by="ann"),
        Command(op="delete", config="b", by="ann"),
        Command(op="delete", config="a", by="ann"),
    ]
    for number, command in enumerate(commands):
        assert state.apply(Look(item=10 * (number + 1))) is None
        assert state.apply(command) is None
    # A veto of a config that runs, new limits, and the deletion of a stopped config change no item.
    assert [one.item for one in state.commands] == [10, 20, None, 40, None, 60, None, 80]


def test_a_lower_total_can_be_better(redis_url: str) -> None:
    metric = OwnMetric(name="own.report_errors", kind=Kind.DISTRIBUTIVE, lower=0, upper=5, direction=Direction.LOWER)
    plan = plan_of("may", ("a", "b"), metric=metric.name, higher_is_better=False, metrics=(metric,))
    write_experiment(redis_url, Run(plan, {"a": 0.9, "b": 0.2}, own={metric.name: 5.0}))
    write_experiment(
        redis_url, Run(plan.model_copy(update={"run": "june"}), {"a": 0.9, "b": 0.6}, own={metric.name: 5.0}, seed=2)
    )
    found = fields(redis_url, "may")
    best, loser = found["board"]["rows"]
    assert (best["name"], loser["status"]) == ("b", "stopped")
    assert 100 < best["estimates"][metric.name]["estimate"] < 200
    assert loser["behind"]["upper"] < 0
    assert found["worst"][0]["mean"] > found["worst"][-1]["mean"]
    page = report(redis_url, "may", "-o", "-").stdout
    assert "Estimates of the total over all 120 items" in page
    # The first is better because it is lower.
    assert '<span class="better">▲ -' in page
    assert (
        "b of may is better than b of june in own.report_errors"
        in report(redis_url, "may", "--compare", "june", "-o", "-").stdout
    )


def test_the_parameters_are_the_name_of_a_config_of_a_grid(redis_url: str) -> None:
    named = tuple(Config(name=f"top_k={value}", parameters={"top_k": value}) for value in (2, 4))
    grid = plan_of("grid", ("a", "b")).model_copy(update={"configs": named})
    write_experiment(redis_url, Run(grid, {"top_k=2": 0.8, "top_k=4": 0.7}, items=20))
    page = report(redis_url, "grid", "-o", "-", "--format", "html").stdout
    assert "top_k=2 (#0) leads: " in page
    assert '<th scope="row"><span class="piece">top_k=4</span>' in page
    many = Config(name="many", parameters={f"option_{number}": number for number in range(9)})
    wide = grid.model_copy(update={"run": "wide", "configs": (many,)})
    write_experiment(redis_url, Run(wide, {"many": 0.8}, items=20))
    assert "option_8=8" in report(redis_url, "wide", "-o", "-").stdout


def test_an_exact_number_is_called_exact_beside_the_interval_for_other_items(redis_url: str) -> None:
    write_experiment(redis_url, Run(plan_of("may", ("a", "b")), {"a": 0.8, "b": 0.7}))
    board = fields(redis_url, "may")["board"]
    at, beyond = board["rows"][0]["estimates"][board["metric"]], board["outlook"]
    assert at["exact"]
    assert at["lower"] == at["upper"] == at["estimate"] == beyond["estimate"]
    assert beyond["lower"] < at["lower"] < beyond["upper"]
    page = report(redis_url, "may", "-o", "-").stdout
    assert f">{at['lower']:.3f} to {at['upper']:.3f}<" not in page
    assert ">of these 119 questions, exactly<" in page
    assert f"expect {beyond['lower']:.3f} to {beyond['upper']:.3f}" in page
    write_experiment(redis_url, Run(plan_of("half", ("a", "b")), {"a": 0.8, "b": 0.7}, items=60))
    half = fields(redis_url, "half")["board"]
    assert half["outlook"] is None
    assert not half["rows"][0]["estimates"][half["metric"]]["exact"]


def test_items_without_the_score_of_a_config_come_last_among_the_worst() -> None:
    complete, missing = ScoredItem(0, {"a": 0.4, "b": 0.6}), ScoredItem(1, {"b": 0.1}, unscored=1)
    assert worst_items([missing, complete], 2, higher_is_better=True) == [complete, missing]
    assert worst_items([missing, complete], 1, higher_is_better=False) == [complete]


def test_two_experiments_with_the_same_scores_on_all_items_are_equal(redis_url: str) -> None:
    for name in ("may", "june"):
        write_experiment(redis_url, Run(plan_of(name, ("a", "b")), {"a": 0.8, "b": 0.7}))
    gaps = [gap for gap in fields(redis_url, "may", "--compare", "june")["gaps"] if gap["metric"] == METRIC]
    whole = [gap for gap in gaps if gap["difference"]["lower"] == gap["difference"]["upper"]]
    assert whole
    assert {gap["verdict"] for gap in whole} == {"equal"}
    page = report(redis_url, "may", "--compare", "june", "-o", "-").stdout
    assert f"a of may is equal to a of june in {METRIC}" in page
    assert "0.000 (of these 119 questions, exactly)" in page


def test_published_means_stand_beside_those_of_the_best_config(redis_url: str, may: Run) -> None:

    assert fields(redis_url, "may")["published"] is None
    found = fields(redis_url, "may", "--reference", "RAGBench")["published"]
    (row,) = [mean for mean in found["means"] if mean["metric"] == METRIC]
    best = fields(redis_url, "may")["board"]["rows"][0]
    assert found["config"] == best["name"]
    assert (row["ours"], row["lower"]) == (best["estimates"][METRIC]["estimate"], best["estimates"][METRIC]["lower"])
    points = 100 * (row["ours"] - row["published"])
    page = report(redis_url, "may", "-o", "-", "--reference", "RAGBench").stdout
    assert f"{100 * row['published']:.1f}" in page
    assert f"{points:+.1f}" in page
    assert "arXiv:2407.11005" in page


def test_published_results_of_an_unknown_data_set_or_for_a_comparison_are_refused(redis_url: str, may: Run) -> None:
    done = report(redis_url, "may", "--reference", "ClapNO")
    assert done.exit_code == 2
    assert "ClapNQ" in done.output
    assert report(redis_url, "may", "--compare", "may", "--reference", "ClapNQ").exit_code == 2


def test_published_results_without_a_common_metric_say_so(redis_url: str, may: Run) -> None:
    page = report(redis_url, "may", "-o", "-", "--reference", "ClapNQ").stdout
    assert "no metric in common" in page
