"""Gathers interactions with scores by a judge or people: from a file, a recording, or the items that are kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, cast

from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_producers import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import Feedback, MetricEvent, RagInteraction, SentenceLabels, Specimen
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.declared import MetricDeclaration
from ragtide_schemas.metric_event import NO_LABELER

from ..agreement.predictions import Predictions
from ..replay.selection import Selection
from ..score.scoring import STORED, stored_labeling
from .examined import WANTED, JudgedInteraction, TrafficSample

GOLD: Final = "gold"
"""Name of people's scores, and of gold scores that came with an interaction."""

LOCAL: Final = "local"
"""Labeler that a fit is for: it never learns its own scores."""

OTHER_SCALES: Final = "capstone"
"""Profile whose scores are on other scales than the local labeler's."""

MOST: Final = 20_000
"""Most interactions of a fit; of more the newest count."""


PEOPLE: Final = LabelerId(GOLD, "", "")
"""Stands for people, and for gold scores that came with an interaction."""

NOBODY: Final = LabelerId("", "", "")
"""Stands for the reference if nothing is judged."""


def reference_text(by: LabelerId) -> str:
    """Return name, version and profile of the labeler, or the people, whose scores a fit learns."""
    return " ".join(filter(None, [by.name, by.version, by.profile and f"({by.profile})"]))


@dataclass(frozen=True, slots=True)
class WantedScores:
    """The scores that a fit learns."""

    ranges: Mapping[str, tuple[float, float]]
    """Range of each by metric; scores outside are not used."""
    criterion: Criterion | None = None
    """The criterion whose answers they are; answers to another version of it are not used."""

    def usable(self, by: LabelerId, scores: Mapping[str, float], versions: Mapping[str, str]) -> dict[str, float]:
        """Return the scores that a fit can use.

        Args:
            by: labeler or people that gave them.
            versions: of metrics that are not ragtide's own; people's scores have none.
        """
        if self.criterion is not None:
            if by.name != GOLD and versions.get(self.criterion.metric) != self.criterion.version:
                return {}
        elif OTHER_SCALES in by.profile.split("+"):
            return {}
        return {
            name: scores[name]
            for name, (lower, upper) in self.ranges.items()
            if name in scores and lower <= scores[name] <= upper
        }

    @property
    def missing(self) -> str:
        """The sentence without any score."""
        if self.criterion is None:
            return (
                "no interaction has scores of relevance, utilization or adherence by a judge or people: run a cascade "
                "with a judge, annotate kept items, or give interactions with gold_scores"
            )
        return (
            f"no interaction has an answer to {self.criterion.name} in its present words: run a cascade with a judge "
            "that is asked it, or give scores of ragtide score --labeler judge with --judged"
        )


TRACE_SCORES: Final = WantedScores(dict.fromkeys(WANTED, (0.0, 1.0)))
"""The scores of TRACe that a fit corrects."""


def answers_to(criterion: Criterion) -> WantedScores:
    """Return the scores that are answers to a criterion."""
    return WantedScores({criterion.metric: (criterion.lower, criterion.upper)}, criterion)


def _versions(declared: Mapping[str, MetricDeclaration] | None) -> dict[str, str]:
    return {metric: declaration.version for metric, declaration in (declared or {}).items()}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Scores of an interaction by a reference."""

    scores: Mapping[str, float]
    occurred_at: datetime
    probability: float
    """Probability with which an interaction of the traffic is judged."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of metrics that are not ragtide's own."""


@dataclass(slots=True)
class Judgements:
    """Scores by reference, then by interaction; the first scores of an interaction count."""

    wanted: WantedScores = TRACE_SCORES
    by_reference: dict[LabelerId, dict[str, Judgement]] = field(default_factory=dict)

    def add(self, by: LabelerId, digest: str, judgement: Judgement) -> None:
        """Add the scores of an interaction if a fit can use any.

        Args:
            by: the reference.
            judgement: scores by qualified metric name.
        """
        usable = self.wanted.usable(by, judgement.scores, judgement.versions)
        if not usable:
            return
        mine = self.by_reference.setdefault(by, {})
        mine.setdefault(digest, Judgement(usable, judgement.occurred_at, judgement.probability))
        if len(mine) >= 2 * MOST:
            self.by_reference[by] = _newest(mine)

    def of(self, name: str | None, *, optional: bool = False) -> tuple[LabelerId, Mapping[str, Judgement]]:
        """Return the judgements of a reference; of several versions those of the version with the most.

        Args:
            name: of the reference; None if there is only one.
            optional: whether there may be none, if none is named.

        Raises:
            ConfigurationError: there is none of that name, or several and none was named.
        """
        counts = Counter[str]()
        for by, judgements in self.by_reference.items():
            counts[by.name] += len(judgements)
        there = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common())
        if optional and not counts and name is None:
            return NOBODY, {}
        if not counts:
            raise ConfigurationError(self.wanted.missing)
        if name is None and len(counts) > 1:
            raise ConfigurationError(f"there are scores by {there}: choose with --reference")
        wanted = name or next(iter(counts))
        if wanted not in counts:
            raise ConfigurationError(f"--reference {wanted} has scored no interaction; there are scores by {there}")
        mine = [(by, judgements) for by, judgements in self.by_reference.items() if by.name == wanted]
        by, judgements = max(mine, key=lambda version: len(version[1]))
        return by, _newest(judgements)


