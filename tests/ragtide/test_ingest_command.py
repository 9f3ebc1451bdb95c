"""`ragtide publish`: captured traces are explained span by span, and published once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process import run_command
from tests.support.ingest import Ingest
from tests.support.wire_spans import rag, request, span

from ragtide_runtime.redis.keys import Streams

CAPTURES = Path(__file__).parents[1] / "data" / "otlp"
RERANKED = "9238c17ba6a2e9c84e0c1dc524fedfa9"


def files(name: str) -> list[str]:
    return [str(path) for path in sorted((CAPTURES / name).glob("*.pb*"))]


def test_explain_shows_the_part_of_every_span(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "ingest", "explain", *files("openai_openinference_manual"), "--trace", RERANKED)
    assert done.code == 0
    parts = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert parts[:7] == [
        f"trace {RERANKED} of helpdesk-openai",
        "span part",
        "answer interaction 1",
        "search retrieval: documents of interaction 1: 5, not given 3",
        "rerank rerank: documents of interaction 1: 2",
        "ChatCompletion llm: answer of interaction 1",
        f"interaction 1: otel-{RERANKED}-d051a79a249cdf01",
    ]
    assert "question (input of answer): Can I get a helmet?" in parts
    assert "prompt of ChatCompletion (user): Question: Can I get a helmet?" in parts
    assert parts[-1] == "4 spans, 1 trace, 1 interaction"


def test_explain_says_why_a_trace_holds_no_interaction(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "ingest", "explain", *files("openai_openinference_manual"), "--json")
    reasons = [trace["reason"] for trace in json.loads(done.stdout) if not trace["interactions"]]
    assert [reason.partition(":")[0] for reason in reasons] == [
        "no span is a model call that succeeded",
        "no span is a retrieval that succeeded",
    ]


def test_explain_keeps_foreign_text_harmless(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "[red]\x1b[31m\u202e" + "x" * 500,
        "startTimeUnixNano": "1780000000000000000",
        "endTimeUnixNano": "1780000001000000000",
        "attributes": [
            {"key": f"ragtide.{key}", "value": {"stringValue": text}}
            for key, text in {
                "pipeline": "shop",
                "question": "[bold]\x1b]0;",
                "response": "\x9b2J",
                "documents": '["[/]"]',
            }.items()
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    done = run_command(capsys, "ingest", "explain", str(tmp_path / "t.json"))
    assert done.code == 0
    assert not set("\x1b\x9b\u202e") & set(done.stdout)
    assert "[bold]" in done.stdout


def test_publishing_traces_again_adds_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, redis_url: str, redis: Any
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    for counts in ({"published": 11, "duplicates": 0}, {"published": 0, "duplicates": 11}):
        done = run_command(capsys, "ingest", "publish", *files("openai_openinference_manual"), "--json")
        assert done.code == 0, done.stderr
        assert json.loads(done.stdout) == {**counts, "dropped": 0, "refused": 0}
    assert redis.xlen(Streams("ragtide", 0).interactions) == 11


def test_refused_interactions_are_told_and_the_others_published(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    both = [*files("langfuse_sdk"), *files("otel_genai_langchain")]
    done = run_command(capsys, "ingest", "publish", *both)
    assert done.code == 1
    assert "8 published, 0 published before, 0 dropped, 6 refused" in done.stderr
    assert "no_pipeline: no attribute names the pipeline: set OTEL_SERVICE_NAME" in done.stderr
    monkeypatch.setenv("RAGTIDE_INGEST_DEFAULT_PIPELINE", "helpdesk")
    done = run_command(capsys, "ingest", "publish", *both)
    assert done.code == 0
    assert "6 published, 8 published before, 0 dropped, 0 refused" in done.stderr


def test_segments_and_keys_come_from_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_INGEST_SEGMENTS", json.dumps({"instrumentation": "telemetry.sdk.language"}))
    done = run_command(capsys, "ingest", "explain", *files("otel_genai_langchain"), "--json")
    found = [mapped["interaction"] for trace in json.loads(done.stdout) for mapped in trace["interactions"]]
    assert {one["segments"]["instrumentation"] for one in found} == {"python"}


@pytest.mark.parametrize(("name", "words"), [("missing", "cannot be read"), ("text", "not a request of traces")])
def test_a_wrong_file_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "text").write_text("hello")
    done = run_command(capsys, "ingest", "explain", str(tmp_path / name))
    assert done.code == 1
    assert words in done.told


async def stored(redis: Any, *traces: Any, **settings: Any) -> None:
    ingest = Ingest(redis, **settings)
    await ingest.send(traces)
    await ingest.read_all()
    await ingest.reader.step()


async def test_a_live_trace_is_explained_as_its_capture_is(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    redis_url: str,
    async_redis: Any,
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    spans = request(*rag(trace=0xABCD << 112))
    (tmp_path / "captured.pb").write_bytes(spans.SerializeToString())
    await stored(async_redis, spans, request(span(1, trace=2)), explain_s=600)
    captured = run_command(capsys, "ingest", "explain", str(tmp_path / "captured.pb"), "--json")
    trace_id = f"{0xABCD << 112:032x}"
    for name in (trace_id, trace_id[:8].upper(), f"otel-{trace_id}-{1:016x}", f"otel-{trace_id}-trace-0"):
        live = await asyncio.to_thread(run_command, capsys, "ingest", "explain", name, "--json")
        assert live.stdout == captured.stdout
    shown = await asyncio.to_thread(run_command, capsys, "ingest", "explain", f"{2:032x}", trace_id)
    assert "no span is a retrieval" in shown.stdout
    assert shown.stdout.rstrip().endswith("4 spans, 2 traces, 1 interaction")


async def test_a_trace_whose_spans_are_gone_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, redis_url: str, async_redis: Any
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    await stored(async_redis, request(*rag()), explain_s=0)
    done = await asyncio.to_thread(run_command, capsys, "ingest", "explain", f"{1:032x}")
    assert done.code == 1
    assert "ingest.explain_s" in done.told
    assert "--capture" in done.told
