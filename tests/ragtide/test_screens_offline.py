"""Tables of comparisons, recordings, dead letters and experiments at the usual widths: no number is cut."""

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.screens import WIDTHS, drawn

from ragtide.cli.printing import Column, SafeConsole, fitted, shortened
from ragtide.cli.printing.estimates import DIFFERENCE_COLUMNS, compared_table, segments_table
from ragtide.cli.printing.laboratory import agreement_table, board_view
from ragtide.cli.printing.live import LETTER_COLUMNS, RULE_COLUMNS, WORKSPACE_COLUMNS, contents_table
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_offline.experiments.board import Board, BoardRow
from ragtide_offline.experiments.projections import Projection
from ragtide_offline.replay.result import RuleAlerts
from ragtide_offline.report.labelings import Compared
from ragtide_runtime.recordings.recording import COUNTS
from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import DeadLetter, Kind, Reason, Workspace
from ragtide_schemas.experiments import RACE

LONG = "a-pipeline-with-a-name-" + "that-is-long-" * 6 + "end"
LONG_METRIC = "ragchecker.noise_sensitivity_in_irrelevant"
METRIC = "trace.context_utilization"
WHEN = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)


def compared(n: tuple[int, int], metric: str = LONG_METRIC) -> Compared:
    means, gap = (0.511, 0.522), Interval(-0.0113, -0.0244, 0.0155)
    return Compared(EstimateKey("", None, None, metric, "ragbench", "local", "1"), n, means, gap)


@for_each("width", WIDTHS)
@for_each("names", [("a", "b"), (LONG, f"{LONG}-2"), ("shop-v1-de", "shop-v2-de")])
def test_each_difference_has_its_interval_n_and_verdict(names: tuple[str, str], width: int) -> None:
    found = [compared((12_345_678, 9_876_543)), compared((1_234, 1_234), "trace.adherence")]
    text = drawn(compared_table(found, *names, width), width)
    rows = re.findall(r"-0\.011  +-0\.024 to \+0\.015  .*undecided$", text, re.MULTILINE)
    assert len(rows) == 2
    assert "12,345,678 and 9,876,543" in text
    assert text.count("1,234") == 1
    assert (text.count("0.511"), text.count("0.522")) == (2, 2)


def test_a_difference_over_clusters_states_their_numbers() -> None:
    single = compared((400, 300), "trace.adherence")
    clustered = replace(compared((400, 300)), n_clusters=(81, 62))
    lines = drawn(compared_table([clustered, single], "a", "b", 160), 160).splitlines()
    assert re.search(r"n +clusters +verdict", lines[0])
    assert re.search(r"400 and 300 +81 and 62 +undecided", "\n".join(lines))
    assert "clusters" not in drawn(compared_table([single], "a", "b", 160), 160)
    assert "400 and 300" in drawn(compared_table([clustered], "a", "b", 80), 80)


@for_each("gap, verdict", [(-1e-17, "equal"), (0.02, "higher"), (-0.02, "lower")])
def test_a_difference_over_all_pairs_is_exact_and_has_a_verdict(gap: float, verdict: str) -> None:
    found = replace(compared((9, 9)), difference=Interval(gap, gap, gap), method="paired", strategy="closed")
    (line,) = re.findall(r"difference.*\n.*", drawn(compared_table([found], LONG, LONG, 80), 80))
    assert re.search(rf"exact +(9  )?{verdict}$", line)
    assert "-0.000" not in line
    assert found.as_dict()["verdict"] == verdict


@for_each("width", WIDTHS)
def test_each_difference_in_two_parts_has_three_numbers_and_two_intervals(width: int) -> None:
    part = SimpleNamespace(estimate=-0.123, lower=-0.456, upper=0.789)
    one: Any = SimpleNamespace(
        key=SimpleNamespace(metric=LONG_METRIC, version="2"),
        change=SimpleNamespace(total=part, mix=part, within=part),
    )
    text = drawn(fitted(DIFFERENCE_COLUMNS, [one], width), width)
    assert (text.count("-0.123"), text.count("-0.456 to +0.789")) == (3, 2)


@for_each("width", WIDTHS)
def test_each_segment_value_of_a_change_has_its_shares_means_and_parts(width: int) -> None:
    share = SimpleNamespace(estimate=1.0)
    part = SimpleNamespace(
        name="customer=" + "a-customer-" * 9, share=(share, share), mean=(0.512, 0.389), is_new=False, within=-0.123,
        mix=0.045, is_carrier=True,
    )  # fmt: skip
    change: Any = SimpleNamespace(segments=[part] * 14, mean=(0.5, 0.4), mix=part, within=part)
    part.estimate = -0.5
    text = drawn(segments_table(change, "customer", width), width)
    assert len(re.findall(r"100\.0% 100\.0%  +0\.512 0\.389  \+0\.045  -0\.123$", text, re.MULTILINE)) == 12
    assert "2 more" in text


