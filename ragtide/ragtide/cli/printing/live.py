"""What a deployment holds besides numbers: alerts, kept items, traces, dead letters, findings, recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Group
from rich.filesize import decimal
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import labeling_to_show, marked
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.recording import COUNTS
from ragtide_runtime.redis.keys import SPECIMEN_NEWEST, CheckpointField
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.printable import printable

from . import Column, Notes, err, fitted, heading, out, print_json
from .estimates import estimates_note, estimates_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtide_aggregator.maintenance.repair import DroppedField
    from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
    from ragtide_consumers.notify.silences import Silence
    from ragtide_consumers.specimens.marks import DocumentSentence, Mark, ResponseSentence
    from ragtide_offline.replay.plan import ReplayPlan
    from ragtide_offline.replay.restoring import Restored
    from ragtide_offline.replay.result import ReplayResult, RuleAlerts
    from ragtide_producers.traces.explained_content import ExplainedContent
    from ragtide_producers.traces.explaining import ExplainedSpan, ExplainedTrace
    from ragtide_producers.traces.interactions import Mapped
    from ragtide_roles.doctor.finding import Finding
    from ragtide_runtime.recordings import Recording
    from ragtide_runtime.redis.keys import Streams
    from ragtide_schemas import Alert, Specimen, SpecimenLabeling, Workspace
    from ragtide_schemas.alert_text import AlertText
    from ragtide_schemas.details import TraceStation


WIDEST: Final = 120
"""Most characters of a line of a box, because long lines are hard to read."""


LONGEST_TITLE: Final = 60
"""Most characters of rule, pipeline and segment in the frame of a box."""


BRIEF: Final = ("What", "Seen", "Now", "Normal", "Target", "When", "Where")
"""Facts that a screen with other things on it shows."""


def alert_panel(text: AlertText, *, brief: bool = False) -> Panel:
    """Return one alert as a box with every fact.

    Args:
        text: the alert in words.
        brief: whether only the facts of `BRIEF` are shown.
    """
    alert, firing = text.alert, text.state == "firing"
    style = "red" if firing else "green"
    rule = f"{alert.rule} ({alert.severity})" if alert.severity else alert.rule
    # Escape the texts before the layout, so that the box keeps its width.
    scope = printable(" · ".join((rule, alert.pipeline, *([alert.segment] if alert.segment else []))))
    above = [] if cell_len(scope) <= LONGEST_TITLE else [Text(scope)]  # a title that is too long would be cut
    muted = "".join([", acknowledged" if text.acknowledged else "", ", silenced" if text.silenced_until else ""])
    title = Text.assemble(
        ("FIRING" if firing else "resolved", "bold"),
        muted,
        "" if above else f" {'· ' if muted else ''}{scope}",
    )
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="bright_black", no_wrap=True)
    facts.add_column(overflow="fold")
    before = ""
    for name, sentence in text.rows:
        if not brief or name in BRIEF:
            facts.add_row("" if name == before else name, Text(printable(sentence)))
            before = name
    if not brief:
        facts.add_row("Id", Text(printable(alert.alert_id)))  # what `ragtide alerts ack` takes
    content = Group(*above, Text(printable(text.title), style="bold"), facts)
    return Panel(content, title=title, title_align="left", border_style=style, width=WIDEST)


def alerts_view(texts: Sequence[AlertText], *, brief: bool = False) -> RenderableType:
    """Return alerts one below the other, firing alerts first, or the sentence that there are none."""
    if not texts:
        return Text("No alerts.", style="green")
    ordered = sorted(texts, key=lambda text: (text.state == "resolved", -text.fired_at.timestamp()))
    return Group(*(alert_panel(text, brief=brief) for text in ordered))


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
        labeler: whose marks are shown; by default those of the judge, if it labeled.
    """
    labeling = labeling_to_show(specimen, labeler)
    marks = None if labeling is None else {"labeler": labeling.labeler, **asdict(marked(specimen, labeling))}
    formulas = {entry.labeler: filled_formulas(entry) for entry in specimen.labelings}
    return {**specimen.model_dump(mode="json"), "marks": marks, "formulas": formulas}


SHOWN: Final = 1000
"""Most dead letters in the table; `--json` prints all."""


DETAIL_CHARS: Final = 1000
"""Most characters of the detail in the table; `--json` prints all."""


