"""Limits the number of keys: new pipelines, runs and segment values beyond a cap share keys named `other`.

No clock, no I/O. Producers choose pipelines, runs and segment values, so their number has no natural bound: an id as a
segment value would create keys without end. The decision about a new value depends only on the existing keys, which
are in the checkpoint, so a restart or a replay decides alike.

A segment value gets keys of its own while its pipeline and its partition have used less than `VALUES_SHARE` of their
caps. The rest of the caps is for whole pipelines, runs, and `other`, so that values of one pipeline never keep another
pipeline out. Beyond that, a new value counts as the value `other` of its segment. A new run counts as the run `other`
of its pipeline. A new pipeline counts as the partition's pipeline for further pipelines, without segments.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from ragtide_schemas import MetricEvent
from ragtide_schemas.limits import SEGMENTS_MAX

from ..events.keys import EstimateKey

OTHER: Final = "other"
"""The shared segment value or run. A value that is literally `other` counts in it as well."""

VALUES_SHARE: Final = 0.8
"""Share of both caps that segment values may use."""


def further_pipelines(partition: int) -> str:
    """Return the name of the pipeline in which further pipelines of a partition count.

    >>> further_pipelines(3)
    'other:3'
    """
    return f"{OTHER}:{partition}"


@dataclass(frozen=True, slots=True)
class KeyCaps:
    """Most keys of one pipeline and of one partition; a single interaction may exceed them by its own keys."""

    pipeline: int
    partition: int
    further: str = further_pipelines(0)
    """Pipeline in which further pipelines count."""

    def of_partition(self, partition: int) -> "KeyCaps":
        """Return the caps for a partition."""
        return replace(self, further=further_pipelines(partition))


@dataclass(frozen=True, slots=True)
class Admitted:
    """An event with the pipeline, run and segment values whose keys it changes."""

    event: MetricEvent
    capped: tuple[tuple[str, str], ...] = ()
    """For each shared key its kind (`segment`, `dropped`, `run` or `pipeline`), and the name of the segment."""


class Admission:
    """The scopes with keys, and the numbers of keys."""

    def __init__(self, caps: KeyCaps | None) -> None:
        self._caps = caps
        self._scopes: set[tuple[str, str | None, str | None]] = set()
        self._n_of: dict[str, int] = {}
        self._others: dict[str, int] = {}
        self._n = 0

    def add(self, key: EstimateKey) -> None:
        """Count a new key."""
        scope = key[:3]
        self._n += 1
        self._n_of[key.pipeline] = self._n_of.get(key.pipeline, 0) + 1
        if scope not in self._scopes:
            self._scopes.add(scope)
            if key.segment is not None and key.segment.endswith(f"={OTHER}"):
                self._others[key.pipeline] = self._others.get(key.pipeline, 0) + 1

    def room(self, pipeline: str) -> bool:
        """Return whether a pipeline may have new segment values; the shared pipeline, whether pipelines may be new."""
        caps = self._caps
        if caps is None or pipeline == caps.further:
            return caps is None or self._n < caps.partition
        return self._n_of.get(pipeline, 0) < VALUES_SHARE * caps.pipeline and self._n < VALUES_SHARE * caps.partition

    def full(self) -> bool:
        """Return whether the partition has no room for new segment values."""
        return self._caps is not None and self._n >= VALUES_SHARE * self._caps.partition

    def admit(self, event: MetricEvent, *, segments: bool) -> Admitted:
        """Return the event with the pipeline, run and segment values as which it counts.

        Args:
            event: any event.
            segments: whether segment values have estimates.
        """
        if self._caps is None:
            return Admitted(event)
        pipeline, run = event.pipeline, event.run
        if (pipeline, run, None) not in self._scopes:
            if not self._n_of.get(pipeline) and self._n >= self._caps.partition:
                place: dict[str, Any] = {"pipeline": self._caps.further, "run": None, "segments": {}}
                return Admitted(event.model_copy(update=place), (("pipeline", ""),))
            if run is not None and self._over(pipeline):
                found = self._values(event.model_copy(update={"run": OTHER}), segments=segments)
                return Admitted(found.event, (("run", ""), *found.capped))
        return self._values(event, segments=segments)

    def pipeline_of(self, event: MetricEvent) -> str:
        """Return the pipeline as which an admitted event counts."""
        return event.pipeline if self._caps is None or event.pipeline in self._n_of else self._caps.further

    def _over(self, pipeline: str) -> bool:
        caps = self._caps
        return caps is not None and (self._n_of.get(pipeline, 0) >= caps.pipeline or self._n >= caps.partition)

    def _values(self, event: MetricEvent, *, segments: bool) -> Admitted:
        # An event without scores and absences adds no keys.
        if not segments or not event.segments or not (event.scores or event.absent):
            return Admitted(event)
        pipeline, run = event.pipeline, event.run
        unknown = {
            name: value
            for name, value in sorted(event.segments.items())
            if (pipeline, run, f"{name}={value}") not in self._scopes
        }
        if not unknown:
            return Admitted(event)
        placed = dict(event.segments)
        capped = []
        for name, value in unknown.items():
            if value != OTHER and self.room(pipeline):
                continue
            if (pipeline, run, f"{name}={OTHER}") in self._scopes or self._room_for_other(pipeline):
                placed[name] = OTHER
                if value != OTHER:
                    capped.append(("segment", name))
            else:
                del placed[name]
                capped.append(("dropped", ""))
        return Admitted(event.model_copy(update={"segments": placed}), tuple(capped)) if capped else Admitted(event)

    def _room_for_other(self, pipeline: str) -> bool:
        return self._others.get(pipeline, 0) < SEGMENTS_MAX or not self._over(pipeline)
