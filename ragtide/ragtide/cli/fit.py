"""`ragtide fit`: fits the local labeler to scores of a judge or people, and to known corruptions of the traffic."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.agreement.predictions import read_predictions
from ragtide_offline.annotation.annotated import chosen_of_annotations
from ragtide_offline.annotation.annotations import StoredAnnotations
from ragtide_offline.datasets.new_files import write_new
from ragtide_offline.local_fit.examined import ExaminedInteractions, Similar, examine
from ragtide_offline.local_fit.fitting import FitResult, fit_correction
from ragtide_offline.local_fit.pairs import ExaminedPair, TrafficSample, examine_pairs
from ragtide_offline.local_fit.sources import GatheredInteractions, of_recording, of_rows, of_specimens
from ragtide_offline.replay.selection import Selection, selection
from ragtide_producers import FORMATS, FileOptions, read_rows
from ragtide_producers.files.interactions import name_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now

from .columns_option import MapOption, columns_of
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .fit_tables import decisions, not_written, scores_table, written
from .problems import Problems
from .progress import interruptible, progress_bar
from .with_redis import with_redis

REFUSED: Final = 4
"""Exit code if no score is better than shipped, as of a gate that fails."""

DEFAULT: Final = Path("local-model.json")
"""File that is written if none is named."""


def fit(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            help="File of interactions with gold_scores or labels, such as RAGBench rows; or with --judged."
        ),
    ] = None,
    recording: Annotated[
        str | None, typer.Option(help="Folder or URL of a recording with scores of a judge or feedback.")
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Items that the deployment keeps: judged ones and annotated ones.")
    ] = False,
    run: Annotated[
        str | None, typer.Option(help="Only interactions of this run; without another source, of the kept items.")
    ] = None,
    judged: Annotated[
        Path | None, typer.Option(help="With FILE: scores of a judge, the output of ragtide score --labeler judge.")
    ] = None,
    corruptions: Annotated[
        bool,
        typer.Option(
            "--corruptions", help="Also spoil the interactions in known ways and learn to see that; no scores needed."
        ),
    ] = False,
    reference: Annotated[
        str | None, typer.Option(help="Labeler whose scores are learned, such as judge; gold for those of people.")
    ] = None,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="Interactions from this time on (ISO 8601, UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Interactions before this time.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help=f"Format of the file: {', '.join(FORMATS)}; default: by its name.")
    ] = None,
    columns: MapOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=f"File to write. Default: {DEFAULT}.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the result, and write nothing.")] = False,
    similarity: Annotated[
        bool, typer.Option("--similarity", help="Also learn from the sentence encoder of models.similarity.")
    ] = False,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Level of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Fit the local labeler to a judge, people or known failures.

    It corrects the shipped model for your interactions, score by score. A score keeps the shipped model unless the fit
    is surely better on questions that it has not seen. Workers load the file with the setting local.model.
    """
    sources = [name for name, one in (("FILE", file), ("--recording", recording), ("--kept", kept)) if one]
    if len(sources) > 1:
        raise typer.BadParameter(f"{' and '.join(sources)} exclude each other: give one")
    if not sources and run is None:
        raise typer.BadParameter("give a FILE of judged interactions, --recording FOLDER, --kept or --run NAME")
    if file is None and (judged is not None or file_format is not None or columns):
        raise typer.BadParameter("--judged, --format and --map are for a FILE: give one")
    path = None if dry_run else output or DEFAULT
    if path is not None and path.exists() and not force:
        raise ConfigurationError(_exists(path))
    chosen = selection(since, until, pipeline)
    settings = given(context).settings()
    traffic = TrafficSample() if corruptions else None
    with interruptible(lambda: "Nothing was written: give the same command again."):
        if file is not None:
            files = FileOptions(None, format=file_format, unnamed=name_of(file), columns=columns_of(columns))
            source, found = file, _of_file(file, files, chosen, judged, run, reference, traffic)
        elif recording is not None:
            opened = Recording.open(recording, storage_options=settings.recorder.storage_options)
            source, found = recording, of_recording(opened, chosen, run=run, reference=reference, traffic=traffic)
        else:
            source, found = "kept items", _of_kept(settings, chosen, run, reference, traffic)
        if corruptions and not found.traffic:
            raise ConfigurationError(
                f"{source}: no interaction has documents and a response, so nothing can be spoilt: choose others, or "
                "leave out --corruptions"
            )
        with _encoder(settings) if similarity else nullcontext((None, "")) as (similar, encoder_digest):
            result = fit_correction(_examined(found, similar), _pairs(found, similar), confidence=confidence)
    _finish(result, found, source, path, encoder_digest, force=force, as_json=as_json)


