"""Which failures a shipped labeler sees: the tables of measured/corruptions.md, and the slopes beside numbers.

    ragtide trust figures --corruptions ROWS.jsonl --labeler local --json > figures.json
    ragtide trust figures LABELED.jsonl --labeler local --json > labels.json
    python benchmarks/corruptions.py figures.json --labels labels.json [--data "RAGBench, development rows"] [--write]
    python benchmarks/corruptions.py --scripted ROWS.jsonl [--rows 60]

Printed is Markdown. With `--write`, `schemas/ragtide_schemas/measured_slopes.py` gets the slopes by metric and failure,
so that estimates, `ragtide explain`, reports and the page say them; those of other labelers stay. Rows that are spoilt
show the slopes of faults that are made; rows with labels those of faults as they come, such as unsupported claims.

`--scripted` asks a scripted judge over HTTP with each prompt, and prints measured/corruptions_scripted.md. It
compares words, so its AUROC says how prompts, texts and figures fit together, and nothing about a model.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pprint import pformat
from tempfile import TemporaryDirectory
from typing import Any

from ragtide.testing import ScriptedJudge
from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_offline.benchmark.corruptions import SpoiltRows
from ragtide_offline.benchmark.figures import SLOPE, Figure, measured_slope
from ragtide_schemas.measured_slopes import SLOPES, VERSIONS
from ragtide_schemas.slopes import OF_LABELS

Figures = tuple[float, float, float, int]
"""Slope, its lower and upper end, and the number of rows."""

TITLE = (
    "How far the numbers of the shipped labelers move with each failure, as `benchmarks/corruptions.py --write` found."
)
PROMPTS = ("full", "short", "keys")
PRODUCT = Path(__file__).parents[1] / "schemas" / "ragtide_schemas" / "measured_slopes.py"


def table(figures: list[dict[str, Any]]) -> str:
    """Return the figures of one metric as a table of Markdown."""
    lines = [
        "| corruption | should | AUROC | before | after | change | alert after | applied | absent | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        delay = figure["delay"]
        shown = (
            "" if delay is None else f"over {delay['within']:,}" if delay["median"] is None else f"{delay['median']:,}"
        )
        cells = [
            figure["corruption"],
            {"worse": "get worse", "same": "stay", None: ""}[figure["expected"]],
            interval(figure["auroc"], 2),
            mean(figure["before"]),
            mean(figure["after"]),
            interval(figure["change"], 3),
            shown,
            f"{figure['applied']:.0%}",
            f"{figure['absent']:.0%}",
            figure["verdict"] or "",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def interval(measured: Mapping[str, float | None], digits: int) -> str:
    """Return a figure with its interval."""
    if measured["value"] is None:
        return "absent"
    if measured["lower"] is None:
        return f"{measured['value']:.{digits}f}"
    return f"{measured['value']:.{digits}f} ({measured['lower']:.{digits}f} to {measured['upper']:.{digits}f})"


def mean(value: float | None) -> str:
    """Return a mean, or nothing."""
    return "" if value is None else f"{value:.3f}"


def slopes(found: Mapping[str, Any], labels: Mapping[str, Any]) -> dict[str, dict[str, Figures]]:
    """Return by metric and failure slope, ends and rows: of the corruptions that do harm, then of the labels."""
    harmful = {corruption["corruption"] for corruption in found["corruptions"] if not corruption["harmless"]}
    measured: dict[str, dict[str, Figures]] = {}
    for figure in found["figures"]:
        slope = figure["slope"]
        if slope is not None and figure["corruption"] in harmful:
            measured.setdefault(figure["metric"], {})[figure["corruption"]] = figures_of_slope(slope)
    for row in labels["metrics"]:
        (figure,) = (figure for figure in row["figures"] if figure["name"] == SLOPE)
        if row["metric"] in OF_LABELS and figure["mean"]["value"] is not None:
            failure = OF_LABELS[row["metric"]]
            slope = measured_slope(failure, Figure(SLOPE, Measured(**figure["mean"]), figure["subsets"]), row["n"])
            if slope is not None:
                measured.setdefault(row["metric"], {})[failure] = figures_of_slope(asdict(slope))
    return measured


def figures_of_slope(slope: Mapping[str, Any]) -> Figures:
    """Return slope, ends and rows, rounded to what the rows can show."""
    value, lower, upper = (round(slope[name], 3) + 0.0 for name in ("slope", "lower", "upper"))
    return value, lower, upper, slope["rows"]


def slopes_table(measured: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the slopes as a table of Markdown."""
    lines = ["| metric | failure | slope | lowest to highest data set | rows |", "|---|---|---|---|---|"]
    for metric, failures in measured.items():
        for failure, (slope, lower, upper, rows) in failures.items():
            lines.append(f"| {metric} | {failure} | {slope:.3f} | {lower:.3f} to {upper:.3f} | {rows:,} |")
    return "\n".join(lines)


