"""A manifest may come from anyone who can write into the archive: it names no other files, and no bombs."""

import gzip
import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import NOON, recording, settings_of

from ragtide import InvalidEntryError, RagInteraction, Recording, UnreadableRecordingError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, parquet
from ragtide_runtime.recordings.store import LocalStore, Store, open_store

ROW = {
    "entry_id": "1577836800000-0",
    "partition": 0,
    "interaction_id": "i",
    "pipeline": "shop",
    "question": "q",
    "documents": [{"text": "x"}],
    "response": "r",
    "occurred_at": "2020-01-01T00:00:00Z",
}
INTERACTION = {name: value for name, value in ROW.items() if name not in ("entry_id", "partition")}
NAME = "p0-1-1577836800000-0-1577836800000-0-abc123.jsonl.gz"
PATH = f"interactions/day=2020-01-01/pipeline=shop/{NAME}"
LINES = json.dumps(ROW).encode() + b"\n"


def write(folder: Path, data: bytes, at: str = PATH, **changes: Any) -> Path:
    """Write a recording of one file, and return the file."""
    file = folder / at
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    fields = {
        "kind": "interactions",
        "path": at,
        "format": "jsonl",
        "partition": 0,
        "step": 1,
        "day": "2020-01-01",
        "pipeline": "shop",
        "first_id": ROW["entry_id"],
        "last_id": ROW["entry_id"],
        "count": 1,
        "bytes": len(data),
        "unpacked_bytes": 1 << 30,
        "sha256": sha256(data).hexdigest(),
        **changes,
    }
    manifest = {
        "partition": 0,
        "number": 1,
        "prefix": "ragtide",
        "files": [fields],
        "written_at": NOON.isoformat(),
        "written_by": "test",
        "ragtide_version": "0",
        "schema_version": 1,
    }
    (folder / "manifests").mkdir(exist_ok=True)
    (folder / "manifests" / "p0-000000000001.json").write_text(json.dumps(manifest))
    return file


def test_what_a_recorder_writes_is_read(tmp_path: Path) -> None:
    write(tmp_path, gzip.compress(LINES))
    found = Recording.open(str(tmp_path))
    assert [entry.entry_id for entry in found.entries("interactions")] == [ROW["entry_id"]]
    assert found.verify() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "../outside.jsonl.gz"},
        {"path": "{folder}/outside.jsonl.gz"},
        {"path": f"interactions/day=2020-01-01/pipeline=shop/../../../{NAME}"},
        {"path": f"interactions/day=2020-01-01/{NAME}"},
        {"path": f"{PATH}\n"},
        {"path": "manifests/p0-000000000001.json"},
        {"path": PATH.replace("abc123", "abc/../123")},
        {"day": "2019-01-01"},
        {"day": "2019-01-01", "path": PATH.replace("2020", "2019")},
        {"pipeline": "help"},
        {"pipeline": None, "unreadable": True},
        {"unreadable": True},
        {"partition": 1},
        {"step": 2, "path": PATH.replace("p0-1-", "p0-2-")},
        {"first_id": "../../1-0"},
        {"last_id": "1577836800001-0"},
        {"format": "parquet"},
        {"count": -1},
    ],
    ids=str,
)
async def test_a_manifest_that_names_another_place_is_refused_and_retention_removes_nothing(
    changes: dict[str, Any], async_redis: Any, tmp_path: Path
) -> None:
    changes = {name: str(value).format(folder=tmp_path) if name == "path" else value for name, value in changes.items()}
    outside = tmp_path / "outside.jsonl.gz"
    outside.write_bytes(gzip.compress(LINES))
    file = write(tmp_path / "r", gzip.compress(LINES), **changes)
    with pytest.raises(UnreadableRecordingError, match=r"p0-000000000001\.json is no valid manifest"):
        Recording.open(str(tmp_path / "r"))
    with pytest.raises(UnreadableRecordingError):
        async with recording(async_redis, settings_of(tmp_path / "r", keep_days=1)) as task:
            await task
    assert outside.exists()
    assert file.exists()


def test_a_manifest_under_another_name_is_refused(tmp_path: Path) -> None:
    write(tmp_path, gzip.compress(LINES))
    manifest = tmp_path / "manifests" / "p0-000000000001.json"
    manifest.rename(manifest.with_name("p1-000000000001.json"))
    with pytest.raises(UnreadableRecordingError, match="which has another name"):
        Recording.open(str(tmp_path))


def test_a_link_out_of_the_recording_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(gzip.compress(LINES))
    file = write(tmp_path / "r", outside.read_bytes())
    file.unlink()
    file.symlink_to(outside)
    found = Recording.open(str(tmp_path / "r"))
    (problem,) = found.verify()
    assert problem.startswith(f"{PATH} cannot be read")
    assert "leads out of the recording" in problem
    with pytest.raises(UnreadableRecordingError, match="leads out"):
        list(found.entries("interactions"))


