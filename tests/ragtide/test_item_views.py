"""The text of an item in the terminal: parts that a labeler marked as unsupported are underlined."""

import io

from rich.console import Console
from tests.web.page.test_item import CALLS, specimen, with_reasons, with_spans

from ragtide.cli.printing.live import fields_of_item, item_view


def test_unsupported_parts_are_underlined() -> None:
    one = with_spans(("c", 0, 3))
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, width=100, color_system="standard").print(item_view(one, one.labelings[1]))
    assert "\x1b[4;31mRef\x1b[0m\x1b[31munded.\x1b[0m" in shown.getvalue()


def test_a_reason_stands_below_its_sentence_and_its_score() -> None:
    kept = with_reasons(sentence__c="No document\x1b[2J has a refund.", trace__adherence="One sentence is made up.")
    shown = io.StringIO()
    Console(file=shown, width=80).print(item_view(kept, kept.labelings[1]))
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("c ") and "Refunded." in line)
    assert lines[at + 1] == "reason: No document\\x1b[2J has a refund."
    assert "reason: One sentence is made up." in lines


def test_the_calls_of_a_run_stand_before_the_documents() -> None:
    kept = specimen(steps=[*CALLS[:3], {**CALLS[4], "query": "\x1b[2Jmoney"}], steps_left_out=7)
    shown = io.StringIO()
    Console(file=shown, width=100).print(item_view(kept, kept.labelings[1]))
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    at = lines.index("run, without its last 7 calls")
    assert at < next(number for number, line in enumerate(lines) if line.startswith("document 0"))
    assert lines[at + 2 : at + 6] == [
        "1 search used 0.4 0 0a cancel",
        '1 pages unused 1 {"page":7}',
        "2 search failed: timeout refund",
        "3 search not reached \\x1b[2Jmoney",
    ]
    rounds = fields_of_item(kept)["rounds"]
    assert [[call["outcome"] for call in kept["calls"]] for kept in rounds] == [
        ["used", "unused"], ["failed"], ["not reached"],
    ]  # fmt: skip
    assert "rounds" not in fields_of_item(specimen())
