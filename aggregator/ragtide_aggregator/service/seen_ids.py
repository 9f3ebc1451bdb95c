"""Remembers the interactions that were counted last, so that a stream rollback does not count them twice.

If Redis loses its last writes, it usually loses checkpoint and streams back to the same moment, and the counts stay
right. If the checkpoint survives and a stream does not (it was deleted, or restored from an older copy), interactions
that were counted may be scored again. The ring of seen ids keeps them from being counted again. No clock, no I/O.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_runtime.redis.keys import CheckpointField, identity_digest

from ..errors import reading

CHUNKS: Final = 256
PER_CHUNK: Final = 128
SIZE: Final = CHUNKS * PER_CHUNK
"""Interactions that are remembered."""

_FIELD: Final = CheckpointField.SEEN_IDS
_COUNT: Final = struct.Struct("<Q")
_BYTES: Final = 8


class SeenIds:
    """The ids of the interactions that were counted last. A step writes the chunks that changed to the checkpoint."""

    def __init__(self) -> None:
        self._ring: list[bytes] = []
        self._known: set[bytes] = set()
        self._count = 0
        self._changed: set[int] = set()

    def __contains__(self, interaction: tuple[str, str]) -> bool:
        return _digest(interaction) in self._known

    def add(self, pipeline: str, interaction_id: str) -> None:
        """Add an interaction that is counted."""
        digest = _digest((pipeline, interaction_id))
        place = self._count % SIZE
        self._count += 1
        if place == len(self._ring):
            self._ring.append(digest)
        else:
            self._known.discard(self._ring[place])
            self._ring[place] = digest
        self._known.add(digest)
        self._changed.add(place // PER_CHUNK)

    def take_changes(self) -> tuple[dict[str, bytes], Sequence[str]]:
        """Return fields to write in the checkpoint since the last call; no field is ever removed."""
        changed, self._changed = self._changed, set()
        if not changed:
            return {}, ()
        fields = {
            f"{_FIELD}{chunk}": b"".join(self._ring[chunk * PER_CHUNK : (chunk + 1) * PER_CHUNK]) for chunk in changed
        }
        return {**fields, f"{_FIELD}count": _COUNT.pack(self._count)}, ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> "SeenIds":
        """Return the ids that the fields of a checkpoint hold."""
        seen = cls()
        for chunk in range(CHUNKS):
            data = fields.get(f"{_FIELD}{chunk}", b"")
            seen._ring += [data[start : start + _BYTES] for start in range(0, len(data), _BYTES)]
        seen._known = set(seen._ring)
        with reading(f"{_FIELD}count"):
            (seen._count,) = _COUNT.unpack(fields.get(f"{_FIELD}count", bytes(_COUNT.size)))
        return seen


def _digest(interaction: tuple[str, str]) -> bytes:
    return identity_digest(*interaction)[:_BYTES]
