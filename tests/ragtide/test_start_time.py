"""A help or a look imports no library that takes longer to import than the command takes."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

SLOW = {
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
}
"""Libraries that only the work of a few commands needs."""

UNUSED = SLOW | {"numpy", "redis", "opentelemetry", "structlog", "pydantic", "pydantic_settings", "asyncio", "jinja2"}
"""Libraries that no page of help needs."""

IMPORTS = """
import sys
from importlib import import_module
from ragtide.cli.command_list import COMMANDS

loaded = set()
for name, listed in COMMANDS.items():
    import_module("ragtide.cli." + listed.target.partition(":")[0])
    new = set(sys.modules) - loaded
    loaded |= new
    print(f"{name}:", *[one for one in new if one in SLOW])
"""

RUN = """
import sys
from ragtide.cli import run

sys.argv = ["ragtide", *sys.argv[1:]]
try:
    run()
finally:
    print("imported:", *(set(sys.modules) & UNUSED))
"""


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    values = f"SLOW, UNUSED = {SLOW!r}, {UNUSED!r}\n"
    return subprocess.run(
        [sys.executable, "-c", values + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=None if not environment else {**environment},
    )


def test_no_command_imports_a_slow_library_before_it_begins() -> None:
    done = python(IMPORTS)
    lines = done.stdout.splitlines()
    assert len(lines) > 20, done.stderr
    assert [line for line in lines if not line.endswith(":")] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), "Usage: ragtide"),
        (("--version",), ""),
        ((), "Usage: ragtide"),
        (("estimate",), "did you mean 'estimates'?"),
    ],
)
def test_what_needs_no_command_imports_none(arguments: tuple[str, ...], words: str) -> None:
    done = python(RUN, *arguments)
    assert words in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


def test_the_completion_of_a_command_imports_none() -> None:
    done = python(RUN, COMP_WORDS="ragtide esti", COMP_CWORD="1", _RAGTIDE_COMPLETE="complete_bash")
    assert done.stdout.splitlines() == ["estimates", "imported:"]


def test_the_package_alone_imports_no_library() -> None:
    done = python("import sys, ragtide\nprint('imported:', *(set(sys.modules) & UNUSED))")
    assert done.stdout.splitlines() == ["imported:"]
