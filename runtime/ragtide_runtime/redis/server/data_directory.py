"""The data directory of an embedded server: whether it is safe to use, which server wrote it, and which may open it.

Its file `server.json` names the server that used it last. The data files are examined too, because older releases of
ragtide wrote no `server.json`: Redis 6.2 has a file `appendonly.aof`, later servers have a folder `appendonlydir` whose
base file begins with the name of its format and, mostly, of its server.

A server that reads the data may write them in a format that the last server cannot read: it converts them. Roles and
producers may convert data, readers may not. A copy of the old data is kept.
"""

import json
import logging
import os
import re
import shutil
import stat
from pathlib import Path

from ...errors import RedisUnavailable
from .binary import RedisBinary, ServerVersion, Version, find_redis_servers, remembered_server, version_text

log = logging.getLogger("ragtide.redis")

MEMORY = "server.json"
SINGLE_FILE = "appendonly.aof"
"""The append-only file of Redis 6.2."""
FOLDER = "appendonlydir"
"""Where Redis 7 and later, and Valkey, keep the append-only file."""

HEADER_BYTES = 256
"""Bytes of a base file that are searched for the version of its server."""

OPENED_BY_THE_SERVER = ("redis.log", "redis.log.1", "redis.sock", SINGLE_FILE, FOLDER)

_OLDEST_OF_FORMAT: dict[bytes, Version] = {b"0009": (6, 2, 0), b"0010": (7, 0, 0), b"0011": (7, 2, 0)}


def check_private(data_dir: Path) -> None:
    """Refuse a data directory that other users can write to, and links in it that a server would follow.

    Another user could put a link there, so that the server overwrites a file of this user, or loads foreign data.

    Raises:
        RedisUnavailable: the directory is not this user's alone to write.
    """
    status = data_dir.stat()
    if status.st_uid not in {0, os.getuid()}:
        why = f"belongs to another user (uid {status.st_uid})"
    elif status.st_mode & 0o022:
        why = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    else:
        for name in OPENED_BY_THE_SERVER:
            if (data_dir / name).is_symlink():
                raise RedisUnavailable(f"{data_dir / name} is a link: remove it, Redis would write to its target")
        return
    raise RedisUnavailable(
        f"the data directory {data_dir} {why}: run chmod go-w on it if it is yours, "
        "or set RAGTIDE_DATA_DIR to a directory of your own, which ragtide makes"
    )


def last_writer(data_dir: Path) -> ServerVersion | None:
    """Return the server whose data are in the directory; None if it holds no data."""
    writer = _writer_by_files(data_dir)
    remembered = _remembered_binary(data_dir)
    # server.json is older than the files if a process started a server and died before it called `remember`.
    return remembered.server if writer and remembered and remembered.server.reads(writer) else writer


def remember(data_dir: Path, binary: RedisBinary) -> None:
    """Store in `server.json` which server uses the directory now."""
    known = _remembered_binary(data_dir)
    if known is not None and known.server == binary.server and known.path.exists():
        return
    content = {"kind": binary.kind, "version": version_text(binary.version), "path": str(binary.path)}
    new = data_dir / f"{MEMORY}.new"
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(content, file)
    new.replace(data_dir / MEMORY)


def choose_server(data_dir: Path, *, convert: bool) -> RedisBinary:
    """Return the newest server that reads the data of the directory.

    The candidates are the servers on PATH, those in the wheel, and the server that the directory remembers.

    Args:
        data_dir: the directory; it may be empty.
        convert: whether the server may convert the data; a copy is kept then, and the log says so. Readers pass False.

    Raises:
        RedisUnavailable: no server can be started, or none reads the data, or none reads them without a conversion.
        OSError: the copy cannot be written.
    """
    writer = last_writer(data_dir)
    if writer is None:
        return find_redis_servers()[0]
    candidates = _candidates(data_dir)
    reading = [binary for binary in candidates if binary.server.reads(writer)]
    keeping = [binary for binary in reading if not binary.server.converts(writer)]
    if not reading:
        servers = " and ".join(map(str, candidates))
        raise RedisUnavailable(
            f"the data in {data_dir} were written by {writer}, and {servers} cannot read them: "
            f"put {writer} on PATH, or set RAGTIDE_DATA_DIR to another directory"
        )
    if not convert and not keeping:
        raise RedisUnavailable(
            f"the data in {data_dir} were written by {writer}, and {reading[0]} would convert them to a format that "
            f"{writer} cannot read: start a role (ragtide up), which converts them and keeps a copy, or put {writer} "
            "on PATH"
        )
    chosen = (reading if convert else keeping)[0]
    if chosen.server.converts(writer):
        _keep_copy(data_dir, writer, chosen)
    return chosen


