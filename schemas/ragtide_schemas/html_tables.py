"""Tables for notebooks, as HTML without scripts: every text is escaped, and the number of rows is bounded. No I/O."""

from collections.abc import Sequence
from html import escape
from typing import Final

from .printable import printable

MOST_ROWS: Final = 200
"""Most rows of a table; the others are counted below it."""

MOST_CHARS: Final = 200
"""Most characters of a cell."""


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "") -> str:
    """Return a table; None is a dash, and a float has four digits.

    >>> html_table(["metric", "mean"], [["<b>", 0.123456], ["n", None]])
    '<table><thead><tr><th>metric</th><th>mean</th></tr></thead><tbody><tr><td>&lt;b&gt;</td><td>0.1235</td></tr><tr><td>n</td><td>—</td></tr></tbody></table>'
    """
    above = f"<caption>{_cell(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{_cell(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>{len(rows) - MOST_ROWS:,} more rows</p>" if len(rows) > MOST_ROWS else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return "—"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    text = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
    return escape(printable(text))
