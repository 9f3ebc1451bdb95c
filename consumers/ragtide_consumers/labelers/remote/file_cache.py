"""The cache of work without Redis: answers in a file that outlives the process, so that a second run pays nothing."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic_core import from_json, to_json

from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.processes.made_folders import removed_if_empty
from ragtide_runtime.redis.server.data_directory import check_private

NAME: Final = "answers.sqlite"
"""The file in the data directory."""
MOST_BYTES: Final = 2 * 2**30
"""Most bytes of the file; beyond them the oldest answers are dropped."""
BUSY_S: Final = 5.0
"""Seconds that a process waits for another that writes."""

log = structlog.get_logger("ragtide.labeler")


class FileCache:
    """A cache in a SQLite file, for all processes that use the same file, one after another or together.

    Each answer is written by itself, so a process that is killed leaves whole answers. A damaged file is put aside and
    a new one begun. If the file fails, answers are paid for again, and nothing else happens.

    Args:
        path: of the file; the first answer makes it, and its directory.
        labeler: name of the labeler, whose answers are apart from those of others.
        ttl_s: seconds for which an answer is kept.
        now: returns seconds since 1970.

    Raises:
        ConfigurationError: the directory cannot be used.
    """

    def __init__(
        self, path: Path, labeler: str, ttl_s: float, *, now: Callable[[], float] = time.time, most: int = MOST_BYTES
    ) -> None:
        self._path = path
        self._labeler = labeler
        self._ttl_s = ttl_s
        self._now = now
        self._most = most
        self._file: sqlite3.Connection | None = None
        self._is_usable = True
        try:
            with removed_if_empty(path.parent):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                check_private(path.parent)
                if path.is_symlink() or not os.access(path.parent, os.W_OK):
                    raise OSError("it is a link, or cannot be written")  # noqa: TRY301 - reported like any other reason
                if path.exists():
                    self._open()
        except (OSError, RedisUnavailable) as error:
            raise ConfigurationError(
                f"{path}, which holds the {labeler}'s answers, cannot be used ({error}): set data_dir to a directory "
                "of your own, or cache_ttl_s to 0"
            ) from None

    async def get(self, key: str) -> Any:
        """Return the answer under a key; None if there is none, or if it is too old."""
        if self._file is None and self._path.exists():  # another process has made it
            self._open()
        if self._file is None:
            return None
        try:
            row = self._file.execute(
                "SELECT answer FROM answers WHERE key = ? AND at > ?", (self._name(key), self._now() - self._ttl_s)
            ).fetchone()
            return None if row is None else from_json(row[0])
        except (sqlite3.Error, ValueError) as error:
            self._failed(error)
            return None

    async def put(self, key: str, answer: Any) -> None:
        """Store an answer; the first one makes the file."""
        if self._file is None:
            self._open()
        if self._file is None:
            return
        row = self._name(key), to_json(answer), self._now()
        try:
            try:
                self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)
            except sqlite3.OperationalError as error:
                if "full" not in str(error):
                    raise
                self._drop_oldest()
                self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            self._failed(error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _name(self, key: str) -> str:
        return f"{self._labeler}:{key}"

    def _open(self) -> None:
        if not self._is_usable:
            return
        try:
            try:
                self._file = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # not damage: locked for too long, or no space is left
                    raise
                self._put_aside()
                self._file = self._connect()
        except (OSError, sqlite3.Error) as error:
            self._failed(error)

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None)
        try:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = NORMAL")
            (size,) = file.execute("PRAGMA page_size").fetchone()
            file.execute(f"PRAGMA max_page_count = {max(self._most // size, 16)}")
            file.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer BLOB, at REAL) WITHOUT ROWID"
            )
            file.execute("CREATE INDEX IF NOT EXISTS by_time ON answers (at)")
            file.execute("DELETE FROM answers WHERE at <= ?", (self._now() - self._ttl_s,))
        except sqlite3.Error:
            file.close()
            raise
        return file

    def _drop_oldest(self) -> None:
        assert self._file is not None  # noqa: S101 - for the type checker: only an open file is full
        self._file.execute(
            "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY at LIMIT "
            "1 + (SELECT count(*) FROM answers) / 4)"
        )

    def _put_aside(self) -> None:
        aside = self._path.with_suffix(".damaged")
        log.warning("the file of answers is damaged: a new one is begun", file=str(self._path), kept_as=str(aside))
        self._path.replace(aside)
        for end in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self._path}{end}").unlink()

    def _failed(self, error: Exception) -> None:
        log.warning("the file of answers cannot be used: answers are paid for again", error=str(error)[:200])
        self._is_usable = False
        self.close()
