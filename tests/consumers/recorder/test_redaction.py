import asyncio
import gzip
import traceback
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.consumers.recorder.running import (
    STREAMS,
    add,
    caught_up,
    event,
    interaction,
    recorded,
    recording,
    settings_of,
)
from tests.support.cases import for_each
from tests.support.conditions import until

from ragtide import ConfigurationError, hashed_user_id
from ragtide_consumers.recorder import session
from ragtide_consumers.recorder.service import Recorder
from ragtide_consumers.recorder.telemetry import RecorderTelemetry
from ragtide_consumers.redaction.patterns import PATTERNS
from ragtide_consumers.redaction.process import RedactionError
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.store import open_store
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import EarlierTurn, RagInteraction, RetrievalStep, RetrievedDocument
from ragtide_schemas.limits import HISTORY_MAX_CHARS
from ragtide_schemas.retrieval_steps import QUERY_MAX_CHARS

pytestmark = pytest.mark.processes


def redacted(text: str, *names: str) -> str:
    return Redaction(names or tuple(PATTERNS)).text(text)


@for_each(
    "text, expected",
    [
        ("write to anna.b+x@mail.example.co.uk, please", "write to [email], please"),
        ("<иван@почта.рф>", "<[email]>"),
        ("bob (at) example.com", "[email]"),
        ("call +49 (30) 123-45 67.", "call [phone]."),
        ("call +1 202-555-0143, or (202) 555-0143", "call [phone], or [phone]"),
        ("202.555.0143 and 8 (912) 345-67-89", "[phone] and [phone]"),
        ("paid with 4111 1111 1111 1111.", "paid with [card]."),
        ("5500-0000-0000-0004", "[card]"),
        ("12 4111 1111 1111 1111 7", "12 [card] 7"),
        ("378282246310005 or 3782 822463 10005", "[card] or [card]"),
    ],
)
def test_what_is_found(text: str, expected: str) -> None:
    assert redacted(text) == expected


@for_each(
    "text",
    [
        "built in 1889, 2026-11-21 06:37:57",
        "4111 1111 1111 1112 has a wrong check digit",
        "entry 1732171977123-0, order 20261121-000123",
        "3.14159265358979 and 1,234,567,890,123,456",
        "192.168.100.200:6379 and 10.0.0.1",
        "ISBN 978-3-16-148410-0",
        "the price @ 5, user@host",
        "a1b2c3d4e5f64111111111111111",
        "between 2010 and 2020, 100 200 300",
    ],
)
def test_what_stays(text: str) -> None:
    assert redacted(text) == text


SECRETS = ["eve@example.com", "+49 30 1234567", "4111 1111 1111 1111"]
PARTS = ["eve@", "30 1234567", "1111 1111"]
"""Parts of them that no digest and no time contains by chance: those have no spaces."""


def secretive(number: int) -> RagInteraction:
    mail, phone, card = SECRETS
    return interaction(
        number,
        question=f"is {mail} yours?",
        documents=(
            RetrievedDocument(
                id="d-eve", text=f"call {phone}", sentences=(f"call {phone}",), metadata={mail: [card, {"x": phone}]}
            ),
        ),
        history=(EarlierTurn(question=f"who is {mail}?", response=f"call {phone}"), EarlierTurn(question=card)),
        steps=(
            RetrievalStep(
                name="lookup", kind="tool", documents=(0,), returned=1, arguments={mail: [card, {"x": phone}]}
            ),
            RetrievalStep(name="search", kind="tool", query=f"phone {phone}", error="timeout"),
        ),
        response=f"yes, {card}",
        response_sentences=(f"yes, {card}",),
        reference_answer=f"{mail} {card}",
        metadata={"who": {"mail": mail}, mail: 1, "[email]": 2},
    )


