"""A help or a look imports no library that takes longer to import than the command takes."""

import subprocess
import sys

import pytest

SLOW = (
    "scipy",
    "pandas",
    "polars",
    "pyarrow",
    "faststream",
    "openai",
    "httpx",
    "httpx2",
    "aiohttp",
    "mlflow",
    "matplotlib",
)

PROGRAM = """
import sys
from importlib import import_module
from ragtide.cli.command_list import COMMANDS

found = {}
import_module("ragtide.cli.app")
loaded = set(sys.modules)
print("the list:", *[name for name in SLOW + ("numpy",) if name in loaded])
for name, listed in COMMANDS.items():
    import_module("ragtide.cli." + listed.target.partition(":")[0])
    new = set(sys.modules) - loaded
    loaded |= new
    print(f"{name}:", *[one for one in SLOW if one in new])
"""


@pytest.mark.processes
def test_no_command_imports_a_slow_library_for_its_help() -> None:
    program = f"SLOW = {SLOW!r}\n{PROGRAM}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    lines = found.stdout.splitlines()
    assert lines[0] == "the list:"
    assert len(lines) > 20
    assert [line for line in lines if not line.endswith(":")] == []
