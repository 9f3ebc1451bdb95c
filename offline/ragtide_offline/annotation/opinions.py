"""Opinions: ratings by people who see the scores of an item. They are stored apart and count in no estimate."""

import json
from collections.abc import Sequence
from math import ceil
from typing import Annotated, Final, cast

from pydantic import Field, StringConstraints
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, interaction_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_schemas import InvalidEntryError, utc_now
from ragtide_schemas.base import Name, UtcTime, VersionedModel

PUT: Final = Lua("put_opinion")

ITEMS_MAX: Final = 10_000
"""Most items of a deployment that have opinions."""
PEOPLE_MAX: Final = 20
"""Most people with an opinion about one item."""
REASON_CHARS: Final = 300
"""Most characters of a reason."""
LOWEST: Final = 1
HIGHEST: Final = 5

Rating = Annotated[int, Field(ge=LOWEST, le=HIGHEST, strict=True)]
Reason = Annotated[str, StringConstraints(max_length=REASON_CHARS)]


class Opinion(VersionedModel):
    """The rating of an item by a person who saw its scores; it counts in no estimate and no agreement."""

    pipeline: Name
    """The interaction's pipeline."""
    interaction_id: Name
    """The interaction's id."""
    person: Name
    """The user of the page."""
    given_at: UtcTime
    """Time of the opinion."""
    rating: Rating
    """1 for a useless answer, to 5 for an answer that needs no change."""
    reason: Reason = ""
    """Words of the person; empty if there are none."""
    rating_before: Rating | None = None
    """Rating that this opinion replaced; None if it is the first, or was restored."""
    reason_before: Reason = ""
    """Reason of the replaced opinion."""

    def undone(self) -> "Opinion | None":
        """Return the opinion that this one replaced; None if it is the first."""
        if self.rating_before is None:
            return None
        return Opinion(
            pipeline=self.pipeline,
            interaction_id=self.interaction_id,
            person=self.person,
            given_at=utc_now(),
            rating=self.rating_before,
            reason=self.reason_before,
        )


class NoRoomForOpinionError(ValueError):
    """There are too many opinions."""


class StoredOpinions:
    """The opinions of a deployment.

    Args:
        redis: client.
        prefix: of the keys.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._streams = Streams(prefix, 0)

    async def of(self, pipeline: str, interaction_id: str) -> list[Opinion]:
        """Return the opinions about an item, the newest first."""
        return (await self._of_items([(pipeline, interaction_id)]))[0]

    async def read(self) -> list[Opinion]:
        """Return all opinions that can be read, the newest first."""
        found = await self._of_items(await self._items())
        return sorted((one for each in found for one in each), key=lambda one: one.given_at, reverse=True)

    async def put(self, opinion: Opinion, keep_s: float) -> None:
        """Store an opinion in place of the person's opinion before.

        Args:
            opinion: about an item.
            keep_s: seconds after which all opinions about the item expire.

        Raises:
            NoRoomForOpinionError: there are `PEOPLE_MAX` other people, or `ITEMS_MAX` other items.
            redis.RedisError: Redis failed.
        """
        call = put_opinion(self._streams, opinion, opinion.encode(), now_s=utc_now().timestamp(), keep_s=keep_s)
        reply = await run_script(self._redis, call)
        if reply == "people":
            raise NoRoomForOpinionError(
                f"{PEOPLE_MAX} people have an opinion about this item: one of them must remove it"
            )
        if reply == "items":
            raise NoRoomForOpinionError(
                f"{ITEMS_MAX:,} items have opinions: opinions about others must be removed or expire"
            )

    async def remove(self, opinion: Opinion) -> bool:
        """Remove the opinion of a person about an item, and return whether there was one."""
        call = put_opinion(self._streams, opinion, b"", now_s=utc_now().timestamp(), keep_s=1)
        return await run_script(self._redis, call) == "removed"

    async def forget(self, interaction_id: str, pipeline: str | None = None) -> int:
        """Remove the opinions about an interaction id with their reasons, and return their number."""
        items = [one for one in await self._items() if one[1] == interaction_id and pipeline in (None, one[0])]
        if pipeline is not None and not items:
            items = [(pipeline, interaction_id)]
        found = [one for each in await self._of_items(items) for one in each]
        for place in items:
            await self._redis.delete(self._key(*place))
            await self._redis.zrem(self._streams.opinions, _member(*place))
        return len(found)

    async def _items(self) -> list[tuple[str, str]]:
        members = cast("list[bytes]", await self._redis.zrange(self._streams.opinions, 0, -1, desc=True))
        found: list[tuple[str, str]] = []
        for member in members:
            try:
                pipeline, interaction_id = json.loads(member)
            except ValueError:
                continue  # written by another program
            if isinstance(pipeline, str) and isinstance(interaction_id, str):
                found.append((pipeline, interaction_id))
        return found

    async def _of_items(self, items: Sequence[tuple[str, str]]) -> list[list[Opinion]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for one in items:
                pipe.hvals(self._key(*one))
            stored = cast("list[list[bytes]]", await pipe.execute())
        return [_decoded(payloads) for payloads in stored]

    def _key(self, pipeline: str, interaction_id: str) -> str:
        return self._streams.opinion(interaction_digest(pipeline, interaction_id))


def put_opinion(streams: Streams, opinion: Opinion, payload: bytes, *, now_s: float, keep_s: float) -> ScriptCall[str]:
    """Return the call that stores an opinion, or removes it; its reply is the word of the script.

    Args:
        streams: keys of partition 0 of the deployment.
        opinion: names the item and the person.
        payload: the stored opinion; empty to remove it.
        now_s: time now.
        keep_s: seconds after which all opinions about the item expire; at least 1.
    """
    item = opinion.pipeline, opinion.interaction_id
    keys = (streams.opinion(interaction_digest(*item)), streams.opinions)
    limits = (repr(now_s), max(1, ceil(keep_s)), ITEMS_MAX, PEOPLE_MAX)
    return ScriptCall(PUT, keys, (_member(*item), opinion.person, payload, *limits), bytes.decode)


def _member(pipeline: str, interaction_id: str) -> str:
    return json.dumps([pipeline, interaction_id])


def _decoded(payloads: Sequence[bytes]) -> list[Opinion]:
    found = []
    for payload in payloads:
        try:
            found.append(Opinion.decode(payload))
        except InvalidEntryError:
            continue  # written by a newer release, or by another program
    return sorted(found, key=lambda one: one.given_at, reverse=True)