def everything_in(folder: Path) -> bytes:
    """Return the bytes of every file, unpacked where they are packed."""
    from pyarrow import parquet

    found = b""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += path.name.encode() + data
            if path.suffix == ".gz":
                found += gzip.decompress(data)
            elif path.suffix == ".parquet":
                found += str(parquet.ParquetFile(path).read().to_pylist()).encode()
                found += str(parquet.ParquetFile(path).metadata.to_dict()).encode()
    return found


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
async def test_nothing_of_the_original_is_stored(
    form: str, async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.recorder.session.ROLL_ENTRIES", 3)
    await add(async_redis, EntryKind.INTERACTIONS, *map(secretive, range(6)))
    mail, phone, card = SECRETS
    await async_redis.xadd(STREAMS.interactions, {"data": f'{{"pipeline": "p", "question": "{mail}"}}'})
    await async_redis.xadd(STREAMS.interactions, {"data": f'{{"question": "{phone}" {card}'})
    settings = settings_of(tmp_path / "r", format=form, redact=["email", "phone", "card"])
    async with recording(async_redis, settings):
        await until(lambda: caught_up(async_redis))
    stored = everything_in(tmp_path)
    for secret in (*SECRETS, *PARTS):
        assert secret.encode() not in stored
    model = recorded(tmp_path / "r")[0].model
    assert isinstance(model, RagInteraction)
    assert model.question == "is [email] yours?"
    assert [turn.question for turn in model.history or ()] == ["who is [email]?", "[card]"]
    assert model.documents[0].id == "d-eve"
    assert model.documents[0].metadata == {"[email]": ["[card]", {"x": "[phone]"}]}
    assert model.metadata == {"who": {"mail": "[email]"}, "[email]": 1, "[email] 2": 2}
    lookup, search = model.calls
    assert (lookup.name, lookup.arguments) == ("lookup", {"[email]": ["[card]", {"x": "[phone]"}]})
    assert (search.query, search.error) == ("phone [phone]", "timeout")
    assert model.interaction_id == "i-0"
    found = Recording.open(str(tmp_path / "r"))
    assert found.partitions[0].redaction == ("email", "card", "phone")
    assert (found.redacted("interactions"), found.redacted("interactions", pipelines=["none"])) == (6, 0)
    unreadable = list(found.unreadable("interactions"))
    assert unreadable[0]["payload"] == '{"pipeline":"p","question":"[email]"}'
    assert unreadable[1]["withheld_bytes"] > 20


@pytest.mark.parametrize("redact", [[], ["email"]])
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
async def test_the_id_of_a_user_is_hashed_and_never_redacted(
    form: str, redact: list[str], async_redis: Any, tmp_path: Path
) -> None:
    """A pattern would make one user of all that have an address for their id."""
    users = ["eve@example.com", "adam@example.com", "eve@example.com"]
    plain = [interaction(number, user_id=user) for number, user in enumerate(users)]
    await add(async_redis, EntryKind.INTERACTIONS, *plain)
    await add(async_redis, EntryKind.METRICS, *(event(number, user_id=user) for number, user in enumerate(users)))
    async with recording(async_redis, settings_of(tmp_path / "r", format=form, redact=redact)):
        await until(lambda: caught_up(async_redis))
    for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS):
        found = {entry.model.interaction_id: entry.model.user_id for entry in recorded(tmp_path / "r", kind)}  # type: ignore[attr-defined]
        assert found == {f"i-{number}": hashed_user_id(user) for number, user in enumerate(users)}
    assert b"@example.com" not in everything_in(tmp_path)


async def test_by_setting_the_id_of_a_user_is_recorded_as_it_is(async_redis: Any, tmp_path: Path) -> None:
    expected = await add(async_redis, EntryKind.INTERACTIONS, interaction(0, user_id="eve@example.com"))
    settings = settings_of(tmp_path / "r", redact=["email"]).model_copy(update={"hash_user_ids": False})
    async with recording(async_redis, settings):
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected


