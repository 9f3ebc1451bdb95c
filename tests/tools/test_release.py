"""What a release publishes: notes of its version, and only for the tag of that version."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.release import check_tag, release_notes

ROOT = Path(__file__).parents[2]

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-01

### Added

- A thing.

## [0.1.10] - 2026-12-01

- Another one.
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "0.2.0") == "### Added\n\n- A thing.\n"
    assert release_notes(CHANGELOG, "0.1.10") == "- Another one.\n"


@pytest.mark.parametrize("version", ["0.1.1", "0.1", "Unreleased"])
def test_a_version_without_notes_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match=r"CHANGELOG\.md has no notes of"):
        release_notes(CHANGELOG, version)


def test_only_the_tag_of_the_version_is_released() -> None:
    check_tag("v0.1.0", "0.1.0")
    for tag in ("0.1.0", "v0.1.1", "v0.1.0-rc1", ""):
        with pytest.raises(ValueError, match="tag"):
            check_tag(tag, "0.1.0")


@pytest.mark.processes
def test_nothing_is_built_for_another_tag(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.release", "v9.9.9", str(tmp_path / "release")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "release").exists()
