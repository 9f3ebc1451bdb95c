"""Writes the bodies of trace requests to files, for `ragtide publish explain`."""

from pathlib import Path
from threading import Lock
from typing import Final

import structlog

from ragtide_producers.traces.otlp import Encoding
from ragtide_runtime.errors import ConfigurationError

REQUESTS_MAX: Final = 1000
"""Most requests that one process writes, so that a forgotten option does not fill a disk."""
SUFFIXES: Final[dict[Encoding, str]] = {"protobuf": ".pb", "json": ".json"}

log = structlog.get_logger("ragtide.web")


class Capture:
    """Writes the first requests to a folder, each to a file of its own. The files hold texts of users.

    Args:
        folder: made if it is missing.

    Raises:
        ConfigurationError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"--capture {folder} cannot be a folder: {error.strerror or error}") from None
        self._folder = folder
        self._written = 0
        self._lock = Lock()

    def write(self, body: bytes, encoding: Encoding) -> None:
        """Write a decompressed body; a disk that fails is logged and harms no request."""
        with self._lock:  # small bodies are read by several threads
            if self._written == REQUESTS_MAX:
                return
            self._written += 1
            path = self._folder / f"{self._written:06}{SUFFIXES[encoding]}"
        try:
            path.write_bytes(body)
        except OSError as error:
            log.warning("a request cannot be captured", file=str(path), error=error.strerror or str(error))
