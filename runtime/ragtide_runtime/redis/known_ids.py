"""Known ids: for each interaction id the entry that owns it, and for each scored interaction its metric event.

Both are found by a digest of 10 bytes and hold one entry id of 8 bytes. Both have the same structure:

- The digest puts an id into one of 64 shards. A shard has six buckets, which take turns: each is written for a quarter
  of the window, and expires as a whole when its last id is as old as the window. An id is therefore known for at least
  the window and at most a quarter longer. The server's clock determines the bucket that is written. The keys do not
  depend on a client's clock, so a script about one id declares all of them, as Redis Cluster requires. A script about
  many ids derives them from the beginnings of their names, because the 14 names of an interaction are longer than its
  event. It reads all of them in one command before it writes, so that Redis refuses it while a slot moves.
- A bucket is a hash whose fields are groups of about a dozen ids, packed into one string of 18 bytes an id. It grows by
  linear hashing: with G groups, 2^k <= G < 2^(k+1), an id is in the group of its hash modulo 2^(k+1), or modulo 2^k if
  there is no such group yet. A group that becomes too long makes the next group in turn split in two.

An entry id that does not fit into 8 bytes (48 bits of time, 16 bits of number) has a key of its own, the first of the
keys of an interaction.

Two ids with the same digest and shard (86 bits) count as the same id. With 57 million known ids (586 a second for a day
and an eighth) that happens to a publication with probability 7e-19: once in 70 million years at that rate.
"""

from collections.abc import Sequence
from typing import Final

from .scripts import Lua, ScriptCall, text_or_none

FIND: Final = Lua("find_id")
REMEMBER: Final = Lua("remember_id")
COPY: Final = Lua("copy_ids")

WIDTH_BYTES: Final = 18
"""Bytes of an id in a group."""

DIGEST_BYTES: Final = 10


def without_entries(group: bytes) -> bytes:
    """Return a group whose ids are known without an entry, as `0-0`."""
    return b"".join(
        group[at : at + DIGEST_BYTES] + bytes(WIDTH_BYTES - DIGEST_BYTES) for at in range(0, len(group), WIDTH_BYTES)
    )


def find_id(keys: Sequence[str], digest: bytes) -> ScriptCall[str | None]:
    """Return the call that finds the entry of an id; None if the id is unknown.

    Args:
        keys: of the id (`Streams.owner_keys`, `Streams.event_keys`).
        digest: of the id (`known_digest`).
    """
    return ScriptCall(FIND, keys, (digest,), text_or_none)


def remember_id(keys: Sequence[str], digest: bytes, entry_id: str, window_ms: int) -> ScriptCall[int]:
    """Return the call that sets the entry of an id for at least the window."""
    return ScriptCall(REMEMBER, keys, (digest, entry_id, window_ms), int)


def copy_ids(bucket: str, groups: Sequence[bytes], kept_ms: int) -> ScriptCall[int]:
    """Return the call that copies groups of ids into a bucket and keeps the bucket for at least `kept_ms`.

    Ids that are in the bucket already do not change.
    """
    return ScriptCall(COPY, (bucket,), (kept_ms, *groups), int)
