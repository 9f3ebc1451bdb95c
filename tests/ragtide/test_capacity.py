"""The screen of `ragtide capacity`: it fits terminals, and mistakes are named."""

import json
from typing import Any

import pytest
import typer.testing
from tests.support.cases import for_each
from tests.support.doc_pages import page_text, tagged_block
from tests.support.screens import WIDTHS, drawn

from ragtide.cli.app import cli
from ragtide.cli.printing.laboratory import capacity_view
from ragtide_offline.capacity.judging import JudgeBill
from ragtide_offline.capacity.planning import PlannedTraffic, capacity_of
from ragtide_offline.capacity.unit_costs import SHIPPED, read_unit_costs
from ragtide_runtime.settings.model import Settings

pytestmark = pytest.mark.pure


def run(*words: str) -> Any:
    return typer.testing.CliRunner().invoke(cli, ["capacity", *words])


@for_each("width", WIDTHS)
def test_the_screen_fits_a_terminal_and_shows_every_part(width: int) -> None:
    traffic = PlannedTraffic(rate=20_000, pipelines=10_000, judge_share=0.1)
    costs = read_unit_costs(SHIPPED)
    needs = capacity_of(traffic, Settings(), costs)
    bill = JudgeBill(calls=2e3, prompt_tokens=3e6, completion_tokens=4e5, usd_a_day=123_456.78)
    text = " ".join(
        drawn(capacity_view(traffic, needs, bill, costs, width=width, larger={"rate": needs}), width).split()
    )
    for part in needs.work:
        assert part.work in text
    assert all(content in text for content in needs.memory)
    for limit in needs.limits:
        assert limit.limit in text
        assert (limit.exceeded in text) == (limit.used > 1)
    assert "$123,456.78 a day" in text
    assert f"at least {needs.partitions_needed:,} partitions" in text
    assert costs.machine in text


def test_the_judges_bill_counts_criteria_for_all_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    def tokens(*criteria: dict[str, Any]) -> float:
        monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps(criteria))
        found = run("--rate", "500", "--judge-model", "m", "--judge-share", "0.1", "--json")
        return float(json.loads(found.output)["judge"]["prompt_tokens"])

    short = {"name": "short", "question": "Is it short?", "scale": "yes_no"}
    assert tokens({**short, "pipelines": ["shop"], "segments": {"lang": ["de"]}}) == tokens(short) > tokens()


def test_the_judges_dollars_follow_its_share_and_its_price() -> None:
    def bill(*words: str) -> Any:
        found = run("--rate", "500", "--judge-model", "m", "--json", *words)
        assert found.exit_code == 0, found.output
        return json.loads(found.output)["judge"]

    assert bill() is None
    tenth, half = (bill("--judge-share", share, "--price", "1,4") for share in ("0.1", "0.5"))
    assert half["usd_a_day"] == pytest.approx(5 * tenth["usd_a_day"])
    tokens = tenth["prompt_tokens"] + 4 * tenth["completion_tokens"]
    assert tenth["usd_a_day"] == pytest.approx(86_400 * tokens / 1e6)
    assert tenth["usd_a_month"] == pytest.approx(30 * tenth["usd_a_day"])
    assert bill("--labeler", "judge", "--price", "1,4")["calls"] == pytest.approx(10 * tenth["calls"])
    longer = bill("--judge-share", "0.1", "--price", "1,4", "--document-size", "4096")
    assert longer["prompt_tokens"] > tenth["prompt_tokens"]


def test_a_model_without_a_price_has_tokens_and_no_dollars() -> None:
    found = run("--rate", "5", "--judge-share", "1", "--judge-model", "no-such-model", "--json")
    assert json.loads(found.output)["judge"]["usd_a_day"] is None
    assert "--price" in run("--rate", "5", "--judge-share", "1", "--judge-model", "no-such-model").output


@for_each(
    "words, said",
    [
        ("--rate 0", "--rate"),
        ("--rate 5 --judge-share 2", "--judge-share"),
        ("--rate 5 --judge-share 0.1", "--judge-model"),
        ("--rate 5 --price 1,2", "--judge-model"),
        ("--rate 5 --judge-model m --price cheap", "0.4,1.6"),
        ("--rate 5 --retention never", "7d"),
        ("--rate 5 --labeler judge --judge-share 0.1", "--judge-share"),
        ("--rate 5 --costs no-such-file.json", "make capacity"),
    ],
)
def test_a_mistake_names_what_to_do(words: str, said: str) -> None:
    found = run(*words.split())
    assert found.exit_code != 0
    assert said in " ".join(f"{found.output} {found.exception}".split())


def test_the_page_has_the_table_of_ten_times_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--partitions", "64", "capacity", "--rate", "20000", "--pipelines", "10000", "--ten-times")
    found = typer.testing.CliRunner().invoke(cli, [*words])
    printed = [line.rstrip() for line in found.output.splitlines()]
    assert "\n".join(printed).find(tagged_block(page_text("scale"), "ten times").strip()) > 0