def module_text(labeler: str, measured: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the module with the slopes of this labeler, beside those of the others."""
    name, version = labeler.split(" ", 1)
    versions = {**VERSIONS, name: version}
    shown = pformat({**SLOPES, name: measured}, width=100, sort_dicts=False)
    return f'''"""{TITLE}"""

from collections.abc import Mapping
from typing import Final

VERSIONS: Final[Mapping[str, str]] = {pformat(versions, width=100, sort_dicts=False)}
"""Version of each labeler that was measured."""

SLOPES: Final[Mapping[str, Mapping[str, Mapping[str, tuple[float, float, float, int]]]]] = {shown}
"""By labeler, metric and failure: slope, its lower and upper end, and the number of rows."""
'''


async def scripted(path: Path, rows: int) -> str:
    """Return the AUROC of a scripted judge by corruption and prompt."""
    found: dict[tuple[str, str], list[str]] = {}
    for prompt in PROMPTS:
        with TemporaryDirectory() as folder, ScriptedJudge() as server:
            settings = server.settings(prompt=prompt).model_copy(update={"data_dir": Path(folder)})
            run = SpoiltRows(settings, [path], sample=rows)
            async for _ in run.run():
                pass
        list(run.finish())
        for figure in run.figures:
            if figure.metric in {"trace.adherence", "trace.context_relevance"}:
                found.setdefault((figure.metric, figure.corruption), []).append(interval(asdict(figure.auroc), 2))
    heads = ["metric", "corruption", *PROMPTS]
    lines = [
        "# Which failures a scripted judge sees\n\nWritten by `python benchmarks/corruptions.py --scripted`.\n",
        f"AUROC of a scripted judge over HTTP by prompt, {rows} rows of `{path.name}`. The judge finds a sentence",
        "supported if a document sentence has half of its words. Equal columns show that the prompts carry the same",
        "texts; they say nothing about a model. How to read it: [Corruptions](../../docs/scores/corruptions.md).\n",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join([*names, *cells])} |" for names, cells in found.items())])


def main() -> None:
    """Print the tables, and write what is seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="?", help="JSON of ragtide trust figures --corruptions")
    parser.add_argument("--labels", type=Path, help="JSON of ragtide trust figures on labeled rows")
    parser.add_argument("--data", default="", help="name of the rows, for the page")
    parser.add_argument("--write", action="store_true", help="write measured_slopes.py; then run ruff format on it")
    parser.add_argument("--scripted", type=Path, metavar="ROWS", help="file of rows for a scripted judge")
    parser.add_argument("--rows", type=int, default=60, help="rows that the scripted judge is asked about")
    arguments = parser.parse_args()
    if arguments.scripted is not None:
        print(asyncio.run(scripted(arguments.scripted, arguments.rows)))
        return
    if arguments.figures is None:
        parser.error("give figures.json, or --scripted ROWS")
    found = json.loads(arguments.figures.read_text(encoding="utf-8"))
    labels = json.loads(arguments.labels.read_text(encoding="utf-8")) if arguments.labels else {"metrics": ()}
    measured = slopes(found, labels)
    if arguments.write:
        PRODUCT.write_text(module_text(found["labeler"], measured), encoding="utf-8")
    print("# Which failures the labeler sees\n\nWritten by `make corruptions` (`benchmarks/corruptions.py`).\n")
    print(f"Labeler `{found['labeler']}`, {found['rows']:,} rows{arguments.data and f' ({arguments.data})'}. How to")
    print("read the tables: [Corruptions](../../docs/scores/corruptions.md).")
    for metric in dict.fromkeys(figure["metric"] for figure in found["figures"]):
        print(f"\n## {metric}\n")
        print(table([figure for figure in found["figures"] if figure["metric"] == metric]))
    print("\n## Slopes\n\nHow far the mean gets worse per unit of the share of answers with the failure: mean over the")
    print("data sets, between the lowest and the highest of them.\n")
    print(slopes_table(measured))


if __name__ == "__main__":
    main()
