"""The processors and the memory that this process may use: by its affinity, and by the limits of its cgroup."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
"""Where Linux shows the cgroups."""

MEMBERSHIP: Final = Path("/proc/self/cgroup")
"""File with the cgroups of this process."""

UNLIMITED_BYTES: Final = 2**60
"""A limit of memory from here on is none: version 1 writes a number of pages for it."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The limits of a cgroup and of those that contain it."""

    processors: float | None = None
    """Processors, of which part may be a fraction; None without a limit."""
    memory_bytes: int | None = None
    """Bytes of memory; None without a limit."""


def cgroup_limits(membership: str, mounted: Path = CGROUPS) -> CgroupLimits:
    """Return the limits of a process, by cgroups of version 1 or 2.

    Args:
        membership: cgroups of the process, as in `/proc/self/cgroup`.
        mounted: folder in which the cgroups are.
    """
    quotas: list[float] = []
    memories: list[int] = []
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            for folder in _folders_upwards(mounted, path):
                quotas += _quota(*_numbers(folder / "cpu.max"))
                memories += _numbers(folder / "memory.max")[:1]
        if "cpu" in controllers.split(","):
            for folder in _folders_upwards(mounted / "cpu", path):
                quotas += _quota(*_numbers(folder / "cpu.cfs_quota_us"), *_numbers(folder / "cpu.cfs_period_us"))
        if "memory" in controllers.split(","):
            for folder in _folders_upwards(mounted / "memory", path):
                memories += _numbers(folder / "memory.limit_in_bytes")
    return CgroupLimits(
        min(quotas, default=None), min((limit for limit in memories if limit < UNLIMITED_BYTES), default=None)
    )


def _folders_upwards(root: Path, path: str) -> Iterator[Path]:
    folder = root / path.strip("/")
    while folder != root:
        yield folder
        folder = folder.parent
    yield root


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def _quota(*numbers: int) -> list[float]:
    match numbers:
        case (time, period) if time > 0 and period > 0:
            return [time / period]
        case _:
            return []


def usable_processors(affinity: int, limits: CgroupLimits) -> int:
    """Return the whole processors that a process may use, at least 1.

    Args:
        affinity: processors on which the process may run.
    """
    return max(1, affinity if limits.processors is None else min(affinity, int(limits.processors)))


def own_limits() -> CgroupLimits:
    """Return the limits of this process; without cgroups there are none."""
    try:
        return cgroup_limits(MEMBERSHIP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return CgroupLimits()


def own_processors() -> int:
    """Return the whole processors that this process may use, at least 1."""
    # macOS has no affinity.
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return usable_processors(affinity, own_limits())
