"""One dead letter: an entry nobody could use, kept with the reason."""

import base64
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Name, UtcTime, VersionedModel
from .errors import Reason


class DeadLetter(VersionedModel):
    """An entry that was given up on. Its payload is kept whole, so that it can be mended and published again."""

    max_bytes: ClassVar[int | None] = None

    stream: Name
    """Stream the entry was read from."""
    entry_id: Name
    """Id of the entry in that stream."""
    reason: Reason
    """Why, as a code."""
    detail: str
    """Why, in one sentence: field, value, remedy."""
    payload: str
    """What the entry held."""
    payload_encoding: Literal["utf-8", "base64"] = "utf-8"
    """How to read `payload`: as text, or as base64 where the bytes are not UTF-8."""
    deliveries: Annotated[int, Field(ge=0)] = 1
    """How often the entry was delivered."""
    failed_at: UtcTime
    """When it was given up on."""
    component: Name
    """Who gave up, such as a worker's name."""

    @staticmethod
    def encode_payload(payload: bytes) -> tuple[str, Literal["utf-8", "base64"]]:
        """Return payload bytes as text and how they were encoded."""
        try:
            return payload.decode(), "utf-8"
        except UnicodeDecodeError:
            return base64.b64encode(payload).decode("ascii"), "base64"

    def payload_bytes(self) -> bytes:
        """Return the payload as it was in the entry."""
        return base64.b64decode(self.payload) if self.payload_encoding == "base64" else self.payload.encode()
