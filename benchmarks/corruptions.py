"""Which failures a shipped labeler sees: the table of measured/corruptions.md, and the phrase beside numbers.

    ragtide trust figures --corruptions ROWS.jsonl --labeler local --json > figures.json
    python benchmarks/corruptions.py figures.json [--data "RAGBench, development rows"] [--write]
    python benchmarks/corruptions.py --scripted ROWS.jsonl [--rows 60]

Printed is Markdown. With `--write`, `schemas/ragtide_schemas/seen_failures.py` gets what the labeler sees by metric, so
that `ragtide explain`, reports and the page say it; figures of other labelers stay.

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
from types import SimpleNamespace
from typing import Any, cast

from ragtide.testing import ScriptedJudge
from ragtide_offline.benchmark.corruptions import SpoiltRows, seen_failures
from ragtide_schemas.fitness import SIGHTS, Sight
from ragtide_schemas.seen_failures import SEEN, VERSIONS

TITLE = "Which failures the numbers of the shipped labelers follow, as `benchmarks/corruptions.py --write` found."
PROMPTS = ("full", "short", "keys")
PRODUCT = Path(__file__).parents[1] / "schemas" / "ragtide_schemas" / "seen_failures.py"


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


def seen(found: Mapping[str, Any]) -> dict[str, dict[Sight, tuple[str, ...]]]:
    """Return by metric how it follows each kind of failure."""
    figures = [SimpleNamespace(**figure) for figure in found["figures"]]
    return {
        metric: {sight: tuple(failures[sight]) for sight in SIGHTS if sight in failures}
        for metric, failures in seen_failures(cast("Any", figures)).items()
    }


def module_text(found: Mapping[str, Any]) -> str:
    """Return the module with the figures of this labeler, beside those of the others."""
    name, version = found["labeler"].split(" ", 1)
    versions = {**VERSIONS, name: version}
    shown = pformat({**SEEN, name: seen(found)}, width=100, sort_dicts=False)
    return f'''"""{TITLE}"""

from collections.abc import Mapping
from typing import Final

VERSIONS: Final[Mapping[str, str]] = {pformat(versions, width=100, sort_dicts=False)}
"""Version of each labeler that was measured."""

SEEN: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]] = {shown}
"""By labeler and metric: how its numbers follow each kind of failure."""
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
        "texts; they say nothing about a model. How to read it: [Corruptions](../scores/corruptions.md).\n",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join([*names, *cells])} |" for names, cells in found.items())])


def main() -> None:
    """Print the tables, and write what is seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="?", help="JSON of ragtide trust figures --corruptions")
    parser.add_argument("--data", default="", help="name of the rows, for the page")
    parser.add_argument("--write", action="store_true", help="write seen_failures.py; then run ruff format on it")
    parser.add_argument("--scripted", type=Path, metavar="ROWS", help="file of rows for a scripted judge")
    parser.add_argument("--rows", type=int, default=60, help="rows that the scripted judge is asked about")
    arguments = parser.parse_args()
    if arguments.scripted is not None:
        print(asyncio.run(scripted(arguments.scripted, arguments.rows)))
        return
    if arguments.figures is None:
        parser.error("give figures.json, or --scripted ROWS")
    found = json.loads(arguments.figures.read_text(encoding="utf-8"))
    if arguments.write:
        PRODUCT.write_text(module_text(found), encoding="utf-8")
    print("# Which failures the labeler sees\n\nWritten by `make corruptions` (`benchmarks/corruptions.py`).\n")
    print(f"Labeler `{found['labeler']}`, {found['rows']:,} rows{arguments.data and f' ({arguments.data})'}. How to")
    print("read the tables: [Corruptions](../scores/corruptions.md).")
    for metric in dict.fromkeys(figure["metric"] for figure in found["figures"]):
        print(f"\n## {metric}\n")
        print(table([figure for figure in found["figures"] if figure["metric"] == metric]))


if __name__ == "__main__":
    main()
