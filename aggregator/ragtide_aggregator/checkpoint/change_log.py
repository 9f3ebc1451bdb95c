"""Which pipelines each of the last steps changed, in fields of the checkpoint: a reader reads only these. Pure.

The fields are a ring. A step writes its number, its positions and its pipelines. A reader that knows the checkpoint of
a step finds that step in the ring with the same positions, and every step since; otherwise it reads everything. So a
checkpoint that was restored, repaired or moved to another layout is read anew.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ragtide_runtime.redis.keys import CheckpointField

from ..state.options import Changes

STEPS_KEPT: Final = 64
"""Steps in the ring."""

PIPELINES_MAX: Final = 500
"""Most pipelines that a step names; of more, a reader reads everything."""

Revision = tuple[bytes | None, ...]
"""Steps and positions of a checkpoint."""


class ChangedPipelines(NamedTuple):
    """The pipelines that some steps of a checkpoint changed."""

    names: frozenset[str]
    adds: bool
    """Whether there may be new keys."""


class ChangeLog:
    """Writes the ring, for one owner of a partition.

    Its first step names no pipelines, because the owner knows nothing of the steps before.
    """

    def __init__(self) -> None:
        self._sizes: Sequence[int] | None = None
        self.adds = True
        """Whether the last step may have new keys."""

    def fields(self, steps: int, positions: tuple[str, str], changes: Changes) -> dict[str, bytes]:
        """Return the field that a step writes.

        Args:
            steps: number of steps with this one.
            positions: of metric events and of feedback, with this step.
            changes: of the state.
        """
        names: list[str] | None = sorted({key.pipeline for key in changes.keys})
        if self._sizes is None or len(names or ()) > PIPELINES_MAX:
            names = None
        self.adds = self._sizes != changes.sizes
        self._sizes = changes.sizes
        entry = [steps, *positions, names, self.adds]
        return {slot(steps): json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()}


def slot(steps: int) -> str:
    """Return the field of the ring that a step writes."""
    return f"{CheckpointField.CHANGED}{steps % STEPS_KEPT}"


def slots_since(revision: Revision, count: int) -> list[str]:
    """Return the fields of the ring of a step and of those after it, `count` in all."""
    steps = int(revision[0] or 0)
    return [slot(steps + number) for number in range(min(count, STEPS_KEPT))]


def changed_pipelines(before: Revision, now: Revision, ring: Mapping[str, bytes | None]) -> ChangedPipelines | None:
    """Return what changed between two revisions of a checkpoint; None if the ring does not say it.

    Args:
        before: a revision that was read.
        now: a later one.
        ring: fields of the ring.
    """
    first, last = int(before[0] or 0), int(now[0] or 0)
    if not 0 < first <= last < first + STEPS_KEPT:
        return None
    names: set[str] = set()
    any_adds = False
    for steps in range(first, last + 1):
        entry = ring.get(slot(steps))
        if entry is None:
            return None
        number, position, feedback, changed, adds = json.loads(entry)
        of_step = tuple(None if text is None else text.decode() for text in (before if steps == first else now)[1:])
        if number != steps or (steps in (first, last) and (position, feedback) != of_step):
            return None
        if steps > first:
            if changed is None:
                return None
            names.update(changed)
            any_adds = any_adds or adds
    return ChangedPipelines(frozenset(names), any_adds)
