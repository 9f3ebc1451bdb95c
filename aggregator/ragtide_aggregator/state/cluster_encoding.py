"""Writes an open cluster as bytes, and reads it back. No state."""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..events.keys import EstimateKey, PairKey
from ..statistics.tables.batches import Floats, Rows
from .open_clusters import ClusterEvent, OpenCluster

VERSION: Final = 4
"""Version of the bytes of an open cluster."""

_CLUSTER: Final = struct.Struct("<BQqQHI")
_EVENT: Final = struct.Struct("<qHIB")
_PAIRS: Final = struct.Struct("<I")
_NAME: Final = 8
"""Bytes of a key's short name."""


_HAS_COSTS, _HAS_PAIRS, _IS_LATE, _IS_SAMPLED = 1, 2, 4, 8
_PROBABILITY: Final = struct.Struct("<d")


class ShortNames:
    """Short names of the keys of rows, by which an open cluster names them."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.rows: dict[bytes, int] = {}
        """The row of each name."""

    def follow(self, keys: Sequence[EstimateKey] | Sequence[PairKey]) -> None:
        """Name the keys of new rows."""
        for row in range(len(self.names), len(keys)):
            text = keys[row].encode().encode(errors="surrogatepass")
            self.names.append(blake2b(text, digest_size=_NAME).digest())
            self.rows[self.names[row]] = row

    def joined(self, rows: Rows) -> bytes:
        """Return the names of rows, one after the other."""
        return b"".join(self.names[row] for row in rows.tolist())

    def found(self, data: bytes) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of joined names that are known, and which of them are."""
        rows = [self.rows.get(data[at : at + _NAME], -1) for at in range(0, len(data), _NAME)]
        index = np.array(rows, dtype=np.intp)
        return index[index >= 0], index >= 0


def cluster_to_bytes(cluster: OpenCluster, values: ShortNames, pairs: ShortNames) -> bytes:
    """Return an open cluster as bytes, exactly; given the names of the rows of values and of pairs."""
    head = (cluster.number, cluster.deadline_ms, cluster.touched, cluster.interactions, len(cluster.events))
    parts = [_CLUSTER.pack(VERSION, *head)]
    for event in cluster.events:
        name = event.interaction_id.encode(errors="surrogatepass")
        flags = _HAS_COSTS * (event.costs is not None) | _HAS_PAIRS * (event.pairs.size > 0) | _IS_LATE * event.late
        flags |= _IS_SAMPLED * (event.probability < 1)
        parts += [_EVENT.pack(event.time_ms, len(name), event.rows.size, flags), name]
        parts += [values.joined(event.rows), event.values.astype("<f8").tobytes()]
        if event.costs is not None:
            parts.append(event.costs.astype("<f8").tobytes())
        if event.pairs.size:
            parts += [_PAIRS.pack(event.pairs.size), pairs.joined(event.pairs), event.scores.astype("<f8").tobytes()]
        if event.probability < 1:
            parts.append(_PROBABILITY.pack(event.probability))
    return b"".join(parts)


def cluster_from_bytes(code: int, data: bytes, values: ShortNames, pairs: ShortNames) -> OpenCluster:
    """Return the cluster that `cluster_to_bytes` returned.

    Args:
        code: of the cluster.
        data: bytes.
        values: names of the rows of values; values of other keys, which a repair dropped, are left out.
        pairs: names of the rows of pairs, likewise.

    Raises: ValueError if the bytes were written by another version.
    """
    if data[0] != VERSION:
        raise ValueError(f"an open cluster has version {data[:1].hex()}")
    _, number, deadline_ms, touched, interactions, count = _CLUSTER.unpack_from(data)
    cluster = OpenCluster(code, number, deadline_ms, touched, interactions)
    reader = _ClusterBytes(data, _CLUSTER.size)
    for _ in range(count):
        time_ms, length, size, flags = reader.unpacked(_EVENT)
        name = reader.taken(length).decode(errors="surrogatepass")
        rows, known = values.found(reader.taken(_NAME * size))
        numbers = reader.floats(size)[known]
        costs = reader.floats(size)[known] if flags & _HAS_COSTS else None
        event = ClusterEvent(rows, numbers, costs, time_ms, name)
        if flags & _HAS_PAIRS:
            (size,) = reader.unpacked(_PAIRS)
            rows, known = pairs.found(reader.taken(_NAME * size))
            scores = reader.floats(3 * size).reshape(3, size)[:, known]
            event = event._replace(pairs=rows, scores=scores, late=bool(flags & _IS_LATE))
        if flags & _IS_SAMPLED:
            event = event._replace(probability=float(reader.floats(1)[0]))
        cluster.events.append(event)
    if reader.at != len(data):
        raise ValueError("an open cluster has more bytes than its events")
    return cluster


class _ClusterBytes:
    """Reads bytes from a place on."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def taken(self, size: int) -> bytes:
        """Return the next bytes."""
        self.at += size
        return self._data[self.at - size : self.at]

    def unpacked(self, form: struct.Struct) -> tuple[int, ...]:
        """Return the next whole numbers."""
        return form.unpack(self.taken(form.size))

    def floats(self, count: int) -> Floats:
        """Return the next floats."""
        return np.frombuffer(self.taken(8 * count), "<f8", count)
