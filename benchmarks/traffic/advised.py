"""Reads the measured figures of the settings that docs/understand/clusters.md names for each traffic."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

Rows = list[dict[str, str]]

BY_ANSWER: Final = "by answer"
_NUMBER: Final = re.compile(r"\d[\d,]*")


@dataclass(frozen=True)
class Advice:
    """A traffic and the setting that docs/understand/clusters.md names for it."""

    name: str
    """Traffic and setting, as a picture shows them."""
    traffic: str
    """Traffic as real_traffic.md names it."""
    rule: str
    """Rule with this setting, as real_traffic.md names it."""


@dataclass(frozen=True)
class SeasonalAdvice:
    """A swing of the day, for which docs/understand/clusters.md names a seasonal baseline."""

    name: str
    swing: str
    """Swing as seasonal_rules.md names it."""


INDEPENDENT: Final = Advice("independent questions: nothing to set", "independent", "clusters, size 10, quiet 120 s")
KNOWN: Final = (
    INDEPENDENT,
    Advice("sessions of 5: size = 5", "sessions of 5, icc 0.2", "clusters, size 5, quiet 120 s"),
    Advice("chats: quiet_s = 600", "chat", "clusters, size 10, quiet 600 s"),
    Advice("batches of 50: size = 50", "batches of 50, icc 0.1", "clusters, size 50, quiet 120 s"),
)
"""Clusters that the application names."""
SEASONAL: Final = (
    SeasonalAdvice("day and night, ± 0.05: seasonal baseline", "± 0.05"),
    SeasonalAdvice("day and night, ± 0.02: seasonal baseline", "± 0.02"),
)
UNKNOWN: Final = Advice('sessions of 5 without names: by = "blocks"', "sessions of 5, icc 0.2", "blocks of 100")


@dataclass(frozen=True)
class Pair:
    """A figure of a setting beside the figure with which it is compared."""

    name: str
    other: float
    setting: float


def tables(text: str) -> dict[str, Rows]:
    """Return the first table of each section of a Markdown page, by the section's title.

    An empty first cell is that of the row above.
    """
    found: dict[str, Rows] = {}
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        rest = dropwhile(lambda line: not line.startswith("|"), section.splitlines())
        lines = list(takewhile(lambda line: line.startswith("|"), rest))
        if not lines:
            continue
        head, _, *body = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
        rows: Rows = []
        for cells in body:
            row = dict(zip(head, cells, strict=True))
            row[head[0]] = row[head[0]] or rows[-1][head[0]]
            rows.append(row)
        found[title] = rows
    return found


def number(cell: str) -> float:
    """Return the figure of a cell, without its simulation error.

    Raises: ValueError if the cell has none.
    """
    found = _NUMBER.match(cell)
    if found is None:
        raise ValueError(f"no figure: {cell!r}")
    return float(found[0].replace(",", ""))


def run_lengths(folder: Path) -> list[Pair]:
    """Return the run length of each traffic: each answer by itself, and with the setting.

    Args:
        folder: with real_traffic.md and seasonal_rules.md.
    """
    rows = _page(folder, "real_traffic.md")["Rules without a change"]

    def pair(one: Advice) -> Pair:
        lengths = {row["rule"]: number(row["run length"]) for row in rows if row["traffic"] == one.traffic}
        return Pair(one.name, lengths[BY_ANSWER], lengths[one.rule])

    return [*map(pair, KNOWN), *(_seasonal(folder, advice, "run length") for advice in SEASONAL), pair(UNKNOWN)]


def seasonal_delay(folder: Path, one: SeasonalAdvice, fall: str) -> Pair:
    """Return the delay of a fall by day and night: each answer by itself, and with the setting."""
    return _seasonal(folder, one, f"delay of a fall by {fall}")


def delays(folder: Path, after: str) -> list[Pair]:
    """Return the delay of a fall for each traffic: of the best peer, and of the setting.

    Peers are tuned to each traffic. The best is chosen for each traffic and fall.

    Args:
        folder: with real_traffic_delays.md.
        after: mean after the fall, such as `0.65`.
    """
    page = _page(folder, "real_traffic_delays.md")
    found = []
    for advice in (*KNOWN, UNKNOWN):
        rows = page[advice.traffic[0].upper() + advice.traffic[1:]]
        late = {row["detector"]: number(row[f"to {after}"]) for row in rows}
        found.append(Pair(advice.name, min(late[name] for name in peer_names(rows)), late[advice.rule]))
    return found


def peer_names(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the detectors of a table of delays that are not rules of ragtide."""
    names = [row["detector"] for row in rows]
    return [name for name in names if name != BY_ANSWER and not name.startswith(("clusters, ", "blocks of "))]


def _page(folder: Path, name: str) -> dict[str, Rows]:
    return tables((folder / name).read_text(encoding="utf-8"))


def _seasonal(folder: Path, one: SeasonalAdvice, column: str) -> Pair:
    (rows,) = _page(folder, "seasonal_rules.md").values()
    found = {
        row["rule"]: number(row[column])
        for row in rows
        if (row["swing"], row["wobble"], row["correlation"]) == (one.swing, "0", "0")
    }
    return Pair(one.name, found["`baseline = 0.85`"], found['`baseline = "seasonal"`'])
