"""Extracts the payload of a stream entry, whether ragtide or FastStream's publisher added it."""

from collections.abc import Mapping

from ragtide_schemas import InvalidEntryError, Reason

from .keys import DATA_FIELD

FASTSTREAM_FIELD = b"__data__"
"""The field in which FastStream's own publisher puts its envelope."""


def payload_of(fields: Mapping[bytes, bytes], what: str = "interaction") -> bytes:
    """Return the JSON in an entry: its field `data`, or the body of FastStream's envelope.

    Args:
        fields: of the entry.
        what: the name of the expected model, for the message.

    Raises:
        InvalidEntryError: the entry has neither field.
    """
    data = fields.get(DATA_FIELD)
    if data is not None:
        return data
    envelope = fields.get(FASTSTREAM_FIELD)
    if envelope is not None:
        from faststream.redis.parser import BinaryMessageFormatV1  # noqa: PLC0415 - not in the core install

        return BinaryMessageFormatV1.parse(envelope)[0]
    names = ", ".join(sorted(name.decode(errors="replace")[:40] for name in fields)) or "none"
    raise InvalidEntryError(
        Reason.MISSING_DATA_FIELD,
        f"the entry has no field data (its fields: {names}): put the JSON of one {what} into data",
    )


def raw_of(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the content of an entry for a dead letter: its payload, or all its fields if it has no payload."""
    try:
        return payload_of(fields)
    except InvalidEntryError:
        return b"\n".join(name + b"=" + value for name, value in fields.items())
