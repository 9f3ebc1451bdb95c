"""`ragtide feedback`: publishes gold scores of interactions, from a file or from the command line."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtide_producers import InteractionProducer
from ragtide_producers.files.feedback import read_feedback
from ragtide_schemas import METRICS, Feedback, InvalidEntryError
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES
from ragtide_schemas.suggestions import unknown

from .common import JsonOption, given
from .console import err, print_json
from .problems import Problems


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
    counts: Counter[str] = Counter(published=0, bad=0)
    if file is not None and (pipeline or interaction or gold or probability is not None):
        raise typer.BadParameter("give a FILE, or --pipeline, --interaction and --gold; not both")
    if file is not None:
        found = list(_good_lines(file, counts))
    elif pipeline and interaction and gold:
        fields: dict[str, Any] = {"pipeline": pipeline, "interaction_id": interaction, "annotator": annotator}
        fields["inclusion_probability"] = probability
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


def _good_lines(file: Path, counts: Counter[str]) -> Iterator[Feedback]:
    problems = Problems(err, file)
    for line in read_feedback(file):
        if line.feedback is not None:
            yield line.feedback
        else:
            counts["bad"] += 1
            problems.add(line.number, line.problem or "")
    problems.sum_up()


def _score(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    metric = name.strip()
    if metric not in METRICS and metric.partition(".")[0] in CLOSED_FAMILIES:
        raise typer.BadParameter(unknown("metric", metric, METRICS), param_hint="--gold")
    try:
        return metric, float(value)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a gold score: write metric=number, such as trace.adherence=1"
        ) from None
