"""Names in tables at 80 columns: whole, or shortened with an ellipsis so that no two look alike."""

from io import StringIO
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from tests.ragtide.test_screens import JUDGE, estimate
from tests.ragtide.test_screens_offline import compared
from tests.ragtide.test_watch_view import drawn as watched
from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.screens import drawn

from ragtide.cli.printing import Column, fitted, folded
from ragtide.cli.printing.estimates import compared_table, estimates_table, labeling_table, segments_table
from ragtide.cli.printing.live import FINDING_COLUMNS, LIST_COLUMNS, RULE_COLUMNS, alerts_view, contents_table
from ragtide.cli.running.watching import WatchView, headline_of
from ragtide_offline.replay.result import RuleAlerts
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.recordings.recording import COUNTS
from ragtide_schemas.alert_text import alert_text

ALIKE = [f"{'checkout-' * 5}{part}{'-answers' * 5}" for part in ("de", "fr", "it")]
"""Names whose beginnings and ends are the same."""
METRICS_ALIKE = [f"own.{'a' * 30}_{part}_{'b' * 30}" for part in ("in", "out")]


def shares() -> Any:
    share = SimpleNamespace(estimate=0.5)
    parts = [
        SimpleNamespace(name=f"of={name}", share=(share, share), mean=(0.5, 0.4), is_new=False, within=-0.1, mix=0.0,
                        is_carrier=False)
        for name in ALIKE
    ]  # fmt: skip
    whole = SimpleNamespace(estimate=-0.1)
    return SimpleNamespace(segments=parts, mean=(0.5, 0.4), mix=whole, within=whole)


def tables() -> dict[str, tuple[Any, list[str]]]:
    """Return every table that shows names, with the names that must be told apart in it."""
    counts = dict.fromkeys(COUNTS, 123_456_789)
    return {
        "estimates by pipeline": (
            estimates_table([estimate("trace.adherence", pipeline=name, **JUDGE) for name in ALIKE], 80),
            ALIKE,
        ),
        "estimates by segment": (
            estimates_table([estimate("trace.adherence", segment=f"of={name}") for name in ALIKE], 80),
            ALIKE,
        ),
        "estimates by metric": (estimates_table([estimate(name) for name in METRICS_ALIKE], 80), METRICS_ALIKE),
        "labeling": (
            labeling_table([estimate("labeling.latency_s", pipeline=name) for name in ALIKE], 80),
            ALIKE,
        ),
        "compare": (compared_table([compared((9, 9))], ALIKE[0], ALIKE[1], 80), ALIKE[:2]),
        "compare by metric": (compared_table([compared((9, 9), one) for one in METRICS_ALIKE], "a", "b", 80),
                              METRICS_ALIKE),
        "items": (fitted(LIST_COLUMNS,
                         [{"pipeline": one, "list": f"worst:{one}", "items": 9} for one in ALIKE], 80), ALIKE),
        "alerts": (alerts_view([alert_text(alert(str(n), pipeline=name)) for n, name in enumerate(ALIKE)]), ALIKE),
        "rules of a replay": (fitted(RULE_COLUMNS, [(name, RuleAlerts([], 1)) for name in ALIKE], 80), ALIKE),
        "parts of a change": (segments_table(shares(), "of", 80), ALIKE),
        "recording": (
            contents_table([{"day": "2026-11-22", "pipeline": one, **counts, "unreadable": 0} for one in ALIKE], 80),
            ALIKE,
        ),
        "doctor": (folded(FINDING_COLUMNS,
                          [Finding("warning", "scores", f"{one} is silent", one) for one in ALIKE]), ALIKE),
        "any": (fitted([Column("name", str, shortest=20, yields=1), Column("n", lambda _: "1" * 60)], ALIKE, 80),
                ALIKE),
    }  # fmt: skip


def told_apart(name: str) -> str:
    """Return the part of a name that no other name has."""
    return next(part for part in ("-de-", "-fr-", "-it-", "_in_", "_out_") if part in name)


@for_each("name", tables())
def test_no_two_names_look_alike_at_80_columns(name: str) -> None:
    table, names = tables()[name]
    console = Console(file=StringIO(), width=80)
    console.print(table)
    assert isinstance(console.file, StringIO)
    text = "".join(console.file.getvalue().replace("│", " ").split())
    assert [one for one in names if told_apart(one) not in text] == []
    # A name that is cut says so.
    assert [one for one in names if one not in text and "…" not in text] == []


def test_no_two_pipelines_look_alike_on_the_watch_screen() -> None:
    found = [headline_of(estimate("ragchecker.noise_sensitivity_in_irrelevant", pipeline=name)) for name in ALIKE]
    lines = watched(WatchView(chosen=ALIKE[0]), found, height=60)
    assert max(map(len, lines)) <= 80
    text = "".join(line[3:].split(" ")[0] for line in lines)
    assert [one for one in ALIKE if one not in text] == []
    assert "n_irrelevant" in "".join("".join(lines).split())
    own = "".join("".join(watched(WatchView(chosen=ALIKE[0], opened=True), found, height=60)).split())
    assert ALIKE[0] in own


def test_a_name_that_is_unlike_all_others_may_lose_its_middle() -> None:
    names = ["checkout-" * 6 + "de", "search-" * 9 + "fr"]
    text = drawn(fitted([Column("name", str, shortest=20, yields=1), Column("n", lambda _: "1" * 50)], names, 80), 80)
    assert text.count("…") == 2
    assert len(text.splitlines()) == 3
