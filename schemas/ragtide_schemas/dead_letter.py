"""A dead letter: an entry that could not be used, with the reason."""

import base64
import json
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field

from .base import Count, Name, UtcTime, VersionedModel, read_json_object
from .errors import InvalidEntryError, Reason
from .limits import DETAIL_MAX_CHARS, ENTRY_MAX_BYTES, KEPT_BYTES, NAME_MAX_CHARS
from .times import utc_now

_QUOTED: Final = " (got "
"""Text in a detail after which a value of the payload may be quoted."""


class DeadLetter(VersionedModel):
    """An entry that could not be used.

    A payload of up to 4 MiB, the largest allowed size, is stored whole, so that it can be mended and published again.
    Of a larger payload the first 64 KiB are stored, with its size and digest.
    """

    max_bytes: ClassVar[int | None] = None

    stream: Name
    """Stream of the entry."""
    entry_id: Name
    """Id of the entry in its stream."""
    reason: Reason
    """Reason as a code."""
    detail: str
    """Reason in one sentence with field, value and remedy."""
    payload: str
    """The payload of the entry, or its beginning."""
    payload_encoding: Literal["utf-8", "base64"] = "utf-8"
    """Encoding of `payload`: text, or base64 if the bytes are not UTF-8."""
    size_bytes: Count | None = None
    """Bytes of the whole payload if `payload` is only its beginning; None if the payload is whole."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the whole payload if `payload` is only its beginning."""
    deliveries: Count = 1
    """Number of deliveries of the entry."""
    failed_at: UtcTime
    """Time at which the entry became a dead letter."""
    component: Name
    """Component that rejected the entry."""

    @classmethod
    def of(
        cls,
        payload: bytes,
        *,
        stream: str,
        entry_id: str,
        reason: Reason,
        detail: str,
        component: str,
        deliveries: int = 1,
        failed_at: datetime | None = None,
    ) -> Self:
        """Return the dead letter of an entry; a payload or detail that is too long is cut."""
        kept = payload if len(payload) <= ENTRY_MAX_BYTES else beginning_of(payload)
        text, encoding = cls.encode_payload(kept)
        return cls(
            stream=stream,
            entry_id=entry_id,
            reason=reason,
            detail=detail if len(detail) <= DETAIL_MAX_CHARS else f"{detail[: DETAIL_MAX_CHARS - 3]}...",
            payload=text,
            payload_encoding=encoding,
            size_bytes=None if kept is payload else len(payload),
            sha256=None if kept is payload else sha256(payload).hexdigest(),
            deliveries=deliveries,
            failed_at=failed_at or utc_now(),
            component=component,
        )

    @property
    def truncated(self) -> bool:
        """Whether `payload` is only the beginning of the entry's payload."""
        return self.size_bytes is not None

    @property
    def pipeline(self) -> str | None:
        """Pipeline that the payload names; None if it names none or cannot be read."""
        name = (self._fields() or {}).get("pipeline")
        return name if isinstance(name, str) and len(name) <= NAME_MAX_CHARS else None

    def is_about(self, interaction_id: str) -> bool:
        """Return whether the payload names an interaction; a payload that is no JSON object names it as a quoted text.

        Args:
            interaction_id: of the interaction.
        """
        fields = self._fields()
        if fields is None:
            return json.dumps(interaction_id, ensure_ascii=False).encode() in self.payload_bytes()
        return str(fields.get("interaction_id")) == interaction_id

    def _fields(self) -> dict[str, Any] | None:
        try:
            return read_json_object(self.payload_bytes())
        except (InvalidEntryError, ValueError):
            return None

    @staticmethod
    def encode_payload(payload: bytes) -> tuple[str, Literal["utf-8", "base64"]]:
        """Return payload bytes as text, and the encoding of the text."""
        try:
            return payload.decode(), "utf-8"
        except UnicodeDecodeError:
            return base64.b64encode(payload).decode("ascii"), "base64"

    def payload_bytes(self) -> bytes:
        """Return the payload of the entry, or its beginning if it is truncated."""
        return base64.b64decode(self.payload) if self.payload_encoding == "base64" else self.payload.encode()


def beginning_of(payload: bytes) -> bytes:
    """Return the first 64 KiB of a payload, without cutting a UTF-8 character."""
    kept = payload[:KEPT_BYTES]
    for end in range(len(kept), max(len(kept) - 4, 0), -1):
        try:
            kept[:end].decode()
        except UnicodeDecodeError:
            continue
        return kept[:end]
    return kept


def without_values(detail: str) -> str:
    """Return a detail up to the first value of the payload that it quotes, because the value may be a text.

    >>> without_values("documents must be a list (got 'Anna lives in Bonn'); response is missing: add it")
    'documents must be a list …'
    """
    kept, quoted, _ = detail.partition(_QUOTED)
    return f"{kept} …" if quoted else kept