@for_each("width", WIDTHS)
def test_each_rule_of_a_replay_has_both_numbers_and_all_times(width: int) -> None:
    fired: Any = SimpleNamespace(pipeline=LONG, segment=None, fired_at=WHEN)
    text = drawn(fitted(RULE_COLUMNS, [(LONG, RuleAlerts([fired] * 7, 1_234_567))], width), width)
    assert re.search(r" 7  +1,234,567", text)
    assert " ".join(text.split()).count("2026-11-22 10:30:00") == 7


@for_each("width", WIDTHS)
def test_each_measure_of_an_agreement_has_its_value_and_interval(width: int) -> None:
    measured = Measured(0.123, 0.111, 0.222)
    names = ("rmse", "bias", "slope", "spearman", "auroc", "f1", "kappa", "accuracy")
    agreement: Any = SimpleNamespace(n=1_234_567, constant_rmse=0.432, majority=0.753, **dict.fromkeys(names, measured))
    compared: Any = SimpleNamespace(
        metrics={LONG_METRIC: agreement, "trace.completeness": SimpleNamespace(n=0)},
        counts=Counter({"absent trace.completeness": 76}),
    )
    compared.metrics["trace.completeness"].__dict__.update(agreement.__dict__ | {"n": 0})
    text = drawn(agreement_table(compared, width), width)
    assert len(re.findall(r"0\.123  0\.111 to 0\.222", text)) == len(names)
    for words in ("always the mean 0.432", "chance 0.500", "always the majority 0.753", f"{LONG_METRIC} · n 1,234,567"):
        assert words in text
    assert "trace.completeness · n 0 · absent in 76 predictions" in text


@for_each("width", WIDTHS)
def test_a_recording_has_day_and_counts(width: int) -> None:
    row = {"day": "2026-11-22", "pipeline": LONG, **dict.fromkeys(COUNTS, 123_456_789), "unreadable": 0}
    text = drawn(contents_table([row, row], width), width)
    assert text.count("2026-11-22") == 2
    assert text.count("123,456,789") >= 2 * 4
    assert "…" in text or width > 150


@for_each("width", WIDTHS)
def test_a_dead_letter_has_its_whole_detail(width: int) -> None:
    detail = " ".join(f"word-{number}" for number in range(40))
    letter = DeadLetter(
        stream="s", entry_id="1-0", reason=Reason.INVALID, detail=detail, payload="", failed_at=WHEN, component="w"
    )
    stored = StoredDeadLetter.of(Streams("ragtide", 0), "1763800000000-0", letter)
    text = drawn(fitted(LETTER_COLUMNS, [stored], width), width)
    assert "1763800000000-0  2026-11-22 10:30:00" in text
    assert " ".join(text.split()).endswith(detail)


@for_each("width", WIDTHS)
def test_a_workspace_has_its_size_and_source(width: int) -> None:
    source = "/data/" + "a-folder/" * 20
    workspace = Workspace(run="w-1", kind="replay", source=source, population_size=10**9)
    text = drawn(fitted(WORKSPACE_COLUMNS, [workspace], width), width)
    assert "1,000,000,000" in text
    assert source in "".join(text.split())


def board(rows: list[BoardRow]) -> Board:
    return Board("race", METRIC, True, 100_000, 200_000, 1, 4, None, False, rows)


def row(number: int, parameters: dict[str, Any], name: str | None = None) -> BoardRow:
    projection = Projection(0.512, 0.498, 0.525, 1_234_567, Kind.ALGEBRAIC)
    shown = name or ",".join(f"{key}={value}" for key, value in parameters.items())
    return BoardRow(
        shown, number, parameters, None, "running", 9, 3, 0, 9, {METRIC: projection}, 1.25, 9,
        1.0, {"p50": 1.234, "p95": 2.0}, Interval(0.02, 0.01, 0.03), "other",
    )  # fmt: skip


@for_each("width", WIDTHS)
def test_each_config_of_a_leaderboard_has_number_mean_interval_and_n(width: int) -> None:
    rows = [row(3, {"top_k": 3, "model": "m-" * 60}, LONG), row(12, {"top_k": 5, "model": "other"})]
    text = drawn(board_view(board(rows), width), width)
    assert len(re.findall(r"0\.512  0\.498 to 0\.525 .*1,234,567", text)) == 2
    for number in ("#3", "#12"):
        assert re.search(rf"^{number} ", text, re.MULTILINE)
    assert "top_k" in text


