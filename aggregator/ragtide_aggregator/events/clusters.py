"""The cluster of an event: interactions of one session, user or batch, whose scores depend on each other. No state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import MetricEvent

SEGMENT: Final = "segment:"
"""Prefix of a choice of clusters by segment value: `segment:NAME`."""

BY_ITSELF: Final = 0
"""Code of an event that belongs to no cluster."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "auto": ("cluster", "session_id"),
    "cluster": ("cluster",),
    "session_id": ("session_id",),
    "user_id": ("user_id",),
}
"""Fields of an event that name its cluster, by choice; the first field that is set counts."""

BLOCKS: Final = "blocks"
"""The choice of clusters that are stretches of neighbouring interactions of a pipeline."""


FOREVER_MS: Final = 10**15
"""A quiet time that never ends."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which interactions depend on each other, and when a cluster of them is closed."""

    by: str = "auto"
    """One of `FIELDS`, `blocks`, or `segment:NAME`."""
    size: int | None = 10
    """Most interactions of a cluster: more of the same name are the next cluster. None measures how long blocks are."""
    quiet_ms: int = 1_800_000
    """Time without an interaction of a cluster, in event time of its pipeline, after which it is closed."""

    most_open: int = 10_000
    """Most open clusters of a pipeline and run: the cluster that is quiet for longest is closed before its time."""

    @property
    def measures_blocks(self) -> bool:
        """Whether the length of blocks follows from the measured dependence."""
        return self.size is None


def cluster_codes(names: Iterable[tuple[str, str] | None]) -> NDArray[np.int64]:
    """Return one code for each field and name; None is an event by itself."""
    return np.array([BY_ITSELF if one is None else _code(*one) for one in names], dtype=np.int64)


def cluster_name(event: MetricEvent, by: str) -> tuple[str, str] | None:
    """Return the field that names the cluster of an event, with the name; None if the event is by itself."""
    if by == BLOCKS:
        return BLOCKS, ""
    if by.startswith(SEGMENT):
        return segment_cluster(event.segments, by)
    for field in FIELDS[by]:
        name = getattr(event, field)
        if name is not None:
            return field, name
    return None


def segment_cluster(segments: Mapping[str, str], by: str) -> tuple[str, str] | None:
    """Return `by` with the value of its segment; None without one."""
    value = segments.get(by.removeprefix(SEGMENT))
    return None if value is None else (by, value)


@lru_cache(maxsize=100_000)
def _code(field: str, name: str) -> int:
    digest = blake2b(f"{field}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 | 1