@pytest.mark.parametrize("url", ["{folder}/r", "file://{folder}/r", "memory://trust"])
@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../outside", "a/./b", "..", "a\\..\\b"])
def test_a_store_takes_only_paths_inside(url: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("stays")
    store: Store = open_store(url.format(folder=tmp_path))
    for use in (store.read, store.remove, lambda path: store.write(path, b""), lambda path: store.create(path, b"")):
        with pytest.raises(PermissionError, match="not a path inside"):
            use(path)
    assert (tmp_path / "outside").read_text() == "stays"


def test_a_folder_reached_by_a_link_is_a_recording_all_the_same(tmp_path: Path) -> None:
    packed = gzip.compress(LINES)
    write(tmp_path / "r", packed)
    (tmp_path / "link").symlink_to(tmp_path / "r")
    assert Recording.open(str(tmp_path / "link")).verify() == []
    assert LocalStore(tmp_path / "link").read(PATH) == packed


BOMB = 100_000_000
"""Bytes that are never unpacked."""


@pytest.mark.parametrize(
    ("first", "repeated", "times", "changes"),
    [
        (b"", b" ", BOMB, {}),
        (LINES, b" ", BOMB, {}),
        (LINES, b"\n", BOMB, {}),
        (b"", LINES, 300_000, {}),
        (LINES, LINES, 1, {"count": 2, "unpacked_bytes": len(LINES) + 5}),
        (b"", b" ", BOMB, {"unpacked_bytes": len(LINES), "path": f"interactions-unreadable/day=2020-01-01/{NAME}"}),
    ],
    ids=["long line", "long tail", "empty lines", "many lines", "more than stated", "unreadable"],
)
def test_no_more_is_unpacked_than_the_manifest_says(
    first: bytes, repeated: bytes, times: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    import tracemalloc

    path = changes.get("path", PATH)
    unreadable = {"unreadable": True, "pipeline": None} if "unreadable" in path else {}
    write(tmp_path, gzip.compress(first + repeated * times, 1), path, **changes, **unreadable)
    found = Recording.open(str(tmp_path))
    tracemalloc.start()
    with pytest.raises(UnreadableRecordingError, match=f"^{path}: .*more than its manifest states"):
        list(found.unreadable("interactions") if unreadable else found.entries("interactions"))
    (problem,) = found.verify()
    assert problem.startswith(f"{path}: it unpacks to more")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOMB / 3


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(LINES)[:-9], gzip.compress(b"[]\n"), gzip.compress(b"{\n")],
    ids=["empty", "no gzip", "cut", "no object", "no JSON"],  # gzip writes the time: as an id it would differ
)
def test_a_file_that_is_no_lines_is_told_by_its_name(data: bytes, tmp_path: Path) -> None:
    write(tmp_path, data)
    with pytest.raises(UnreadableRecordingError, match=f"^{PATH}: it "):
        list(Recording.open(str(tmp_path)).entries("interactions"))


def test_a_parquet_file_of_other_rows_than_its_manifest_says_is_not_unpacked(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"entry_id": pa.array(["1-0"] * 1000)})
    parquet.write_table(table, tmp_path / "data")
    path = PATH.replace(".jsonl.gz", ".parquet")
    write(tmp_path, (tmp_path / "data").read_bytes(), path, format="parquet", unpacked_bytes=None)
    found = Recording.open(str(tmp_path))
    with pytest.raises(UnreadableRecordingError, match="1000 rows"):
        list(found.entries("interactions"))
    assert "its manifest states 1 rows" in found.verify()[0]
    write(tmp_path, b"no parquet", path, format="parquet", unpacked_bytes=None)
    with pytest.raises(UnreadableRecordingError, match="is not a Parquet file"):
        list(Recording.open(str(tmp_path)).entries("interactions"))


def test_a_parquet_file_that_lies_about_its_contents_is_named(tmp_path: Path) -> None:
    """Any bytes with a matching hash are read or refused by name: no error of pyarrow's own."""
    models = [RagInteraction.model_validate({**INTERACTION, "question": "q" * length}) for length in range(1, 9)]
    entries = [RecordedEntry(0, f"1577836800000-{number}", model) for number, model in enumerate(models)]
    whole = parquet.encode_table(parquet.table_of(EntryKind.INTERACTIONS, entries))
    table = parquet.table_of(EntryKind.INTERACTIONS, entries)
    named = [
        parquet.encode_table(table.drop_columns(["entry_id"])),
        parquet.encode_table(table.drop_columns([parquet.EXACT])),
        parquet.encode_table(table.set_column(table.column_names.index("question"), "question", table["partition"])),
        parquet.encode_table(table.set_column(table.column_names.index("entry_ms"), "entry_ms", table["question"])),
        parquet.encode_table(table.set_column(table.column_names.index("history"), "history", table["question"])),
    ]
    draw = random.Random(9)
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(4):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        named.append(bytes(changed))
    refused = 0
    for number, data in enumerate(named):
        folder = tmp_path / str(number)
        at = PATH.replace(".jsonl.gz", ".parquet")
        write(folder, data, at, format="parquet", count=len(entries), last_id=entries[-1].entry_id, unpacked_bytes=None)
        for read in ("entries", "tables"):
            try:
                list(getattr(Recording.open(str(folder)), read)("interactions"))
            except UnreadableRecordingError as error:
                assert at in str(error)  # noqa: PT017
                refused += 1
            except InvalidEntryError:
                refused += 1
    assert refused > 100
