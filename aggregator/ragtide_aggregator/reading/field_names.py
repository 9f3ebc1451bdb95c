"""Lists the names of the fields of checkpoints, once for all readers.

The names that most readers look for are in a list that each commit keeps up to date. Only without it, or for others, a
reader walks through a whole checkpoint.
"""

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script

from ..checkpoint.field_pipelines import pipeline_of_field
from ..checkpoint.loading import FIELDS_AT_ONCE
from ..checkpoint.name_index import LISTED, listed_names

LISTED_S: Final = 10.0
"""Seconds after which names are listed again, even if the number of fields is the same."""
LISTING_PART: Final = 20
"""Listing takes at most this part of the time: a checkpoint may have a million fields."""

LIST: Final = Lua("list_fields")

_KINDS: Final = frozenset(field for field in CheckpointField if field.endswith(":"))

_SPECIAL: Final = re.compile(r"[\\*?\[\]^-]")
"""Characters with a meaning of their own in a pattern of Redis."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Names of the fields of a checkpoint."""

    number: int
    """Each listing of a process has another number."""
    length: int
    """Number of all fields when the listing began."""
    kinds: frozenset[CheckpointField]
    """Kinds of fields that were listed."""
    at_s: float
    """Monotonic seconds at its beginning."""
    took_s: float
    names: Mapping[CheckpointField, Sequence[str]]
    """Names by kind, in order."""
    _by_pipeline: dict[CheckpointField, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def of(self, kind: CheckpointField) -> Sequence[str]:
        """Return the names of a kind."""
        return self.names.get(kind, ())

    def of_pipeline(self, kind: CheckpointField, pipeline: str | None) -> Sequence[str]:
        """Return the names of a kind of one pipeline; of all without one."""
        return self.of(kind) if pipeline is None else self.by_pipeline(kind).get(pipeline, ())

    def by_pipeline(self, kind: CheckpointField) -> Mapping[str, Sequence[str]]:
        """Return the names of a kind by pipeline. Names that cannot be read are left out: loading reports them."""
        known = self._by_pipeline.get(kind)
        if known is None:
            grouped: defaultdict[str, list[str]] = defaultdict(list)
            for name in self.of(kind):
                try:
                    pipeline = pipeline_of_field(name)
                except ValueError:
                    continue
                if pipeline is not None:
                    grouped[pipeline].append(name)
            known = self._by_pipeline[kind] = dict(grouped)
        return known


class FieldNames:
    """The names of the fields of checkpoints, for all readers of a deployment.

    A new field is listed at the next read; in a checkpoint of a million fields some seconds later, because listing
    takes at most a twentieth of the time.

    Args:
        redis: client.
        clock: monotonic seconds.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self.clock = clock
        # With the pipeline whose names alone are listed; None for those of all.
        self._known: dict[tuple[Streams, str | None], Listing] = {}
        self._listing: defaultdict[tuple[Streams, str | None], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._alone: dict[Streams, str] = {}
        self._number = 0

    async def read(
        self,
        streams: Streams,
        kinds: Collection[CheckpointField],
        length: int | None = None,
        *,
        pipeline: str | None = None,
        anew: bool = False,
    ) -> Listing:
        """Return the names of kinds of fields of a checkpoint, of other kinds perhaps too.

        Args:
            kinds: wanted kinds.
            length: number of all fields now; read unless given.
            pipeline: whose names are wanted; all unless given. A listing may have those of others, too.
            anew: whether to list in any case, because a known field was removed.
        """
        scope = streams, self._alone_in(streams, kinds, pipeline)
        before = self._known.get(scope)
        if length is None:
            length = int(await self._redis.hlen(streams.checkpoint))
        if not anew and before is not None and not self._is_due(before, kinds, length):
            return before
        async with self._listing[scope]:
            known = self._known.get(scope)
            # Another reader may have listed meanwhile.
            if known is None or known is before or self._is_due(known, kinds, length):
                known = self._known[scope] = await self._list(scope, kinds, length, known)
            return known

    def _alone_in(self, streams: Streams, kinds: Collection[CheckpointField], pipeline: str | None) -> str | None:
        """Return the pipeline whose names are listed alone: the first one, as of a command. With another, list all."""
        known = self._known.get((streams, None))
        if pipeline is None or (known is not None and known.kinds.issuperset(kinds)):
            return None
        return pipeline if self._alone.setdefault(streams, pipeline) == pipeline else None

    def _is_due(self, known: Listing, kinds: Collection[CheckpointField], length: int) -> bool:
        if not known.kinds.issuperset(kinds):
            return True
        pause_s = 0.0 if known.length != length else LISTED_S
        if length > FIELDS_AT_ONCE:  # a smaller checkpoint is listed by one command
            pause_s = max(pause_s, LISTING_PART * known.took_s)
        return self.clock() - known.at_s >= pause_s

    async def _list(
        self,
        scope: tuple[Streams, str | None],
        kinds: Collection[CheckpointField],
        length: int,
        known: Listing | None,
    ) -> Listing:
        (streams, pipeline), began = scope, self.clock()
        # One pipeline has few names, so one walk brings those of all kinds.
        more = _KINDS if pipeline is not None else frozenset() if known is None else known.kinds
        wanted = LISTED | more | frozenset(kinds)
        listed = await listed_names(self._redis, streams) if wanted == LISTED else None
        length, names = (length, await self._walk(streams, wanted, pipeline)) if listed is None else listed
        by_kind: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            by_kind[name[: name.index(":") + 1]].append(name)
        self._number += 1
        return Listing(
            self._number,
            length,
            wanted,
            began,
            self.clock() - began,
            {CheckpointField(kind): names for kind, names in by_kind.items()},
        )

    async def _walk(self, streams: Streams, kinds: Collection[CheckpointField], pipeline: str | None) -> set[str]:
        names: set[str] = set()
        cursor = b"0"
        while True:
            call = list_fields(streams, cursor, sorted(kinds), pipeline=pipeline)
            cursor, *some = await run_script(self._redis, call)
            names.update(name.decode(errors="replace") for name in some)
            if cursor == b"0":
                return names


def list_fields(
    streams: Streams,
    cursor: bytes,
    kinds: Sequence[CheckpointField],
    *,
    pipeline: str | None = None,
    count: int = FIELDS_AT_ONCE,
) -> ScriptCall[list[bytes]]:
    """Return the call that lists the names of some fields of a checkpoint; its reply begins with the next cursor.

    Args:
        cursor: `0` at the beginning; the reply's cursor is `0` at the end.
        kinds: wanted kinds of fields.
        pipeline: only names that hold this name, a few of which may be of other pipelines; all unless given.
        count: about how many fields to look at.
    """
    pattern = "*"
    if pipeline is not None:
        name = _SPECIAL.sub(r"\\\g<0>", json.dumps(pipeline, ensure_ascii=False))
        pattern = f"*{name},*"
    return ScriptCall(LIST, [streams.checkpoint], [cursor, count, pattern, *kinds], list)
