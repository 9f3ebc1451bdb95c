"""Alerts name only interactions that are kept as specimens, and these stay while the alert fires.

Before an alert is committed, its interactions are pinned, and those that are not kept are left out. Specimens of the
same change take their place: they are among the worst of the metric, since the beginning of the change, on the bad side
of the baseline. After a resolution is committed, the specimens are released. A process may die between the two, so pins
of alerts that do not fire are released at the start of a session and every ten minutes.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, interaction_digest, pipeline_digest, worst_list
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_schemas import Alert, InvalidEntryError, Specimen

from ..alerts.contributors import CONTRIBUTORS_KEPT

PIN: Final = Lua("pin_specimens")
RELEASE: Final = Lua("release_specimens")

PINNED_MOST: Final = 1_000
"""Most pinned specimens of a partition; further alerts name fewer interactions."""

DIGEST_CHARS: Final = 32
"""Characters of the digest of an interaction."""

LOOKED_AT: Final = 50
"""Most specimens that are looked at to find those of a change."""


class Pinned(NamedTuple):
    """The specimens that an alert has pinned."""

    pipeline: str
    digests: Sequence[str]


class SpecimenPins:
    """Pins and releases the specimens that the alerts of a partition name.

    Args:
        redis: client.
        streams: keys of the partition.
        keep_ms: milliseconds for which a released specimen is kept.
    """

    def __init__(self, redis: Redis, streams: Streams, *, keep_ms: int) -> None:
        self._redis = redis
        self._streams = streams
        self._keep_ms = keep_ms

    async def naming(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return alerts that name only specimens, which are pinned.

        Raises:
            redis.RedisError: Redis failed; some may be pinned.
        """
        return [await self._naming(alert) if alert.status != "resolved" else alert for alert in alerts]

    async def release(self, alerts: Sequence[Alert]) -> None:
        """Release the specimens of alerts that have resolved.

        Raises:
            redis.RedisError: Redis failed; `release_others` releases the rest.
        """
        for alert in alerts:
            if alert.status == "resolved":
                await self._release(alert.alert_id)

    async def release_others(self, firing: Collection[str]) -> None:
        """Release the specimens of all alerts that do not fire.

        Args:
            firing: ids of the alerts that fire.

        Raises:
            redis.RedisError: Redis failed.
        """
        for name in cast("list[bytes]", await self._redis.hkeys(self._streams.specimen_pins)):
            if name.decode() not in firing:
                await self._release(name.decode())

    async def _naming(self, alert: Alert) -> Alert:
        if alert.status == "explained":  # it fired before, with its pins
            pinned = await self._pinned(alert.alert_id)
            specimens = [] if pinned is None else await self._read(pinned.digests)
            names = [specimen.interaction.interaction_id for specimen in specimens]
        else:
            names = await self._pin(alert, alert.worst_interaction_ids)
            if len(names) < CONTRIBUTORS_KEPT and alert.labeler is not None and alert.quantity == "mean":
                key = self._streams.specimens_of(alert.pipeline, worst_list(alert.metric, alert.labeler))
                members = cast("list[bytes]", await self._redis.zrange(key, 0, LOOKED_AT - 1, desc=True))
                worst = await self._read([member.decode() for member in members])
                others = [item.interaction.interaction_id for item in worst if _belongs_to_change(item, alert)]
                others = [name for name in others if name not in names]
                names += await self._pin(alert, others[: CONTRIBUTORS_KEPT - len(names)])
        return alert.model_copy(update={"worst_interaction_ids": tuple(names)})

    async def _pin(self, alert: Alert, interaction_ids: Sequence[str]) -> list[str]:
        if not interaction_ids:
            return []
        digests = [interaction_digest(alert.pipeline, name) for name in interaction_ids]
        kept = await run_script(self._redis, pin_specimens(self._streams, alert.alert_id, alert.pipeline, digests))
        return [name for name, there in zip(interaction_ids, kept, strict=True) if there]

    async def _read(self, digests: Sequence[str]) -> list[Specimen]:
        if not digests:
            return []
        specimens: list[Specimen] = []
        keys = [self._streams.specimen(digest) for digest in digests]
        for payload in cast("list[bytes | None]", await self._redis.mget(keys)):
            try:
                if payload is not None:
                    specimens.append(Specimen.from_stored(payload))
            except InvalidEntryError:  # damaged, so no reader can show it
                continue
        return specimens

    async def _pinned(self, alert_id: str) -> Pinned | None:
        stored = cast("bytes | None", await self._redis.hget(self._streams.specimen_pins, alert_id))
        if stored is None:
            return None
        pipeline, _, joined = stored.decode().rpartition("\n")
        starts = range(0, len(joined), DIGEST_CHARS)
        return Pinned(pipeline, [joined[start : start + DIGEST_CHARS] for start in starts])

    async def _release(self, alert_id: str) -> None:
        pinned = await self._pinned(alert_id)
        if pinned is not None:
            await run_script(self._redis, release_specimens(self._streams, alert_id, pinned, keep_ms=self._keep_ms))


def _belongs_to_change(specimen: Specimen, alert: Alert) -> bool:
    interaction = specimen.interaction
    since = alert.began_at or alert.fired_at
    of_segment = alert.segment is None or alert.segment in {
        f"{name}={value}" for name, value in interaction.segments.items()
    }
    if interaction.run != alert.run or interaction.occurred_at < since or not of_segment or alert.baseline is None:
        return False
    score = specimen.score_of(alert)
    if score is None:
        return False
    return score < alert.baseline if alert.direction == "fall" else score > alert.baseline


def pin_specimens(
    streams: Streams, alert_id: str, pipeline: str, digests: Sequence[str], *, most: int = PINNED_MOST
) -> ScriptCall[list[int]]:
    """Return the call that pins specimens; its reply has 1 for each that is kept and pinned."""
    keys = (*_keys(streams, pipeline), *(streams.specimen(digest) for digest in digests))
    return ScriptCall(PIN, keys, (alert_id, pipeline, most, *digests), list)


def release_specimens(streams: Streams, alert_id: str, pinned: Pinned, *, keep_ms: int) -> ScriptCall[int]:
    """Return the call that releases the specimens of an alert; its reply is the number that no alert pins any more."""
    keys = (*_keys(streams, pinned.pipeline), *(streams.specimen(digest) for digest in pinned.digests))
    return ScriptCall(RELEASE, keys, (alert_id, keep_ms, *pinned.digests), int)


def _keys(streams: Streams, pipeline: str) -> tuple[str, str, str]:
    return streams.specimen_order(pipeline_digest(pipeline)), streams.specimen_pins, streams.specimen_pinned
