"""Renders an item for an annotator: texts with numbered sentences, and no score, label or list. Prints nothing."""

from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_consumers.text.keys import letters
from ragtide_offline.annotation.questions import ItemQuestion
from ragtide_schemas import Specimen
from ragtide_schemas.printable import printable

WIDEST: Final = 80
"""Most columns of an item."""

HELP: Final = "s skip the item, b back, q quit; every finished item is stored"


def item_to_annotate(specimen: Specimen, number: int, total: int) -> RenderableType:
    """Return an item as lines: its place in the queue, question, documents and response."""
    one = specimen.interaction
    parts: list[RenderableType] = [Text(f"item {number:,} of {total:,}", style="bright_black"), Text()]
    parts += [_title("question"), _text(one.question)]
    for place, document in enumerate(one.documents):
        parts += [Text(), _title(f"document {place}")]
        if document.sentences is None:
            parts.append(_text(document.text))
        else:
            parts.append(_sentences((f"{place}{letters(at)}", text) for at, text in enumerate(document.sentences)))
    if not one.documents:
        parts += [Text(), _title("no documents")]
    parts += [Text(), _title("response")]
    if one.response_sentences:
        parts.append(_sentences((letters(at), text) for at, text in enumerate(one.response_sentences)))
    else:
        parts.append(_text(one.response))
    return Group(*parts, Text())


def question_line(question: ItemQuestion, *, rating: bool, whole: bool) -> Text:
    """Return the line that asks a question; the answer follows on the same line.

    Args:
        question: to ask.
        rating: whether it asks for a rating.
        whole: whether it is about the whole response.
    """
    if rating:
        return Text(f"{question.text} 1 nothing, 3 half, 5 everything: ")
    subject = "Is every fact of the response" if whole else f"{question.name}  Is every fact of this sentence"
    return Text(f"{subject} in the documents? y/n: ")


def _sentences(sentences: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, style="bright_black")
    table.add_column(overflow="fold")
    for key, text in sentences:
        table.add_row(key, Text(printable(" ".join(text.split()))))
    return table


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _text(text: str) -> Text:
    return Text(printable(text, keep="\n"))
