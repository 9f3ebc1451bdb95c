"""Writes a new file at once: a reader sees the whole file or none, and a file that exists is not replaced unasked."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file beside its place, then move it there. Only its owner may read it.

    Args:
        path: of the file.
        text: its text.
        force: whether a file that exists is replaced.

    Raises:
        FileExistsError: the file exists, and `force` is not set.
        OSError: the file cannot be written.
    """
    target = Path(os.path.realpath(path))  # a symbolic link stays, and its target is replaced
    if target.exists() and not target.is_file():
        raise OSError(None, "it is not a regular file")
    with NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, prefix=".ragtide-", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if force:
                temporary.replace(target)
            else:
                os.link(temporary, target)  # fails if another process made the file meanwhile
        finally:
            temporary.unlink(missing_ok=True)
