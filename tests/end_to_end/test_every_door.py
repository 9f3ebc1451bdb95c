"""Form x door: what clients hand over is the same text at every door, or it is refused.

One list of forms (tests/support/forms.py) comes in through files, the SDK, HTTP, a broker, traces and a plain XADD.
"""

import asyncio
import csv
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.forms import ANSWER, FORMS, NOTHING, QUESTION, REFUSED, Door, Form
from tests.support.http_service import http_service
from tests.support.traces import branch, spans
from tests.support.transcripts import EXPECTED, TRANSCRIPTS, fields_seen_in, openai_chat

from ragtide import InteractionProducer, InvalidEntryError, RagInteraction, load
from ragtide.bridge.addresses import read_address
from ragtide.bridge.intake import read_message
from ragtide.bridge.links import Received
from ragtide_producers import FileOptions, UnreadableFileError, read_rows
from ragtide_producers.file_publisher import publish_file
from ragtide_producers.publishing.routes import InteractionRoute, PublishCommand
from ragtide_producers.traces.interactions import interactions_of
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter
from ragtide_schemas.opaque import is_opaque
from ragtide_schemas.plain_values import LeftOut

Seen = str | tuple[str, ...]
"""The text that came out, or the texts of documents; `REFUSED` if nothing did."""

FIELDS: Final = {
    "question": "question",
    "answer": "response",
    "reference": "reference_answer",
    "documents": "documents",
}
COLUMNS: Final = {"question": "user_input", "answer": "answer", "reference": "ground_truth", "documents": "contexts"}
"""Columns of the same meanings in files of other tools."""
OTHERS: Final = {"question": QUESTION, "answer": ANSWER, "documents": ["The tower is tall."]}
STREAMS: Final = Streams("ragtide", 0)


def forms(door: Door) -> list[Form]:
    return [form for form in FORMS if door in form.doors]


def fields_of(form: Form, names: dict[str, str]) -> dict[str, Any]:
    return {names[meaning]: value for meaning, value in {**OTHERS, form.meaning: form.value}.items()}


def seen_in(form: Form, interaction: RagInteraction | None) -> Seen:
    if interaction is None:
        return REFUSED
    if form.meaning == "documents":
        return tuple(document.text.strip() for document in interaction.documents)
    return (getattr(interaction, FIELDS[form.meaning]) or "").strip()


def wrong(door: str, found: list[tuple[Form, RagInteraction | None]]) -> list[tuple[str, str, Seen, Seen]]:
    """The forms of which another text came out than the expected one."""
    wrongs = []
    for form, interaction in found:
        seen = seen_in(form, interaction)
        nothing = form.expected == NOTHING and (not seen or seen == REFUSED)
        if seen != form.expected and not nothing:
            wrongs.append((door, form.name, form.expected, seen))
    return wrongs


def in_files(folder: Path, kind: str) -> list[tuple[Form, RagInteraction | None]]:
    options = FileOptions(unnamed="shop")
    found: list[tuple[Form, RagInteraction | None]] = []
    for place, form in enumerate(forms("files")):
        if kind == "csv" and isinstance(form.value, float):
            continue  # the text of a cell
        row, path = fields_of(form, COLUMNS), folder / f"{place}.{kind}"
        if kind == "parquet":
            try:
                pq.write_table(pa.Table.from_pylist([row]), path, compression="none")
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                continue  # a column has values of one type
        elif kind != "csv":
            path.write_text(json.dumps(row if kind == "jsonl" else [row]), encoding="utf-8")
        else:
            cells = {name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()}
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([cells.keys(), cells.values()])
        rows = list(read_rows(path, options))
        found.append((form, rows[0].interaction if len(rows) == 1 else None))
    return found


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_files(kind: str, tmp_path: Path) -> None:
    assert wrong(kind, in_files(tmp_path, kind)) == []


def loaded(form: Form) -> RagInteraction | None:
    try:
        return load([{**fields_of(form, FIELDS), "pipeline": "shop"}])[0]
    except UnreadableFileError:
        return None


def test_objects_that_are_loaded() -> None:
    assert wrong("load", [(form, loaded(form)) for form in forms("sdk")]) == []