async def test_what_is_not_redacted_is_found_by_the_same_look(async_redis: Any, tmp_path: Path) -> None:
    await add(async_redis, EntryKind.INTERACTIONS, secretive(0))
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    assert all(secret.encode() in everything_in(tmp_path) for secret in SECRETS)


async def test_a_function_that_fails_stops_the_recorder_and_nothing_is_lost_or_written(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_redaction.py").write_text(
        "def good(text):\n    return text.replace('question', '[q]')\n\n\n"
        "def bad(text):\n    if '3' in text:\n        raise KeyError(text)\n    return text\n\n\n"
        "def number(text):\n    return 5\n\n\ndef empty(text):\n    return ''\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    for name, words in (
        ("bad", "failed with KeyError"),
        ("number", "returned int"),
        ("empty", "no longer valid"),
    ):
        settings = settings_of(tmp_path / "r", redact_function=f"own_redaction:{name}", roll_s=0.3)
        with pytest.raises(RedactionError, match=words) as caught:
            async with recording(async_redis, settings) as task:
                await asyncio.wait([task], timeout=120)
        assert "question 3" not in "".join(traceback.format_exception(caught.value))
        assert recorded(tmp_path / "r") == []
        assert not (tmp_path / "r" / "interactions").exists()
    async with recording(async_redis, settings_of(tmp_path / "r", redact_function="own_redaction:good")):
        await until(lambda: caught_up(async_redis))
    found = recorded(tmp_path / "r")
    assert [entry.entry_id for entry in found] == [entry.entry_id for entry in expected]
    assert [entry.model.question for entry in found] == [f"[q] {number}?" for number in range(5)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["nowhere:function", "os", "os:sep"])
def test_a_function_that_is_none_is_a_clear_error(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"recorder\.redact_function: "):
        Redaction.of("recorder", settings_of(tmp_path, redact_function=path).recorder)


OWN = """
import os
import time


def hangs(text):
    while "3" in text:
        pass
    return text


def dies(text):
    if "3" in text:
        os._exit(7)
    return text.replace("question", "[q]")


def waits(text):
    time.sleep(600)


def prints(text):
    print("a line on standard output")
    return text
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module with functions that misbehave."""
    (tmp_path / "own_functions.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_functions"


@pytest.mark.parametrize(
    ("name", "detail"), [("hangs", "redaction took longer than"), ("dies", "the redaction process died (exit code 7)")]
)
async def test_an_entry_that_cannot_be_redacted_is_recorded_without_its_texts_and_stops_nothing(
    name: str, detail: str, own: str, async_redis: Any, tmp_path: Path
) -> None:
    given = [interaction(number, user_id=hashed_user_id("eve") if number != 3 else "eve") for number in range(5)]
    expected = await add(async_redis, EntryKind.INTERACTIONS, *given)
    settings = settings_of(tmp_path / "r", redact_function=f"{own}:{name}", redact_limit_s=2, roll_s=0.3)
    registry = CollectorRegistry()
    stop = asyncio.Event()
    with structlog.testing.capture_logs() as logs:
        recorder = Recorder(
            async_redis,
            settings,
            open_store(str(tmp_path / "r")),
            Redaction.of("recorder", settings.recorder),
            RecorderTelemetry(1, ProcessTelemetry(registry=registry)),
        )
        task = asyncio.create_task(recorder.run(stop))
        await until(lambda: caught_up(async_redis), timeout_s=60)
        stop.set()
        await task
    found = recorded(tmp_path / "r")
    assert [entry.entry_id for entry in found] == [entry.entry_id for entry in expected if "3" not in str(entry.model)]
    (row,) = Recording.open(str(tmp_path / "r")).unreadable("interactions")
    assert (row["entry_id"], row["reason"]) == (expected[3].entry_id, "not_redacted")
    assert row["detail"].startswith(detail)
    assert (row["fields"]["interaction_id"], row["fields"]["user_id"]) == ("i-3", hashed_user_id("eve"))
    assert b"question 3" not in everything_in(tmp_path / "r")
    count = registry.get_sample_value("ragtide_recorded_without_texts_total", {"kind": "interactions"})
    assert count == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == [
        "an entry is recorded without its texts; further such entries are only counted"
    ]


async def test_a_stop_is_obeyed_while_a_text_is_redacted_and_the_entries_stay_for_the_next_recorder(
    own: str, async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "STOP_S", 0.2)
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(3)))
    settings = settings_of(tmp_path / "r", redact_function=f"{own}:waits", redact_limit_s=3600)
    async with recording(async_redis, settings):
        await until(lambda: async_redis.exists(STREAMS.recorder_lease))
        await asyncio.sleep(0)
    assert recorded(tmp_path / "r") == []
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected


