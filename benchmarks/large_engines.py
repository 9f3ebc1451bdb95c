"""Score a folder of Parquet files with Ray or Dask on two local workers, and write the summary.

    python benchmarks/large_engines.py ray|dask FOLDER SUMMARY

`large_scoring.py --engines` runs it in an environment that has the engine, and compares the summary.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ragtide import score_batches, summarize_batches


def score(rows: pa.Table) -> pa.Table:
    """Score rows."""
    return score_batches(rows, labeler="local", pipeline="shop").read_all()


def score_group(path: Path, group: int) -> pa.Table:
    """Score a row group of a file."""
    return score(parquet.ParquetFile(path).read_row_group(group))


def by_ray(folder: Path) -> pa.Table:
    """Score a folder with Ray Data."""
    import ray  # noqa: PLC0415 - each engine has an environment of its own

    ray.init(num_cpus=2, include_dashboard=False)
    scored = ray.data.read_parquet(str(folder)).map_batches(score, batch_format="pyarrow", batch_size=10_000)
    return pa.concat_tables(ray.get(scored.to_arrow_refs()))


def by_dask(folder: Path) -> pa.Table:
    """Score a folder with Dask, a row group at a time."""
    import dask  # noqa: PLC0415 - as above
    from distributed import Client  # noqa: PLC0415

    scored = dask.delayed(score_group)
    files = {path: parquet.ParquetFile(path).num_row_groups for path in sorted(folder.iterdir())}
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        return pa.concat_tables(
            dask.compute(*(scored(path, group) for path, groups in files.items() for group in range(groups)))
        )


ENGINES: Mapping[str, Callable[[Path], pa.Table]] = {"ray": by_ray, "dask": by_dask}


def main() -> None:
    """Score the folder and write the summary."""
    engine, folder, summary = sys.argv[1:]
    found: Mapping[str, Any] = summarize_batches(ENGINES[engine](Path(folder))).as_dict()
    Path(summary).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
