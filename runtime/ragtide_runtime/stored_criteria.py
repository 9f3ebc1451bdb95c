"""Criteria that operators write while the deployment runs, on the page or with a command. Redis holds them.

The settings may have criteria, too. If both have a name, the criterion of the settings is the one that is asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, cast
from uuid import uuid4

import structlog
from pydantic import StringConstraints, ValidationError
from redis.asyncio import Redis

from ragtide_schemas.base import UtcTime, WireModel, describe
from ragtide_schemas.criterion import CRITERIA_MAX, Criterion, CriterionState

from .redis.keys import CriteriaField, Streams
from .settings.labelers import check_criteria
from .settings.model import Settings

NO_REVISION: Final = b""
"""Revision before the first criterion was stored."""

log = structlog.get_logger("ragtide.criteria")


class StoredCriterion(WireModel):
    """A criterion that an operator wrote."""

    criterion: Criterion
    """The criterion."""
    by: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """Person who wrote or changed it last."""
    at: UtcTime
    """Time of the last change."""
    paused: bool = False
    """Whether it is not asked for now; its numbers stay."""


@dataclass(frozen=True, slots=True)
class StoredCriteria:
    """The criteria of the store at one moment."""

    revision: bytes = NO_REVISION
    """Token of the last change."""
    criteria: tuple[StoredCriterion, ...] = ()
    """By name."""
    unreadable: tuple[str, ...] = ()
    """Names of entries that this release cannot read; they are not asked."""

    def find(self, name: str) -> StoredCriterion | None:
        """Return the criterion of a name; None if there is none."""
        return next((stored for stored in self.criteria if stored.criterion.name == name), None)


def criteria_in_force(of_settings: Iterable[Criterion], stored: StoredCriteria) -> tuple[Criterion, ...]:
    """Return the criteria that are asked: those of the settings, then those of the store that are not paused.

    Args:
        of_settings: they win where a name is in both.
        stored: criteria of the store.
    """
    own = tuple(of_settings)
    states = states_of(own, stored)
    criteria = (entry.criterion for entry in stored.criteria)
    return (*own, *(criterion for criterion in criteria if states[criterion.name] == "asked"))


def states_of(of_settings: Iterable[Criterion], stored: StoredCriteria) -> Mapping[str, CriterionState]:
    """Return whether each criterion of the store is asked, by name; else why not."""
    names = {criterion.name for criterion in of_settings}
    room = CRITERIA_MAX - len(names)
    states: dict[str, CriterionState] = {}
    for entry in stored.criteria:
        name = entry.criterion.name
        if name in names:
            states[name] = "in the settings"
        elif entry.paused:
            states[name] = "paused"
        elif not _can_be_asked(entry.criterion):
            states[name] = "not possible"
        elif room > 0:
            states[name] = "asked"
            room -= 1
        else:
            states[name] = "too many"
    return states


def with_stored_criteria(settings: Settings, stored: StoredCriteria) -> Settings:
    """Return settings whose `judge.criteria` are all that are asked: those of the settings and those of the store."""
    judge = settings.judge.model_copy(update={"criteria": criteria_in_force(settings.judge.criteria, stored)})
    return settings.model_copy(update={"judge": judge})


def _can_be_asked(criterion: Criterion) -> bool:
    try:
        check_criteria([criterion])
    except ValueError:
        return False
    return True


async def read_revision(redis: Redis, prefix: str) -> bytes:
    """Return the token of the last change, to poll.

    Raises:
        redis.RedisError: Redis failed.
    """
    revision = await redis.hget(Streams(prefix, 0).criteria, CriteriaField.REVISION)
    return NO_REVISION if revision is None else cast("bytes", revision)


async def read_stored_criteria(redis: Redis, prefix: str) -> StoredCriteria:
    """Return the criteria of the store. An entry that cannot be read is left out with a warning.

    Raises:
        redis.RedisError: Redis failed.
    """
    fields = cast("dict[bytes, bytes]", await redis.hgetall(Streams(prefix, 0).criteria))
    criteria, unreadable = [], []
    for field, data in sorted(fields.items()):
        name = field.decode(errors="replace")
        if name == CriteriaField.REVISION:
            continue
        try:
            stored = StoredCriterion.model_validate_json(data)
        except ValidationError as error:
            detail = describe(error)
        else:
            if stored.criterion.name == name:
                criteria.append(stored)
                continue
            detail = f"its name is {stored.criterion.name}"
        log.warning("a stored criterion cannot be read and is not asked", criterion=name[:200], detail=detail)
        unreadable.append(name[:200])
    return StoredCriteria(fields.get(CriteriaField.REVISION.encode(), NO_REVISION), tuple(criteria), tuple(unreadable))


async def store_criterion(
    redis: Redis, prefix: str, stored: StoredCriterion, of_settings: Sequence[Criterion] = ()
) -> StoredCriterion | None:
    """Store a criterion in place of one with the same name, and return the one before; None if it is new.

    Raises:
        ValueError: the settings have a criterion of this name, there are `CRITERIA_MAX` criteria already, or this
            release cannot ask it.
        redis.RedisError: Redis failed.
    """
    name = stored.criterion.name
    if any(criterion.name == name for criterion in of_settings):
        raise ValueError(f"the settings have a criterion {name}: change it there, or use another name")
    check_criteria([stored.criterion])
    known = await read_stored_criteria(redis, prefix)
    before = known.find(name)
    if before is None and len(known.criteria) + len(known.unreadable) + len(of_settings) >= CRITERIA_MAX:
        raise ValueError(f"there are {CRITERIA_MAX} criteria: remove one first")
    await _write(redis, prefix, name, stored.encode())
    return before


async def remove_criterion(redis: Redis, prefix: str, name: str) -> bool:
    """Remove a criterion of the store, and return whether it was there. Its numbers stay.

    Raises:
        redis.RedisError: Redis failed.
    """
    key = Streams(prefix, 0).criteria
    if not await redis.hexists(key, name):
        return False
    await _write(redis, prefix, name, None)
    return True


async def _write(redis: Redis, prefix: str, name: str, data: bytes | str | None) -> None:
    key = Streams(prefix, 0).criteria
    async with redis.pipeline(transaction=True) as pipe:
        if data is None:
            pipe.hdel(key, name)
        else:
            pipe.hset(key, name, data)
        pipe.hset(key, CriteriaField.REVISION, uuid4().hex)
        await pipe.execute()
