"""Findings of `ragtide doctor` as a table, and dropped fields of a checkpoint in sentences."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_aggregator.maintenance.repair import DroppedField
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.redis.keys import CheckpointField, Streams

from .console import out, print_json

_TIMES: Final = ("updated_at", "since")


def findings_table(findings: Sequence[Finding]) -> RenderableType:
    """Return findings as a table; no name in them is cut."""
    marks = {"ok": Text("✓", "green"), "warning": Text("!", "yellow"), "problem": Text("✗", "red")}
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        advice = Text(f" → {finding.advice}" if finding.advice else "", "yellow")
        table.add_row(marks[finding.level], finding.subject, Text.assemble(finding.found, advice))
    return table


def print_repairs(repairs: list[tuple[Streams, DroppedField]], *, as_json: bool) -> None:
    """Print the dropped fields and their losses."""
    if as_json:
        print_json([_fields(streams, dropped) for streams, dropped in repairs])
        return
    for streams, dropped in repairs:
        for line in sentences(streams, dropped):
            out.print(line, markup=False, highlight=False, soft_wrap=True)


def _fields(streams: Streams, dropped: DroppedField) -> dict[str, Any]:
    times = {name: None if at is None else at.isoformat() for name, at in asdict(dropped).items() if name in _TIMES}
    return {
        "partition": streams.partition,
        "fields": list(dropped.fields),
        "n": dropped.n,
        "mean": dropped.mean,
        **times,
        "resolved": [alert.alert_id for alert in dropped.resolved],
    }


def sentences(streams: Streams, dropped: DroppedField) -> list[str]:
    """Return sentences about the dropped fields and their losses."""
    field, more = dropped.fields[0], len(dropped.fields) - 1
    lines = [
        f"partition {streams.partition}: dropped {field}" + (f" and {more} fields that belong to it" if more else "")
    ]
    if field.startswith(CheckpointField.ESTIMATE):
        values = "an unreadable number of values" if dropped.n is None else f"{dropped.n:,} values"
        mean = "" if dropped.mean is None else f" with mean {dropped.mean:.6g}"
        newest = "" if dropped.updated_at is None else f", the newest of {dropped.updated_at:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"lost: {values}{mean}{newest}")
    if dropped.since is not None:
        since = f"{dropped.since:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"The field now counts metric events scored after {since}.")
    lines += [f"resolved: alert {alert.alert_id}; its rule starts again" for alert in dropped.resolved]
    return lines
