"""Writes an open cluster as bytes, and reads it back. No state."""

import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from ..events.keys import EstimateKey
from .open_clusters import VERSION, ClusterEvent, OpenCluster

_CLUSTER: Final = struct.Struct("<BQqQHI")
_EVENT: Final = struct.Struct("<qHIB")
_NAME: Final = 8
"""Bytes of a key's short name."""


def short_name(key: EstimateKey) -> bytes:
    """Return the short name of a key, by which an open cluster names it."""
    return blake2b(key.encode().encode(errors="surrogatepass"), digest_size=_NAME).digest()


def cluster_to_bytes(cluster: OpenCluster, names: Sequence[bytes]) -> bytes:
    """Return an open cluster as bytes, exactly; `names` has the short name of every row's key."""
    head = (cluster.number, cluster.deadline_ms, cluster.touched, cluster.interactions, len(cluster.events))
    parts = [_CLUSTER.pack(VERSION, *head)]
    for event in cluster.events:
        name = event.interaction_id.encode(errors="surrogatepass")
        has_costs = event.costs is not None
        parts += [_EVENT.pack(event.time_ms, len(name), event.rows.size, has_costs), name]
        parts += [names[row] for row in event.rows.tolist()]
        parts.append(event.values.astype("<f8").tobytes())
        if event.costs is not None:
            parts.append(event.costs.astype("<f8").tobytes())
    return b"".join(parts)


def cluster_from_bytes(code: int, data: bytes, rows: Mapping[bytes, int]) -> OpenCluster:
    """Return the cluster that `cluster_to_bytes` returned.

    Args:
        code: of the cluster.
        data: bytes.
        rows: row of each short name; values of other keys, which a repair dropped, are left out.

    Raises: ValueError if the bytes were written by another version.
    """
    if data[0] != VERSION:
        raise ValueError(f"an open cluster has version {data[:1].hex()}")
    _, number, deadline_ms, touched, interactions, count = _CLUSTER.unpack_from(data)
    cluster = OpenCluster(code, number, deadline_ms, touched, interactions)
    at = _CLUSTER.size
    for _ in range(count):
        time_ms, length, size, has_costs = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        name = data[at : at + length].decode(errors="surrogatepass")
        at += length
        places = [data[at + _NAME * place : at + _NAME * (place + 1)] for place in range(size)]
        at += _NAME * size
        known = np.array([one in rows for one in places], dtype=bool)
        columns = []
        for _ in range(1 + has_costs):
            columns.append(np.frombuffer(data, "<f8", size, at)[known])
            at += 8 * size
        index = np.array([rows[one] for one in places if one in rows], dtype=np.intp)
        cluster.events.append(ClusterEvent(index, columns[0], columns[1] if has_costs else None, time_ms, name))
    if at != len(data):
        raise ValueError("an open cluster has more bytes than its events")
    return cluster