def stored(redis: Any) -> dict[str, RagInteraction]:
    entries = (RagInteraction.decode(fields[b"data"]) for _, fields in redis.xrange(STREAMS.interactions))
    return {entry.interaction_id: entry for entry in entries}


def test_the_sdk(redis: Any, redis_url: str) -> None:
    given = forms("sdk")
    with InteractionProducer(redis_url) as producer:
        for place, form in enumerate(given):
            producer.submit(fields_of(form, FIELDS), pipeline="shop", interaction_id=str(place))
        assert producer.flush(20)
    found = stored(redis)
    assert wrong("sdk", [(form, found.get(str(place))) for place, form in enumerate(given)]) == []


async def test_http(async_redis: Any, redis: Any, redis_url: str) -> None:
    del async_redis
    given = forms("http")
    items = [
        {**fields_of(form, FIELDS), "pipeline": "shop", "interaction_id": str(place)}
        for place, form in enumerate(given)
    ]
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/interactions", items)
    assert status == 200
    found = await asyncio.to_thread(stored, redis)
    assert wrong("http", [(form, found.get(str(place))) for place, form in enumerate(given)]) == []
    refused = [item for item in answer["items"] if item["status"] != "published"]
    assert {item["interaction_id"] for item in refused} == {str(place) for place in range(len(given))} - found.keys()
    assert all(item["detail"] for item in refused)


def test_a_bridge() -> None:
    address, route, given = read_address("--from", "nats://h/t"), InteractionRoute.of(Settings()), forms("http")
    items = [{**fields_of(form, FIELDS), "pipeline": "shop"} for form in given]
    read = read_message(Received(json.dumps(items).encode(), "1"), address, route, LeftOut())
    found = [RagInteraction.decode(item.payload) if isinstance(item, PublishCommand) else None for item in read]
    assert wrong("bridge", list(zip(given, found, strict=True))) == []


def in_traces(form: Form) -> RagInteraction | None:
    values: dict[str, Any] = {**OTHERS, form.meaning: form.value}
    question, answer, documents = values["question"], values["answer"], values["documents"]
    kind = "openinference.span.kind"
    retriever = branch("search", {kind: "RETRIEVER", "input.value": QUESTION, "output.value": documents})
    model = branch("chat", {kind: "LLM", "llm.model_name": "m"})
    root = branch("ask", {kind: "CHAIN", "input.value": question, "output.value": answer}, retriever, model)
    found = interactions_of(spans(root), IngestSettings())
    return found[0].interaction if len(found) == 1 else None


OWN_JSON: Final = {
    "answer in JSON of its own",
    "list of numbers as a text",
    "JSON with reasoning and a field of its own",
    "JSON of an application",
}
"""Texts of JSON without a known field: a field that is named as the response is trusted, an output of a span is not."""


def test_traces() -> None:
    given = [form for form in forms("traces") if form.meaning != "reference"]
    found = wrong("traces", [(form, in_traces(form)) for form in given])
    assert [case for case in found if case[1] not in OWN_JSON or case[3] != REFUSED] == []


def test_a_plain_xadd_has_texts_and_refuses_printed_objects_and_what_is_no_text() -> None:
    for form in forms("http"):
        payload = json.dumps({**fields_of(form, FIELDS), "pipeline": "shop"}).encode()
        with suppress(InvalidEntryError):
            found = seen_in(form, RagInteraction.from_entry("1700000000123-0", payload))
            if isinstance(form.value, str) and form.meaning != "documents":
                assert found == form.value.strip(), form.name
                assert not is_opaque(form.value), form.name
            elif not isinstance(form.value, list | str):
                assert found == form.expected, form.name


RUN: Final[dict[str, Any]] = {
    "pipeline": "shop",
    "question": "Can I return the lamp?",
    "documents": ["Order 7: lamp.", "Lamps can be returned for 14 days."],
    "response": "Yes.",
    "steps": [
        {"name": "orders", "kind": "tool", "round": 1, "arguments": {"order": 7}, "documents": [0], "returned": 1},
        {"name": "search", "kind": "tool", "round": 1, "query": "lamp", "error": "timeout", "latency_s": 10.0},
        {"name": "search", "kind": "tool", "round": 2, "query": "lamps", "documents": [1], "returned": 8},
        {"name": "book", "kind": "tool", "round": 3, "arguments": {"order": 7}},
    ],
    "steps_left_out": 2,
}


