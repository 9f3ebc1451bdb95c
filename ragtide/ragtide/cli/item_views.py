"""Renders a specimen: texts with marks, scores with filled formulas. Reads and prints nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import DocumentSentence, Mark, ResponseSentence, labeling_to_show, marked
from ragtide_schemas import Specimen, SpecimenLabeling
from ragtide_schemas.printable import printable

WIDEST: Final = 120
"""Most characters of a line, because long lines are hard to read."""


def item_view(specimen: Specimen, labeling: SpecimenLabeling) -> RenderableType:
    """Return a specimen as lines: facts, question, documents and response with the marks of a labeling, scores."""
    one = specimen.interaction
    found = marked(specimen, labeling)
    parts: list[RenderableType] = [Text(printable(one.interaction_id), style="bold"), _facts(specimen), Text()]
    parts += [_title("question"), _text(one.question)]
    probabilities = any(isinstance(mark, float) for mark in _marks(found.documents, found.response))
    by = printable(labeling.labeler)
    legend = (
        f"Marks: probabilities of {by} that a sentence is relevant, used, supported; ? unknown."
        if probabilities
        else f"Marks: labels of {by}; R relevant, U used, S supported, - not, ? unknown."
    )
    for number, (document, sentences) in enumerate(zip(one.documents, found.documents, strict=True)):
        name = f" · {printable(document.id)}" if document.id else ""
        parts += [Text(), _title(f"document {number}{name}")]
        parts.append(_text(document.text) if sentences is None else _documents_table(sentences))
    if not one.documents:
        parts += [Text(), _title("no documents")]
    parts += [Text(), _title("response")]
    parts.append(_text(one.response) if found.response is None else _response_table(found.response))
    if one.reference_answer is not None:
        parts += [Text(), _title("reference answer"), _text(one.reference_answer)]
    parts += [Text(), Text(legend, style="bright_black")]
    for each in specimen.labelings:
        parts += [Text(), _title(f"scores · {printable(each.labeler)}"), _scores(each)]
    return Group(*parts)


def _facts(specimen: Specimen) -> RenderableType:
    one = specimen.interaction
    rows = [
        ("pipeline", one.pipeline),
        ("answered", f"{one.occurred_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("segments", ", ".join(f"{name}={value}" for name, value in one.segments.items())),
        ("session", one.session_id or ""),
        ("trace", specimen.trace_id or ""),
        ("cost", f"{specimen.cost_usd:g} USD" if specimen.cost_usd else ""),
        ("kept for", ", ".join(specimen.lists)),
        ("redacted", ", ".join(specimen.redacted_by) or "not"),
    ]
    table = _table()
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(overflow="fold", max_width=WIDEST)
    for name, value in rows:
        if value:
            table.add_row(name, Text(printable(value)))
    return table


def _documents_table(sentences: Sequence[DocumentSentence]) -> RenderableType:
    table = _sentence_table("rel", "used", "supports")
    for sentence in sentences:
        style = "green" if _is_marked(sentence.relevant) and _is_marked(sentence.utilized) else ""
        supports = Text(" ".join(sentence.supports))
        table.add_row(
            sentence.key,
            _mark(sentence.relevant, "R"),
            _mark(sentence.utilized, "U"),
            supports,
            Text(printable(sentence.text), style=style),
        )
    return table


def _response_table(sentences: Sequence[ResponseSentence]) -> RenderableType:
    table = _sentence_table("sup", "by")
    for sentence in sentences:
        style = "" if sentence.supported is None or _is_marked(sentence.supported) else "red"
        mark = "no" if sentence.supported is False else _mark(sentence.supported, "S")
        shown = _marked_parts(sentence, style)
        if sentence.reason:
            shown.append(f"\n{_reason(sentence.reason)}", style="bright_black")
        table.add_row(sentence.key, mark, Text(" ".join(sentence.by)), shown)
    return table


def _marked_parts(sentence: ResponseSentence, style: str) -> Text:
    """Return the text of a sentence with its unsupported parts underlined."""
    found = Text(style=style)
    at = 0
    for start, end in sentence.unsupported:
        found.append(printable(sentence.text[at:start]))
        found.append(printable(sentence.text[start:end]), style="underline")
        at = end
    return found.append(printable(sentence.text[at:]))


def _sentence_table(*titles: str) -> Table:
    table = _table(header=True)
    table.add_column("", no_wrap=True, style="bright_black")
    for title in titles:
        wide = title in ("supports", "by")
        table.add_column(title, no_wrap=not wide, max_width=12 if wide else None, overflow="fold")
    table.add_column("sentence", overflow="fold", max_width=WIDEST)
    return table


def _scores(labeling: SpecimenLabeling) -> RenderableType:
    formulas = filled_formulas(labeling)
    table = _table()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(style="bright_black", overflow="fold", max_width=WIDEST)
    for metric, score in labeling.scores.items():
        table.add_row(metric, f"{score:.4g}", _note(formulas.get(metric, ""), labeling.reasons.get(metric)))
    for metric, absence in labeling.absent.items():
        table.add_row(metric, "", _note(f"absent: {printable(absence)}", labeling.reasons.get(metric)))
    return table


def _note(text: str, reason: str | None) -> Text:
    """Return a formula or an absence, and below it the judge's reason."""
    return Text("\n".join(part for part in (text, _reason(reason) if reason else "") if part))


def _reason(text: str) -> str:
    return f"reason: {printable(text)}"


def _table(*, header: bool = False) -> Table:
    return Table(box=None, pad_edge=False, show_header=header, padding=(0, 1, 0, 0), header_style="bright_black")


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _text(text: str) -> Text:
    return Text(printable(text, keep="\n"))


def _mark(mark: Mark, sign: str) -> str:
    if mark is None:
        return "?"
    if isinstance(mark, bool):
        return sign if mark else "-"
    return f"{mark:.2f}"


def _is_marked(mark: Mark) -> bool:
    return mark is not None and mark >= 0.5


def _marks(
    documents: Sequence[Sequence[DocumentSentence] | None], response: Sequence[ResponseSentence] | None
) -> Iterator[Mark]:
    for sentences in documents:
        yield from (sentence.relevant for sentence in sentences or ())
    yield from (sentence.supported for sentence in response or ())


def fields_of_item(specimen: Specimen, labeler: str | None = None) -> dict[str, Any]:
    """Return a specimen as values that JSON can hold, with its marked sentences and the formulas of its scores.

    Args:
        specimen: to show.
        labeler: whose marks are shown; by default those of the judge, if it labeled.
    """
    labeling = labeling_to_show(specimen, labeler)
    marks = None if labeling is None else {"labeler": labeling.labeler, **asdict(marked(specimen, labeling))}
    formulas = {entry.labeler: filled_formulas(entry) for entry in specimen.labelings}
    return {**specimen.model_dump(mode="json"), "marks": marks, "formulas": formulas}
