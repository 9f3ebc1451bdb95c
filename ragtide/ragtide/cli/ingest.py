"""`ragtide ingest`: shows how the spans of captured requests become interactions, and publishes these."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from ragtide_producers import InteractionProducer
from ragtide_producers.traces.captures import read_capture
from ragtide_producers.traces.explaining import ExplainedSpan, ExplainedTrace, explain_traces
from ragtide_producers.traces.interactions import Mapped
from ragtide_producers.traces.options import MappingOptions
from ragtide_schemas.printable import printable

from .command_groups import command_group
from .common import JsonOption, given
from .console import err, out, print_json
from .fitting import Column, fitted
from .problems import Problems

ingest = command_group("Read interactions from captured traces of OpenTelemetry.", no_args_is_help=True)

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Bodies of OTLP requests: protobuf or JSON, gzip or not.")
]
TraceOption = Annotated[str | None, typer.Option(help="Only the traces whose ids begin so.")]

TEXT_MAX: Final = 300
"""Most characters of a question, document or answer on the screen."""
NAME_MAX: Final = 60


@ingest.command("explain")
def explain(
    context: typer.Context, files: FilesArgument, trace: TraceOption = None, as_json: JsonOption = False
) -> None:
    """Show which span became what, and why not.

    The spans of all files are read together. A file has the body of one request, or a JSON request per line, as the
    file exporter of the OpenTelemetry Collector writes it. Nothing is published.
    """
    found = _explained(context, files, trace)
    if as_json:
        print_json([_fields(one) for one in found])
        return
    for one in found:
        out.print(Text(_heading(one), style="bold"))
        out.print(_spans_table(one.spans, out.width))
        for number, mapped in enumerate(one.interactions, 1):
            out.print(*_interaction_lines(number, mapped), sep="\n")
        if one.reason:
            out.print(Text(f"no interaction: {one.reason}", style="yellow"))
        out.print()
    out.print(_summary(found), highlight=False)


@ingest.command("publish")
def publish(
    context: typer.Context, files: FilesArgument, trace: TraceOption = None, as_json: JsonOption = False
) -> None:
    """Publish the interactions that captured traces hold, to be scored live.

    The id of an interaction comes from its trace, so publishing the files again adds only the interactions that are
    missing in Redis. The exit code is 1 if an interaction cannot be used.
    """
    found = [mapped for one in _explained(context, files, trace) for mapped in one.interactions]
    good = [mapped.interaction for mapped in found if mapped.interaction is not None]
    counts = Counter(published=0, duplicates=0, dropped=0, refused=len(found) - len(good))
    with InteractionProducer(settings=given(context).settings(), sample=1.0) as producer:
        for one in producer.publish_many(good):
            counts["dropped" if one.dropped else "published" if one.added else "duplicates"] += 1
    problems = Problems(err, "traces")
    for mapped in found:
        if mapped.interaction is None:
            problems.add(mapped.interaction_id, f"{mapped.refusal}: {mapped.detail}")
    problems.sum_up()
    if as_json:
        print_json(counts)
    else:
        err.print(
            f"{counts['published']:,} published, {counts['duplicates']:,} published before, "
            f"{counts['dropped']:,} dropped, {counts['refused']:,} refused",
            highlight=False,
        )
    if counts["refused"]:
        raise typer.Exit(1)


def _explained(context: typer.Context, files: Sequence[Path], trace: str | None) -> list[ExplainedTrace]:
    spans = [span for file in files for span in read_capture(file) if span.trace_id.startswith((trace or "").lower())]
    return explain_traces(spans, MappingOptions.of(given(context).settings().ingest))


def _heading(trace: ExplainedTrace) -> str:
    of = f" of {printable(trace.service)[:NAME_MAX]}" if trace.service else ""
    return f"trace {trace.trace_id}{of}"


def _spans_table(spans: Sequence[ExplainedSpan], width: int) -> RenderableType:
    names = ["  " * min(one.depth, 10) + printable(one.name)[:NAME_MAX] for one in spans]
    parts = [": ".join(part for part in (one.role if one.role != "other" else "", one.part) if part) for one in spans]
    return fitted([Column("span", names, yields=8, shortest=16), Column("part", parts)], width)


def _interaction_lines(number: int, mapped: Mapped) -> Iterator[Text]:
    yield Text(f"interaction {number}: {printable(mapped.interaction_id)}", style="bold")
    found = mapped.interaction
    if found is None:
        yield Text(f"  cannot be used ({mapped.refusal}): {printable(mapped.detail)}", style="yellow")
        return
    yield _line("pipeline", found.pipeline)
    yield _line("question", found.question)
    for document in found.documents:
        yield _line(f"document {document.id}" if document.id else "document", document.text)
    if not found.documents:
        yield _line("documents", "none were found")
    yield _line("response", found.response)
    if mapped.probability is not None:
        yield _line("sampled", f"the sender kept {mapped.probability:.2%} of the traces")


def _line(name: str, text: str) -> Text:
    cut = printable(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")
    return Text.assemble((f"  {printable(name)[:NAME_MAX]}: ", "bright_black"), cut)


def _summary(found: Sequence[ExplainedTrace]) -> str:
    interactions = [mapped for trace in found for mapped in trace.interactions]
    refused = sum(mapped.interaction is None for mapped in interactions)
    spans = sum(one.role != "missing" for trace in found for one in trace.spans)
    unusable = f", {refused} of them cannot be used" if refused else ""
    counted = [_counted(spans, "span"), _counted(len(found), "trace"), _counted(len(interactions), "interaction")]
    return f"{', '.join(counted)}{unusable}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _fields(trace: ExplainedTrace) -> dict[str, Any]:
    return {
        "trace_id": trace.trace_id,
        "service": trace.service,
        "spans": [
            {"depth": one.depth, "name": one.name, "span_id": one.span_id, "role": one.role, "part": one.part}
            for one in trace.spans
        ],
        "interactions": [
            {
                "interaction_id": mapped.interaction_id,
                "refusal": mapped.refusal,
                "detail": mapped.detail,
                "sampling_probability": mapped.probability,
                "interaction": mapped.interaction.model_dump(mode="json") if mapped.interaction else None,
            }
            for mapped in trace.interactions
        ],
        "reason": trace.reason,
    }
