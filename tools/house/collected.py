"""Counts of the tests that pytest collects, in all and on text and form."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TEXT_AND_FORM: Final = re.compile(
    r"tests/docs/|tests/test_\w+\.py|tests/(?:\w+/)*test_\w*"
    r"(?:pages?|help|screens?|declarations|documentation|wording|words|face|files|names|keys)(?:_\w+)?\.py"
)
"""Tests on text and form, by file: those of the docs, those of the tree, and those whose file is named for a page, a
help, a screen, words, names, keys or files."""


def collected_tests(tree: Path, environment: dict[str, str]) -> dict[str, int]:
    """Return the number of tests that are not heavy, and how many of them are on text and form.

    Raises:
        RuntimeError: pytest cannot collect the tests.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "-m", "not heavy"]
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"pytest cannot collect the tests of {tree}: {done.stdout[-2000:]}")
    return count_tests(line for line in done.stdout.splitlines() if "::" in line)


def count_tests(ids: Iterable[str]) -> dict[str, int]:
    """Return the number of ids of tests, and how many are on text and form."""
    files = [test.partition("::")[0] for test in ids]
    return {"tests": len(files), "on text and form": sum(bool(TEXT_AND_FORM.match(file)) for file in files)}
