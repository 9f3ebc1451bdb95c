"""The store of a recording: a local folder, or an object store that fsspec knows. Each write is atomic."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from ..errors import ConfigurationError

_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""Error numbers of file systems without hard links."""

TEMPORARY: Final = ".tmp"
"""Suffix of a file that is still being written; its name begins with a dot."""


class Store(Protocol):
    """Files below one folder, by their path relative to it with `/` between its parts."""

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, in any order; none if there is no such folder."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the bytes of a file, at most `limit` of them.

        Raises:
            FileNotFoundError: there is no such file.
            PermissionError: the path leads out of the folder.
        """

    def write(self, path: str, data: bytes) -> None:
        """Write a file completely or not at all, so that it survives a power cut."""

    def create(self, path: str, data: bytes) -> bool:
        """Write a file as `write` does, unless it exists, and return whether it was written."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing file is no error."""


class LocalStore:
    """A folder of this machine, made with its first file; a path that leads out of the folder is refused."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, including unfinished files."""
        start = self._at(folder)
        if not start.is_dir():
            return []
        return [
            (Path(parent) / name).relative_to(self._root).as_posix()
            for parent, _, names in os.walk(start)
            for name in names
        ]

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the bytes of a file, at most `limit` of them."""
        with self._at(path).open("rb") as file:
            return file.read(limit)

    def write(self, path: str, data: bytes) -> None:
        """Write a temporary file, sync it to disk, and rename it."""
        target = self._at(path)
        temporary = self._temporary(target, data)
        temporary.replace(target)
        _keep(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        """Write a temporary file, sync it to disk, and link it; of two processes that try, one succeeds."""
        target = self._at(path)
        temporary = self._temporary(target, data)
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS or target.exists():
                raise
            temporary.rename(target)  # here only the lease keeps two processes from writing the same file
        finally:
            temporary.unlink(missing_ok=True)
        _keep(target.parent)
        return True

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that become empty."""
        target = self._at(path)
        target.unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or gone already
            for parent in target.parents:
                if parent == self._root:
                    break
                parent.rmdir()

    def _at(self, path: str) -> Path:
        target = self._root / _inside(path)
        if not target.resolve().is_relative_to(self._root.resolve()):
            raise PermissionError(f"{path} leads out of the recording {self._root}: remove the link")
        return target

    def _temporary(self, target: Path, data: bytes) -> Path:
        temporary = target.parent / f".{target.name}.{uuid4().hex[:8]}{TEMPORARY}"
        while True:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except FileNotFoundError:  # another process removed the empty folder in between
                continue
            return temporary


def _inside(path: str) -> str:
    if path.startswith("/") or "\\" in path or "\0" in path or not {"..", "."}.isdisjoint(path.split("/")):
        raise PermissionError(f"{path!r} is not a path inside the recording: restore the manifest that names it")
    return path


def _keep(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, NotImplementedError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class FsspecStore:
    """An object store that fsspec knows by its URL, where a PUT is atomic. All failures are OSErrors."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._fs = filesystem
        self._root = root.rstrip("/")

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder."""
        with _os_errors():
            self._fs.invalidate_cache()
            try:
                paths = self._fs.find(f"{self._root}/{folder}")
            except FileNotFoundError:
                return []
        # Some file systems return paths with a leading slash.
        marker = f"{self._root.strip('/')}/"
        return [path.lstrip("/").removeprefix(marker) for path in paths]

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the bytes of a file, at most `limit` of them."""
        with _os_errors():
            data: bytes = self._fs.cat_file(self._at(path), end=limit)
            return data

    def write(self, path: str, data: bytes) -> None:
        """Write a file in one request."""
        with _os_errors():
            self._make_folder(path)
            self._fs.pipe_file(self._at(path), data)

    def create(self, path: str, data: bytes) -> bool:
        """Create a file, unless it exists; a check before the write serves stores without conditional writes."""
        target = self._at(path)
        with _os_errors():
            self._fs.invalidate_cache()
            if self._fs.exists(target):
                return False
            self._make_folder(path)
            try:
                self._fs.pipe_file(target, data, mode="create")
            except FileExistsError:
                return False
            self._fs.invalidate_cache()
            # A store that does not know the mode overwrites an existing file: the last writer succeeds.
            return bool(self._fs.cat_file(target) == data)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with _os_errors(), suppress(FileNotFoundError):
            self._fs.rm_file(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{_inside(path)}"

    def _make_folder(self, path: str) -> None:
        self._fs.makedirs(f"{self._root}/{path.rpartition('/')[0]}", exist_ok=True)


def open_store(url: str, storage_options: Mapping[str, object] | None = None) -> Store:
    """Return the store at a path or URL.

    Args:
        url: a local path, or a URL that fsspec knows (`s3://bucket/folder`, `gs://...`, `memory://...`).
        storage_options: for the fsspec file system, such as an endpoint.

    Raises:
        ConfigurationError: fsspec or a package it needs for this URL is not installed, or rejects the options.
    """
    if "://" not in url:
        return LocalStore(Path(url).expanduser().absolute())
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra; only URLs need it
    except ModuleNotFoundError:
        raise ConfigurationError("this recording needs fsspec: pip install 'ragtide[recorder]'") from None
    try:
        filesystem, root = url_to_fs(url, **(storage_options or {}))
    except ImportError as error:
        scheme = url.partition("://")[0]
        raise ConfigurationError(f"recording at {scheme}:// needs another package: {error}") from None
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the recording's URL {url!r} cannot be used ({error}): give a folder or a URL that fsspec supports"
        ) from None
    return FsspecStore(filesystem, root)
