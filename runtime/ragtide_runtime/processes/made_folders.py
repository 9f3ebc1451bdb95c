"""Folders that a process makes: those in which nothing was written are removed again."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def missing_folders(folder: Path) -> list[Path]:
    """Return which of a folder and its parents do not exist, the innermost first."""
    return [place for place in (folder, *folder.absolute().parents) if not place.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, the innermost first, that hold nothing."""
    for folder in folders:
        with suppress(OSError):  # it holds something, or is gone
            folder.rmdir()


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """Remove a folder and its parents after the body of a `with` if they were made in it and hold nothing."""
    missing = missing_folders(folder)
    try:
        yield
    finally:
        remove_empty(missing)
