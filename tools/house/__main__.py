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


def has_commit(commit: str) -> bool:
    """Return whether the tree has a history with this commit; a copy without one, or a shallow one, has not."""
    asked = ["git", "-C", str(TREE), "cat-file", "-e", commit]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", help="the commit beside the tree; default: the one before")
    commit = parser.parse_args().commit
    columns = {"start": START, "tree": measures(TREE), "aim": AIMS}
    if commit is not None or has_commit("HEAD~1"):
        commit = commit or "HEAD~1"
        columns = {"start": START, commit: of_commit(commit), "tree": columns["tree"], "aim": AIMS}
    sys.stdout.write(table(columns))


if __name__ == "__main__":
    main()
