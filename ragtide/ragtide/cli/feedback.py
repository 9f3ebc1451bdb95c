"""`ragtide feedback`: gold scores that come later, from a file or from the command line."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ragtide_producers import InteractionProducer, UnreadableFileError
from ragtide_schemas import Feedback, InvalidEntryError

from .common import JsonOption, err, given, print_json
from .problems import Problems


def feedback(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="JSON Lines, each with pipeline, interaction_id and gold_scores.")
    ] = None,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of the interaction.")] = None,
    interaction: Annotated[str | None, typer.Option(help="Id of the interaction.")] = None,
    gold: Annotated[
        list[str] | None, typer.Option(help="A gold score, such as trace.adherence=1; may be given again.")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Who gave them.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Give gold scores of interactions that were published before, or will be: of each metric the first one counts."""
    counts: Counter[str] = Counter(published=0, bad=0)
    if file is not None and (pipeline or interaction or gold):
        raise typer.BadParameter("give a FILE, or --pipeline, --interaction and --gold; not both")
    if file is not None:
        found = _read(file, counts)
    elif pipeline and interaction and gold:
        fields = {"pipeline": pipeline, "interaction_id": interaction, "annotator": annotator}
        try:
            found = [Feedback.from_fields({**fields, "gold_scores": dict(_score(text) for text in gold)})]
        except InvalidEntryError as error:
            raise typer.BadParameter(error.detail) from None
    else:
        raise typer.BadParameter("give a FILE, or --pipeline, --interaction and --gold")
    with InteractionProducer(settings=given(context).settings()) as producer:
        counts["published"] = producer.publish_feedback(found)
    if as_json:
        print_json(counts)
    else:
        err.print(f"{counts['published']:,} published, {counts['bad']:,} bad lines", highlight=False)
    if counts["bad"]:
        raise typer.Exit(1)


def _read(file: Path, counts: Counter[str]) -> list[Feedback]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UnreadableFileError(f"{file} cannot be read ({error.strerror}): correct the path") from None
    found = []
    problems = Problems(err, file)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(Feedback.decode(line))
            except InvalidEntryError as error:
                counts["bad"] += 1
                problems.add(number, error.detail)
    problems.sum_up()
    return found


def _score(text: str) -> tuple[str, float]:
    metric, _, value = text.partition("=")
    try:
        return metric.strip(), float(value)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no gold score: write metric=number, such as trace.adherence=1") from None
