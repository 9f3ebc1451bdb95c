"""The table of `make light`: what is aimed at, what was before, and what is now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

Rounds = Sequence[Mapping[str, float]]
"""Figures by name, of each round."""

MISSING: Final = "not measured"
FORMS: Final = {
    "s": "{:.2f} s",
    "us": "{:,.0f} us",
    "MB": "{:,.1f} MB",
    "x": "{:.2f}x",
    "/s": "{:,.0f} /s",
    "": "{:,.0f}",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, or the ratio of two figures of one round."""

    what: str
    figure: str
    unit: str
    aim: float | None = None
    """The most that is aimed at, or the least if more is better."""
    over: str | None = None
    """The figure by which it is divided."""
    more: bool = False
    """Whether more is better."""

    def value(self, rounds: Rounds) -> float | None:
        """Return the median over the rounds that have it; None if none has."""
        values = [
            figures[self.figure] / (figures[self.over] if self.over else 1.0)
            for figures in rounds
            if self.figure in figures and (self.over is None or figures.get(self.over))
        ]
        return median(values) if values else None

    def is_met(self, value: float | None) -> bool | None:
        """Return whether a value meets the aim; None without a value or an aim."""
        if value is None or self.aim is None:
            return None
        return value >= self.aim if self.more else value <= self.aim

    def text(self, value: float | None) -> str:
        """Return a value with its unit."""
        return MISSING if value is None else FORMS[self.unit].format(value)


def _screens() -> Iterator[Row]:
    yield Row("first screen `/`, 30 pipelines", "screen_30_s", "s")
    for size in (3000, 10_000):
        yield Row(f"first screen, {size:,} pipelines", f"screen_{size}_s", "s", 1.0)
        yield Row(f"first screen, {size:,} beside 30", f"screen_{size}_s", "x", 3.0, "screen_30_s")
        yield Row(f"screen again, {size:,}", f"screen_again_{size}_s", "s")
        yield Row(f"processor of the first screen, Redis included, {size:,} beside 30", f"screen_{size}_cpu_s", "x",
                  None, "screen_30_cpu_s")  # fmt: skip
        yield Row(f"`/v1/fleet?limit=21`, {size:,}", f"fleet_{size}_s", "s", 0.5)


def _delays() -> Iterator[Row]:
    for share, aims in (("10%", (None, None)), ("50%", (1.0, 0.6))):
        yield Row(f"the screen after publishing, p50 at {share} of the capacity", f"screen_p50_{share}_s", "s")
        yield Row(f"the screen after publishing, p99 at {share}", f"screen_p99_{share}_s", "s", aims[0])
        yield Row(f"estimates in Redis, p99 at {share}", f"estimates_p99_{share}_s", "s", aims[1])
    yield Row("the capacity, from publishing to an estimate", "capacity_rate", "/s", more=True)


def _roads() -> Iterator[Row]:
    for name, aim in (("publish", 1.5), ("deliver", 5.0)):
        yield Row(f"{name} an interaction of one sentence", f"small_{name}_us", "us")
        yield Row(f"{name}, beside raw redis-py", f"small_{name}_us", "x", aim, f"small_{name}_raw_us")
        yield Row(f"{name} an interaction of the demo", f"{name}_us", "us")
        yield Row(f"{name} of the demo, beside raw asyncio redis-py", f"{name}_us", "x", None, f"{name}_raw_us")


def _aggregation() -> Iterator[Row]:
    yield Row("aggregate one event of 20 metrics", "aggregate_us", "us", 80.0)
    yield Row("aggregate, beside a raw read", "aggregate_us", "x", None, "aggregate_raw_us")
    yield Row("aggregate, beside river's mean, variance and ADWIN", "aggregate_us", "x", None, "aggregate_river_us")
    for keys in (10, 1000, 100_000):
        yield Row(f"values a second of the statistics core beside river, {keys:,} keys", f"core_{keys}_rate", "x", 1.0,
                  f"river_{keys}_rate", more=True)  # fmt: skip


def _starts() -> Iterator[Row]:
    yield Row("`import ragtide; InteractionProducer`, processor", "import_cpu_s", "s", 0.4)
    yield Row("the same, beside redis, pydantic and asyncio alone", "import_cpu_s", "x", None, "libraries_cpu_s")
    yield Row("its memory", "import_mb", "MB", 42.0)
    yield Row("memory of redis, pydantic and asyncio alone", "libraries_mb", "MB")
    yield Row("its modules", "import_modules", "")
    for command in ("estimates", "alerts", "items", "doctor"):
        yield Row(f"`ragtide {command}`, empty deployment, processor", f"{command}_cpu_s", "s", 0.6)
    yield Row("a refused setting, processor", "refused_cpu_s", "s", 0.4)
    for role, cpu_s, memory in (("aggregator", 1.0, 110.0), ("worker", 0.8, 85.0), ("serve", 1.0, 90.0)):
        yield Row(f"start of `ragtide {role}`, processor until it is ready", f"{role}_cpu_s", "s", cpu_s)
        yield Row(f"memory of `ragtide {role}` then", f"{role}_mb", "MB", memory)


def _files() -> Iterator[Row]:
    for count, aim in ((200, 2.5), (1000, 5.0)):
        yield Row(f"`ragtide score` of {count:,}, judge of 200 ms, 64 at once", f"score_{count}_s", "s", aim)
        yield Row("the same, beside the ideal", f"score_{count}_s", "x", None, f"score_{count}_ideal_s")
    yield Row("the wheel that a producer downloads", "wheel_mb", "MB", 3.0)


SECTIONS: Final[Mapping[str, tuple[Row, ...]]] = {
    "The page": tuple(_screens()),
    "Live": tuple(_delays()),
    "Publish and deliver": tuple(_roads()),
    "Aggregate": tuple(_aggregation()),
    "Starts": tuple(_starts()),
    "Score and install": tuple(_files()),
}


def table(rows: Sequence[Row], before: Rounds, after: Rounds) -> Iterator[str]:
    """Yield the lines of a table of the rows that were measured before or now."""
    yield "| what | aim | before | now | |"
    yield "|---|---|---|---|---|"
    for row in rows:
        then, now = row.value(before), row.value(after)
        if then is None and now is None:
            continue
        sign = ">=" if row.more else "<="
        aim = "" if row.aim is None else f"{sign} {row.text(row.aim)}"
        verdict = {True: "met", False: "**not met**", None: ""}[row.is_met(now)]
        earlier = row.text(then) if before else ""
        yield f"| {row.what} | {aim} | {earlier} | {row.text(now)} | {verdict} |"


def sections(before: Rounds, after: Rounds) -> Iterator[str]:
    """Yield the lines of every section in which something was measured."""
    for title, rows in SECTIONS.items():
        if any(row.value(rounds) is not None for row in rows for rounds in (before, after)):
            yield from (f"\n## {title}\n", *table(rows, before, after))


def counts(after: Rounds) -> tuple[int, int]:
    """Return how many aims are met, and how many were measured."""
    verdicts = [row.is_met(row.value(after)) for rows in SECTIONS.values() for row in rows]
    known = [verdict for verdict in verdicts if verdict is not None]
    return sum(known), len(known)
