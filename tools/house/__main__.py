"""Prints the measures of the tree beside those of a commit: `python -m tools.house [COMMIT]`."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .measures import measures
from .page import AIMS, START, table

TREE = Path(__file__).resolve().parents[2]


def of_commit(commit: str) -> dict[str, str]:
    """Return the measures of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        packed = ["git", "-C", str(TREE), "archive", "--output", f"{folder}/tree.tar", commit]
        subprocess.run(packed, check=True)
        shutil.unpack_archive(f"{folder}/tree.tar", folder)
        return measures(Path(folder))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "commit", nargs="?", default="HEAD~1", help="the commit beside the tree; default: the one before"
    )
    commit = parser.parse_args().commit
    sys.stdout.write(table({"start": START, commit: of_commit(commit), "tree": measures(TREE), "aim": AIMS}))


if __name__ == "__main__":
    main()