async def test_a_text_that_is_redacted_for_long_keeps_the_lease(own: str, async_redis: Any, tmp_path: Path) -> None:
    await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    settings = settings_of(tmp_path / "r", redact_function=f"{own}:hangs", redact_limit_s=3)
    assert settings.lease_s < settings.recorder.redact_limit_s
    tokens = set()
    async with recording(async_redis, settings):
        while not await caught_up(async_redis):
            tokens.add(await async_redis.get(STREAMS.recorder_lease))
            await asyncio.sleep(0.05)
    assert len(tokens - {None}) == 1


def test_a_process_that_cannot_start_writes_nothing_without_redaction(own: str, tmp_path: Path) -> None:
    redaction = Redaction.of("recorder", settings_of(tmp_path, redact_function=f"{own}:prints").recorder)
    (tmp_path / "own_functions.py").write_text("import os; os._exit(5)")
    with pytest.raises(RedactionError, match=r"did not start \(exit code 5\)"):
        redaction.model(EntryKind.INTERACTIONS, "1-0", interaction(0))
    redaction.close()


def test_a_function_that_prints_does_not_print_on_standard_output(
    own: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    redaction = Redaction.of("recorder", settings_of(tmp_path, redact_function=f"{own}:prints").recorder)
    assert redaction.model(EntryKind.INTERACTIONS, "1-0", interaction(0)) == interaction(0)
    redaction.close()
    printed = capfd.readouterr()
    assert (printed.out, "a line on standard output" in printed.err) == ("", True)


def test_a_history_that_redaction_makes_too_long_keeps_its_last_turns() -> None:
    """Otherwise a valid entry would stop the recorder."""
    size = HISTORY_MAX_CHARS // 2
    turns = (EarlierTurn(question="a" * size), EarlierTurn(question="+49 30 1234567" + "b" * (size - 14)))
    redaction = Redaction(function=lambda text: text.replace("+49", "[the number of a phone]"))
    model = redaction.model(EntryKind.INTERACTIONS, "1-0", interaction(1, history=turns))
    assert isinstance(model, RagInteraction)
    assert [turn.question[:12] for turn in model.history or ()] == ["[the number "]


def test_calls_whose_texts_cannot_be_redacted_are_stored_without_them() -> None:
    fields = Redaction().without_texts(EntryKind.INTERACTIONS, secretive(1))
    assert fields["steps"] == [
        {"name": "lookup", "kind": "tool", "documents": [0], "returned": 1},
        {"name": "search", "kind": "tool", "documents": [], "error": "timeout"},
    ]


def test_a_query_that_redaction_makes_too_long_is_left_out_and_the_call_stays() -> None:
    call = RetrievalStep(name="search", kind="tool", query="1" * QUERY_MAX_CHARS)
    redaction = Redaction(function=lambda text: f"{text}1")
    model = redaction.model(EntryKind.INTERACTIONS, "1-0", interaction(1, steps=(call,)))
    assert isinstance(model, RagInteraction)
    assert model.calls == (RetrievalStep(name="search", kind="tool"),)
    assert model.left_out == {"steps.query": 1}
