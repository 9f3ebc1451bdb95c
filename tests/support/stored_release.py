"""What a release has stored: keys of a Redis as texts, and the commands that read them.

`tools/stored_release.py` makes the folder of a release in `tests/data/stored`; a test reads it with the present code.
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.support.roles import command

from ragtide_runtime.redis.keys import Streams

FOLDER: Final = Path(__file__).parents[1] / "data" / "stored"
STREAMS: Final = Streams("ragtide", 0)
EXPERIMENT: Final = "grid"
ITEM: Final = "i-0130"

READINGS: Final[dict[str, tuple[str, ...]]] = {
    "estimates": ("estimates", "--json"),
    "alerts": ("alerts", "--json"),
    "worst items": ("items", "--worst", "--limit", "2", "--json"),
    "item": ("item", ITEM, "--json"),
    "dead letters": ("dead-letters", "--json"),
    "experiment": ("experiment", "show", EXPERIMENT, "--json"),
    "report": ("report", EXPERIMENT, "--format", "json", "--output", "-"),
    "recording": ("inspect", "recording", "--verify", "--json"),
    "rules": ("rules", "check", "ragtide.toml"),
    "alerts of the recording": ("rules", "test", "ragtide.toml", "--recording", "recording", "--json"),
}
"""Commands that read everything that is stored, in a folder with the settings and the recording."""


def readings(url: str, names: Iterable[str] = READINGS) -> dict[str, Any]:
    """Return the output of each command: JSON, or lines of JSON, or text."""
    found: dict[str, Any] = {}
    for name in names:
        done = command(url, *READINGS[name])
        assert done.returncode == 0, (name, done.stderr)
        found[name] = _parsed(done.stdout)
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


def _text(data: bytes) -> str:
    """Return bytes as a text: themselves if they are UTF-8, else in base 64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    return (
        text
        if text.encode() == data and not text.startswith("base64:")
        else f"base64:{base64.b64encode(data).decode()}"
    )


def _data(text: str) -> bytes:
    return base64.b64decode(text.removeprefix("base64:")) if text.startswith("base64:") else text.encode()


def dumped(redis: Any) -> dict[str, Any]:
    """Return every key of a Redis with its type and its value, without times of expiry."""
    return {_text(key): _dumped(redis, key) for key in sorted(redis.keys("*"))}


def _dumped(redis: Any, key: bytes) -> dict[str, Any]:
    kind = redis.type(key).decode()
    if kind == "stream":
        entries = [
            [entry_id.decode(), [_text(part) for pair in fields.items() for part in pair]]
            for entry_id, fields in redis.xrange(key)
        ]
        groups = {group["name"].decode(): group["last-delivered-id"].decode() for group in redis.xinfo_groups(key)}
        return {
            "stream": entries,
            "last": redis.xinfo_stream(key)["last-generated-id"].decode(),
            "groups": groups,
        }
    if kind == "zset":
        return {kind: [[_text(member), score] for member, score in redis.zrange(key, 0, -1, withscores=True)]}
    if kind == "hash":
        return {kind: {_text(name): _text(value) for name, value in sorted(redis.hgetall(key).items())}}
    if kind == "set":
        return {kind: sorted(map(_text, redis.smembers(key)))}
    if kind == "list":
        return {kind: list(map(_text, redis.lrange(key, 0, -1)))}
    return {kind: _text(redis.get(key))}


def restore(redis: Any, keys: dict[str, Any]) -> None:
    """Write dumped keys into an empty Redis."""
    for name, stored in keys.items():
        key = _data(name)
        for kind, value in stored.items():
            if kind == "stream":
                _restore_stream(redis, key, stored)
            elif kind == "zset":
                redis.zadd(key, {_data(member): score for member, score in value})
            elif kind == "hash":
                redis.hset(key, mapping={_data(field): _data(held) for field, held in value.items()})
            elif kind == "set":
                redis.sadd(key, *map(_data, value))
            elif kind == "list":
                redis.rpush(key, *map(_data, value))
            elif kind == "string":
                redis.set(key, _data(value))


def _restore_stream(redis: Any, key: bytes, stored: dict[str, Any]) -> None:
    for entry_id, parts in stored["stream"]:
        redis.execute_command("XADD", key, entry_id, *map(_data, parts))
    if not stored["stream"]:
        redis.execute_command("XADD", key, "MAXLEN", 0, stored["last"], "none", "")
    redis.execute_command("XSETID", key, stored["last"])
    for group, last in stored["groups"].items():
        redis.xgroup_create(key, group, id=last)