@contextmanager
def _encoder(settings: Settings) -> Iterator[tuple[Similar | None, str]]:
    """Yield the sentence encoder of the settings, and its digest."""
    # It needs an extra, and only this option needs it.
    from ragtide_consumers.labelers.models.loading import sentence_encoder  # noqa: PLC0415

    with asyncio.Runner() as runner:
        encoder = runner.run(sentence_encoder(settings))
        try:
            yield (lambda sentences: runner.run(encoder.inputs(sentences))), encoder.session.files.digest
        finally:
            runner.run(encoder.aclose())


def _finish(
    result: FitResult,
    found: GatheredInteractions,
    source: str,
    path: Path | None,
    encoder_digest: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Write the file, print the result, and end with the exit code."""
    content = None
    if result.fitted:
        content = result.file(
            source=source,
            reference=found.words,
            fitted_at=utc_now(),
            similarity_sha256=encoder_digest,
        )
    digest = None
    if content is not None and path is not None:
        digest = _write(path, content.encode().decode() + "\n", force=force)
    if as_json:
        print_json(
            {
                **result.as_dict(),
                "source": source,
                "reference": found.words,
                "texts_missing": found.missing,
                "file": None if digest is None else str(path),
                "sha256": digest,
            }
        )
    else:
        out.print(scores_table(result, found.words, out.width))
        for sentence in decisions(result, found.missing):
            out.print(sentence, style="bright_black", highlight=False, soft_wrap=False)
    if content is None:
        err.print(not_written(result), style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED)
    if not as_json:
        out.print(written(path, digest), highlight=False)


def _write(path: Path, text: str, *, force: bool) -> str:
    try:
        write_new(path, text, force=force)
    except FileExistsError:
        raise ConfigurationError(_exists(path)) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): give another --output") from None
    return sha256(text.encode()).hexdigest()


def _of_file(
    file: str,
    files: FileOptions,
    chosen: Selection,
    judged: Path | None,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None,
) -> GatheredInteractions:
    """Return the judged interactions of a file; print the problems of its rows."""
    predictions = [] if judged is None else read_predictions(judged)
    problems = Problems(err, file)
    rows = []
    for row in read_rows(file, files):
        if row.interaction is None:
            problems.add(row.line, row.problem or "")
        elif chosen.takes(row.interaction) and run in {None, row.interaction.run}:
            rows.append(row)
    problems.sum_up()
    return of_rows(rows, predictions, reference, traffic=traffic)


def _of_kept(
    settings: Settings, chosen: Selection, run: str | None, reference: str | None, traffic: TrafficSample | None
) -> GatheredInteractions:
    """Return the judged interactions among the items that the deployment keeps."""

    async def body(redis: Redis, _: RedisHandle) -> GatheredInteractions:
        kept = KeptSpecimens(redis, settings.layout)
        judged = [one for name in await kept.pipelines() for one in await kept.judged(name)]
        if traffic is not None:
            for name in await kept.pipelines():
                for specimen in await kept.sample(name):
                    if chosen.takes(specimen.interaction) and run in {None, specimen.interaction.run}:
                        traffic.add(specimen.interaction)
        annotations = await StoredAnnotations(redis, settings.prefix).read()
        annotated = (await chosen_of_annotations(kept, annotations)).chosen
        warn(*filter(None, [kept.unreadable.warning()]))
        return of_specimens(
            [one for one in judged if chosen.takes(one.interaction)],
            [
                (one.specimen, one.gold_scores, float(one.reasons[0]["inclusion_probability"]))
                for one in annotated
                if chosen.takes(one.specimen.interaction)
            ],
            run=run,
            reference=reference,
            traffic=traffic,
        )

    return with_redis(settings, body)


def _examined(found: GatheredInteractions, similar: Similar | None) -> ExaminedInteractions:
    with progress_bar("reading", len(found.found)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine(found.found, counted, similar=similar)


def _pairs(found: GatheredInteractions, similar: Similar | None) -> list[ExaminedPair]:
    with progress_bar("spoiling", len(found.traffic)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine_pairs(found.traffic, counted, similar=similar)


def _exists(path: Path) -> str:
    return f"{path} exists: give another --output, or --force to replace it"