def in_files_of(folder: Path, fields: dict[str, Any]) -> dict[str, RagInteraction | None]:
    """What comes out of files with one row, by their ending."""
    cells = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    folder.mkdir()
    (folder / "run.jsonl").write_text(json.dumps(fields), encoding="utf-8")
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):  # a column has values of one type
        pq.write_table(pa.Table.from_pylist([fields]), folder / "run.parquet", compression="none")
    with (folder / "run.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([cells.keys(), cells.values()])
    return {path.suffix: next(iter(read_rows(path, FileOptions()))).interaction for path in folder.iterdir()}


async def at_every_door(
    redis: Any, redis_url: str, folder: Path, given: dict[str, dict[str, Any]]
) -> dict[tuple[str, str], RagInteraction | None]:
    """What comes out of each door for the fields of each name."""
    found: dict[tuple[str, str], RagInteraction | None] = {}
    address, route = read_address("--from", "nats://h/t"), InteractionRoute.of(Settings())
    for name, fields in given.items():
        found[name, "load"] = load([fields])[0]
        found |= {(name, door): item for door, item in in_files_of(folder / name, fields).items()}
        (item,) = read_message(Received(json.dumps(fields).encode(), "1"), address, route, LeftOut())
        found[name, "bridge"] = RagInteraction.decode(item.payload) if isinstance(item, PublishCommand) else None
    with InteractionProducer(redis_url) as producer:
        for name, fields in given.items():
            producer.submit(fields, interaction_id=f"sdk {name}")
        assert await asyncio.to_thread(producer.flush, 20)
    async with http_service(redis_url) as service:
        items = [{**fields, "interaction_id": f"http {name}"} for name, fields in given.items()]
        await service.post("/v1/interactions", items)
    entries = await asyncio.to_thread(stored, redis)
    return found | {(name, door): entries.get(f"{door} {name}") for name in given for door in ("sdk", "http")}


async def test_a_run_has_its_calls_at_every_door(async_redis: Any, redis: Any, redis_url: str, tmp_path: Path) -> None:
    del async_redis
    expected = RagInteraction(**RUN)
    found = await at_every_door(redis, redis_url, tmp_path, {"run": RUN})
    found["run", "xadd"] = RagInteraction.from_entry("1700000000123-0", json.dumps(RUN).encode())
    assert {door for _, door in found} == {"load", ".jsonl", ".parquet", ".csv", "bridge", "sdk", "http", "xadd"}
    for door, interaction in found.items():
        assert interaction is not None, door
        assert (interaction.steps, interaction.steps_left_out) == (expected.steps, 2), door
        assert not interaction.left_out, door


async def test_a_transcript_is_a_run_at_every_door(
    async_redis: Any, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    del async_redis
    given = {make.__name__: {"pipeline": "shop", "messages": make()} for make in TRANSCRIPTS}
    found = await at_every_door(redis, redis_url, tmp_path, given)
    assert len(found) > 6 * len(given)
    for door, interaction in found.items():
        assert interaction is not None, door
        assert fields_seen_in(interaction) == EXPECTED, door
    with pytest.raises(InvalidEntryError, match="messages is not a field"):
        RagInteraction.from_entry("1700000000123-0", json.dumps(given["openai_chat"]).encode())


async def test_a_broken_transcript_is_refused_with_a_sentence_and_costs_no_other(
    async_redis: Any, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    del async_redis
    deep: Any = "search"
    for _ in range(60):
        deep = {"tool_calls": [deep]}
    broken = [
        7,
        [],
        "hello",
        [{"role": "user", "content": QUESTION}],
        [{"role": "assistant", "content": ANSWER}],
        [deep],
    ]
    given = [*broken, openai_chat()]
    items = [{"pipeline": "shop", "interaction_id": str(n), "messages": value} for n, value in enumerate(given)]
    said: dict[str, list[str]] = {"sdk": []}
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/interactions", items)
    assert status == 200
    assert (await asyncio.to_thread(stored, redis)).keys() == {str(len(broken))}
    said["http"] = [item["detail"] for item in answer["items"] if item["status"] == "invalid"]
    address, route = read_address("--from", "nats://h/t"), InteractionRoute.of(Settings())
    *letters, good = read_message(Received(json.dumps(items).encode(), "1"), address, route, LeftOut())
    assert isinstance(good, PublishCommand)
    said["bridge"] = [letter.detail for letter in letters if isinstance(letter, DeadLetter)]
    with InteractionProducer(redis_url, strict=True) as producer:
        for item in items[:-1]:
            with pytest.raises(InvalidEntryError) as refused:
                producer.submit(item)
            said["sdk"].append(refused.value.detail)
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    *rows, last = read_rows(tmp_path / "runs.jsonl", FileOptions())
    assert last.interaction is not None
    # Such a column of a file may be another conversation, so the fields are missed.
    said["file"] = [f"messages {(row.problem or '').rpartition('; messages ')[2]}" for row in rows]
    for door, sentences in said.items():
        assert len(sentences) == len(broken), door
        assert all(sentence.startswith("messages cannot be read: ") for sentence in sentences), (door, sentences)
        assert all(": " in sentence.partition(": ")[2] or "levels" in sentence for sentence in sentences), sentences


async def test_a_run_that_is_too_large_loses_what_was_asked_then_its_history_and_each_door_counts_it(
    async_redis: Any, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    del async_redis
    steps = [{"name": "search", "kind": "tool", "round": 1, "arguments": {"q": "x" * 3_900}}] * 60
    large = {**RUN, "documents": ["a" * 995_000] * 4, "steps": steps, "steps_left_out": None}
    turns = [{"question": "\u4e00" * 90_000, "response": "Yes."}]
    given = {"asked": large, "history": {**large, "steps": steps[:10], "history": turns}}
    expected = {"asked": {"steps.arguments": 60}, "history": {"steps.arguments": 10, "history": 1}}
    counted: dict[tuple[str, str], Any] = {}
    address, route = read_address("--from", "nats://h/t"), InteractionRoute.of(Settings())
    cells = ("steps", "history")
    rows = [{**fields, **{name: json.dumps(fields.get(name)) for name in cells}} for fields in given.values()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "large.parquet")
    found: dict[tuple[str, str], RagInteraction] = {}
    with InteractionProducer(redis_url) as producer:
        for name, fields in given.items():
            producer.submit(fields, interaction_id=f"sdk {name}")
            counted["bridge", name] = left_out = LeftOut()
            (item,) = read_message(Received(json.dumps(fields).encode(), "1"), address, route, left_out)
            assert isinstance(item, PublishCommand)
            found["bridge", name] = RagInteraction.decode(item.payload)
        assert await asyncio.to_thread(producer.flush, 60)
        assert producer.counts.left_out == {"steps.arguments": 70, "history": 1}
        (batch,) = await asyncio.to_thread(
            list, publish_file(producer, tmp_path / "large.parquet", FileOptions(), rate=None)
        )
        counted |= {("file", name): row.left_out for name, row in zip(given, batch.rows, strict=True)}
        found |= {
            ("file", name): row.interaction for name, row in zip(given, batch.rows, strict=True) if row.interaction
        }
    async with http_service(redis_url) as service:
        items = [{**fields, "interaction_id": f"http {name}"} for name, fields in given.items()]
        body = BytesIO(json.dumps(items).encode())
        _, answer = await service.post("/v1/interactions", data=body, content_type="application/json")
    counted |= {("http", name): item["left_out"] for name, item in zip(given, answer["items"], strict=True)}
    entries = await asyncio.to_thread(stored, redis)
    found |= {(door, name): entries[f"{door} {name}"] for door in ("sdk", "http") for name in given}
    assert all(entries[found["file", name].interaction_id] == found["file", name] for name in given)
    for (door, name), interaction in found.items():
        assert [step.arguments for step in interaction.calls] == [None] * len(given[name]["steps"]), door
        assert (interaction.history, len(interaction.documents)) == (None, 4), door
        assert counted.get((door, name), expected[name]) == expected[name], door
