"""What a deployment holds besides numbers: alerts, kept items, traces, dead letters, findings, recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Group
from rich.filesize import decimal
from rich.panel import Panel
from rich.text import Text

from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import labeling_to_show, marked
from ragtide_consumers.specimens.runs import kept_rounds
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.recording import COUNTS
from ragtide_runtime.redis.keys import SPECIMEN_NEWEST, CheckpointField
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.details import ForeignText
from ragtide_schemas.printable import printable

from . import UNLIMITED, Column, err, fitted, folded, heading, in_sections, out, print_json
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
    from ragtide_schemas.details import KeptCall, TraceStation


WIDEST: Final = 120
"""Most characters of a line of a box, because long lines are hard to read."""


LONGEST_TITLE: Final = 60
"""Most characters of rule, pipeline and segment in the frame of a box."""


BRIEF: Final = ("What", "Verdict", "Seen", "Now", "Normal", "Target", "When", "Where")
"""Facts that a screen with other things on it shows."""


FACT_COLUMNS: Final[Sequence[Column[tuple[str, str]]]] = (
    Column("", lambda fact: Text(fact[0], style="bright_black")),
    Column("", itemgetter(1), folds=WIDEST),
)
"""Of names with a text each."""


def alert_panel(text: AlertText, *, brief: bool = False) -> Panel:
    """Return one alert as a box with every fact.

    Args:
        text: the alert in words.
        brief: whether only the facts of `BRIEF` are shown.
    """
    alert, firing = text.alert, text.state == "firing"
    style = "cyan" if alert.is_news else "red" if firing else "green"
    rule = f"{alert.rule} ({alert.severity})" if alert.severity else alert.rule
    # Escape the texts before the layout, so that the box keeps its width.
    scope = printable(" · ".join((rule, alert.pipeline, *([alert.segment] if alert.segment else []))))
    above = [] if cell_len(scope) <= LONGEST_TITLE else [Text(scope)]  # a title that is too long would be cut
    muted = "".join([", acknowledged" if text.acknowledged else "", ", silenced" if text.silenced_until else ""])
    title = Text.assemble(
        ("FIRING" if text.state_words == "firing" else text.state_words, "bold"),
        muted,
        "" if above else f" {'· ' if muted else ''}{scope}",
    )
    rows = [(name, sentence) for name, sentence in text.rows if not brief or name in BRIEF]
    rows += [] if brief else [("Id", alert.alert_id)]  # what `ragtide alerts ack` takes
    facts = [("" if place and name == rows[place - 1][0] else name, line) for place, (name, line) in enumerate(rows)]
    content = Group(*above, Text(printable(text.title), style="bold"), folded(FACT_COLUMNS, facts, 1))
    return Panel(content, title=title, title_align="left", border_style=style, width=WIDEST)


def alerts_view(texts: Sequence[AlertText], *, brief: bool = False) -> RenderableType:
    """Return alerts one below the other, firing alerts first, or the sentence that there are none."""
    if not texts:
        return Text("No alerts.", style="green")
    ordered = sorted(texts, key=lambda text: (text.state == "resolved", -text.fired_at.timestamp()))
    return Group(*(alert_panel(text, brief=brief) for text in ordered))


def item_view(specimen: Specimen, labeling: SpecimenLabeling) -> RenderableType:
    """Return a specimen as lines: facts, question, documents and response with the marks of a labeling, scores."""
    interaction = specimen.interaction
    marked_item = marked(specimen, labeling)
    parts: list[RenderableType] = [Text(printable(interaction.interaction_id), style="bold"), _facts(specimen), Text()]
    parts += [_title("question"), _text(interaction.question)]
    marks: list[Mark] = [sentence.supported for sentence in marked_item.response or ()]
    marks += [sentence.relevant for sentences in marked_item.documents for sentence in sentences or ()]
    probabilities = any(isinstance(mark, float) for mark in marks)
    by = printable(labeling.labeler)
    legend = (
        f"Marks: probabilities of {by} that a sentence is relevant, used, supported; ? unknown."
        if probabilities
        else f"Marks: labels of {by}; R relevant, U used, S supported, - not, ? unknown."
    )
    rounds = kept_rounds(specimen, labeling, marked_item, ForeignText.of)
    if rounds:
        calls = [(kept.number, call) for kept in rounds for call in kept.calls]
        left_out = interaction.steps_left_out
        parts += [Text(), _title("run" if not left_out else f"run, without its last {left_out:,} calls")]
        parts.append(folded(CALL_COLUMNS, calls, 1))
    for number, (document, sentences) in enumerate(zip(interaction.documents, marked_item.documents, strict=True)):
        name = f" · {printable(document.id)}" if document.id else ""
        parts += [Text(), _title(f"document {number}{name}")]
        parts.append(_text(document.text) if sentences is None else folded(DOCUMENT_COLUMNS, sentences, 1))
    if not interaction.documents:
        parts += [Text(), _title("no documents")]
    parts += [Text(), _title("response")]
    parts.append(
        _text(interaction.response)
        if marked_item.response is None
        else folded(RESPONSE_COLUMNS, marked_item.response, 1)
    )
    if interaction.reference_answer is not None:
        parts += [Text(), _title("reference answer"), _text(interaction.reference_answer)]
    parts += [Text(), Text(legend, style="bright_black")]
    for scored in specimen.labelings:
        parts += [Text(), _title(f"scores · {printable(scored.labeler)}"), _scores(scored)]
    return Group(*parts)


def _facts(specimen: Specimen) -> RenderableType:
    interaction = specimen.interaction
    rows = [
        ("pipeline", interaction.pipeline),
        ("answered", f"{interaction.occurred_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("segments", ", ".join(f"{name}={value}" for name, value in interaction.segments.items())),
        ("session", interaction.session_id or ""),
        ("trace", specimen.trace_id or ""),
        ("cost", f"{specimen.cost_usd:g} USD" if specimen.cost_usd else ""),
        ("kept for", ", ".join(specimen.lists)),
        ("redacted", ", ".join(specimen.redacted_by) or "not"),
    ]
    return folded(FACT_COLUMNS, [row for row in rows if row[1]], 1)


def _document_sentence(sentence: DocumentSentence) -> Text:
    style = "green" if _is_marked(sentence.relevant) and _is_marked(sentence.utilized) else ""
    return Text(printable(sentence.text), style=style)


def _response_sentence(sentence: ResponseSentence) -> Text:
    text = Text(style="" if sentence.supported is None or _is_marked(sentence.supported) else "red")
    at = 0
    for start, end in sentence.unsupported:
        text.append(printable(sentence.text[at:start]))
        text.append(printable(sentence.text[start:end]), style="underline")
        at = end
    text.append(printable(sentence.text[at:]))
    if sentence.reason:
        text.append(f"\n{_reason(sentence.reason)}", style="bright_black")
    return text


CALL_COLUMNS: Final[Sequence[Column[tuple[int | None, KeptCall]]]] = (
    Column("round", lambda row: "?" if row[0] is None else str(row[0]), right=True),
    Column("tool", lambda row: row[1].tool, folds=24),
    Column("outcome", lambda row: _outcome(row[1]), folds=20),
    Column("s", lambda row: "" if row[1].latency_s is None else f"{row[1].latency_s:.3g}", right=True),
    Column("documents", lambda row: ", ".join(map(str, row[1].documents)), folds=12),
    Column("used", lambda row: Text(" ".join(row[1].used)), folds=12),
    Column("asked", lambda row: Text("" if row[1].asked is None else row[1].asked.untrusted_text), folds=WIDEST),
)


def _outcome(call: KeptCall) -> Text:
    words = f"failed: {call.error}" if call.error else call.outcome
    return Text(words, style="red" if call.error else "green" if call.outcome == "used" else "")


DOCUMENT_COLUMNS: Final[Sequence[Column[DocumentSentence]]] = (
    Column("", lambda sentence: Text(sentence.key, style="bright_black")),
    Column("rel", lambda sentence: _mark(sentence.relevant, "R")),
    Column("used", lambda sentence: _mark(sentence.utilized, "U")),
    Column("supports", lambda sentence: Text(" ".join(sentence.supports)), folds=12),
    Column("sentence", _document_sentence, folds=WIDEST),
)


RESPONSE_COLUMNS: Final[Sequence[Column[ResponseSentence]]] = (
    Column("", lambda sentence: Text(sentence.key, style="bright_black")),
    Column("sup", lambda sentence: "no" if sentence.supported is False else _mark(sentence.supported, "S")),
    Column("by", lambda sentence: Text(" ".join(sentence.by)), folds=12),
    Column("sentence", _response_sentence, folds=WIDEST),
)


def _scores(labeling: SpecimenLabeling) -> RenderableType:
    formulas = filled_formulas(labeling)
    rows = [(metric, f"{score:.4g}", formulas.get(metric, "")) for metric, score in labeling.scores.items()]
    rows += [(metric, "", f"absent: {printable(absence)}") for metric, absence in labeling.absent.items()]

    def note(row: tuple[str, str, str]) -> Text:
        reason = labeling.reasons.get(row[0])
        return Text("\n".join(filter(None, (row[2], _reason(reason) if reason else ""))), style="bright_black")

    columns: list[Column[tuple[str, str, str]]] = [
        Column("", itemgetter(0)),
        Column("", itemgetter(1), right=True),
        Column("", note, folds=WIDEST),
    ]
    return folded(columns, rows, 1)


def _reason(text: str) -> str:
    return f"reason: {printable(text)}"


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


def fields_of_item(specimen: Specimen, labeler: str | None = None) -> dict[str, Any]:
    """Return a specimen as values that JSON can hold, with its marked sentences and the formulas of its scores.

    Args:
        labeler: whose marks are shown; by default those of the judge, if it labeled. The rounds of an agent's run are
            by the same.
    """
    labeling = labeling_to_show(specimen, labeler)
    marks = None if labeling is None else {"labeler": labeling.labeler, **asdict(marked(specimen, labeling))}
    formulas = {entry.labeler: filled_formulas(entry) for entry in specimen.labelings}
    fields = {**specimen.model_dump(mode="json"), "marks": marks, "formulas": formulas}
    if labeling is not None and specimen.interaction.calls:
        rounds = kept_rounds(specimen, labeling, marked(specimen, labeling), ForeignText.of)
        fields["rounds"] = [kept.model_dump(mode="json") for kept in rounds]
    return fields


SHOWN: Final = 1000
"""Most dead letters in the table; `--json` prints all."""


DETAIL_CHARS: Final = 1000
"""Most characters of the detail in the table; `--json` prints all."""


def _shortened(detail: str) -> str:
    return detail if len(detail) <= DETAIL_CHARS else f"{detail[: DETAIL_CHARS - 3]}..."


LETTER_COLUMNS: Final[Sequence[Column[StoredDeadLetter]]] = (
    Column("id", lambda stored: stored.letter_id),
    Column("failed at", lambda stored: f"{stored.letter.failed_at:%Y-%m-%d %H:%M:%S}"),
    Column("reason", lambda stored: Text(stored.letter.reason, style="red")),
    Column("deliveries", lambda stored: f"{stored.letter.deliveries:,}", right=True),
    Column("detail", lambda stored: _shortened(stored.letter.detail), yields=1, stacks=True),
)


WORKSPACE_COLUMNS: Final[Sequence[Column[Workspace]]] = (
    Column("workspace", lambda workspace: workspace.run),
    Column("kind", lambda workspace: workspace.kind),
    Column("began", lambda workspace: f"{workspace.created_at:%Y-%m-%d %H:%M}"),
    Column(
        "size",
        lambda workspace: "" if workspace.population_size is None else f"{workspace.population_size:,}",
        right=True,
    ),
    Column("source", lambda workspace: workspace.source, yields=1, stacks=True),
)


def matched_alerts(silence: Silence) -> str:
    """Return the patterns of a silence in words."""
    patterns = {name: getattr(silence, name) for name in ("pipeline", "rule", "metric", "segment")}
    return " ".join(f"{name}={text}" for name, text in patterns.items() if text not in ("*", None)) or "all"


SILENCE_COLUMNS: Final[Sequence[Column[Silence]]] = (
    Column("id", lambda silence: silence.id),
    Column("until", lambda silence: f"{silence.until:%Y-%m-%d %H:%M}"),
    Column("alerts", matched_alerts),
    Column("by", lambda silence: silence.by),
    Column("reason", lambda silence: silence.reason, yields=1, stacks=True),
)


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


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUESTION_CHARS else f"{line[: QUESTION_CHARS - 3]}..."


ITEM_COLUMNS: Final[Sequence[Column[tuple[ItemGroup, Specimen]]]] = (
    Column("id", lambda row: row[1].interaction.interaction_id),
    Column("score", lambda row: "" if (score := row[0].score(row[1])) is None else f"{score:.3g}", right=True),
    Column("answered", lambda row: f"{row[1].interaction.occurred_at:%m-%d %H:%M}", yields=2),
    Column("question", lambda row: _short(row[1].interaction.question), yields=1, shortest=20, stacks=True),
)


def items_view(groups: Sequence[ItemGroup], width: int) -> RenderableType:
    """Return groups of specimens as a table."""
    sections: list[tuple[list[Text], list[tuple[ItemGroup, Specimen]], tuple[()]]] = []
    for group in groups:
        parts = [group.pipeline, group.name]
        if group.name == SPECIMEN_NEWEST and group.metric is not None:
            parts.append(group.metric)
        lines = [*([Text()] if sections else []), heading(parts, width)]
        sections.append((lines, [(group, specimen) for specimen in group.specimens], ()))
    rows, above = in_sections(sections)
    return fitted(ITEM_COLUMNS, rows, width, above)


LIST_COLUMNS: Final[Sequence[Column[dict[str, Any]]]] = (
    Column("pipeline", itemgetter("pipeline"), yields=2, shortest=12),
    Column("list", itemgetter("list"), yields=1, shortest=24),
    Column("items", lambda row: f"{row['items']:,}", right=True),
)
"""Of the lists of items of each pipeline."""


TEXT_MAX: Final = 300
"""Most characters of a question, document or answer on the screen."""


NAME_MAX: Final = 60


STATION_COLUMNS: Final[Sequence[Column[TraceStation]]] = (
    Column("", lambda station: Text(station.station, style="bold")),
    Column("", lambda station: "" if station.at is None else f"{station.at:%Y-%m-%d %H:%M:%S}"),
    Column("", lambda station: station.text, folds=UNLIMITED),
)


def stations_table(stations: Sequence[TraceStation]) -> RenderableType:
    """Return the stations of an interaction as a table: station, time and fact, below pipeline and partition."""
    groups: dict[tuple[str | None, int], list[TraceStation]] = {}
    for station in stations:
        groups.setdefault((station.pipeline, station.partition), []).append(station)
    parts: list[RenderableType] = []
    for (pipeline, partition), members in groups.items():
        where = f"pipeline {printable(pipeline)}, " if pipeline else ""
        parts.append(Text(f"{where}partition {partition}; times in UTC", style="bright_black"))
        parts.append(folded(STATION_COLUMNS, members))
    return Group(*parts)


def trace_heading(trace: ExplainedTrace) -> str:
    """Return the heading of a trace."""
    service = f" of {printable(trace.service)[:NAME_MAX]}" if trace.service else ""
    return f"trace {trace.trace_id}{service}"


SPAN_COLUMNS: Final[Sequence[Column[ExplainedSpan]]] = (
    Column("span", lambda span: "  " * min(span.depth, 10) + printable(span.name)[:NAME_MAX], yields=8, shortest=16),
    Column("part", lambda span: ": ".join(filter(None, ("" if span.role == "other" else span.role, span.part)))),
)


def interaction_lines(number: int, mapped: Mapped, content: ExplainedContent) -> Iterator[Text]:
    """Yield the lines about an interaction of a trace."""
    yield Text(f"interaction {number}: {printable(mapped.interaction_id)}", style="bold")
    interaction = mapped.interaction
    if interaction is None:
        yield Text(f"  cannot be used ({mapped.refusal}): {printable(mapped.detail)}", style="yellow")
    else:
        yield _line("pipeline", interaction.pipeline)
    yield from _content_lines(content)
    if mapped.probability is not None:
        yield _line("sampled", f"the sender kept {mapped.probability:.2%} of the traces")
    if interaction is not None and interaction.left_out:
        yield _line("left out", ", ".join(sorted(interaction.left_out)))
    if interaction is not None and "time_unit" in interaction.metadata:
        yield _line("times", f"read as {interaction.metadata['time_unit']}: OpenTelemetry has nanoseconds there")


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


def traces_summary(traces: Sequence[ExplainedTrace]) -> str:
    """Return the numbers of traces and interactions in words."""
    interactions = [mapped for trace in traces for mapped in trace.interactions]
    refused = sum(mapped.interaction is None for mapped in interactions)
    spans = sum(span.role != "missing" for trace in traces for span in trace.spans)
    unusable = f", {refused} of them cannot be used" if refused else ""
    counted = [_counted(spans, "span"), _counted(len(traces), "trace"), _counted(len(interactions), "interaction")]
    return f"{', '.join(counted)}{unusable}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fields_of_trace(trace: ExplainedTrace) -> dict[str, Any]:
    """Return an explained trace as values that JSON can hold."""
    return {
        "trace_id": trace.trace_id,
        "service": trace.service,
        "spans": [asdict(span) for span in trace.spans],
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


_LEVELS: Final = {"ok": Text("✓", "green"), "warning": Text("!", "yellow"), "problem": Text("✗", "red")}


def _finding(finding: Finding) -> Text:
    advice = Text(f" → {printable(finding.advice)}" if finding.advice else "", "yellow")
    return Text.assemble(printable(finding.found), advice)


FINDING_COLUMNS: Final[Sequence[Column[Finding]]] = (
    Column("", lambda finding: _LEVELS[finding.level], folds=1),
    Column("", lambda finding: finding.subject, folds=UNLIMITED),
    Column("", _finding, folds=UNLIMITED),
)


def print_repairs(repairs: list[tuple[Streams, DroppedField]], *, as_json: bool) -> None:
    """Print the dropped fields and their losses."""
    if as_json:
        rows = []
        for streams, dropped in repairs:
            fields = {**asdict(dropped), "resolved": [alert.alert_id for alert in dropped.resolved]}
            times = {name: value.isoformat() for name, value in fields.items() if isinstance(value, datetime)}
            rows.append({"partition": streams.partition, **fields, **times})
        print_json(rows)
        return
    for streams, dropped in repairs:
        for line in sentences(streams, dropped):
            out.print(line, markup=False, highlight=False, soft_wrap=True)


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


def print_destination(answer_of: dict[str, Any]) -> None:
    """Print the answer of a destination, or its requests."""
    name = f"{answer_of['destination']} ({answer_of['kind']})"
    if "requests" not in answer_of:
        answer = printable(answer_of["answer"])
        style = "green" if answer_of["ok"] else "red"
        out.print(f"{name}: {answer}", style=style, markup=False, highlight=False, soft_wrap=True)
        return
    err.print(f"{name}: nothing is sent", markup=False, highlight=False)
    for request in answer_of["requests"]:
        print_json(request)


def contents_table(rows: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Return the counts of a recording by day and pipeline as a table."""
    columns: list[Column[Mapping[str, Any]]] = [
        Column("day", itemgetter("day")),
        Column("pipeline", lambda row: row["pipeline"] or "—", yields=3, shortest=12),
    ]
    for name in COUNTS:
        empty = not any(row[name] for row in rows)

        def exact(row: Mapping[str, Any], name: str = name) -> str:
            return f"{row[name]:,}"

        if name == "bytes":
            short: Column[Mapping[str, Any]] = Column("size", lambda row: decimal(row["bytes"]), right=True)
            columns.append(Column(name, exact, right=True, yields=2, narrower=short))
        else:
            columns.append(Column(name, exact, right=True, yields=1 if empty else 4, stacks=not empty))
    return fitted(columns, rows, width)


