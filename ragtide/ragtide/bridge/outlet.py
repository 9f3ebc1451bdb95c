"""Sends the entries of streams to a broker, each at least once. Redis keeps the position, in a consumer group.

The order of the steps: read entries of the group, send them, wait until the broker has confirmed all, acknowledge them
in Redis. A kill in between sends them again, with the same message ids.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal

from ragtide_consumers.alert_reading import AlertGroupSource
from ragtide_runtime.redis.entries import Entry, Unreadable, payload_of
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import read_json_object
from ragtide_schemas.metric_event import TICK

from .addresses import BrokerAddress
from .links import Outgoing

Output = Literal["alerts", "events", "estimates"]
"""What is sent to a broker."""

KEYS: Final[Mapping[Output, tuple[str, ...]]] = {
    "alerts": ("alert_id",),
    "events": ("interaction_id",),
    "estimates": ("pipeline", "segment", "metric", "labeler"),
}
"""The fields that are the key of a message: messages of one key keep their order."""


def stream_of(output: Output, streams: Streams) -> str:
    """Return the stream whose entries are sent.

    Args:
        output: what is sent.
    """
    return streams.metrics if output == "events" else streams.alerts if output == "alerts" else streams.estimates


def group_of(output: Output, address: BrokerAddress) -> str:
    """Return the name of the consumer group that holds the position; each topic has its own.

    Args:
        output: what is sent.
    """
    return f"bridge-{output}-{blake2b(address.shown.encode(), digest_size=4).hexdigest()}"


class Outlet:
    """Makes messages of entries.

    Args:
        output: what is sent.
        layout: partitions of the deployment.
    """

    def __init__(self, output: Output, layout: Layout) -> None:
        self.output = output
        self.streams = [stream_of(output, streams) for streams in layout.all()]
        self.unreadable = Unreadable(output.removesuffix("s"))

    def messages(self, entries: Sequence[tuple[str, Entry]]) -> list[Outgoing]:
        """Return the messages of entries, without ticks; an entry that is no JSON object is counted and left out."""
        outgoing = []
        for stream, entry in entries:
            try:
                payload = payload_of(entry.fields, self.output.removesuffix("s"))
                fields = read_json_object(payload, None)
            except InvalidEntryError as error:
                self.unreadable.add(f"{entry.entry_id} of {stream}", error)
                continue
            if self.output == "events" and fields.get("unit") == TICK:
                continue
            key = "/".join(str(fields[name]) for name in KEYS[self.output] if fields.get(name) is not None)
            outgoing.append(Outgoing(payload, key, f"{stream}/{entry.entry_id}"))
        return outgoing


def source_of(outlet: Outlet, address: BrokerAddress, redis: Any, *, at_once: int) -> AlertGroupSource:
    """Return the reader of the entries that are to be sent. It begins with the first entry that a stream still holds.

    Args:
        outlet: makes the messages.
        redis: client.
        at_once: most entries of a stream that are read at once.
    """
    return AlertGroupSource(
        redis,
        outlet.streams,
        group_of(outlet.output, address),
        from_start=True,
        claim_idle_s=CLAIM_IDLE_S,
        at_once=at_once,
    )


CLAIM_IDLE_S: Final = 15.0
"""Seconds after which another bridge sends the entries that a dead one had read."""
