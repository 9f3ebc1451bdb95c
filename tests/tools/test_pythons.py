"""The Pythons that CI runs are those of this machine that pyproject.toml allows."""

import sys
from pathlib import Path

import pytest
from tools import pythons


def interpreter(folder: Path, version: str, level: str = "final") -> Path:
    """Write a program that answers as an interpreter of a version does."""
    folder.mkdir(parents=True)
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\necho {version.replace('.', ' ')} {level}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.processes
def test_the_oldest_supported_release_and_the_newest_of_the_other_lines_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lowest = ".".join(map(str, pythons.lowest_version()))
    own = ".".join(map(str, sys.version_info[:2]))
    versions = ("3.10.9", lowest, f"{own}.99", "3.90.1", "3.90.10", "3.91.0")
    paths = {version: interpreter(tmp_path / version, version) for version in versions}
    interpreter(tmp_path / "candidate", "3.14.0", "candidate")
    monkeypatch.setattr(pythons, "PLACES", ())
    monkeypatch.setenv("PATH", ":".join(str(path.parent) for path in tmp_path.glob("*/python3")))
    pythons.main("oldest")
    assert capsys.readouterr().out.split() == [str(paths[lowest])]
    pythons.main("others")
    assert capsys.readouterr().out.split() == [str(paths["3.90.10"]), str(paths["3.91.0"])]
    with pytest.raises(SystemExit, match="oldest"):
        pythons.main("middle")
