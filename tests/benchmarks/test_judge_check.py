"""The table of `ragtide judge check` in the documentation is the output of its benchmark."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.support.doc_pages import page_text, tagged_block

pytestmark = pytest.mark.processes

_PATH = Path(__file__).parents[2] / "benchmarks" / "judge_check.py"


def program() -> Any:
    spec = importlib.util.spec_from_file_location("program_judge_check", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_page_is_what_the_program_prints() -> None:
    shown = tagged_block(page_text("trust-in-the-judge"), "judge check")
    assert shown.rstrip("\n") == program().table(), "write it anew: python benchmarks/judge_check.py"
