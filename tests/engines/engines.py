"""The examples of docs/offline/engines.md on local clusters of two workers: each summary has the bits of one process.

`make engines` runs it.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.support.doc_pages import page_text, tagged_block
from tools.environments import ROOT, Environments

ENVIRONMENTS: Final = Environments(
    Path(__file__).parent / "requirements",
    ROOT / ".venv-engines",
    ("--editable", f"{ROOT}[service,parquet]"),
    (ROOT / "pyproject.toml",),
)

BEFORE: Final = """
import json, os, sys

from ragtide import load, score
from ragtide_offline.score.summary import OF_ORDER

ROWS = 3000


def rows():
    bundled = load(os.environ["ROWS"], pipeline="shop")
    for number in range(ROWS):
        item = bundled[number % len(bundled)]
        yield {
            "interaction_id": f"i-{number}",
            "question": item.question,
            "documents": [document.text for document in item.documents],
            "response": item.response[: 20 + number],
        }


def bits(summary):
    left_out = {"updated_at", *OF_ORDER}
    found = [estimate for estimate in summary.estimates if not estimate.metric.startswith("labeling.")]
    return [json.dumps(estimate.model_dump(mode="json", exclude=left_out)) for estimate in found]


def main():
    import pyarrow as pa

    items = list(rows())
    table = pa.Table.from_pylist(items)
"""

CLUSTERS: Final[Mapping[str, str]] = {
    "ray": """
    import ray
    ray.init(num_cpus=2, include_dashboard=False)
    workers = lambda: 2
""",
    "dask": """
    from distributed import Client
    client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
    workers = lambda: len(client.scheduler_info()["workers"])
""",
    "spark": """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    workers = lambda: spark.sparkContext.defaultParallelism
""",
}

AFTER: Final = """
    one = score(items, labeler="local", pipeline="shop")
    print("RESULT " + json.dumps({"workers": workers(), "engine": bits(summary), "one": bits(one)}))


if __name__ == "__main__":
    main()
"""

DATA: Final = ROOT / "offline" / "ragtide_offline" / "data" / "demo_interactions.jsonl"


@pytest.mark.parametrize("engine", CLUSTERS)
def test_the_summary_of_an_engine_has_the_bits_of_one_process(engine: str, tmp_path: Path) -> None:
    block = tagged_block(page_text("engines"), f"engines {engine}")
    example = "".join(f"    {line}\n" if line else "\n" for line in block.splitlines())
    script = tmp_path / "example.py"
    script.write_text(BEFORE + CLUSTERS[engine] + example + AFTER, encoding="utf-8")
    done = subprocess.run(
        [ENVIRONMENTS.python_of(engine), script],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "ROWS": str(DATA)},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (result,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found = json.loads(result.removeprefix("RESULT "))
    assert found["workers"] == 2
    assert len(found["one"]) > 3
    assert found["engine"] == found["one"]
