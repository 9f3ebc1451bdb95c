"""`ragtide fit`: fits the local labeler to scores of a judge or people, and to known corruptions of the traffic."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from ..command import command
from ..options import FormatOption, JsonOption, MapOption, PipelinesOption, SinceOption, UntilOption, given

DEFAULT: Final = Path("local-model.json")
"""File that is written if none is named."""


@command(
    "ragtide fit --recording recording --dry-run",
    "ragtide fit --kept --reference judge",
    "ragtide fit --recording recording --corruptions --dry-run",
    "ragtide fit answers.jsonl --judged judge.jsonl --output local-model.json",
    "ragtide fit --kept --criterion asks_back",
    exits="4 if no score is better than the shipped labeler's; with --criterion, if the proxy does not beat a constant",
)
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
    criterion: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learn the judge's answers to this criterion of the settings or the store, and no other score.",
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Labeler whose scores are learned, such as judge; gold for those of people.")
    ] = None,
    pipeline: PipelinesOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    file_format: FormatOption = None,
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
    is surely better on questions that it has not seen. With --criterion it learns a cheap proxy of the judge's answers
    to a criterion, and adds it to the file if it surely beats a constant. Workers load the file with the setting
    local.model.
    """
    from ragtide_offline.local_fit.criterion_fit import fit_criterion
    from ragtide_offline.local_fit.examined import TrafficSample
    from ragtide_offline.local_fit.fitting import fit_correction
    from ragtide_offline.local_fit.sources import TRACE_SCORES, answers_to, of_recording
    from ragtide_offline.replay.selection import selection
    from ragtide_producers import FileOptions
    from ragtide_producers.files.interactions import name_of
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.recordings import Recording

    from ..criteria_views import check_is_of_answers, find_criterion
    from ..file_rows import columns_of
    from ..local_fit import (
        examined_interactions,
        file_before,
        finish_criterion_fit,
        finish_fit,
        judged_of_file,
        judged_of_kept_items,
        similarity_encoder,
        spoilt_pairs,
    )
    from ..output_files import exists_already
    from ..progress import interruptible

    sources = [name for name, place in (("FILE", file), ("--recording", recording), ("--kept", kept)) if place]
    if len(sources) > 1:
        raise typer.BadParameter(f"{' and '.join(sources)} exclude each other: give one")
    if not sources and run is None:
        raise typer.BadParameter("give a FILE of judged interactions, --recording FOLDER, --kept or --run NAME")
    if file is None and (judged is not None or file_format is not None or columns):
        raise typer.BadParameter("--judged, --format and --map are for a FILE: give one")
    if criterion is not None and corruptions:
        raise typer.BadParameter("--corruptions are not for a criterion: leave it or --criterion out")
    path = None if dry_run else output or DEFAULT
    if criterion is None and path is not None and path.exists() and not force:
        raise ConfigurationError(exists_already(path))
    chosen = selection(since, until, pipeline)
    settings = given(context).settings()
    question = None if criterion is None else find_criterion(settings, criterion)
    if question is not None:
        check_is_of_answers(question, "a proxy scores single answers: ask the judge about every session")
    before = None if question is None else file_before(output or DEFAULT, question, force=force or dry_run)
    wanted = TRACE_SCORES if question is None else answers_to(question)
    traffic = TrafficSample() if corruptions else None
    with interruptible(lambda: "Nothing was written: give the same command again."):
        if file is not None:
            files = FileOptions(None, format=file_format, unnamed=name_of(file), columns=columns_of(columns))
            source, found = (
                file,
                judged_of_file(
                    file, files, chosen, judged=judged, run=run, reference=reference, traffic=traffic, wanted=wanted
                ),
            )
        elif recording is not None:
            opened = Recording.open(recording, storage_options=settings.recorder.storage_options)
            source, found = (
                recording,
                of_recording(opened, chosen, run=run, reference=reference, traffic=traffic, wanted=wanted),
            )
        else:
            source, found = (
                "kept items",
                judged_of_kept_items(settings, chosen, run=run, reference=reference, traffic=traffic, wanted=wanted),
            )
        if corruptions and not found.traffic:
            raise ConfigurationError(
                f"{source}: no interaction has documents and a response, so nothing can be spoilt: choose others, or "
                "leave out --corruptions"
            )
        with similarity_encoder(settings) if similarity else nullcontext((None, "")) as (similar, encoder_digest):
            if question is not None:
                proxy = fit_criterion(examined_interactions(found, similar, question), question, confidence=confidence)
                finish_criterion_fit(proxy, found, source, path, encoder_digest, before=before, as_json=as_json)
                return
            result = fit_correction(
                examined_interactions(found, similar), spoilt_pairs(found, similar), confidence=confidence
            )
    finish_fit(result, found, source, path, encoder_digest, force=force, as_json=as_json)
