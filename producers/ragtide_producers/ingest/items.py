"""Reads interactions that other programs send as JSON, over HTTP or through a broker."""

from hashlib import blake2b
from typing import Any, Final

from ragtide_runtime.outside.json_values import has_more_values
from ragtide_schemas import InvalidEntryError, RagInteraction, Reason
from ragtide_schemas.base import is_left_out, read_json_object
from ragtide_schemas.interaction import with_id
from ragtide_schemas.limits import ENTRY_MAX_BYTES
from ragtide_schemas.plain_values import LeftOut

from ..given_fields import interaction_of

COUNTED_BYTES: Final = 65_536
"""Bytes above which the values of an item are counted before it is parsed."""
ITEM_VALUES: Final = 200_000
"""Most objects and lists of one item, and most commas between its values: those of the messages of 10,000 calls."""


def has_too_many_values(item: bytes) -> bool:
    """Return whether the JSON of an item has more values than any item needs, so that it is not parsed."""
    return len(item) > COUNTED_BYTES and has_more_values(item, ITEM_VALUES, ITEM_VALUES)


def read_item(payload: bytes, max_bytes: int | None = ENTRY_MAX_BYTES) -> dict[str, Any]:
    """Return the fields of an item.

    Args:
        payload: the JSON.
        max_bytes: most bytes; None for no limit.

    Raises:
        InvalidEntryError: the payload is too large, has too many values, or is not the JSON of an object.
    """
    if has_too_many_values(payload):
        raise InvalidEntryError(Reason.TOO_LARGE, f"the item has more than {ITEM_VALUES:,} values: send fewer")
    return read_json_object(payload, max_bytes)


def sent_interaction(fields: dict[str, Any], *, source: str, key: str | None, index: int) -> RagInteraction:
    """Return the interaction with these fields.

    Args:
        source: of an interaction that names none, such as `http`.
        key: names the message or the request, and is the same when it is sent again; an interaction without an id gets
            one from it. None for an id that is new each time.
        index: place of the interaction in it.

    Raises:
        InvalidEntryError: the fields are no interaction.
    """
    left_out = LeftOut()
    fields = {**fields, "source": source} if is_left_out(fields.get("source")) else fields
    if key:
        digest = blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()
        fields = with_id(fields, f"{source}-{digest}-{index}", left_out)
    return interaction_of(fields).with_left_out(left_out)
