"""Publishes the interactions and the feedback of requests, and says of each item what became of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from redis.asyncio import Redis

from ragtide_producers.errors import ItemsTooLargeError
from ragtide_producers.ingest.items import read_item, sent_interaction
from ragtide_producers.ingest.split_items import split_items
from ragtide_producers.publishing.batch_publisher import publish_commands
from ragtide_producers.publishing.routes import FeedbackRoute, InteractionRoute, Publication, PublishCommand, Route
from ragtide_schemas import Feedback, InvalidEntryError, RagInteraction
from ragtide_schemas.descriptions import DescribedModel
from ragtide_schemas.printable import printable
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from ..guard.access import Client
from ..guard.memory import INLINE_BYTES
from ..guard.problems import HttpProblem, too_large

BATCH: Final = 200
"""Most items that are published in one round trip."""
BATCH_BYTES: Final = 1024 * 1024
"""Bytes of items after which they are published, so that few of them are in memory."""
ITEMS_LISTED_MAX: Final = 10_000
"""Most items whose outcomes an answer lists. Of more items it lists those with a problem."""

Outcome = Literal["published", "duplicate", "dropped", "invalid", "forbidden", "full"]


class PostedItem(DescribedModel):
    """What became of one item of a request."""

    index: int
    """Place of the item in the request, from 0; of NDJSON the number of the line without empty lines."""
    status: Outcome
    """`published`; `duplicate`: it is there already; `dropped` by the policy of a full stream; `invalid`: mend it;
    `forbidden`: the token is not for its pipeline; `full`: send it again later."""
    interaction_id: str | None = None
    """Id of the interaction; absent if it cannot be read."""
    detail: str | None = None
    """The reason with field, value and remedy; absent for an item that was taken."""
    left_out: dict[str, int] | None = None
    """Values that have no plain meaning and were left out of the item, by name, such as `metadata.score`; absent if
    there are none."""


class PostedItems(DescribedModel):
    """What became of the items of a request."""

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
    listed: list[PostedItem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, posted: PostedItem) -> None:
        """Add the outcome of an item."""
        self.counts[posted.status] += 1
        if len(self.listed) == ITEMS_LISTED_MAX:
            self.listed = [item for item in self.listed if item.detail is not None]
        if posted.left_out is not None:
            self.left_out.update(posted.left_out)
        if posted.detail is not None or self.counts.total() <= ITEMS_LISTED_MAX:
            self.listed.append(posted)

    @property
    def too_many_problems(self) -> bool:
        """Whether so many items have a problem that the rest is not read."""
        return len(self.listed) >= ITEMS_LISTED_MAX and all(item.detail is not None for item in self.listed)

    def answer(self, detail: str | None = None) -> PostedItems:
        """Return the answer to the request."""
        names = {"duplicate": "duplicates"}
        counts = {names.get(name, name): number for name, number in self.counts.items()}
        return PostedItems(items=sorted(self.listed, key=lambda item: item.index), detail=detail, **counts)

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
    route: Route
    """Destination of the items."""


def interactions(routing: InteractionRoute, idempotency_key: str | None) -> ItemKind:
    """Return the kind of interactions.

    Args:
        routing: how they are published.
        idempotency_key: key of the request, from which items without an id get an id that a retry has, too.
    """

    def read(fields: dict[str, Any], index: int) -> RagInteraction:
        return sent_interaction(fields, source="http", key=idempotency_key, index=index)

    return ItemKind("interaction", read, routing)


def feedback(routing: InteractionRoute) -> ItemKind:
    """Return the kind of feedback."""
    return ItemKind(
        "feedback", lambda fields, _: sent(Feedback.from_fields, fields, utc_now()), FeedbackRoute(routing.layout)
    )


@dataclass(frozen=True, slots=True)
class ReadItem:
    """An item of a request that can be published."""

    index: int
    command: PublishCommand
    left_out: dict[str, int] | None


async def publish(
    redis: Redis, kind: ItemKind, client: Client, items: AsyncIterator[bytes], answers: Answers, max_bytes: int | None
) -> None:
    """Publish items in batches, until one finds no room or too many have a problem.

    Args:
        redis: client of Redis.
        kind: the kind of the items.
        client: the client that sent them.
        items: the JSON of each item.
        answers: takes the outcomes; also those of the items before an error.
        max_bytes: most bytes of one item; None for no limit.

    Raises:
        redis.RedisError: Redis failed; the items of this batch may or may not be published.
    """
    index = 0
    async for batch in _batches(items):
        read = partial(_read_batch, kind, client, batch, index, max_bytes)
        size = sum(len(item) for item in batch)
        read_items = read() if size <= INLINE_BYTES else await asyncio.to_thread(read)
        for item in read_items:
            if isinstance(item, PostedItem):
                answers.add(item)
        commands = [item for item in read_items if isinstance(item, ReadItem)]
        if commands:
            outcomes = await publish_commands(redis, kind.route, [item.command for item in commands])
            for command, outcome in zip(commands, outcomes, strict=True):
                answers.add(_answer(command, outcome))
        index += len(batch)
        if answers.counts["full"] or answers.too_many_problems:
            return


async def _batches(items: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    try:
        async for item in items:
            batch.append(item)
            size += len(item)
            if len(batch) == BATCH or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except HttpProblem:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _read_batch(
    kind: ItemKind, client: Client, batch: Sequence[bytes], first: int, max_bytes: int | None
) -> list[ReadItem | PostedItem]:
    return [_read_posted(kind, client, item, index, max_bytes) for index, item in enumerate(batch, first)]


def _read_posted(
    kind: ItemKind, client: Client, payload: bytes, index: int, max_bytes: int | None
) -> ReadItem | PostedItem:
    shown = None
    try:
        fields = read_item(payload, max_bytes)
        name = fields.get("interaction_id")
        shown = printable(name[:200]) if isinstance(name, str) else None
        item = kind.read(fields, index)
        if not client.may_use(item.pipeline):
            return PostedItem(
                index=index,
                status="forbidden",
                interaction_id=item.interaction_id,
                detail=f"the token {client.name!r} is not for the pipeline {item.pipeline!r}: change its pipelines",
            )
        return ReadItem(index, kind.route.command(item), dict(item.left_out) or None)
    except InvalidEntryError as error:
        return PostedItem(index=index, status="invalid", interaction_id=shown, detail=error.detail)


def _answer(item: ReadItem, outcome: Publication | None) -> PostedItem:
    status: Outcome = "duplicate"
    detail = None
    if outcome is None:
        status = "full"
        detail = "the stream has no room: send it again later, start workers, or choose another producer.policy"
    elif outcome.dropped is not None:
        status, detail = "dropped", f"the stream is full, and the policy {outcome.dropped} dropped it"
    elif outcome.added:
        status = "published"
    name = item.command.interaction_id
    return PostedItem(index=item.index, status=status, interaction_id=name, detail=detail, left_out=item.left_out)


class ItemsInJson(NamedTuple):
    """The items of a body of JSON: one object, or those of a list."""

    items: list[bytes]
    """Each is read alone: what is wrong with one is its own matter."""
    problem: HttpProblem | None
    """Why the body has no further item that can be found; None if it was read to its end."""


ITEMS_MAX: Final = 100_000
"""Most items of a list in JSON; lines of NDJSON have no limit."""


def items_in_json(parts: Iterable[bytes]) -> ItemsInJson:
    """Return the items of a body, up to the place from which it is no JSON of items.

    Raises:
        HttpProblem: 413, the body has too many items, or one is too large.
    """
    items: list[bytes] = []
    problem: HttpProblem | None = None
    try:
        items.extend(split_items(parts, ITEMS_MAX, ": send NDJSON, or"))
    except ItemsTooLargeError as error:
        raise too_large(str(error)) from None
    except ValueError as error:
        where = f"after item {len(items) - 1}: " if items else ""
        detail = f"{where}{printable(str(error))[:200]}"
        problem = HttpProblem(400, f"the body is not the JSON of items ({detail}): send an object or a list")
    return ItemsInJson(items, problem)