def print_restored(restored: Restored, recording: Recording) -> None:
    """Print what was put back into the live streams, and what it does not have of the original texts."""
    sentence = f"{restored.interactions:,} interactions and {restored.feedback:,} feedback items are put back"
    if restored.known:
        sentence += f"; {restored.known:,} interactions were there already"
    err.print(sentence, highlight=False)
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


def print_replay(plan: ReplayPlan, result: ReplayResult) -> None:
    """Print the estimates and alerts of a replay."""
    whole = [estimate for estimate in result.estimates or () if estimate.segment is None]
    out.print(estimates_note(whole), style="bright_black", markup=False, highlight=False)
    shows_all = f"ragtide estimates --workspace {plan.run} --all shows them"
    out.print(estimates_table(whole, out.width, folded_by=shows_all))
    out.print()
    out.print(fitted(RULE_COLUMNS, [*result.rules.items()], out.width))
    counts = result.counts
    rate = counts["n"] / max(result.seconds, 1e-9)
    cost = f", ${counts['cost_usd']:.4f}" if counts.get("cost_usd") else ""
    err.print(
        f"{counts['n']:,} of {counts['population_size']:,} in {result.seconds:.1f} s ({rate:,.0f}/s){cost}; "
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


def _fired(alert: Alert) -> str:
    where = alert.pipeline if alert.segment is None else f"{alert.pipeline} {alert.segment}"
    return f"{alert.fired_at:%Y-%m-%d %H:%M:%S} {where}"


RULE_COLUMNS: Final[Sequence[Column[tuple[str, RuleAlerts]]]] = (
    Column("rule", itemgetter(0), yields=2, shortest=16),
    Column("alerts", lambda row: f"{len(row[1].replay):,}", right=True),
    Column("in production", lambda row: f"{row[1].production:,}", right=True),
    Column("fired", lambda row: ", ".join(map(_fired, row[1].replay)), yields=1, stacks=True),
)
"""Of the alerts of each rule in a replay, and their number in production."""


ALERTS_SHOWN: Final = 10
"""Most alerts that `ragtide rules test` shows in full."""


def print_rule_test(recording: Recording, result: ReplayResult, total: int) -> None:
    """Print the alerts that rules would have raised."""
    out.print(fitted(RULE_COLUMNS, [*result.rules.items()], out.width))
    if result.alerts:
        out.print()
        first = sorted(result.alerts, key=lambda alert: alert.fired_at)[:ALERTS_SHOWN]
        out.print(alerts_view([alert_text(alert) for alert in first]))
    if len(result.alerts) > ALERTS_SHOWN:
        err.print(f"{len(result.alerts) - ALERTS_SHOWN:,} more alerts: --json has all of them", highlight=False)
    err.print(f"{total:,} metric events of {recording.url} in {result.seconds:.1f} s", highlight=False, soft_wrap=True)
