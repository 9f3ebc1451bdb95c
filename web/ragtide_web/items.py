"""Publishes the interactions and the feedback of requests, and says of each item what became of it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ragtide_producers.publishing.publish_command import (
    Publication,
    PublishCommand,
    Routing,
    feedback_command,
)
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_schemas import Feedback, InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.base import is_left_out, read_json_object
from ragtide_schemas.printable import printable

from .access import Client

BATCH: Final = 200
"""Items that are published in one round trip."""
ITEMS_TOLD_MAX: Final = 10_000
"""Most items of which an answer tells the outcome one by one. Of more items it tells those with a problem."""

NO_OBJECT: Final = "the item is not a JSON object: send an object with the schema's fields"

Outcome = Literal["published", "duplicate", "dropped", "invalid", "forbidden", "full"]


class PostedItem(BaseModel):
    """What became of one item of a request."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    index: int
    """Place of the item in the request, from 0; of NDJSON the number of the line without empty lines."""
    status: Outcome
    """`published`; `duplicate`: it is there already; `dropped` by the policy of a full stream; `invalid`: mend it;
    `forbidden`: the token is not for its pipeline; `full`: send it again later."""
    interaction_id: str | None = None
    """Id of the interaction; absent if it cannot be read."""
    detail: str | None = None
    """The reason with field, value and remedy; absent for an item that was taken."""


