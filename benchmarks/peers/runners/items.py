"""The items that every peer evaluates, and its result. Standard library only, for every environment.

Each runner is called as `python NAME_run.py FOLDER URL COUNT`: the items are in FOLDER/items.jsonl, the endpoint is at
URL, COUNT items may be in work at once. What a peer keeps for a second run, it keeps in FOLDER.
"""

import json
import sys
from pathlib import Path
from typing import TypedDict


class Item(TypedDict):
    """One answer of a RAG application."""

    item_id: str
    question: str
    documents: list[str]
    response: str


def arguments() -> tuple[list[Item], str, int, Path]:
    """Return the items, the URL of the endpoint, the items at once, and the folder, from the command line."""
    folder, url, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with (folder / "items.jsonl").open() as file:
        return [json.loads(line) for line in file], url, count, folder


def finish(folder: Path, scored: int) -> None:
    """Write the number of items that have all their scores."""
    (folder / "result.json").write_text(json.dumps({"scored": scored}))
