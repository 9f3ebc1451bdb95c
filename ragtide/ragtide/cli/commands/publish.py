"""`ragtide publish` and `feedback`: interactions and gold scores for a deployment."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from ..printing import err, fitted, out, print_json, warn
from ..running import FileArgument, JsonOption, MapOption, given
from . import command, command_group

publish = command_group("publish")


@command(
    "ragtide publish answers.jsonl",
    "ragtide publish answers.csv --pipeline shop --run nightly-7 --rate 20",
    exits="1 if a row could not be published",
    runs=publish,
)
def publish_rows(
    context: typer.Context,
    file: FileArgument,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of the rows that name no pipeline.")] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of a run that the rows belong to, such as nightly-7; its size is the number of rows."),
    ] = None,
    columns: MapOption = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Interactions per second; by default as fast as possible.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of interactions, to be scored live.

    Publishing the file again adds only the interactions that are missing in Redis.
    """
    from ragtide_producers import FileOptions, InteractionProducer, count_rows
    from ragtide_producers.file_publisher import publish_file

    from ..running.files import Problems, columns_lines, columns_of
    from ..running.progress import interruptible, progress_bar

    options = FileOptions(pipeline, run, columns=columns_of(columns))
    taken, left_out, counts = dict[str, str](), Counter[str](), Counter(published=0, duplicates=0, dropped=0, bad=0)
    settings = given(context).settings()

    def kept() -> str:
        return (
            f"{counts['published']:,} published interactions stay: to go on, give the same command again. It adds only "
            "the missing interactions."
        )

    problems = Problems(err, file)
    with (
        interruptible(kept),
        InteractionProducer(settings=settings, sample=1.0) as producer,
        progress_bar("publishing", count_rows(file, options)) as show,
    ):
        done = 0
        for batch in publish_file(producer, file, options, rate=rate):
            counts.update(batch.counts())
            for row in batch.rows:
                if row.interaction is None:
                    problems.add(row.line, row.problem or "")
                taken |= row.columns
                left_out.update(row.left_out)
            done += len(batch.rows)
            show(done)
    problems.sum_up()
    warn(*columns_lines(taken, left_out))
    if as_json:
        print_json(counts)
    else:
        err.print(
            f"{counts['published']:,} published, {counts['duplicates']:,} published before, "
            f"{counts['dropped']:,} dropped, {counts['bad']:,} bad rows",
            highlight=False,
        )
    if counts["bad"]:
        raise typer.Exit(1)


