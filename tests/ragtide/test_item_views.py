"""The text of an item in the terminal: parts that a labeler marked as unsupported are underlined."""

import io

from rich.console import Console
from tests.web.page.test_item import with_spans

from ragtide.cli.item_views import item_view


def test_unsupported_parts_are_underlined() -> None:
    one = with_spans(("c", 0, 3))
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, width=100, color_system="standard").print(item_view(one, one.labelings[1]))
    assert "\x1b[4;31mRef\x1b[0m\x1b[31munded.\x1b[0m" in shown.getvalue()
