"""Metric events for benchmarks, as Parquet files of a recording's columns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

METRICS = (
    "adherence", "average", "completeness", "context_relevance", "context_utilization", "rmse_aggregation",
    "supported_fraction",
)  # fmt: skip
PIPELINES = ("docs", "help", "search", "shop")
LANGUAGES = ("de", "en", "fr")
START_US = 1_795_219_200_000_000
PER_SECOND = 20
PER_FILE = 65_536

ABSENT = 0.03
"""Share of events without completeness."""
SEGMENTED = 0.3
"""Share of events with a segment."""
GRADED = 0.01
"""Share of events with gold scores of adherence and relevance."""


def write_files(folder: Path, n: int, seed: int = 1) -> list[Path]:
    """Write n metric events as files, and return them in order."""
    files = []
    for number, table in enumerate(tables(n, seed)):
        files.append(folder / f"{number:04}.parquet")
        parquet.write_table(table, files[-1], compression="zstd")
    return files


def tables(n: int, seed: int = 1) -> Iterator[Any]:
    """Yield n metric events as tables, 20 events a second; one of four pipelines gets worse for a tenth of the time."""
    rng = np.random.default_rng(seed)
    for start in range(0, n, PER_FILE):
        size = min(PER_FILE, n - start)
        yield _table(rng, np.arange(start, start + size), n)


def _table(rng: np.random.Generator, number: NDArray[np.int64], n: int) -> Any:
    size = number.size
    pipeline = rng.integers(0, len(PIPELINES), size)
    falls = (pipeline == 1) & (number > 0.5 * n) & (number < 0.6 * n)
    relevance, utilization = rng.beta(3, 4, size), rng.beta(2, 5, size)
    complete = rng.beta(6, 2, size)
    adherence = (rng.random(size) < np.where(falls, 0.5, 0.85)).astype(float)
    scores = np.stack([relevance, utilization, complete, adherence])
    there = rng.random(size) >= ABSENT
    graded = rng.random(size) < GRADED
    labeled_us = START_US + number * (1_000_000 // PER_SECOND)
    values = {
        "adherence": adherence,
        "average": scores.mean(axis=0),
        "completeness": np.where(there, complete, np.nan),
        "context_relevance": relevance,
        "context_utilization": utilization,
        "rmse_aggregation": np.minimum(scores.std(axis=0), 0.5),
        "supported_fraction": np.where(adherence == 1, 1.0, rng.integers(0, 5, size) / 5),
    }
    gold = {
        "adherence": np.where(graded, (rng.random(size) < 0.85).astype(float), np.nan),
        "context_relevance": np.where(graded, rng.random(size), np.nan),
    }
    columns: dict[str, Any] = {
        "entry_id": pa.array([f"{time_us // 1000}-0" for time_us in labeled_us.tolist()]),
        "partition": pa.array(np.zeros(size, dtype=np.int32)),
        "interaction_id": pa.array([f"i-{index:09}" for index in number.tolist()]),
        "pipeline": _named(PIPELINES, pipeline),
        "occurred_at": _times(labeled_us - (rng.gamma(2, 1.5, size) * 1e6).astype(np.int64)),
        "labeled_at": _times(labeled_us),
        "segments": _map("lang", LANGUAGES, rng.integers(0, 3, size), rng.random(size) < SEGMENTED),
        "labeler": _named(("local",), np.zeros(size, dtype=np.int64)),
        "labeler_version": _named(("3",), np.zeros(size, dtype=np.int64)),
        "profile": _named(("ragbench",), np.zeros(size, dtype=np.int64)),
        "absent": _map("trace.completeness", ("no relevant sentence",), np.zeros(size, dtype=np.int64), ~there),
        "cost_usd": pa.array(np.zeros(size)),
        "latency_s": pa.array(rng.lognormal(-3, 0.5, size)),
    }
    columns |= {f"scores.trace.{name}": pa.array(value, mask=np.isnan(value)) for name, value in values.items()}
    columns |= {f"gold_scores.trace.{name}": pa.array(score, mask=np.isnan(score)) for name, score in gold.items()}
    return pa.table({**columns, "exact": pa.nulls(size, pa.string())})


def _named(names: tuple[str, ...], codes: NDArray[np.int64]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))


def _times(microseconds: NDArray[np.int64]) -> Any:
    return pa.array(microseconds, pa.timestamp("us", tz="UTC"))


def _map(key: str, values: tuple[str, ...], codes: NDArray[np.int64], there: NDArray[np.bool_]) -> Any:
    """Return a map with one name for those that have it, an empty one for the rest."""
    offsets = np.concatenate([[0], np.cumsum(there)])
    items = pa.array(values).take(pa.array(codes[there]))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array([key] * int(there.sum())), items)
