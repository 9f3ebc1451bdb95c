"""Forms and orders of users of the page.

A form of another site is refused. Each order is in a stream with its user, time and reason before it is carried out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import Field, JsonValue, StringConstraints
from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Entry, Unreadable
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_schemas.base import UtcTime, WireModel
from ragtide_schemas.printable import printable

from .admission import GuardContext
from .problems import HttpProblem
from .proxy import is_own_origin, other_origin, seen
from .viewers import Viewer

REFUSED: Final = "the form came from another site: open the page of ragtide, and send the form there"

KEPT: Final = 100_000
"""Newest orders that the stream keeps."""
FORM_BYTES: Final = 65_536
"""Most bytes of a form."""
FORM_FIELDS: Final = 100
REASON_CHARS: Final = 500
Text = Annotated[str, StringConstraints(max_length=1000)]


async def same_site(request: Request) -> None:
    """Let a request pass that a page of this service sent, or a client with a token of its own.

    Raises:
        HttpProblem: 403, a page of another site sent it, or a program that says nothing of its origin.
    """
    fetched = request.headers.get("sec-fetch-site")
    if fetched is not None:
        if fetched != "same-origin":
            raise HttpProblem(403, REFUSED)
        return
    origin = request.headers.get("origin")
    if origin is not None:
        host = request.headers.get("host")
        if not is_own_origin(origin, host, seen(request.scope).forwarded_host):
            raise HttpProblem(403, f"the form came from another site: {other_origin(origin, host)}")
        return
    # A browser never adds a token by itself.
    if "authorization" not in request.headers:
        raise HttpProblem(403, "the form names no origin: send it from a browser, or send a token with it")


class PageOrder(WireModel):
    """An order that a user gave on the page."""

    at: UtcTime
    """Time of the order."""
    user: Text
    """Name of the user: of the token, or the name in the trusted header."""
    action: Text
    """The order, such as `silence` or `retry`."""
    subject: Text
    """The object of the order, such as `alert A-1`."""
    reason: Text = ""
    """The reason that the user gave."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of the order."""


async def record_order(
    shared: GuardContext,
    viewer: Viewer,
    *,
    action: str,
    subject: str,
    reason: str = "",
    details: Mapping[str, JsonValue] | None = None,
) -> str:
    """Add an order to the stream of orders, and return its id there. Call it before the order is carried out.

    Raises:
        redis.RedisError: Redis failed; do not carry the order out.
    """
    order = PageOrder(
        at=utc_now(),
        user=viewer.name,
        action=action,
        subject=printable(subject)[:1000],
        reason=printable(reason)[:1000],
        details=dict(details or {}),
    )
    key = Streams(shared.settings.prefix, 0).orders
    entry_id = await shared.redis.xadd(key, {DATA_FIELD: order.encode()}, maxlen=KEPT, approximate=True)
    return entry_id.decode() if isinstance(entry_id, bytes) else entry_id


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form as a browser sends it; of a field that comes twice, the last.

    Raises:
        HttpProblem: 413 or 422, the body is too large, or it is no form.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise HttpProblem(413, f"the form has more than {FORM_BYTES:,} bytes: shorten its texts", close=True)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS, errors="strict")
    except ValueError:
        raise HttpProblem(
            422, f"the form is not UTF-8, or has more than {FORM_FIELDS} fields: load the page again"
        ) from None
    return {name: value.replace("\r\n", "\n").strip() for name, value in pairs}


def reason_in(fields: Mapping[str, str]) -> str:
    """Return the reason in a form.

    Raises:
        HttpProblem: 422, there is none, or it is too long.
    """
    reason = fields.get("reason", "")
    if not reason:
        raise HttpProblem(422, "the order has no reason: write a short reason, so that colleagues understand it later")
    if len(reason) > REASON_CHARS:
        raise HttpProblem(422, f"the reason has {len(reason):,} characters: write at most {REASON_CHARS}")
    return reason


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
        before: id of the order before which the page begins; the newest unless given.
        count: orders of a page.

    Raises:
        redis.RedisError: Redis failed.
    """
    key = Streams(settings.prefix, 0).orders
    reply: Any = await redis.xrevrange(key, max="+" if before is None else f"({before}", count=count + 1)
    entries = [Entry(entry_id.decode(), fields) for entry_id, fields in reply]
    unreadable = Unreadable("order")
    orders = [(entry.entry_id, unreadable.decode(PageOrder, key, entry)) for entry in entries[:count]]
    return OrdersPage(
        [(entry_id, order) for entry_id, order in orders if order is not None],
        entries[count - 1].entry_id if len(entries) > count else None,
        unreadable.count,
    )
