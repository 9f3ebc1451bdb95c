"""Reads the orders that users gave, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from ragtide_runtime.redis.entry_ids import Entry
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.unreadable import Unreadable
from ragtide_runtime.settings.model import Settings

from .orders import PageOrder


@dataclass(frozen=True, slots=True)
class OrdersPage:
    """Orders of users, the newest first."""

    orders: Sequence[tuple[str, PageOrder]]
    """Ids in the stream, and the orders."""
    older: str | None
    """Id before which the next page begins; None on the last page."""
    unreadable: int


async def read_orders(redis: Redis, settings: Settings, *, before: str | None = None, count: int = 50) -> OrdersPage:
    """Return a page of the orders that users gave.

    Args:
        redis: client.
        settings: of the deployment.
        before: id of the order before which the page begins; the newest unless given.
        count: orders of a page.

    Raises:
        redis.RedisError: Redis failed.
    """
    key = Streams(settings.prefix, 0).orders
    reply: Any = await redis.xrevrange(key, max="+" if before is None else f"({before}", count=count + 1)
    entries = [Entry(entry_id.decode(), fields) for entry_id, fields in reply]
    unreadable = Unreadable("order")
    found = [(one.entry_id, unreadable.decode(PageOrder, key, one)) for one in entries[:count]]
    return OrdersPage(
        [(entry_id, order) for entry_id, order in found if order is not None],
        entries[count - 1].entry_id if len(entries) > count else None,
        unreadable.count,
    )