@command(
    "ragtide feedback thumbs.jsonl",
    "ragtide feedback --pipeline shop --interaction i-17 --gold trace.adherence=1 --annotator ann",
    exits="1 if a line could not be published",
)
def feedback(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="JSON Lines, each with pipeline, interaction_id and gold_scores.")
    ] = None,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of the interaction.")] = None,
    interaction: Annotated[str | None, typer.Option(help="Id of the interaction.")] = None,
    gold: Annotated[
        list[str] | None, typer.Option(help="A gold score, such as trace.adherence=1; may be repeated.")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="The person who gave the gold scores.")] = None,
    probability: Annotated[
        float | None,
        typer.Option(help="Probability with which chance chose this interaction for people; leave it out otherwise."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish gold scores of interactions.

    A gold score is the judgment of a person, such as a thumb. It may come before or after the interaction. Of several
    gold scores of a metric the first counts.
    """
    from ragtide_producers import InteractionProducer
    from ragtide_schemas import Feedback, InvalidEntryError

    from ..running.files import gold_score, usable_feedback

    counts: Counter[str] = Counter(published=0, bad=0)
    if file is not None and (pipeline or interaction or gold or probability is not None):
        raise typer.BadParameter("give a FILE, or --pipeline, --interaction and --gold; not both")
    if file is not None:
        items = list(usable_feedback(file, counts))
    elif pipeline and interaction and gold:
        fields: dict[str, Any] = {"pipeline": pipeline, "interaction_id": interaction, "annotator": annotator}
        fields["inclusion_probability"] = probability
        try:
            items = [Feedback.from_fields({**fields, "gold_scores": dict(gold_score(text) for text in gold)})]
        except InvalidEntryError as error:
            raise typer.BadParameter(error.detail) from None
    else:
        raise typer.BadParameter("give a FILE, or --pipeline, --interaction and --gold")
    with InteractionProducer(settings=given(context).settings()) as producer:
        counts["published"] = producer.publish_feedback(items)
    if as_json:
        print_json(counts)
    else:
        err.print(f"{counts['published']:,} published, {counts['bad']:,} bad lines", highlight=False)
    if counts["bad"]:
        raise typer.Exit(1)


FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Bodies of OTLP requests: protobuf or JSON, gzip or not.")
]


TraceOption = Annotated[str | None, typer.Option(help="Only the traces whose ids begin so.")]


@command(
    "ragtide publish explain 51196e0c6ab54c0cb4ee2be8a2d0a77b",
    "ragtide publish explain request.pb",
    "ragtide publish explain traces.json --trace 51196e0c",
    exits="1 if Redis has no spans of a trace",
    of=publish,
    name="explain",
)
def explain_traces(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE|FILE...",
            help="Ids of traces, of their interactions, or at least 8 digits; or bodies of OTLP requests.",
        ),
    ],
    trace: TraceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which span of captured traces became what, and why not.

    The spans of a trace are read from Redis, where they stay for a while (ingest.explain_s). The spans of all files are
    read together. A file has the body of one request, or a JSON request per line, as the file exporter of the
    OpenTelemetry Collector writes it. Nothing is published.
    """
    from rich.text import Text

    from ..printing.live import SPAN_COLUMNS, fields_of_trace, interaction_lines, trace_heading, traces_summary
    from ..running.traces import stored_traces, trace_id_in, traces_of_files

    ids = {source: trace_id for source in sources if (trace_id := trace_id_in(source)) is not None}
    traces = traces_of_files(context, [Path(source) for source in sources if source not in ids], trace)
    if ids:
        traces += stored_traces(context, list(dict.fromkeys(ids.values())))
    if as_json:
        print_json([fields_of_trace(explained) for explained in traces])
        return
    for explained in traces:
        out.print(Text(trace_heading(explained), style="bold"))
        out.print(fitted(SPAN_COLUMNS, explained.spans, out.width))
        for number, (mapped, content) in enumerate(zip(explained.interactions, explained.contents, strict=True), 1):
            out.print(*interaction_lines(number, mapped, content), sep="\n")
        if explained.reason:
            out.print(Text(f"no interaction: {explained.reason}", style="yellow"))
        out.print()
    out.print(traces_summary(traces), highlight=False)


@command("ragtide publish traces requests.json", exits="1 if an interaction cannot be used", of=publish, name="traces")
def publish_traces(
    context: typer.Context, files: FilesArgument, trace: TraceOption = None, as_json: JsonOption = False
) -> None:
    """Publish the interactions that captured traces hold, to be scored live.

    The id of an interaction comes from its trace, so publishing the files again adds only the interactions that are
    missing in Redis. The exit code is 1 if an interaction cannot be used.
    """
    from ragtide_producers import InteractionProducer

    from ..running.files import Problems
    from ..running.traces import traces_of_files

    interactions = [mapped for explained in traces_of_files(context, files, trace) for mapped in explained.interactions]
    good = [mapped.interaction for mapped in interactions if mapped.interaction is not None]
    counts = Counter(published=0, duplicates=0, dropped=0, refused=len(interactions) - len(good))
    with InteractionProducer(settings=given(context).settings(), sample=1.0) as producer:
        for publication in producer.publish_many(good):
            counts["dropped" if publication.dropped else "published" if publication.added else "duplicates"] += 1
    problems = Problems(err, "traces")
    for mapped in interactions:
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
