"""The text of an item in the terminal: parts that a labeler marked as unsupported are underlined."""

import io

from rich.console import Console
from tests.web.page.test_item import with_reasons, with_spans

from ragtide.cli.printing.live import item_view


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
