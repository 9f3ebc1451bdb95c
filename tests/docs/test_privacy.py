"""docs/operate/privacy.md: where texts are, and that nothing of them is left after the commands of the page."""

import gzip
import os
import re
import shlex
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.doc_pages import page_text, tagged_block
from tests.support.roles import STREAMS, command, running

from ragtide import InteractionProducer, RagInteraction, Recording
from ragtide.testing import ScriptedJudge
from ragtide_runtime.recordings import EntryKind

pytestmark = pytest.mark.processes

PAGE = page_text("privacy")
MARK = "Quixotzebra"
"""A word that only the interaction of these tests has."""
TEXTS: dict[str, Any] = {
    "question": f"When did {MARK} buy the tower?",
    "documents": [f"{MARK} bought the tower in 1889.", "It stands in Paris."],
    "response": f"{MARK} bought the tower in 1889.",
    "reference_answer": f"{MARK} bought it in 1889.",
    "history": [{"question": f"Who is {MARK}?", "response": f"{MARK} is a person."}],
    "metadata": {"note": MARK},
}
FAST = {"RAGTIDE_SERVE_PORT": "0", "RAGTIDE_RECORDER_ROLL_S": "0.1"}


def values_of(redis: Any, key: bytes) -> Iterator[bytes]:
    """Yield everything that a key holds."""
    match redis.type(key):
        case b"string":
            yield redis.get(key)
        case b"hash":
            yield from (part for field in redis.hgetall(key).items() for part in field)
        case b"stream":
            yield from (value for _, fields in redis.xrange(key) for value in fields.values())
        case b"zset":
            yield from redis.zrange(key, 0, -1)
        case b"set":
            yield from redis.smembers(key)
        case b"list":
            yield from redis.lrange(key, 0, -1)
        case kind:
            raise AssertionError(f"{key!r} is of the type {kind!r}")


def has_mark(value: bytes) -> bool:
    with suppress(zlib.error):
        value = zlib.decompress(value)
    return MARK.encode() in value


def holders(redis: Any) -> set[str]:
    """Return the kinds of keys that hold the word, such as `interactions` or `specimen`."""
    found = {key for key in redis.scan_iter("*") if has_mark(key) or any(map(has_mark, values_of(redis, key)))}
    return {re.sub(r"^ragtide[^:]*:(\{\d+\}:)?", "", key.decode()).partition(":")[0] for key in found}


def recorded_with_mark(folder: Path) -> set[str]:
    """Return the kinds of entries of a recording that have the word; `unreadable` and `names` for other files."""
    recording = Recording.open(str(folder))
    found = {
        kind.value for kind in EntryKind for entry in recording.entries(kind) if MARK in entry.model.model_dump_json()
    }
    for file in folder.rglob("*"):
        if MARK in file.name:
            found.add("names")
        if file.is_file() and file.suffix == ".gz" and MARK.encode() in gzip.decompress(file.read_bytes()):
            found.add("unreadable")
        if file.is_file() and MARK.encode() in file.read_bytes():
            found.add("files")
    return found


def files_below(folder: Path) -> list[Path]:
    """Return the files below a folder from which a recorder deletes; `Path.rglob` fails if a folder vanishes."""
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]


def recorded(folder: Path, kind: str) -> int:
    return Recording.open(str(folder)).count(kind) if list(folder.glob("manifests/p*.json")) else 0


def settings_of(tag: str, place: Path) -> Mapping[str, str]:
    """Write the settings of the page, with this place of the recording, and return the environment that reads them."""
    code = tagged_block(PAGE, tag)
    url = tomllib.loads(code)["recorder"]["url"]
    file = place.with_suffix(".toml")
    file.write_text(code.replace(url, str(place)), encoding="utf-8")
    return {"RAGTIDE_CONFIG": str(file)}


def forget(redis: Any, redis_url: str, tag: str) -> None:
    """Run the commands of a block of the page."""
    for line in tagged_block(PAGE, tag).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "ragtide":
            done = command(redis_url, *words[1:])
            assert done.returncode == 0, f"{line}: {done.stderr}"
        else:
            # The wheel with the server has no redis-cli.
            *before, pattern = words[: words.index("|")]
            assert (before, words[words.index("|") :]) == (
                ["redis-cli", "--scan", "--pattern"],
                ["|", "xargs", "-r", "redis-cli", "DEL"],
            )
            redis.delete(*redis.scan_iter(pattern))


