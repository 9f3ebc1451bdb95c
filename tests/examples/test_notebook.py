"""The notebook of the examples, executed by a kernel of Jupyter as it stands."""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FILE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def read_notebook() -> Any:
    return nbformat.read(FILE, as_version=4)  # type: ignore[no-untyped-call] # of nbformat's


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_is_committed_without_outputs() -> None:
    cells = code_cells(read_notebook())
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []


async def test_every_cell_runs_and_shows_what_its_text_says() -> None:
    notebook = read_notebook()
    await NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FILE.parent)}}).async_execute()
    cells = code_cells(notebook)
    assert [cell.source for cell in cells if not cell.outputs] == []
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", ())}
    assert {"text/html", "image/png"} <= kinds
    summary, intervals, _, agreement, _, gate = (cell.outputs[-1] for cell in cells)
    assert "trace.adherence" in summary.data["text/html"]
    assert "running_lower" in intervals.data["text/plain"]
    rows = {line.split()[0]: float(line.split()[-1]) for line in agreement.data["text/plain"].splitlines()[1:]}
    assert rows["trace.context_utilization"] > rows["trace.adherence"] > 0, "the text below the plot says so"
    assert [line.rpartition(" ")[2] for line in gate.text.splitlines()] == ["pass", "fail", "undecided"]
