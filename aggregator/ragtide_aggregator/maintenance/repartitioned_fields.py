"""Distributes the fields of checkpoints over the partitions of a new layout. No clock, no I/O."""

from collections.abc import Mapping
from typing import Final

from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import Feedback

from ..checkpoint.field_pipelines import pipeline_of_field
from ..state.capping import pipeline_of_alert
from ..state.options import further_pipelines
from ..state.releases import pipeline_of_release_alert

Fields = dict[str, bytes]

_OF_THE_PARTITION: Final = (CheckpointField.ALERT_CLOCK, CheckpointField.LEVEL_BUDGET, CheckpointField.VERSION)


def pipeline_of(name: str, data: bytes) -> str | None:
    """Return the pipeline of a field of a checkpoint; None for a field of the whole partition."""
    pipeline = pipeline_of_field(name)
    if pipeline is not None:
        return pipeline
    kind, colon, rest = name.partition(":")
    kind += colon
    if kind in (CheckpointField.CAPPED, CheckpointField.FIRING_ALERT):
        return rest if kind == CheckpointField.CAPPED else pipeline_of_alert(rest) or pipeline_of_release_alert(rest)
    return Feedback.decode(data).pipeline if kind == CheckpointField.PENDING_FEEDBACK else None


def repartitioned(old: Layout, new: Layout, checkpoints: Mapping[int, Mapping[str, bytes]]) -> dict[int, Fields]:
    """Return the fields of every partition's checkpoint in a new layout, without positions.

    Each part of a split pipeline moves to the partition that has the part of the same number in the new layout. Waiting
    feedback moves to the partition where its interaction will be scored. Seen ids and pipeline health are dropped. The
    firing alerts about the health of a partition stay there; those of a partition that goes move to partition 0, whose
    next check resolves them.

    Args:
        old: the layout of the checkpoints.
        new: the layout after the change.
        checkpoints: fields by partition.

    Raises:
        ValueError: a pipeline would be split over fewer partitions than now, and its parts cannot be merged.
    """
    by_partition: dict[int, Fields] = {partition: {} for partition in range(new.partitions)}
    places: dict[tuple[int, str], int] = {}
    for partition, fields in checkpoints.items():
        for name, data in fields.items():
            pipeline = pipeline_of(name, data)
            if pipeline is None:
                fires = name.startswith(CheckpointField.FIRING_ALERT)
                if partition in by_partition and (fires or name in _OF_THE_PARTITION):
                    by_partition[partition][name] = data
                elif fires:
                    by_partition[0][f"{name}:{partition}"] = data
            elif name.startswith(CheckpointField.PENDING_FEEDBACK):
                waiting = by_partition[new.of(pipeline, Feedback.decode(data).interaction_id).partition]
                # Entries of two partitions may have the same id.
                free = name
                while free in waiting:
                    milliseconds, number = order(free.removeprefix(CheckpointField.PENDING_FEEDBACK))
                    free = f"{CheckpointField.PENDING_FEEDBACK}{milliseconds}-{number + 1}"
                waiting[free] = data
            else:
                if (partition, pipeline) not in places:
                    places[partition, pipeline] = place_of(old, new, partition, pipeline)
                by_partition[places[partition, pipeline]][name] = data
    return by_partition


def place_of(old: Layout, new: Layout, partition: int, pipeline: str) -> int:
    """Return the new partition of what a partition holds of a pipeline.

    Raises: ValueError if the pipeline would be split over fewer partitions than now.
    """
    if pipeline == further_pipelines(partition):
        # This row counts the pipelines above the cap of a partition: it stays, or moves to partition 0 under its name.
        return partition if partition < new.partitions else 0
    before, after = ([streams.partition for streams in layout.all_of(pipeline)] for layout in (old, new))
    if len(after) < len(before):
        raise ValueError(
            f"pipeline {pipeline!r} is split over {len(before)} partitions, and its parts cannot be merged into "
            f"{len(after)}: keep its split"
        )
    return after[before.index(partition)]