@dataclass(frozen=True, slots=True)
class GatheredInteractions:
    """Interactions with the scores of one reference."""

    reference: LabelerId
    interactions: Sequence[JudgedInteraction]
    """At most `MOST`, the oldest first."""
    missing: int = 0
    """Number of judged interactions whose texts were not found."""
    traffic: Sequence[RagInteraction] = ()
    """Interactions to spoil, judged or not."""

    @property
    def words(self) -> str:
        """The reference, and whether interactions are spoilt."""
        return " and ".join(filter(None, [reference_text(self.reference), "corruptions" if self.traffic else ""]))


def gather_rows(
    rows: Iterable[Row],
    predictions: Sequence[Predictions],
    reference: str | None,
    *,
    traffic: TrafficSample | None = None,
    wanted: WantedScores = TRACE_SCORES,
) -> GatheredInteractions:
    """Return the judged interactions of a file.

    Args:
        rows: of the file; they have gold scores or labels, unless there are predictions. Others are left out.
        predictions: scores of the same interactions from another file, such as a judge's.
        reference: name of the labeler whose scores count; None if there is only one.
        traffic: takes interactions to spoil; then there may be no scores.
        wanted: scores to learn.

    Raises:
        ConfigurationError: there are no scores, or those of several labelers and none was named.
    """
    interactions: dict[str, RagInteraction] = {}
    judgements = Judgements(wanted)
    for row in rows:
        interaction = row.interaction
        if interaction is None:
            continue
        if traffic is not None:
            traffic.add(interaction)
        digest = _digest(interaction)
        interactions.setdefault(digest, interaction)
        if predictions:
            continue
        judgements.add(
            PEOPLE,
            digest,
            Judgement(interaction.gold_scores, interaction.occurred_at, interaction.sampling_probability),
        )
        if not interaction.gold_scores and any(isinstance(labels, SentenceLabels) for labels in row.labels):
            scores = stored_labeling(row, profile="ragbench", claim_profile="ragchecker_strict").scores
            judgements.add(
                LabelerId(STORED, "", ""),
                digest,
                Judgement(scores, interaction.occurred_at, interaction.sampling_probability),
            )
    for group in predictions:
        for (pipeline, identity), scores in group.scores.items():
            digest = interaction_digest(pipeline, identity)
            if digest in interactions:
                interaction = interactions[digest]
                probability, versions = interaction.sampling_probability, _versions(group.declared)
                judgements.add(group.labeler, digest, Judgement(scores, interaction.occurred_at, probability, versions))
    return _gather(*judgements.of(reference, optional=traffic is not None), interactions, traffic)


def gather_recorded(
    recording: Recording,
    selection: Selection,
    *,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None = None,
    wanted: WantedScores = TRACE_SCORES,
) -> GatheredInteractions:
    """Return the judged interactions of a recording: those of a cascade's sample, and those with feedback.

    Args:
        selection: the part to read.
        run: only interactions of this run.
        reference: name of the labeler whose scores count; `gold` for people's; None if there is only one.
        traffic: takes interactions to spoil; then there may be no scores.
        wanted: scores to learn.

    Raises:
        ConfigurationError: there are no scores, or those of several labelers and none was named.
    """
    feedback_of = defaultdict[str, list[Feedback]](list)
    for entry in recording.entries(EntryKind.FEEDBACK, pipelines=selection.pipelines):
        feedback = cast("Feedback", entry.model)
        feedback_of[interaction_digest(feedback.pipeline, feedback.interaction_id)].append(feedback)
    judgements = Judgements(wanted)
    for entry in recording.entries(EntryKind.METRICS, pipelines=selection.pipelines):
        event = cast("MetricEvent", entry.model)
        if selection.takes(event) and run in {None, event.run}:
            digest = interaction_digest(event.pipeline, event.interaction_id)
            _add_event(judgements, digest, event, feedback_of.get(digest, ()), reference)
    by, chosen = judgements.of(reference, optional=traffic is not None)
    interactions: dict[str, RagInteraction] = {}
    for entry in recording.entries(EntryKind.INTERACTIONS, pipelines=selection.pipelines):
        interaction = cast("RagInteraction", entry.model)
        digest = _digest(interaction)
        if digest in chosen:
            interactions.setdefault(digest, interaction)
        if traffic is not None and selection.takes(interaction) and run in {None, interaction.run}:
            traffic.add(interaction)
    return _gather(by, chosen, interactions, traffic)


