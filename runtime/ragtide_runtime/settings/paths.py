"""Paths in settings."""

from pathlib import Path


def whole_path(path: Path) -> Path:
    """Return a whole path.

    Raises:
        ValueError: it begins with `~`, and this user has no home directory.
    """
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~, but no home directory is known: write the whole path") from None
