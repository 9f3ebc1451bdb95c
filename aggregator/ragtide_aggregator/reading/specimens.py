"""Reads the specimens of a deployment: interactions that workers keep with their labels (docs/live/items.md)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import inf
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Unreadable
from ragtide_runtime.redis.keys import (
    SPECIMEN_JUDGED,
    SPECIMEN_NEWEST,
    SPECIMEN_SAMPLE,
    Streams,
    interaction_digest,
    pipeline_digest,
)
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_schemas import InvalidEntryError, Specimen
from ragtide_schemas.conversation import has_turn

FORGET: Final = Lua("forget_specimen")
DROP_MISSING: Final = Lua("drop_missing_specimens")

MOST_OF_SAMPLE: Final = 100_000
"""Most specimens of a sample that are read."""


@dataclass(frozen=True, slots=True)
class ListedSpecimen:
    """A specimen of a list."""

    rank: float
    """Rank in the list: how bad the score is, or the milliseconds at which it was kept."""
    specimen: Specimen


class KeptSpecimens:
    """The specimens of all partitions; a specimen may be in another partition than new ones of its pipeline.

    Args:
        redis: client.
        layout: of the deployment or the workspace.
    """

    def __init__(self, redis: Redis, layout: Layout) -> None:
        self._redis = redis
        self._partitions = layout.all()
        self.unreadable = Unreadable("specimen")
        self.gone = 0
        """Number of specimens that were on a list and had expired when the list was read."""

    async def pipelines(self) -> list[str]:
        """Return the names of the pipelines that may have specimens, in order."""
        names: set[bytes] = set()
        for streams in self._partitions:
            names |= set(cast("list[bytes]", await self._redis.zrange(streams.specimen_pipelines, 0, -1)))
            # A pipeline without new specimens may have one that a firing alert names.
            pins = await cast("asyncio.Future[list[bytes]]", self._redis.hvals(streams.specimen_pins))
            names |= {pinned.rpartition(b"\n")[0] for pinned in pins}
        return sorted(name.decode() for name in names)

    async def lists(self, pipeline: str) -> dict[str, int]:
        """Return the number of specimens of each list of a pipeline, by the list's name, in order."""
        counts: dict[str, int] = {}
        for streams in self._partitions:
            for name in await self._names(streams, pipeline):
                count = await self._redis.zcard(streams.specimens_of(pipeline, name))
                counts[name] = counts.get(name, 0) + int(count)
        return {name: counts[name] for name in sorted(counts) if counts[name]}

    async def listed(self, pipeline: str, name: str, most: int) -> list[ListedSpecimen]:
        """Return the first specimens of a list: the worst, or the latest. Those that are gone leave the list.

        Args:
            most: number of specimens.
        """
        parts = await asyncio.gather(*(self._of_list(streams, pipeline, name, most) for streams in self._partitions))
        together = [entry for part in parts for entry in part]
        return sorted(together, key=lambda entry: -entry.rank)[:most]

    async def newest(self, pipelines: Sequence[str], most: int) -> list[Specimen]:
        """Return the newest specimens of several pipelines, with any score, the latest first.

        Args:
            pipelines: names of the pipelines.
            most: number of specimens of all pipelines together.
        """
        lists = await asyncio.gather(
            *(self._newest_of(streams, name, most) for streams in self._partitions for name in pipelines)
        )
        places = sorted(chain.from_iterable(lists), key=lambda place: (-place[0], place[2]))[:most]
        by_partition = sorted(places, key=lambda place: place[1].partition)
        read: dict[str, Specimen | None] = {}
        for _, group in groupby(by_partition, key=lambda place: place[1].partition):
            entries = list(group)
            digests = [digest for _, _, digest in entries]
            read |= dict(zip(digests, await self._stored(entries[0][1], digests), strict=True))
        return [specimen for _, _, digest in places if (specimen := read[digest]) is not None]

    async def _newest_of(self, streams: Streams, pipeline: str, most: int) -> list[tuple[float, Streams, str]]:
        key = streams.specimens_of(pipeline, SPECIMEN_NEWEST)
        members = await self._redis.zrange(key, 0, most - 1, desc=True, withscores=True)
        return [(rank, streams, digest.decode()) for digest, rank in cast("list[tuple[bytes, float]]", members)]

    async def sample(self, pipeline: str) -> list[Specimen]:
        """Return the specimens of the uniform sample since the time from which all of them are kept, the latest first.

        A specimen that an alert names outlives others of the sample because its scores are bad. So it counts only while
        all specimens that were kept after it are still there.
        """
        return await self._uniform(pipeline, SPECIMEN_SAMPLE)

    async def judged(self, pipeline: str) -> list[Specimen]:
        """Return the specimens that chance drew for a second labeler, by the rules of `sample`.

        Interactions that went to the second labeler because of a low score or a segment are not among them.
        """
        return await self._uniform(pipeline, SPECIMEN_JUDGED)

    async def _uniform(self, pipeline: str, name: str) -> list[Specimen]:
        sampled: list[ListedSpecimen] = []
        for streams in self._partitions:
            listed = await self._of_list(streams, pipeline, name, MOST_OF_SAMPLE)
            digests = [interaction_digest(pipeline, entry.specimen.interaction.interaction_id) for entry in listed]
            order = streams.specimen_order(pipeline_digest(pipeline))
            expires: list[float | None] = await self._redis.zmscore(order, digests) if digests else []
            # A specimen expires at the same time after it was kept, unless an alert named it: then later, or never.
            lives = [None if end is None else end - entry.rank for end, entry in zip(expires, listed, strict=True)]
            usual = min((life for life in lives if life is not None), default=0.0)
            since = min(
                (
                    entry.rank
                    for life, entry in zip(lives, listed, strict=True)
                    if life is not None and life <= usual + 1
                ),
                default=inf,
            )
            sampled += [entry for entry in listed if entry.rank >= since]
        return [entry.specimen for entry in sorted(sampled, key=lambda entry: -entry.rank)]

    async def find(self, interaction_id: str, pipeline: str | None = None) -> list[Specimen]:
        """Return the specimens of an interaction id: of one pipeline, or of every pipeline that has one."""
        pipelines = await self.pipelines() if pipeline is None else [pipeline]
        digests = [interaction_digest(name, interaction_id) for name in pipelines]
        parts = await asyncio.gather(*(self._stored(streams, digests) for streams in self._partitions))
        return [specimen for part in parts for specimen in part if specimen is not None]

    async def graded(self, pipeline: str, interaction_ids: Sequence[str]) -> list[frozenset[str]]:
        """Return for each interaction of a pipeline the metrics of which feedback gave a gold score that counts."""
        graded: list[set[str]] = [set() for _ in interaction_ids]
        for streams in self._partitions:
            async with self._redis.pipeline(transaction=False) as pipe:
                for interaction_id in interaction_ids:
                    pipe.smembers(streams.graded(interaction_digest(pipeline, interaction_id)))
                replies = cast("list[set[bytes]]", await pipe.execute())
            for metrics, members in zip(graded, replies, strict=True):
                metrics |= {member.decode().partition(" ")[0] for member in members}
        return [frozenset(metrics) for metrics in graded]

    async def expires_in_s(self, pipeline: str, interaction_id: str) -> float | None:
        """Return the seconds until a specimen expires; None if an alert holds it, or it is not kept."""
        digest = interaction_digest(pipeline, interaction_id)
        lives = [int(await self._redis.pttl(streams.specimen(digest))) for streams in self._partitions]
        return next((life / 1000 for life in lives if life >= 0), None)

    async def forget(self, interaction_id: str, pipeline: str | None = None) -> int:
        """Delete the specimens of an interaction id, and those of sessions with its texts; return their number."""
        forgotten = 0
        for name in await self.pipelines() if pipeline is None else [pipeline]:
            for streams in self._partitions:
                lists = await self._names(streams, name)
                ids = {interaction_id, *await self._sessions_with(streams, name, lists, interaction_id)}
                for item in sorted(ids):
                    forgotten += await run_script(self._redis, forget_specimen(streams, name, item, lists))
        return forgotten

    async def _sessions_with(
        self, streams: Streams, pipeline: str, lists: Sequence[str], interaction_id: str
    ) -> list[str]:
        sessions: set[str] = set()
        for name in lists:
            for entry in await self._of_list(streams, pipeline, name, MOST_OF_SAMPLE):
                if has_turn(entry.specimen.interaction, interaction_id):
                    sessions.add(entry.specimen.interaction.interaction_id)
        return sorted(sessions)

    async def _names(self, streams: Streams, pipeline: str) -> list[str]:
        key = streams.specimen_lists(pipeline_digest(pipeline))
        names = await cast("asyncio.Future[set[bytes]]", self._redis.smembers(key))
        return sorted(name.decode() for name in names)

    async def _of_list(self, streams: Streams, pipeline: str, name: str, most: int) -> list[ListedSpecimen]:
        key = streams.specimens_of(pipeline, name)
        while True:
            members = cast(
                "list[tuple[bytes, float]]", await self._redis.zrange(key, 0, most - 1, desc=True, withscores=True)
            )
            digests = [digest.decode() for digest, _ in members]
            payloads = await self._payloads(streams, digests)
            missing = [digest for digest, payload in zip(digests, payloads, strict=True) if payload is None]
            dropped = await run_script(self._redis, drop_missing_specimens(streams, key, missing)) if missing else 0
            self.gone += dropped
            if not dropped:
                break
        specimens = [self._decoded(*pair) for pair in zip(digests, payloads, strict=True)]
        return [
            ListedSpecimen(rank, specimen)
            for (_, rank), specimen in zip(members, specimens, strict=True)
            if specimen is not None
        ]

    async def _stored(self, streams: Streams, digests: Sequence[str]) -> list[Specimen | None]:
        payloads = await self._payloads(streams, digests)
        return [self._decoded(*pair) for pair in zip(digests, payloads, strict=True)]

    async def _payloads(self, streams: Streams, digests: Sequence[str]) -> list[bytes | None]:
        if not digests:
            return []
        return cast("list[bytes | None]", await self._redis.mget([streams.specimen(digest) for digest in digests]))

    def _decoded(self, digest: str, payload: bytes | None) -> Specimen | None:
        if payload is None:
            return None
        try:
            return Specimen.from_stored(payload)
        except InvalidEntryError as error:
            self.unreadable.add(digest, error)
            return None


def forget_specimen(streams: Streams, pipeline: str, interaction_id: str, lists: Sequence[str]) -> ScriptCall[int]:
    """Return the call that deletes a specimen; its reply is 1 if the specimen was there, else 0."""
    keys = (
        *streams.specimen_keys(pipeline, interaction_id),
        *(streams.specimens_of(pipeline, name) for name in lists),
    )
    arguments = (interaction_digest(pipeline, interaction_id), streams.specimen(""), pipeline)
    return ScriptCall(FORGET, keys, arguments, int)


def drop_missing_specimens(streams: Streams, key: str, digests: Sequence[str]) -> ScriptCall[int]:
    """Return the call that takes specimens off a list that are no longer stored; its reply is their number."""
    return ScriptCall(DROP_MISSING, (key, *(streams.specimen(digest) for digest in digests)), tuple(digests), int)