def _add_event(
    judgements: Judgements, digest: str, event: MetricEvent, answers: Sequence[Feedback], reference: str | None
) -> None:
    def judgement(scores: Mapping[str, float], probability: float | None = None) -> Judgement:
        return Judgement(scores, event.occurred_at, (probability or 1.0) * event.sampling_probability, versions)

    versions, criterion = _versions(event.declared), judgements.wanted.criterion
    metric = "" if criterion is None else criterion.metric

    judgements.add(PEOPLE, digest, judgement(event.gold_scores))
    for feedback in answers:
        judgements.add(PEOPLE, digest, judgement(feedback.gold_scores, feedback.inclusion_probability))
    for scored in event.by_evaluator():
        chosen = scored.inclusion_probability
        if scored.judged is not None:
            by = LabelerId(scored.judged.labeler, scored.judged.labeler_version, scored.judged.profile)
            judgements.add(by, digest, judgement(scored.judged.scores, scored.judged.probability_of(metric) * chosen))
        elif scored.labeler == reference or (criterion is not None and scored.labeler not in (LOCAL, NO_LABELER)):
            by = LabelerId(scored.labeler, scored.labeler_version, scored.profile)
            judgements.add(by, digest, judgement(scored.scores, scored.probability_of(metric)))


def gather_kept(
    judged: Iterable[Specimen],
    annotated: Iterable[tuple[Specimen, Mapping[str, float], float]],
    *,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None = None,
    wanted: WantedScores = TRACE_SCORES,
) -> GatheredInteractions:
    """Return the judged interactions among kept items.

    Args:
        judged: items that were drawn at random for a second labeler.
        annotated: items that people annotated, with their scores and the probability of their annotation.
        run: only interactions of this run.
        reference: name of the labeler whose scores count; `gold` for people's; None if there is only one.
        traffic: interactions to spoil; then there may be no scores.
        wanted: scores to learn.

    Raises:
        ConfigurationError: there are no scores, or those of several labelers and none was named.
    """
    judgements = Judgements(wanted)
    interactions: dict[str, RagInteraction] = {}
    for specimen in judged:
        interaction = specimen.interaction
        if run in {None, interaction.run}:
            interactions[_digest(interaction)] = interaction
            for labeling in specimen.labelings[1:]:
                by = LabelerId(labeling.labeler, labeling.labeler_version, labeling.profile)
                probability = interaction.sampling_probability
                judgement = Judgement(labeling.scores, interaction.occurred_at, probability, labeling.versions)
                judgements.add(by, _digest(interaction), judgement)
    for specimen, scores, probability in annotated:
        interaction = specimen.interaction
        if run in {None, interaction.run}:
            interactions[_digest(interaction)] = interaction
            judgements.add(PEOPLE, _digest(interaction), Judgement(scores, interaction.occurred_at, probability))
    return _gather(*judgements.of(reference, optional=traffic is not None), interactions, traffic)


def _gather(
    by: LabelerId,
    chosen: Mapping[str, Judgement],
    interactions: Mapping[str, RagInteraction],
    traffic: TrafficSample | None,
) -> GatheredInteractions:
    judged = [
        JudgedInteraction(interactions[digest], judgement.scores, 1 / judgement.probability)
        for digest, judgement in chosen.items()
        if digest in interactions
    ]
    # Names break ties, so that equal input gives equal folds and equal sums.
    judged.sort(key=lambda row: (row.interaction.occurred_at, row.interaction.pipeline, row.interaction.interaction_id))
    drawn = () if traffic is None else traffic.drawn
    return GatheredInteractions(by, judged, len(chosen) - len(judged), drawn)


def _newest(judgements: Mapping[str, Judgement]) -> dict[str, Judgement]:
    order = sorted(judgements.items(), key=lambda judgement: (judgement[1].occurred_at, judgement[0]))
    return dict(order[-MOST:])


def _digest(interaction: RagInteraction) -> str:
    return interaction_digest(interaction.pipeline, interaction.interaction_id)
