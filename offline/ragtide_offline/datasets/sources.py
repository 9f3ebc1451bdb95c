"""Answers of which a data set is drawn: of files, of a recording, or kept items; with scores and feedback. No Redis.

A source is read twice: once for what decides the draw, and once for the texts of the rows. So a large source needs
memory for its questions only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, cast

from ragtide_producers import FileOptions, UnreadableFileError, read_rows
from ragtide_producers.files.interactions import name_of, read_records
from ragtide_roles.kept.choosing import ChosenSpecimen
from ragtide_roles.kept.rows import provenance
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import Feedback, InvalidEntryError, MetricEvent, RagInteraction, Specimen
from ragtide_schemas.limits import PROBABILITY_MIN

from ..replay.selection import Selection, first_entry
from ..score.lines import EXTRAS

MOST_ANSWERS: Final = 100_000
"""Most answers of a source: of more, select a part."""

Key = tuple[str, str]
"""Pipeline and interaction id."""

Scores = dict[str, dict[str, float]]
"""Scores by labeler and metric."""


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """Answers, and what is known about them."""

    name: str
    """The files, the recording, or `kept`."""
    interactions: Callable[[], Iterator[RagInteraction]]
    """Yields the answers, always the same ones."""
    scores: Mapping[Key, Scores] = field(default_factory=dict)
    """Known scores of the answers."""
    feedback: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)
    """Gold scores that people gave, by metric."""
    probabilities: Mapping[Key, float] = field(default_factory=dict)
    """Probability with which an answer of the traffic is in the source, where it is not that of the interaction."""
    origins: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    """Provenance of rows, where it is more than the interaction has."""
    redacted_by: tuple[str, ...] = ()
    """Patterns and function that redacted the texts."""
    unknown: int = 0
    """Number of answers that stand for no traffic, so they are not drawn from."""

    def probability(self, interaction: RagInteraction) -> float:
        """Return the probability with which an answer of the traffic is in the source."""
        return self.probabilities.get(key_of(interaction), interaction.sampling_probability)

    def origin(self, interaction: RagInteraction) -> dict[str, Any]:
        """Return the provenance of a row."""
        key = key_of(interaction)
        labelings = [{"labeler": labeler, "scores": scores} for labeler, scores in self.scores.get(key, {}).items()]
        return dict(
            self.origins.get(key)
            or {
                "pipeline": interaction.pipeline,
                "interaction_id": interaction.interaction_id,
                "occurred_at": interaction.model_dump(mode="json", include={"occurred_at"})["occurred_at"],
                "chosen": [],
                "sampling_probability": interaction.sampling_probability,
                "redacted_by": list(self.redacted_by),
                "labelings": labelings,
            }
        )


def key_of(entry: RagInteraction | MetricEvent | Feedback) -> Key:
    """Return pipeline and id."""
    return entry.pipeline, entry.interaction_id


def source_of_files(files: Sequence[str], options: FileOptions, selection: Selection) -> AnswerSource:
    """Return the answers of files, of which each has interactions, scores of `ragtide score`, or feedback.

    Args:
        options: about the interactions; without a pipeline of their own they have that of `ragtide score`.
        selection: the part to draw from.

    Raises:
        UnreadableFileError: a file cannot be read, a row is none of these, or no file has interactions.
        ConfigurationError: a file is of another format than its rows.
    """
    answers: list[str] = []
    scores: defaultdict[Key, Scores] = defaultdict(dict)
    feedback: defaultdict[Key, dict[str, float]] = defaultdict(dict)
    for file in files:
        fields = next((record.fields for record in read_records(file, options) if record.fields), None) or {}
        if "question" not in fields and isinstance(fields.get("scores"), dict) and "labeler" in fields:
            for event in _models(file, options, MetricEvent, without=EXTRAS):
                _add_scores(scores, event)
        elif "question" not in fields and isinstance(fields.get("gold_scores"), dict):
            for given in _models(file, options, Feedback):
                _add_feedback(feedback, given)
        else:
            answers.append(file)
    if not answers:
        raise UnreadableFileError(
            f"{files[0]} has no interactions: give the file of the interactions, too, because a row needs its question"
        )

    def interactions() -> Iterator[RagInteraction]:
        for file in answers:
            known = FileOptions(options.pipeline, format=options.format, unnamed=name_of(file), columns=options.columns)
            for row in read_rows(file, known):
                if row.interaction is None:
                    raise UnreadableFileError(f"{file}:{row.line}: {row.problem}; correct or remove the row")
                if selection.takes(row.interaction):
                    yield row.interaction

    return AnswerSource(", ".join(files), interactions, scores, feedback)


def _models(file: str, options: FileOptions, model: Any, without: Iterable[str] = ()) -> Iterator[Any]:
    for record in read_records(file, options):
        try:
            fields = {name: value for name, value in (record.fields or {}).items() if name not in without}
            yield model.from_fields(fields)
        except InvalidEntryError as error:
            raise UnreadableFileError(f"{file}:{record.number}: {error.detail}") from None


def source_of_recording(recording: Recording, selection: Selection) -> AnswerSource:
    """Return the answers of a recording with their scores and their feedback; those of runs are left out.

    Args:
        selection: the part to draw from.

    Raises:
        UnreadableRecordingError: a file is missing or damaged.
    """
    scores: defaultdict[Key, Scores] = defaultdict(dict)
    feedback: defaultdict[Key, dict[str, float]] = defaultdict(dict)
    entries = partial(recording.entries, since=first_entry(selection), pipelines=selection.pipelines)
    for entry in entries(EntryKind.METRICS):
        event = cast("MetricEvent", entry.model)
        if event.run is None and not event.is_tick and not event.is_session and selection.takes(event):
            _add_scores(scores, event)
    for entry in entries(EntryKind.FEEDBACK):
        _add_feedback(feedback, cast("Feedback", entry.model))

    def interactions() -> Iterator[RagInteraction]:
        for entry in entries(EntryKind.INTERACTIONS):
            interaction = cast("RagInteraction", entry.model)
            if interaction.run is None and selection.takes(interaction):
                yield interaction

    redacted_by = dict.fromkeys(chain.from_iterable(state.redaction for state in recording.partitions.values()))
    return AnswerSource(recording.url, interactions, scores, feedback, redacted_by=tuple(redacted_by))


def source_of_kept(
    sample: Sequence[Specimen], feedback: Mapping[Key, Mapping[str, float]], selection: Selection
) -> AnswerSource:
    """Return the answers of the kept sample of the traffic.

    Args:
        sample: specimens of the samples; those without a probability stand for no traffic.
        feedback: gold scores that people gave, by metric.
        selection: the part to draw from.
    """
    selected = [
        specimen
        for specimen in sample
        if specimen.sample_probability is not None
        and not specimen.interaction.is_session
        and selection.takes(specimen.interaction)
    ]
    scores: dict[Key, Scores] = {}
    for specimen in selected:
        by_labeler = scores[key_of(specimen.interaction)] = {}
        for labeling in specimen.labelings:
            by_labeler.setdefault(labeling.labeler, dict(labeling.scores))
    return AnswerSource(
        "kept",
        lambda: iter([specimen.interaction for specimen in selected]),
        scores,
        feedback,
        {key_of(specimen.interaction): specimen.sample_probability or PROBABILITY_MIN for specimen in selected},
        {
            key_of(specimen.interaction): provenance(
                ChosenSpecimen(specimen, [{"list": "sample", "inclusion_probability": specimen.sample_probability}])
            )
            for specimen in selected
        },
        unknown=len(sample) - len(selected),
    )


def _add_scores(scores: defaultdict[Key, Scores], event: MetricEvent) -> None:
    for part in event.by_evaluator():
        mine = scores[key_of(event)]
        mine.setdefault(part.labeler, {}).update(part.scores)
        if part.judged is not None:
            mine.setdefault(part.judged.labeler, {}).update(part.judged.scores)
    _check_bound(len(scores))


def _add_feedback(feedback: defaultdict[Key, dict[str, float]], given: Feedback) -> None:
    for metric, score in given.gold_scores.items():
        feedback[key_of(given)].setdefault(metric, score)


def bounded(interactions: Iterable[RagInteraction]) -> Iterator[RagInteraction]:
    """Yield the answers among interactions, each id of a pipeline once.

    Raises:
        ConfigurationError: there are more than `MOST_ANSWERS`.
    """
    known: set[Key] = set()
    for interaction in interactions:
        key = key_of(interaction)
        if interaction.is_session or key in known:
            continue
        known.add(key)
        _check_bound(len(known))
        yield interaction


def _check_bound(answers: int) -> None:
    if answers > MOST_ANSWERS:
        raise ConfigurationError(
            f"the source has more than {MOST_ANSWERS:,} answers: select a part with --since, --until or --pipeline"
        )
