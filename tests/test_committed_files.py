"""The files in git are small and are texts, except for those that are meant to be otherwise."""

import subprocess
from pathlib import Path

import pytest
from tests.support.cases import for_each

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000
LARGEST_PICTURE = 300_000
ARRAYS = "consumers/ragtide_consumers/text/language_arrays/"
LARGEST_ARRAY = 6_000_000
"""The language model is in the wheel, because a worker maps it into memory."""
BINARY = {
    "docs/screens/": (".png", ".gif"),
    "benchmarks/measured/": (".png",),
    "tests/data/otlp/": (".pb", ".gz"),
    "tests/data/stored/": (".parquet", ".gz"),
    ARRAYS: (".npy",),
}
"""Folders that may hold binary files, and how the names of these files end."""


def committed() -> list[Path]:
    """Return the files in git."""
    try:
        found = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"],
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this tree is no git repository: only a repository tells which files are committed")
    paths = [ROOT / name for name in found.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def problem(name: str, data: bytes) -> str:
    """Return why a file must not be in git; empty if it may."""
    largest = LARGEST_ARRAY if name.startswith(ARRAYS) else LARGEST
    if len(data) > largest:
        return f"{name} has {len(data):,} bytes: make it smaller than {largest:,}, or download it where it is needed"
    if name.endswith((".png", ".gif")) and len(data) > LARGEST_PICTURE:
        return f"{name} has {len(data):,} bytes: make the picture smaller than {LARGEST_PICTURE:,}"
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return ""
    if any(name.startswith(folder) and name.endswith(end) for folder, end in BINARY.items()):
        return ""
    return (
        f"{name} is binary: commit the text that it is made from, or add its folder to BINARY in {Path(__file__).name}"
    )


def test_no_file_in_git_is_large_or_binary_unless_it_is_meant_to_be() -> None:
    paths = committed()
    assert len(paths) > 500
    problems = [found for path in paths if (found := problem(path.relative_to(ROOT).as_posix(), path.read_bytes()))]
    assert problems == []


@for_each(
    "name, data, refused",
    [
        ("benchmarks/measured/a.md", b"text", False),
        ("benchmarks/measured/a.md", "текст".encode(), False),
        ("docs/screens/a.png", b"\x89PNG\0", False),
        ("docs/a.png", b"\x89PNG\0", True),
        ("docs/screens/a.bin", b"\0", True),
        ("docs/screens/a.png", b"\x89PNG\0" * 60_001, True),
        ("models/a.onnx", b"\xff\xfe", True),
        ("tests/data/a.jsonl", b"a" * (LARGEST + 1), True),
    ],
)
def test_a_file_is_refused_for_its_size_or_its_bytes(name: str, data: bytes, refused: bool) -> None:
    assert bool(problem(name, data)) is refused