@for_each("width", WIDTHS)
def test_parameters_that_differ_are_columns_and_a_name_that_repeats_them_is_not_shown(width: int) -> None:
    rows = [row(number, {"top_k": number, "prompt": "same"}) for number in (3, 5)]
    text = drawn(board_view(board(rows), width), width)
    assert re.search(r"^config  top_k  status", text, re.MULTILINE)
    assert re.search(r"^#5      5      running", text, re.MULTILINE)
    assert "prompt" not in text


def test_the_title_of_a_parameter_is_shortened_before_a_parameter_moves_below_its_row() -> None:
    values = [{"top_k": number, "a_long_parameter_name": number} for number in (3, 5)]
    rows = [replace(row(number, value), n_failed=0) for number, value in zip((3, 5), values, strict=True)]
    text = drawn(board_view(board(rows), 80), 80)
    assert re.search(r"^config  top_k  a_long…er_name  status", text, re.MULTILINE)
    rows = [
        row(number, {f"a_long_parameter_name_{place}": "v" * 20 + str(number) for place in "ab"}) for number in (3, 5)
    ]
    text = " ".join(drawn(board_view(board(rows), 80), 80).split())
    assert text.count("a_long_parameter_name_a " + "v" * 20) == 2
    assert text.count("v" * 20) == 4  # no value is cut


@for_each("width", WIDTHS)
def test_the_warning_of_a_leaderboard_stands_above_it(width: int) -> None:
    shown = replace(board([row(3, {"top_k": 3})]), warning="compare [retrieval.match], too\x1b[2J")
    text = drawn(board_view(shown, width), width)
    assert "\x1b[2J" not in text
    assert " ".join(text.partition("\nconfig ")[0].split()).count("compare [retrieval.match], too") == 1


def test_the_notes_of_a_leaderboard_are_a_line_for_each_stop() -> None:
    lost = replace(row(3, {"top_k": 3}), status="stopped", stopped_by=RACE, reason="long", against="top_k=5")
    made = replace(row(4, {"top_k": 4}, "mine"), status="stopped", stopped_by="ann", reason="too dear")
    closed = Projection(0.5, 0.5, 0.5, 99, Kind.ALGEBRAIC, exact=True)
    best = replace(row(5, {"top_k": 5}), estimates={METRIC: closed}, behind=None, against=None)
    shown = replace(
        board([best, lost, made]), margin=0.02, alpha=0.05, outlook=Projection(0.5, 0.4, 0.6, 99, Kind.ALGEBRAIC)
    )
    text = " ".join(drawn(board_view(shown, 80, driven=False), 80).split())
    assert "waits for a driver" in text
    assert "#5 5 running 0.500 exact 99" in text
    assert "For other items like these top_k=5 (#5) has 0.400 to 0.600." in text
    assert "top_k=3 (#3) stopped after 9 items: surely at least 0.010 worse than top_k=5 (#5)" in text
    assert "mine (#4) stopped by ann: too dear" in text
    assert "once it is surely at most 0.02 better than another (error probability of all stops together: 0.05)" in text


def test_a_name_loses_its_middle_and_never_its_ends() -> None:
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("漢字漢字漢字", 5) == "漢…字"


def test_columns_that_cannot_fit_move_below_their_row() -> None:
    columns = [Column("name", str), *(Column(f"c{place}", lambda _: "1" * 30) for place in range(3))]
    text = drawn(fitted(columns, ["row"], 80), 80)
    assert text.count("1" * 30) == 3


def test_a_pipe_gets_lines_of_any_length_unless_columns_states_a_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns, cut in ((None, False), ("80", True)):
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", columns)
        console = SafeConsole()
        console.print(compared_table([compared((1, 2))], LONG, f"{LONG}-2", console.width))
        text = capsys.readouterr().out
        assert (LONG in text, LONG_METRIC in text) == (not cut, not cut)


@for_each(
    "means, ends, strategy, verdict",
    [
        ((0.5004, 0.5), (0.0004, 0.0004), "closed", "equal"),
        ((0.501, 0.5), (0.001, 0.001), "closed", "higher"),
        ((0.5, 0.501), (-0.001, -0.001), "closed", "lower"),
        ((0.503, 0.5), (0.0004, 0.006), "running", "undecided"),
        ((0.503, 0.5), (0.0006, 0.006), "running", "higher"),
        ((0.0021, 0.0019), (0.0002, 0.0002), "closed", "higher"),
    ],
)
def test_a_verdict_is_one_that_the_shown_digits_bear_out(
    means: tuple[float, float], ends: tuple[float, float], strategy: str, verdict: str
) -> None:
    gap = Interval(means[0] - means[1], *ends)
    row = replace(compared((20, 20)), means=means, difference=gap, strategy=strategy)
    assert row.verdict == verdict
    text = drawn(compared_table([row], "a", "b", 160), 160)
    assert ("0.000" in text.replace("+0.0002", "")) == (verdict in {"equal", "undecided"})