def _candidates(data_dir: Path) -> list[RedisBinary]:
    remembered = _remembered_binary(data_dir)
    again = remembered_server(remembered.path) if remembered else None
    try:
        binaries = find_redis_servers()
    except RedisUnavailable:
        if again is None:
            raise
        binaries = []
    known = {binary.path.resolve() for binary in binaries}
    if again is not None and again.path.resolve() not in known:
        binaries.append(again)
    return sorted(binaries, key=lambda binary: binary.version, reverse=True)


def _remembered_binary(data_dir: Path) -> RedisBinary | None:
    try:
        with os.fdopen(os.open(data_dir / MEMORY, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            content = json.load(file)
        major, minor, patch = (int(part) for part in content["version"].split("."))
        kind = content["kind"]
        path = Path(content["path"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return RedisBinary(path, (major, minor, patch), "remembered", kind) if kind in {"redis", "valkey"} else None


def _writer_by_files(data_dir: Path) -> ServerVersion | None:
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return ServerVersion("redis", (6, 2, 0)) if (data_dir / SINGLE_FILE).exists() else None
    bases = sorted(folder.glob("*.base.rdb"), key=lambda base: base.stat().st_mtime)
    header = b""
    if bases:
        with bases[-1].open("rb") as file:
            header = file.read(HEADER_BYTES)
    return _writer_by_header(header)


def _writer_by_header(header: bytes) -> ServerVersion:
    if (named := re.search(rb"\xfa.(redis|valkey)-ver.(\d+)\.(\d+)\.(\d+)", header, re.DOTALL)) is not None:
        kind, *version = named.groups()
        major, minor, patch = map(int, version)
        return ServerVersion("valkey" if kind == b"valkey" else "redis", (major, minor, patch))
    if header.startswith(b"VALKEY"):
        return ServerVersion("valkey", (9, 0, 0))
    if header.startswith(b"REDIS"):
        return ServerVersion("redis", _OLDEST_OF_FORMAT.get(header[5:9], (7, 4, 0)))
    return ServerVersion("redis", (7, 0, 0))


def _keep_copy(data_dir: Path, writer: ServerVersion, chosen: RedisBinary) -> None:
    wanted = f"before-{chosen.kind}-{version_text(chosen.version)}"
    names = [wanted, *(f"{wanted}-{number}" for number in range(2, 1000))]
    kept = next(path for name in names if not (path := data_dir / name).exists())
    unfinished = data_dir / f"{kept.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    for name in (SINGLE_FILE, FOLDER, MEMORY):
        if (data_dir / name).is_dir():
            shutil.copytree(data_dir / name, unfinished / name, copy_function=_link_or_copy)
        elif (data_dir / name).exists():
            _link_or_copy(data_dir / name, unfinished / name)
    unfinished.rename(kept)
    log.warning(
        "%s converts the data in %s to a format that %s, which wrote them, cannot read; a copy is kept in %s: "
        "remove it when you are sure that you do not go back",
        chosen, data_dir, writer, kept,
    )  # fmt: skip


def _link_or_copy(source: str | Path, target: str | Path) -> None:
    """Link a base file, because servers replace it and never change it; copy the others, because servers append."""
    if ".base." in Path(source).name:
        try:
            os.link(source, target)
        except OSError:
            pass
        else:
            return
    shutil.copy2(source, target)
