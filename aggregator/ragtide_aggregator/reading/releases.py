"""Reads the releases of a deployment: only their fields, whatever else its checkpoints hold."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.release import Verdict

from ..alerts.watched_release import ReleaseOptions, WatchedRelease
from ..checkpoint.options import release_options
from ..errors import reading
from .field_names import FieldNames

KIND: Final = CheckpointField.RELEASE

_WORST_FIRST: Final[tuple[Verdict, ...]] = ("worse", "undecided", "not_comparable", "not_worse")


async def read_releases(
    redis: Redis, settings: Settings, pipeline: str | None = None, *, names: FieldNames | None = None
) -> list[WatchedRelease]:
    """Return the releases of a pipeline, or of all, the newest first.

    Of a split pipeline each partition compares its own answers. Of the releases of the same versions at the same time
    the one with the worst verdict is returned: the new version is not worse if no partition says otherwise.

    Args:
        redis: client.
        settings: of the deployment.
        pipeline: its name; all unless given.
        names: lists the fields; keep it for repeated reads.

    Raises:
        DamagedFieldError: a release cannot be read.
    """
    names, options = names or FieldNames(redis), release_options(settings)
    partitions = settings.layout.all() if pipeline is None else settings.layout.all_of(pipeline)
    releases: list[WatchedRelease] = []
    for streams in partitions:
        releases += await _of_partition(redis, streams, options, names, pipeline)
    if len(partitions) > 1:
        releases = _merged(releases)
    return sorted(releases, key=lambda release: (-release.opened_ms, release.pipeline, release.to_version))


async def _of_partition(
    redis: Redis, streams: Streams, options: ReleaseOptions, names: FieldNames, pipeline: str | None
) -> list[WatchedRelease]:
    listing = await names.read(streams, (KIND,), pipeline=pipeline)
    fields = []
    for field in listing.of_pipeline(KIND, pipeline):
        with reading(field):
            # The field of a pipeline alone says which versions serve.
            if len(json.loads(field.removeprefix(KIND))) > 1:
                fields.append(field)
    if not fields:
        return []
    releases = []
    stored = cast("list[bytes | None]", await redis.hmget(streams.checkpoint, fields))
    for field, data in zip(fields, stored, strict=True):
        if data is not None:
            with reading(field):
                releases.append(WatchedRelease.from_bytes(data, options))
    return releases


def _merged(releases: Iterable[WatchedRelease]) -> list[WatchedRelease]:
    by_versions: defaultdict[tuple[str, str, str], list[list[WatchedRelease]]] = defaultdict(list)
    for release in sorted(releases, key=lambda release: release.opened_ms):
        times = by_versions[release.pipeline, release.from_version, release.to_version]
        last = times[-1] if times else None
        # Open at the same time: of two partitions, and not a second release of the same versions.
        if last is not None and any(other.ended_ms is None or other.ended_ms > release.opened_ms for other in last):
            last.append(release)
        else:
            times.append([release])
    return [min(parts, key=_rank) for times in by_versions.values() for parts in times]


def _rank(release: WatchedRelease) -> tuple[bool, int, int]:
    return release.ended_ms is not None, _WORST_FIRST.index(release.verdict), -release.n[1]