class PostedItems(BaseModel):
    """What became of the items of a request."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    published: int = 0
    """Items that are in Redis now."""
    duplicates: int = 0
    """Items that were there already."""
    dropped: int = 0
    """Items that the policy of a full stream dropped."""
    invalid: int = 0
    """Items that must be mended first."""
    forbidden: int = 0
    """Items of pipelines that the token is not for."""
    full: int = 0
    """Items without room: send them, or the whole request, again later."""
    items: list[PostedItem]
    """Each item; of more than 10,000 items only those with a problem."""
    detail: str | None = None
    """Why the rest of the request was not read; absent if all of it was."""


@dataclass(slots=True)
class Answers:
    """The outcomes of the items of one request."""

    counts: Counter[str] = field(default_factory=Counter)
    told: list[PostedItem] = field(default_factory=list)

    def add(self, one: PostedItem) -> None:
        """Add the outcome of an item."""
        self.counts[one.status] += 1
        if len(self.told) == ITEMS_TOLD_MAX:
            self.told = [item for item in self.told if item.detail is not None]
        if one.detail is not None or self.counts.total() <= ITEMS_TOLD_MAX:
            self.told.append(one)

    @property
    def too_many_problems(self) -> bool:
        """Whether so many items have a problem that the rest is not read."""
        return len(self.told) >= ITEMS_TOLD_MAX and all(item.detail is not None for item in self.told)

    def answer(self, detail: str | None = None) -> PostedItems:
        """Return the answer to the request."""
        names = {"duplicate": "duplicates"}
        counts = {names.get(name, name): number for name, number in self.counts.items()}
        return PostedItems(items=sorted(self.told, key=lambda item: item.index), detail=detail, **counts)

    def status(self) -> int:
        """Return the HTTP status: 200 unless there was no room, or nothing could be used."""
        if self.counts["full"]:
            return 429
        unusable = self.counts["invalid"] + self.counts["forbidden"]
        if unusable and unusable == self.counts.total():
            return 403 if self.counts["forbidden"] == unusable else 422
        return 200


@dataclass(frozen=True, slots=True)
class ItemKind:
    """One kind of items: interactions or feedback."""

    name: str
    read: Callable[[dict[str, Any], int], RagInteraction | Feedback]
    """Returns the item with these fields at this place of the request; raises InvalidEntryError."""
    command: Callable[[Any], PublishCommand]


def interactions(routing: Routing, idempotency_key: str | None) -> ItemKind:
    """Return the kind of interactions.

    Args:
        routing: how they are published.
        idempotency_key: key of the request, from which items without an id get an id that a retry has, too.
    """

    def read(fields: dict[str, Any], index: int) -> RagInteraction:
        fields = {**fields, "source": "http"} if is_left_out(fields.get("source")) else fields
        if idempotency_key and is_left_out(fields.get("interaction_id")):
            digest = blake2b(idempotency_key.encode("utf-8", "replace"), digest_size=16).hexdigest()
            fields["interaction_id"] = f"http-{digest}-{index}"
        return RagInteraction.from_fields(fields)

    return ItemKind("interaction", read, routing.command)


def feedback(routing: Routing) -> ItemKind:
    """Return the kind of feedback."""
    return ItemKind(
        "feedback", lambda fields, _: Feedback.from_fields(fields), lambda item: feedback_command(routing.layout, item)
    )


_INDEX: Final = "\\0index"
"""A key that no JSON of a client has after reading: the place of the item."""


async def publish(
    redis: Redis,
    kind: ItemKind,
    client: Client,
    items: AsyncIterator[dict[str, Any] | InvalidEntryError],
    answers: Answers,
) -> None:
    """Publish items in batches, until one finds no room or too many have a problem.

    Args:
        redis: client of Redis.
        kind: the kind of the items.
        client: the client that sent them.
        items: fields of each item, or why they cannot be read.
        answers: takes the outcomes; also those of the items before an error.

    Raises:
        redis.RedisError: Redis failed; the items of this batch may or may not be published.
    """
    commands: list[tuple[int, PublishCommand]] = []
    index = -1
    async for given in items:
        index += 1
        found = _command(kind, client, given, index)
        if isinstance(found, PostedItem):
            answers.add(found)
        else:
            commands.append((index, found))
        if len(commands) == BATCH:
            await _send(redis, commands, answers)
            commands = []
        if answers.counts["full"] or answers.too_many_problems:
            return
    if commands:
        await _send(redis, commands, answers)


def _command(
    kind: ItemKind, client: Client, given: dict[str, Any] | InvalidEntryError, index: int
) -> PublishCommand | PostedItem:
    if isinstance(given, InvalidEntryError):
        return PostedItem(index=index, status="invalid", detail=given.detail)
    named = given.get("interaction_id")
    shown = printable(named[:200]) if isinstance(named, str) else None
    try:
        item = kind.read(given, index)
        if not client.may_use(item.pipeline):
            return PostedItem(
                index=index,
                status="forbidden",
                interaction_id=item.interaction_id,
                detail=f"the token {client.name!r} is not for the pipeline {item.pipeline!r}: change its pipelines",
            )
        return kind.command(item)
    except InvalidEntryError as error:
        return PostedItem(index=index, status="invalid", interaction_id=shown, detail=error.detail)


async def _send(redis: Redis, commands: Sequence[tuple[int, PublishCommand]], answers: Answers) -> None:
    outcomes = await run_scripts(redis, [command.script for _, command in commands])
    for (index, command), outcome in zip(commands, outcomes, strict=True):
        answers.add(_answer(index, command, outcome))


def _answer(index: int, command: PublishCommand, outcome: Publication | None) -> PostedItem:
    name = command.interaction_id
    if outcome is None:
        detail = "the stream has no room: send it again later, start workers, or choose another producer.policy"
        return PostedItem(index=index, status="full", interaction_id=name, detail=detail)
    if outcome.dropped is not None:
        detail = f"the stream is full, and the policy {outcome.dropped} dropped it"
        return PostedItem(index=index, status="dropped", interaction_id=name, detail=detail)
    return PostedItem(index=index, status="published" if outcome.added else "duplicate", interaction_id=name)


def items_in_json(body: bytes) -> AsyncIterator[dict[str, Any] | InvalidEntryError]:
    """Return the items of a body: one JSON object, or a list of objects.

    Raises:
        ValueError: the body is not JSON, or neither an object nor a list.
    """
    value = from_json(body, allow_inf_nan=False, cache_strings="keys")
    if not isinstance(value, dict | list):
        raise ValueError("it is neither an object nor a list of objects")  # noqa: TRY004 - a value of the client
    return _items([value] if isinstance(value, dict) else value)


async def _items(values: Sequence[Any]) -> AsyncIterator[dict[str, Any] | InvalidEntryError]:
    for value in values:
        yield value if isinstance(value, dict) else InvalidEntryError(Reason.INVALID, NO_OBJECT)


async def items_in_lines(lines: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any] | InvalidEntryError]:
    """Yield the items of lines, each a JSON object."""
    async for line in lines:
        try:
            yield read_json_object(line)
        except InvalidEntryError as error:
            yield error


REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError)