def letters_table(letters: Sequence[StoredDeadLetter], width: int) -> RenderableType:
    """Return dead letters as a table, or the sentence that there are none; a long detail is below its row."""
    if not letters:
        return Text("No dead letters.", style="green")
    columns = [
        Column("id", [stored.letter_id for stored in letters]),
        Column("failed at", [f"{stored.letter.failed_at:%Y-%m-%d %H:%M:%S}" for stored in letters]),
        Column("reason", [Text(stored.letter.reason, style="red") for stored in letters]),
        Column("deliveries", [f"{stored.letter.deliveries:,}" for stored in letters], right=True),
        Column("detail", [_shortened(stored.letter.detail) for stored in letters], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def _shortened(detail: str) -> str:
    return detail if len(detail) <= DETAIL_CHARS else f"{detail[: DETAIL_CHARS - 3]}..."


def workspaces_table(found: Sequence[Workspace], width: int) -> RenderableType:
    """Return workspaces as a table; a long source is below its row."""
    sizes = ["" if workspace.population_size is None else f"{workspace.population_size:,}" for workspace in found]
    columns = [
        Column("workspace", [workspace.run for workspace in found]),
        Column("kind", [workspace.kind for workspace in found]),
        Column("began", [f"{workspace.created_at:%Y-%m-%d %H:%M}" for workspace in found]),
        Column("size", sizes, right=True),
        Column("source", [workspace.source for workspace in found], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def matched_alerts(one: Silence) -> str:
    """Return the patterns of a silence in words."""
    patterns = {name: getattr(one, name) for name in ("pipeline", "rule", "metric", "segment")}
    return " ".join(f"{name}={text}" for name, text in patterns.items() if text not in ("*", None)) or "all"


QUESTION_CHARS: Final = 200
"""Most characters of a question in the table; `--json` prints all."""


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Specimens of one list of a pipeline, or of an alert."""

    pipeline: str
    name: str
    """Name of the list; `alert` for an alert."""
    metric: str | None
    """Metric of the list."""
    labeler: str | None
    """Labeler of the list."""
    specimens: Sequence[Specimen]

    def score(self, specimen: Specimen) -> float | None:
        """Return the score of the list's metric; None without one."""
        if self.metric is None:
            return None
        tables = [labeling.scores for labeling in specimen.labelings if self.labeler in (None, labeling.labeler)]
        return next((scores[self.metric] for scores in tables if self.metric in scores), None)


def lines_of_items(group: ItemGroup) -> list[dict[str, Any]]:
    """Return each specimen of a group as values that JSON can hold."""
    return [
        {
            "pipeline": group.pipeline,
            "list": group.name,
            "metric": group.metric,
            "labeler": group.labeler,
            "score": group.score(specimen),
            "interaction_id": specimen.interaction.interaction_id,
            "specimen": specimen.model_dump(mode="json"),
        }
        for specimen in group.specimens
    ]


def items_view(found: Sequence[ItemGroup | dict[str, Any]], width: int) -> RenderableType:
    """Return groups of specimens, or counts of lists, as a table."""
    if not found:
        return Text("No items are kept for this.", style="bright_black")
    groups = [group for group in found if isinstance(group, ItemGroup)]
    if not groups:
        return lists_view([entry for entry in found if isinstance(entry, dict)], width)
    above, at = {}, 0
    for group in groups:
        parts = [group.pipeline, group.name]
        if group.name == SPECIMEN_NEWEST and group.metric is not None:
            parts.append(group.metric)
        above[at] = ([Text()] if at else []) + [heading(parts, width)]
        at += len(group.specimens)
    each = [(group, specimen) for group in groups for specimen in group.specimens]
    columns = [
        Column("id", [specimen.interaction.interaction_id for _, specimen in each]),
        Column("score", [_score(group.score(specimen)) for group, specimen in each], right=True),
        Column("answered", [f"{specimen.interaction.occurred_at:%m-%d %H:%M}" for _, specimen in each], yields=2),
        Column(
            "question",
            [_short(specimen.interaction.question) for _, specimen in each],
            yields=1,
            shortest=20,
            stacks=True,
        ),
    ]
    return fitted(columns, width, Notes(above))


def lists_view(rows: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the lists of items of each pipeline as a table."""
    columns = [
        Column("pipeline", [row["pipeline"] for row in rows], yields=2, shortest=12),
        Column("list", [row["list"] for row in rows], yields=1, shortest=24),
        Column("items", [f"{row['items']:,}" for row in rows], right=True),
    ]
    return fitted(columns, width)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUESTION_CHARS else f"{line[: QUESTION_CHARS - 3]}..."


TEXT_MAX: Final = 300
"""Most characters of a question, document or answer on the screen."""


NAME_MAX: Final = 60


def stations_table(found: Sequence[TraceStation]) -> RenderableType:
    """Return the stations of an interaction as a table: station, time and fact, below pipeline and partition."""
    groups: dict[tuple[str | None, int], list[TraceStation]] = {}
    for station in found:
        groups.setdefault((station.pipeline, station.partition), []).append(station)
    shown: list[RenderableType] = []
    for (pipeline, partition), stations in groups.items():
        where = f"pipeline {printable(pipeline)}, " if pipeline else ""
        shown.append(Text(f"{where}partition {partition}; times in UTC", style="bright_black"))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for station in stations:
            time = "" if station.at is None else f"{station.at:%Y-%m-%d %H:%M:%S}"
            table.add_row(station.station, time, Text(printable(station.text)))
        shown.append(table)
    return Group(*shown)


def trace_heading(trace: ExplainedTrace) -> str:
    """Return the heading of a trace."""
    of = f" of {printable(trace.service)[:NAME_MAX]}" if trace.service else ""
    return f"trace {trace.trace_id}{of}"


def trace_spans_table(spans: Sequence[ExplainedSpan], width: int) -> RenderableType:
    """Return the spans of a trace as a table."""
    names = ["  " * min(span.depth, 10) + printable(span.name)[:NAME_MAX] for span in spans]
    parts = [
        ": ".join(part for part in (span.role if span.role != "other" else "", span.part) if part) for span in spans
    ]
    return fitted([Column("span", names, yields=8, shortest=16), Column("part", parts)], width)


def interaction_lines(number: int, mapped: Mapped, content: ExplainedContent) -> Iterator[Text]:
    """Yield the lines about an interaction of a trace."""
    yield Text(f"interaction {number}: {printable(mapped.interaction_id)}", style="bold")
    found = mapped.interaction
    if found is None:
        yield Text(f"  cannot be used ({mapped.refusal}): {printable(mapped.detail)}", style="yellow")
    else:
        yield _line("pipeline", found.pipeline)
    yield from _content_lines(content)
    if mapped.probability is not None:
        yield _line("sampled", f"the sender kept {mapped.probability:.2%} of the traces")
    if found is not None and found.left_out:
        yield _line("left out", ", ".join(sorted(found.left_out)))
    if found is not None and "time_unit" in found.metadata:
        yield _line("times", f"read as {found.metadata['time_unit']}: OpenTelemetry has nanoseconds there")


def _content_lines(content: ExplainedContent) -> Iterator[Text]:
    if content.question is not None:
        yield _line("question", content.question, content.question_from)
    for place, document in enumerate(content.documents, 1):
        notes = [*document.spans, *(["only a part is in the prompt"] if document.is_cut else [])]
        yield _line(f"document {place} {document.document_id or ''}".rstrip(), document.text, ", ".join(notes))
    if not content.documents:
        yield _line("documents", "none were given" if content.not_given else "none were found")
    for document in content.not_given:
        yield _line(f"not given {document.document_id or ''}".rstrip(), document.text, ", ".join(document.spans))
    if content.documents_from == "retrieval" and content.documents:
        yield _line("documents from", "the retrievals, because the spans have no prompt")
    for prompt in content.prompts:
        for message in prompt.messages:
            yield _line(f"prompt of {prompt.span}", message["text"], message["author"])
    if content.response is not None:
        yield _line("response", content.response, content.response_from)


def _line(name: str, text: str, place: str = "") -> Text:
    cut = printable(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")
    where = f" ({printable(place[: 2 * NAME_MAX])})" if place else ""
    return Text.assemble((f"  {printable(name[:NAME_MAX])}{where}: ", "bright_black"), cut)


def traces_summary(found: Sequence[ExplainedTrace]) -> str:
    """Return the numbers of traces and interactions in words."""
    interactions = [mapped for trace in found for mapped in trace.interactions]
    refused = sum(mapped.interaction is None for mapped in interactions)
    spans = sum(span.role != "missing" for trace in found for span in trace.spans)
    unusable = f", {refused} of them cannot be used" if refused else ""
    counted = [_counted(spans, "span"), _counted(len(found), "trace"), _counted(len(interactions), "interaction")]
    return f"{', '.join(counted)}{unusable}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fields_of_trace(trace: ExplainedTrace) -> dict[str, Any]:
    """Return an explained trace as values that JSON can hold."""
    return {
        "trace_id": trace.trace_id,
        "service": trace.service,
        "spans": [
            {"depth": span.depth, "name": span.name, "span_id": span.span_id, "role": span.role, "part": span.part}
            for span in trace.spans
        ],
        "interactions": [
            {
                "interaction_id": mapped.interaction_id,
                "refusal": mapped.refusal,
                "detail": mapped.detail,
                "sampling_probability": mapped.probability,
                "left_out": dict(mapped.interaction.left_out) if mapped.interaction else {},
                "interaction": mapped.interaction.model_dump(mode="json") if mapped.interaction else None,
                "content": asdict(content),
            }
            for mapped, content in zip(trace.interactions, trace.contents, strict=True)
        ],
        "reason": trace.reason,
    }


_TIMES: Final = ("updated_at", "since")


def findings_table(findings: Sequence[Finding]) -> RenderableType:
    """Return findings as a table; no name in them is cut."""
    marks = {"ok": Text("✓", "green"), "warning": Text("!", "yellow"), "problem": Text("✗", "red")}
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        advice = Text(f" → {finding.advice}" if finding.advice else "", "yellow")
        table.add_row(marks[finding.level], finding.subject, Text.assemble(finding.found, advice))
    return table


def print_repairs(repairs: list[tuple[Streams, DroppedField]], *, as_json: bool) -> None:
    """Print the dropped fields and their losses."""
    if as_json:
        print_json([_fields(streams, dropped) for streams, dropped in repairs])
        return
    for streams, dropped in repairs:
        for line in sentences(streams, dropped):
            out.print(line, markup=False, highlight=False, soft_wrap=True)


def _fields(streams: Streams, dropped: DroppedField) -> dict[str, Any]:
    times = {name: None if at is None else at.isoformat() for name, at in asdict(dropped).items() if name in _TIMES}
    return {
        "partition": streams.partition,
        "fields": list(dropped.fields),
        "n": dropped.n,
        "mean": dropped.mean,
        **times,
        "resolved": [alert.alert_id for alert in dropped.resolved],
    }


def sentences(streams: Streams, dropped: DroppedField) -> list[str]:
    """Return sentences about the dropped fields and their losses."""
    field, more = dropped.fields[0], len(dropped.fields) - 1
    lines = [
        f"partition {streams.partition}: dropped {field}" + (f" and {more} fields that belong to it" if more else "")
    ]
    if field.startswith(CheckpointField.ESTIMATE):
        values = "an unreadable number of values" if dropped.n is None else f"{dropped.n:,} values"
        mean = "" if dropped.mean is None else f" with mean {dropped.mean:.6g}"
        newest = "" if dropped.updated_at is None else f", the newest of {dropped.updated_at:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"lost: {values}{mean}{newest}")
    if dropped.since is not None:
        since = f"{dropped.since:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"The field now counts metric events scored after {since}.")
    lines += [f"resolved: alert {alert.alert_id}; its rule starts again" for alert in dropped.resolved]
    return lines


def print_destination(one: dict[str, Any]) -> None:
    """Print the answer of a destination, or its requests."""
    name = f"{one['destination']} ({one['kind']})"
    if "requests" not in one:
        answer = printable(one["answer"])
        style = "green" if one["ok"] else "red"
        out.print(f"{name}: {answer}", style=style, markup=False, highlight=False, soft_wrap=True)
        return
    err.print(f"{name}: nothing is sent", markup=False, highlight=False)
    for request in one["requests"]:
        print_json(request)


def contents_table(rows: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Return the counts of a recording by day and pipeline as a table."""
    columns = [
        Column("day", [row["day"] for row in rows]),
        Column("pipeline", [row["pipeline"] or "—" for row in rows], yields=3, shortest=12),
    ]
    for name in COUNTS:
        empty = not any(row[name] for row in rows)
        exact = [f"{row[name]:,}" for row in rows]
        if name == "bytes":
            short = [decimal(row[name]) for row in rows]
            columns.append(Column(name, exact, right=True, yields=2, narrower=Column("size", short, right=True)))
        else:
            columns.append(Column(name, exact, right=True, yields=1 if empty else 4, stacks=not empty))
    return fitted(columns, width)


def print_restored(restored: Restored, recording: Recording) -> None:
    """Print what was put back into the live streams, and what it does not have of the original texts."""
    found = f"{restored.interactions:,} interactions and {restored.feedback:,} feedback items are put back"
    if restored.known:
        found += f"; {restored.known:,} interactions were there already"
    err.print(found, highlight=False)
    redactions = sorted({name for state in recording.partitions.values() for name in state.redaction})
    if redactions and restored.interactions:
        err.print(
            f"The recorder redacts {', '.join(redactions)}: scores of redacted texts may differ from the first ones.",
            highlight=False,
        )


def unlabeled(counts: Mapping[str, Any], workspace: str) -> str:
    """Return a sentence about the dead letters of a replay; empty if there are none."""
    reasons: Mapping[str, int] = counts.get("dead_letters", {})
    if not reasons:
        return ""
    named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f"Dead letters: {named}. Show them with: ragtide dead-letters --workspace {workspace}"


def print_replay(plan: ReplayPlan, found: ReplayResult) -> None:
    """Print the estimates and alerts of a replay."""
    whole = [estimate for estimate in found.estimates or () if estimate.segment is None]
    out.print(estimates_note(whole), style="bright_black", markup=False, highlight=False)
    out.print(estimates_table(whole, out.width))
    out.print()
    out.print(rules_table(found.rules, out.width))
    counts = found.counts
    rate = counts["n"] / max(found.seconds, 1e-9)
    cost = f", ${counts['cost_usd']:.4f}" if counts.get("cost_usd") else ""
    err.print(
        f"{counts['n']:,} of {counts['population_size']:,} in {found.seconds:.1f} s ({rate:,.0f}/s){cost}; "
        f"show the estimates with: ragtide estimates --workspace {plan.run}",
        highlight=False,
        soft_wrap=True,
    )
    if plan.relabel and (redacted := plan.redacted):
        recorded = plan.recording.count(EntryKind.INTERACTIONS, pipelines=plan.selection.pipelines)
        err.print(
            f"{redacted:,} of {recorded:,} recorded interactions had texts redacted: their labels may differ from live "
            "ones.",
            highlight=False,
            soft_wrap=True,
        )


def rules_table(rules: Mapping[str, RuleAlerts], width: int) -> RenderableType:
    """Return the alerts of each rule in the replay, and their number in production; many times are below their row."""
    columns = [
        Column("rule", list(rules), yields=2, shortest=16),
        Column("alerts", [f"{len(rule.replay):,}" for rule in rules.values()], right=True),
        Column("in production", [f"{rule.production:,}" for rule in rules.values()], right=True),
        Column("fired", [", ".join(map(_fired, rule.replay)) for rule in rules.values()], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def _fired(alert: Alert) -> str:
    where = alert.pipeline if alert.segment is None else f"{alert.pipeline} {alert.segment}"
    return f"{alert.fired_at:%Y-%m-%d %H:%M:%S} {where}"


ALERTS_SHOWN: Final = 10
"""Most alerts that `ragtide rules test` shows in full."""


def print_rule_test(recording: Recording, found: ReplayResult, total: int) -> None:
    """Print the alerts that rules would have raised."""
    out.print(rules_table(found.rules, out.width))
    if found.alerts:
        out.print()
        first = sorted(found.alerts, key=lambda alert: alert.fired_at)[:ALERTS_SHOWN]
        out.print(alerts_view([alert_text(alert) for alert in first]))
    if len(found.alerts) > ALERTS_SHOWN:
        err.print(f"{len(found.alerts) - ALERTS_SHOWN:,} more alerts: --json has all of them", highlight=False)
    err.print(f"{total:,} metric events of {recording.url} in {found.seconds:.1f} s", highlight=False, soft_wrap=True)
