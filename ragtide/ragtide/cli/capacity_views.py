"""The screen of `ragtide capacity`, and the values of its options."""

import re
from collections.abc import Mapping
from typing import Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.capacity.judging import JudgeBill
from ragtide_offline.capacity.planning import MEMORY_SHARE, UTILIZATION, Capacity, PlannedTraffic
from ragtide_offline.capacity.unit_costs import UnitCosts
from ragtide_roles.doctor.finding import count_of
from ragtide_runtime.settings.labelers import Price
from ragtide_schemas.alert_rule import duration_ms

from .fitting import Column, fitted

ROLES: Final = {"producer": "producers", "worker": "workers", "aggregator": "aggregators", "redis": "Redis"}
_DURATION: Final = re.compile(r"[1-9][0-9]{0,5}[mhd]")
_PRICE: Final = re.compile(r"(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)")


def price_of_option(text: str) -> Price:
    """Return the price in `--price IN,OUT`."""
    found = _PRICE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no price: give dollars for a million tokens, such as 0.4,1.6")
    return Price(input=float(found[1]), output=float(found[2]))


def seconds_of_option(text: str) -> float:
    """Return the seconds of a time such as `7d`."""
    if not _DURATION.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no time: give minutes, hours or days, such as 30m, 12h or 7d")
    return duration_ms(text) / 1000


def capacity_view(
    traffic: PlannedTraffic,
    needs: Capacity,
    bill: JudgeBill | None,
    costs: UnitCosts,
    *,
    width: int,
    larger: Mapping[str, Capacity] | None = None,
) -> RenderableType:
    """Return what a traffic needs, with the assumptions behind it.

    Args:
        traffic: of the deployment.
        needs: of the traffic.
        bill: of the judge; None without one.
        costs: behind the needs.
        width: of the tables, in characters.
        larger: the needs of ten times each size of the traffic, by the name of the size.
    """
    tables = (_roles(needs, width), _memory(needs, width), _limits(needs, larger or {}, width))
    parts = [_title(traffic, needs), Text(), *(part for table in tables for part in (table, Text()))]
    network = f"Redis receives {_size(needs.received_bytes)} a second and sends {_size(needs.sent_bytes)}."
    backlog = f"Interactions that wait for an hour without workers take {_size(needs.backlog_bytes)} more."
    included = (
        f"Included: each process uses {UTILIZATION:.0%} of a processor on average, and the data {MEMORY_SHARE:.0%} of "
        "Redis's memory. Not included: standbys, replicas, ragtide serve, recorder and notify."
    )
    origin = (
        f"Unit costs: measured on {costs.measured_on}, {costs.machine}, {costs.versions}. Another machine differs by "
        "its speed: make capacity measures it, and --costs FILE takes its costs."
    )
    lines = [f"{network} {backlog}", "" if bill is None else _bill(bill), _advice(needs), included, origin]
    return Group(*parts, *(Text(line) for line in lines if line))


def _advice(needs: Capacity) -> str:
    exceeded = [f"Above 100%: {limit.limit}: {limit.exceeded}." for limit in needs.limits if limit.used > 1]
    if needs.partitions < needs.partitions_needed:
        exceeded.append(
            f"Set at least {needs.partitions_needed:,} partitions: each has one process at a time and a cap of keys."
        )
    return "\n".join(exceeded)


def _title(traffic: PlannedTraffic, needs: Capacity) -> Text:
    return Text.assemble(
        (f"{traffic.rate:,g} interactions a second", "bold"),
        f", {traffic.documents:g} documents of {traffic.document_kib:,.3g} KiB, "
        f"{count_of(traffic.pipelines, 'pipeline')}, {count_of(needs.partitions, 'partition')}",
    )


def _roles(needs: Capacity, width: int) -> RenderableType:
    first = {part.role: number for number, part in reversed(list(enumerate(needs.work)))}
    heads = [first[part.role] == number for number, part in enumerate(needs.work)]
    processes = [f"{needs.processes(part.role):,}" for part in needs.work]
    totals = [f"{needs.processors(part.role):,.2f}" for part in needs.work]

    def of_role(cells: list[str]) -> list[str]:
        return [cell if is_first else "" for cell, is_first in zip(cells, heads, strict=True)]

    columns = [
        Column("role", of_role([ROLES[part.role] for part in needs.work])),
        Column("processes", of_role(processes), right=True),
        Column("processors", of_role(totals), right=True),
        Column("of these", [f"{part.processors:,.3f}" for part in needs.work], right=True),
        Column("work", [part.work for part in needs.work]),
    ]
    return fitted(columns, width)


def _memory(needs: Capacity, width: int) -> RenderableType:
    rows = [(part.content, part.bytes) for part in needs.memory if part.bytes]
    rows += [("all data", needs.memory_bytes), ("maxmemory of Redis", needs.maxmemory_bytes)]
    columns = [
        Column("memory of Redis, steady state", [content for content, _ in rows]),
        Column("", [_size(size) for _, size in rows], right=True),
    ]
    return fitted(columns, width)


def _limits(needs: Capacity, larger: Mapping[str, Capacity], width: int) -> RenderableType:
    names = [limit.limit for limit in needs.limits]
    columns = [Column("limit", names)]
    for title, found in {"used": needs, **{f"{size} x10": grown for size, grown in larger.items()}}.items():
        used = {limit.limit: limit.used for limit in found.limits}
        columns.append(Column(title, [f"{used[name]:,.0%}" for name in names], right=True))
    return fitted(columns, width)


def _bill(bill: JudgeBill) -> str:
    calls = (
        f"The judge: {bill.calls:,.3g} calls, {bill.prompt_tokens:,.0f} tokens sent and {bill.completion_tokens:,.0f} "
        "answered a second"
    )
    if bill.usd_a_day is None or bill.usd_a_month is None:
        return f"{calls}. The price of the model is not known: give --price IN,OUT."
    return f"{calls}: ${bill.usd_a_day:,.2f} a day, ${bill.usd_a_month:,.2f} in 30 days."


def _size(size: float) -> str:
    for unit, bytes_each in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_each:
            return f"{size / bytes_each:,.1f} {unit}"
    return f"{size / 2**10:,.1f} KiB"
