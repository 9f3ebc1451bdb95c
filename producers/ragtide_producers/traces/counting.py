"""Counts the elements of a request of traces in its bytes, before they are decoded and take far more memory.

The fields are those of opentelemetry-proto (trace.proto, common.proto, resource.proto). The scan is linear: each byte
is looked at once, or skipped with the text that it belongs to.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ragtide_runtime.outside.json_values import has_more_values
from ragtide_schemas.printable import printable

from ..errors import InvalidTracesError, TooManySpansError

REMEDY: Final = "send the body that an OpenTelemetry exporter sends, with its Content-Type"
_NO_PROTOBUF: Final = f"the body is not a request of traces in protobuf: {REMEDY}"
RESOURCES_MAX: Final = 10_000
"""Most resources of one request; a Collector sends one for each application."""
SCOPES_MAX: Final = 50_000
"""Most instrumentation scopes of one request."""
REQUEST_SPANS_MAX: Final = 100_000
"""Most spans of one request. An SDK sends 512, a Collector 8,192 unless configured otherwise."""
ELEMENTS_MAX: Final = 1_000_000
"""Most elements of one request: resources, scopes, spans, events, links, attributes, and the values in lists and
mappings. Lists of plain numbers, as embeddings are, do not count."""
FIELDS_MAX: Final = 100
"""Most fields of one element that are no elements themselves, known or not. A span has 16."""
NESTED_MAX: Final = 100
"""Levels of messages in messages, as protobuf has it."""
FREE_BYTES: Final = 16_384
"""Bodies up to this are not scanned: they have no room for too many elements."""
JSON_PARTS_MAX: Final = 1_000_000
"""Most objects and lists of a request in JSON, which needs about two for each attribute."""
JSON_COMMAS_MAX: Final = 4_000_000

_LIMITS: Final[Mapping[str, int]] = {"resources": RESOURCES_MAX, "scopes": SCOPES_MAX, "spans": REQUEST_SPANS_MAX}


class CountedMessage(NamedTuple):
    """A message of the wire, with the fields that hold further messages."""

    name: str
    children: "dict[int, CountedMessage]"


_VALUE: Final = CountedMessage("values", {})
_PAIR: Final = CountedMessage("attributes", {2: _VALUE})
_ITEMS: Final = CountedMessage("lists", {1: _VALUE})
_VALUE.children.update({5: _ITEMS, 6: CountedMessage("mappings", {1: _PAIR})})
_SPAN_PARTS: Final = {
    9: _PAIR,
    11: CountedMessage("events", {3: _PAIR}),
    13: CountedMessage("links", {4: _PAIR}),
    15: CountedMessage("statuses", {}),
}
_SCOPE: Final = CountedMessage(
    "scopes", {1: CountedMessage("scope names", {3: _PAIR}), 2: CountedMessage("spans", _SPAN_PARTS)}
)
_RESOURCE: Final = CountedMessage("resource attributes", {1: _PAIR, 3: CountedMessage("entities", {})})
_REQUEST: Final = CountedMessage("requests", {1: CountedMessage("resources", {1: _RESOURCE, 2: _SCOPE, 1000: _SCOPE})})


def check_protobuf(body: bytes) -> None:  # noqa: PLR0912, PLR0915 - a call for each field would cost more than the field
    """Check that a request in protobuf has no more elements than one request may have.

    Raises:
        TooManySpansError: it has.
        InvalidTracesError: it is no protobuf.
    """
    if len(body) <= FREE_BYTES:
        return
    counts = dict.fromkeys(_LIMITS, 0)
    left = ELEMENTS_MAX
    at, end, message, fields = 0, len(body), _REQUEST, 0
    above: list[tuple[int, CountedMessage, int]] = []
    try:
        while True:
            while at >= end:
                if at > end:
                    raise InvalidTracesError(_NO_PROTOBUF)
                if not above:
                    return
                end, message, fields = above.pop()
            tag = body[at]
            at += 1
            if tag > 127:
                tag, at = _varint(body, tag & 127, at)
            kind = tag & 7
            if kind == 2:
                size = body[at]
                at += 1
                if size > 127:
                    size, at = _varint(body, size & 127, at)
                child = message.children.get(tag >> 3)
                if child is not None:
                    if message is _PAIR:
                        fields += 1  # the one value of an attribute is no element of its own
                    else:
                        left -= 1
                    if child.name in counts:
                        counts[child.name] += 1
                        if counts[child.name] > _LIMITS[child.name]:
                            raise _too_many(child.name)
                    if left < 0:
                        raise _too_many("elements")
                    if child is _ITEMS and _is_vector(body, at, size):
                        at += size
                    elif size and fields <= FIELDS_MAX:
                        if at + size > end or len(above) == NESTED_MAX:
                            raise InvalidTracesError(_NO_PROTOBUF)
                        above.append((end, message, fields))
                        end, message, fields = at + size, child, 0
                    if fields <= FIELDS_MAX:
                        continue
                at += size
            elif kind == 0:
                while body[at] > 127:
                    at += 1
                at += 1
            elif kind == 1:
                at += 8
            elif kind == 5:
                at += 4
            else:  # groups, which this protocol has never had
                raise InvalidTracesError(_NO_PROTOBUF)
            fields += 1
            if fields > FIELDS_MAX:
                raise TooManySpansError(
                    f"an element of the request has more than {FIELDS_MAX} fields of its own: send what an "
                    "OpenTelemetry exporter sends"
                )
    except IndexError:
        raise InvalidTracesError(_NO_PROTOBUF) from None


def _varint(body: bytes, value: int, at: int) -> tuple[int, int]:
    for shift in range(7, 70, 7):
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError


def _is_vector(body: bytes, at: int, size: int) -> bool:
    if size < 11 or size % 11:
        return False
    values = body[at : at + size]
    return all(values[place::11].count(byte) * 11 == size for place, byte in enumerate(b"\n\t!"))


def check_json(body: bytes) -> None:
    """Check that a request in JSON has no more objects and lists than one request may have, before it is parsed.

    Raises:
        TooManySpansError: it has.
    """
    if len(body) > FREE_BYTES and has_more_values(body, JSON_PARTS_MAX, JSON_COMMAS_MAX):
        raise _too_many("elements")


def check_counts(resources: int, scopes: int, spans: int) -> None:
    """Check the numbers of a request that was decoded.

    Raises:
        TooManySpansError: one is above its limit.
    """
    for (name, limit), count in zip(_LIMITS.items(), (resources, scopes, spans), strict=True):
        if count > limit:
            raise _too_many(name)


def _too_many(name: str) -> TooManySpansError:
    limit = _LIMITS.get(name, ELEMENTS_MAX)
    what = "attributes, events, links and other elements" if name == "elements" else printable(name)
    return TooManySpansError(f"the request has more than {limit:,} {what}: send smaller batches")
