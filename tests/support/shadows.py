"""Files of a user with the names of modules, which must replace none of them."""

from pathlib import Path

SHADOWS = ("random", "queue", "tempfile", "json", "pickle", "metrics", "labelers", "numpy", "redis")
"""Names of modules that ragtide, multiprocessing and libraries import."""


def write_shadows(folder: Path) -> None:
    """Write a file of each name, which ends whatever imports it."""
    for name in SHADOWS:
        (folder / f"{name}.py").write_text("raise RuntimeError('a file of the user replaces a module')\n")
