"""Chooses specimens for a data set: those of an alert, the worst, or the sample; with the reasons for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, parts_of_worst, worst_list
from ragtide_schemas import Alert, Specimen


@dataclass(frozen=True, slots=True)
class ChosenSpecimen:
    """A specimen with the reasons for which it was chosen."""

    specimen: Specimen
    reasons: Sequence[Mapping[str, Any]]
    """JSON objects with `list` and its metric, labeler and score; or `alert` with its rule; or the probability."""
    gold_scores: Mapping[str, float] = field(default_factory=dict)
    """Gold scores of people, by metric, which the row has beside those of the interaction."""


@dataclass(frozen=True, slots=True)
class ChosenSpecimens:
    """Specimens for a data set, each once, and the ones that could not be had."""

    chosen: Sequence[ChosenSpecimen]
    missing: Sequence[str] = field(default=())
    """Ids of interactions that an alert names and that are no longer kept."""


async def chosen_of_alert(kept: KeptSpecimens, alert: Alert, limit: int | None = None) -> ChosenSpecimens:
    """Return the specimens that an alert names, in its order.

    Args:
        kept: the specimens of the deployment.
        limit: most specimens.
    """
    by_id = {
        interaction_id: await kept.find(interaction_id, alert.pipeline)
        for interaction_id in alert.worst_interaction_ids
    }
    reason = {
        "alert": alert.alert_id,
        "rule": alert.rule,
        "fired_at": alert.model_dump(mode="json")["fired_at"],
        "metric": alert.metric,
        "labeler": alert.labeler,
        "segment": alert.segment,
    }
    chosen = [
        ChosenSpecimen(specimen, [{**reason, "score": score_of(specimen, alert.metric, alert.labeler)}])
        for specimens in by_id.values()
        for specimen in specimens
    ]
    return ChosenSpecimens(
        chosen[:limit], [interaction_id for interaction_id, specimens in by_id.items() if not specimens]
    )


async def chosen_of_sample(kept: KeptSpecimens, pipelines: Sequence[str], limit: int | None = None) -> ChosenSpecimens:
    """Return the uniform sample of each pipeline, the latest first; with a limit the latest of each pipeline in turn.

    Args:
        kept: the specimens of the deployment.
        pipelines: names of the pipelines.
        limit: most specimens.
    """
    lists = [
        [
            ChosenSpecimen(specimen, [{"list": SPECIMEN_SAMPLE, "inclusion_probability": specimen.sample_probability}])
            for specimen in await kept.sample(name)
        ]
        for name in pipelines
    ]
    return ChosenSpecimens(_in_turn(lists)[:limit])


async def chosen_of_worst(
    kept: KeptSpecimens,
    pipelines: Sequence[str],
    limit: int | None = None,
    *,
    metric: str | None = None,
    labeler: str | None = None,
    most: int,
) -> ChosenSpecimens:
    """Return the worst specimens of each metric and labeler: the worst of each list first, then the second of each.

    Args:
        kept: the specimens of the deployment.
        pipelines: names of the pipelines.
        limit: most specimens.
        metric: only this metric, with or without its family.
        labeler: only scores of this labeler.
        most: number of specimens that are read of each list.
    """
    lists = []
    for pipeline in pipelines:
        for name in await kept.lists(pipeline):
            scored, by = parts_of_worst(name) or ("", "")
            if not is_worst_of(name, metric, labeler):
                continue
            lists.append(
                [
                    ChosenSpecimen(
                        specimen.specimen,
                        [
                            {
                                "list": name,
                                "metric": scored,
                                "labeler": by,
                                "score": score_of(specimen.specimen, scored, by),
                                "place": place,
                            }
                        ],
                    )
                    for place, specimen in enumerate(await kept.listed(pipeline, name, most), start=1)
                ]
            )
    return ChosenSpecimens(_in_turn(lists)[:limit])


def is_worst_of(name: str, metric: str | None = None, labeler: str | None = None) -> bool:
    """Return whether a list holds the worst of a metric, with or without its family, and of a labeler.

    >>> is_worst_of("worst:trace.adherence:local", "adherence"), is_worst_of("sample")
    (True, False)
    """
    scored, by = parts_of_worst(name) or ("", "")
    if not scored or name != worst_list(scored, by):
        return False
    return (metric is None or metric in (scored, scored.rpartition(".")[2])) and labeler in (None, by)


def score_of(specimen: Specimen, metric: str, labeler: str | None = None) -> float | None:
    """Return the score of a metric, by a labeler or by the first one that has it; None without one."""
    tables = [labeling.scores for labeling in specimen.labelings if labeler in (None, labeling.labeler)]
    return next((scores[metric] for scores in tables if metric in scores), None)


def _in_turn(lists: Sequence[Sequence[ChosenSpecimen]]) -> list[ChosenSpecimen]:
    together: dict[tuple[str, str], ChosenSpecimen] = {}
    for turn in zip_longest(*lists):
        for specimen in turn:
            if specimen is not None:
                interaction = specimen.specimen.interaction
                key = interaction.pipeline, interaction.interaction_id
                before = together.get(key)
                reasons = specimen.reasons if before is None else [*before.reasons, *specimen.reasons]
                together[key] = ChosenSpecimen(specimen.specimen, reasons)
    return list(together.values())
