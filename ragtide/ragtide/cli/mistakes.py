"""The one sentence in which a command names an error that a user can correct."""

import errno
from typing import Final

from ragtide_runtime import redis
from ragtide_runtime.errors import RagtideError

UNWRITABLE: Final = {errno.EACCES, errno.EDQUOT, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
"""Reasons for which nothing can be written, or read, at a place."""


def sentence_of(error: Exception) -> str | None:
    """Return the sentence about an error; None for an error that is a fault of ragtide."""
    if isinstance(error, RagtideError):
        return str(error)
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # of a path that begins with ~
        return "no home directory is known: write a whole path instead of ~"
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}: name a place that you can write to, such as TMPDIR for temporary files"
    # An error alone imports redis here.
    return redis.explained(error) if isinstance(error, redis.RedisError) else None