def test_nothing_of_an_interaction_is_left_in_redis_after_the_commands(
    redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_privacy.py").write_text(tagged_block(PAGE, "mask"), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "recording"
    with ScriptedJudge() as judge:
        extra = {
            **FAST,
            **settings_of("no-texts", folder),
            **judge.environment,
            "RAGTIDE_JUDGE_FAMILIES": "trace,ragchecker",
        }
        with running("up", redis_url, tmp_path / "log", extra):
            with InteractionProducer(redis_url) as producer:
                producer.publish(RagInteraction.from_fields({"pipeline": "shop", "interaction_id": "i-17", **TEXTS}))
            wrong = f'{{"interaction_id": "i-17", "pipeline": "shop", "question": "{MARK}", "unknown": "{MARK}"}}'
            redis.xadd(STREAMS.interactions, {"data": wrong.encode()})
            wait_until(lambda: redis.xlen(STREAMS.dead_letters) == 1 and redis.xlen(STREAMS.metrics) == 1)
            wait_until(lambda: redis.xlen(STREAMS.interactions) == 0)
            # The page's table: where texts stay once an interaction is scored and recorded.
            assert holders(redis) == {"specimen", "dead-letters", "judge-cache"}
            forget(redis, redis_url, "forget")
            assert holders(redis) == {"judge-cache"}
            forget(redis, redis_url, "cache")
            assert holders(redis) == set()
            wait_until(lambda: recorded(folder, "metrics") == 1)
    lines = (tmp_path / "log").read_text().splitlines()
    assert ["entry rejected" in line for line in lines].count(True) == 1
    assert [line for line in lines if MARK in line] == []
    (entry,) = Recording.open(str(folder)).entries("interactions")
    assert isinstance(entry.model, RagInteraction)
    assert (entry.model.interaction_id, entry.model.response) == ("i-17", "[removed]")
    assert recorded_with_mark(folder) == set()
    assert any(MARK in prompt.response[key] for prompt in judge.prompts for key in prompt.response), "the judge saw it"


EXPERIMENT = """
name = "again"
target = "target:answer"
data = "questions.jsonl"
metric = "trace.adherence"
[grid]
top_k = [1, 2]
"""
TARGET = f"""
def answer(question, top_k):
    return ["{MARK} bought the tower in 1889."], "{MARK} bought the tower."
"""


def test_nothing_of_an_experiment_is_left_in_redis_without_its_workspace(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "again.toml").write_text(EXPERIMENT, encoding="utf-8")
    (tmp_path / "target.py").write_text(TARGET, encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text('{"question": "Who bought the tower?"}\n', encoding="utf-8")
    done = command(redis_url, "experiment", "run", str(tmp_path / "again.toml"))
    assert done.returncode == 0, done.stderr
    assert holders(redis) == {"interactions"}, "those of the workspace"
    forget(redis, redis_url, "workspace")
    assert holders(redis) == set()


def test_a_recording_loses_texts_with_their_day(redis: Any, redis_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    long_ago = datetime.now(UTC) - timedelta(days=40)
    interaction = RagInteraction.from_fields({"pipeline": "shop", "interaction_id": "i-17", **TEXTS})
    entry = {"data": interaction.encode()}
    redis.xadd(STREAMS.interactions, entry, id=f"{long_ago.timestamp() * 1000:.0f}-0")
    with running("recorder", redis_url, tmp_path / "log", {**FAST, "RAGTIDE_RECORDER_URL": str(folder)}):
        wait_until(lambda: recorded(folder, "interactions") == 1)
    assert "interactions" in recorded_with_mark(folder)
    with running("recorder", redis_url, tmp_path / "log", {**FAST, **settings_of("days", folder)}):
        wait_until(lambda: recorded(folder, "interactions") == 0)
        wait_until(lambda: not [file for file in files_below(folder) if file.suffix == ".parquet"])
    assert recorded_with_mark(folder) == set()
