"""What is kept, as the fields of a checkpoint, and back. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Mapping

from ..alerts.rule_state import Watch
from ..errors import reading
from ..events.keys import EstimateKey, PairKey
from ..statistics.quantiles import Quantiles
from .capped import CAPPED
from .checking import check
from .rows import SIZE as ROW_SIZE
from .table import Kept

_ROW, _WATCH, _PANE, _PROCESSED = "estimate:", "watch:", "pane:", "processed:"
_PAIR, _QUANTILES, _CLOCK = "pair:", "quantiles:", "clock"
_DECLARED = "declared:"


def written(kept: Kept) -> tuple[dict[str, bytes], list[str]]:
    """Return the fields that changed since the last call, and the names of those that are gone."""
    keys = kept.rows.keys
    fields: dict[str, bytes] = {}
    for row in sorted(kept.changed):
        name = keys[row].encode()
        fields[_ROW + name] = kept.rows.to_bytes(row) + kept.moments.to_bytes(row)
        fields |= {_WATCH + at: data for at, data in kept.watching.dump(row, kept.moments.n(row)).items()}
        if row in kept.quantiles:
            fields[_QUANTILES + name] = kept.quantiles[row].to_bytes()
    fields |= {_PAIR + name: data for name, data in kept.pairs.take_changes().items()}
    fields |= {_DECLARED + name: data for name, data in kept.declarations.take_changes()}
    gone: list[str] = []
    if kept.panes is not None:
        panes, dropped = kept.panes.take_changes(keys)
        fields |= {_PANE + name: data for name, data in panes.items()}
        gone = [_PANE + name for name in dropped]
        fields |= {_PROCESSED + name: data for name, data in kept.panes.take_processed(keys).items()}
    if kept.changed:
        fields[_CLOCK] = kept.watching.dump_clock()
    return fields, gone


def load(kept: Kept, fields: Mapping[str, bytes]) -> list[str]:
    """Take on the fields of a checkpoint, and return the names of those that are to go.

    Raises:
        DamagedFieldError: a field cannot be read.
    """
    by_kind: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
    for name, data in fields.items():
        kind = name.partition(":")[0]
        by_kind[kind + ":"].append((name.removeprefix(kind + ":"), data))
    for name, data in by_kind[_DECLARED]:
        with reading(_DECLARED + name):
            kept.declarations.load(name, data)
    for name, data in by_kind[_ROW]:
        with reading(_ROW + name):
            row = kept.row(EstimateKey.decode(name))
            kept.rows.load(row, data)
            kept.moments.load(row, data[ROW_SIZE:])
    for name, data in by_kind[_PAIR]:
        with reading(_PAIR + name):
            key = PairKey.decode(name)
            kept.pairs.load(kept.pairs.add_row(key, kept.row(key.cheap)), data)
    for name, data in by_kind[_QUANTILES]:
        with reading(_QUANTILES + name):
            row = kept.row(EstimateKey.decode(name))
            if row in kept.quantiles:
                kept.quantiles[row] = Quantiles.from_bytes(data)
    for name, data in by_kind[CAPPED]:
        with reading(CAPPED + name):
            kept.capped.load(name, data)
    gone: list[str] = []
    for kind in (_PANE, _PROCESSED):
        for name, data in by_kind[kind]:
            with reading(kind + name):
                if not _load_pane(kept, kind, name, data):
                    gone.append(kind + name)
    for _, data in by_kind[_CLOCK + ":"]:
        with reading(_CLOCK):
            kept.watching.load_clock(data)
    gone += _load_watches(kept, by_kind[_WATCH])
    check(kept, range(len(kept.rows)), everything=True)
    return gone


def _load_pane(kept: Kept, kind: str, name: str, data: bytes) -> bool:
    """Take on a pane or counts by processing time; return False if panes have another length now."""
    length, _, rest = name.partition(":")
    if kept.panes is None or int(length) != kept.options.panes.pane_ms:
        return False
    if kind == _PROCESSED:
        kept.panes.load_processed(kept.row(EstimateKey.decode(rest)), data)
        return True
    pane, _, key = rest.partition(":")
    kept.panes.load(kept.row(EstimateKey.decode(key)), int(pane), data)
    return True


def _load_watches(kept: Kept, stored: list[tuple[str, bytes]]) -> list[str]:
    """Take on watches; return the names of those whose rule is not there any more, whose alerts then end."""
    watches = {watch.field: (row, watch) for row in range(len(kept.rows)) for watch in kept.watching.of(row)}
    gone = []
    for name, data in stored:
        with reading(_WATCH + name):
            if name in watches:
                row, watch = watches[name]
                watch.load(data)
                kept.watching.refresh(row)
            else:
                gone.append(_WATCH + name)
                kept.alerts += Watch.withdrawn(data)
    return gone
