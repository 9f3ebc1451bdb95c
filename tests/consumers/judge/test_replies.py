"""The reply of an endpoint with success: an answer in any form is read, and what is none is decided by its cause."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.consumers.judge.asking import SECRET, TOWER, judge

from ragtide.testing import JudgePrompt, Labels, Raw, ScriptedJudge
from ragtide_consumers.labelers.judge.completions import read_body, read_reply
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, EndpointUnavailable

pytestmark = pytest.mark.processes

ANOTHER = TOWER.model_copy(update={"question": "Another?"})


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def sse(*events: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return b": processing\n\n" + "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(delta: Any, finish: str | None = None) -> Any:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def of_chunks(text: str) -> bytes:
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    thought = chunk({"role": "assistant", "content": None, "reasoning_content": "{"})
    return sse(thought, *(chunk({"content": half}) for half in halves(text)), chunk({}, "stop"), usage)


def of_calls(text: str) -> bytes:
    first, last = halves(text)
    call = {"index": 0, "function": {"name": "f", "arguments": first}}
    return sse(
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": last}}]}),
        chunk({}, "tool_calls"),
    )


def of_anthropic(text: str) -> bytes:
    start = {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 7}}}
    thought = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "{"}}
    texts = [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": half}} for half in halves(text)]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    events: list[Any] = [start, thought, *texts, end, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def of_responses(text: str) -> Any:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "{"}]}
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"object": "response", "status": "completed", "error": None, "output": [reasoning, message], "usage": usage}


def of_ollama(text: str, **more: Any) -> Any:
    counts = {"done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3} if more.get("done") else {}
    return {"model": "m", "message": {"role": "assistant", "content": text}, **more, **counts}


def of_gemini(text: str) -> Any:
    parts = [{"text": "{", "thought": True}, {"text": text}]
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 1, "thoughtsTokenCount": 2}
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}],
        "usageMetadata": usage,
    }


FORMS: dict[str, Any] = {
    "chunks of a stream": of_chunks,
    "calls in chunks": of_calls,
    "chunks without empty lines": lambda text: of_chunks(text).replace(b"\n\n", b"\r\n"),
    "a whole completion in a stream": lambda text: sse(
        {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}, done=False
    ),
    "chunks as lines": lambda text: b"\n".join(
        json.dumps(event).encode() for event in (chunk({"content": text}), chunk({}, "stop"))
    ),
    "Responses": of_responses,
    "Responses in a stream": lambda text: sse(
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": text[:9]},
        {"type": "response.completed", "response": of_responses(text)},
        done=False,
    ),
    "Anthropic": lambda text: {
        "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "{"}, {"type": "text", "text": text}],
    },
    "Anthropic in a stream": of_anthropic,
    "a tool of Anthropic": lambda text: {
        "type": "message", "role": "assistant", "content": [{"type": "tool_use", "input": json.loads(text)}],
    },
    "Gemini": of_gemini,
    "Gemini in a list": lambda text: [of_gemini(half) for half in halves(text)],
    "Gemini in a stream": lambda text: sse(*(of_gemini(half) for half in halves(text)), done=False),
    "Ollama": lambda text: of_ollama(text, done=True),
    "Ollama in lines": lambda text: b"\n".join(
        json.dumps(part).encode()
        for part in (*(of_ollama(half, done=False) for half in halves(text)), of_ollama("", done=True))
    ),
    "Ollama's other address": lambda text: {"model": "m", "response": text, "done": True},
    "TGI": lambda text: [{"generated_text": text}],
    "TGI in a stream": lambda text: sse(
        {"token": {"text": text, "special": False}, "generated_text": None},
        {"token": {"text": "</s>", "special": True}, "generated_text": text, "details": {"finish_reason": "eos_token"}},
        done=False,
    ),
    "llama.cpp": lambda text: {"content": text, "stop": True, "stop_type": "eos"},
    "Bedrock": lambda text: {
        "output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": "end_turn",
    },
    "Cohere": lambda text: {
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}, "finish_reason": "COMPLETE",
    },
    "a completion in an envelope": lambda text: {
        "code": 0, "message": "ok", "data": {"choices": [{"message": {"content": text}}]},
    },
    "AI21": lambda text: {
        "id": 1, "prompt": {"text": "", "tokens": []},
        "completions": [{"data": {"text": text, "tokens": []}, "finishReason": {"reason": "endoftext"}}],
    },
    "Titan": lambda text: {
        "inputTextTokenCount": 7, "results": [{"tokenCount": 3, "outputText": text, "completionReason": "FINISH"}],
    },
    "Vertex": lambda text: {"predictions": [{"content": text, "safetyAttributes": {"blocked": False}}], "metadata": {}},
    "Vertex with candidates": lambda text: {"predictions": [{"candidates": [{"author": "1", "content": text}]}]},
    "Vertex with texts": lambda text: {"predictions": [text]},
    "Llama on Bedrock": lambda text: {
        "generation": text, "prompt_token_count": 7, "generation_token_count": 3, "stop_reason": "stop",
    },
    "Mistral on Bedrock": lambda text: {"outputs": [{"text": text, "stop_reason": "stop"}]},
    "Cohere's other address": lambda text: {"generations": [{"text": text, "finish_reason": "COMPLETE"}], "prompt": ""},
    "Anthropic's other address": lambda text: {"completion": text, "stop_reason": "stop_sequence"},
    "watsonx": lambda text: {"results": [{"generated_text": text, "stop_reason": "eos_token"}]},
    "JSON in an envelope": lambda text: {"code": 200, "msg": "success", "data": text},
    "text in an envelope": lambda text: {"result": {"response": text}, "success": True, "errors": [], "messages": []},
    "an empty error beside it": lambda text: {
        "error": {"code": "", "message": None}, "base_resp": {"status_code": 0, "status_msg": ""},
        "choices": [{"message": {"content": text}, "finish_reason": "stop", "error": None}],
    },
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_a_whole_answer_in_another_form_is_read_in_one_call(server: ScriptedJudge, form: str) -> None:
    def reply(prompt: JudgePrompt) -> Raw:
        made = FORMS[form](Labels().answer(prompt))
        return Raw(made if isinstance(made, bytes) else json.dumps(made).encode())

    server.always = reply
    async with judge(server, attempts=1, families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.scores["ragchecker.precision"] == 0.5
    assert labeling.counters == {"judge_calls": 3}


def choice(**more: Any) -> Any:
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, **more}]}


OUTAGES: dict[str, Any] = {
    "an error in a choice": choice(finish_reason="error", error={"code": 502, "message": "its own words"}),
    "half an answer and an error": {
        "choices": [{"message": {"content": "{"}, "error": {"message": "its own words"}, "finish_reason": "stop"}]
    },
    "a reason alone": choice(finish_reason="error"),
    "an aborted answer": choice(finish_reason="abort"),
    "an error": {"error": {"message": "its own words"}},
    "an error as text": {"error": "its own words"},
    "an error in a list": [{"error": {"code": 503, "message": "its own words", "status": "UNAVAILABLE"}}],
    "errors": {"errors": [{"message": "its own words"}], "success": False},
    "a detail": {"detail": "its own words"},
    "an overload": {"code": 529, "message": "its own words"},
    "a type": {"type": "error", "error": {"type": "overloaded_error", "message": "its own words"}},
    "no success": {"success": False},
    "a state beside no choice": {"base_resp": {"status_code": 1000, "status_msg": "its own words"}, "choices": None},
    "a state beside an answer": choice() | {"header": {"code": 10110, "message": "its own words"}},
    "no choices": {"choices": []},
    "choices of nothing": {"choices": None},
    "a failed response": {
        "object": "response",
        "status": "failed",
        "error": {"message": "its own words"},
        "output": [],
    },
    "an error in a stream": sse(chunk({"content": "{"}), {"error": {"message": "its own words"}}),
    "a stream without an end": sse(chunk({"content": "{"}), done=False),
    "a stream without an answer": b"data: [DONE]\n\n",
    "a page": b"<!doctype html><html><title>its own words</title></html>",
    "a page about rules": b"<html><style>p{}</style>its own words<p>Moderation, usage policies, max_tokens</p></html>",
    "plain words": b"upstream connect error: its own words",
    "nothing": b"",
    "null": b"null",
    "an empty object": b"{}",
    "half of JSON": b'{"choices": [{"mess',
}


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("case", OUTAGES)
async def test_an_error_inside_is_an_outage_and_never_an_item(server: ScriptedJudge, case: str, answered: bool) -> None:
    body = OUTAGES[case]
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with judge(server, attempts=2) as labeler:
        if answered:
            await labeler.label(ANOTHER)
        server.script.append(Raw(body))
        before = len(server.requests)
        labeling = await labeler.label(TOWER)
        assert labeling.scores["trace.supported_fraction"] == 0.5
        assert len(server.requests) == before + 2
    async with judge(server, attempts=1) as labeler:
        server.always = Raw(body)
        with pytest.raises(EndpointUnavailable) as caught:
            await labeler.label(TOWER)
    assert not isinstance(caught.value, EndpointMisconfigured)
    assert ("its own words" in str(caught.value)) == (b"its own words" in body)


MISTAKES: dict[str, tuple[Any, str]] = {
    "a wrong key": ({"error": {"code": 401, "message": "its own words"}}, "judge.api_key"),
    "a type of error": ({"error": {"type": "authentication_error", "message": "its own words"}}, "judge.api_key"),
    "no quota": ({"code": 402, "message": "its own words"}, "balance"),
    "no such model": ({"error": {"code": 404, "message": "its own words: no model"}}, "judge.model"),
    "no model in words": ({"error": "its own words: model 'm' not found, try pulling it first"}, "judge.model"),
    "a search": ({"results": [{"title": "its own words", "content": "A page."}]}, "judge.base_url"),
    "another service": ({"object": "list", "data": [{"embedding": [0.5]}], "note": "its own words"}, "judge.base_url"),
    "a state": ({"status": "its own words"}, "judge.base_url"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
async def test_a_mistake_of_the_settings_is_named_after_one_call(server: ScriptedJudge, case: str) -> None:
    body, remedy = MISTAKES[case]
    server.always = Raw(json.dumps(body).encode())
    async with judge(server, breaker_pause_s=60) as labeler:
        with pytest.raises(EndpointMisconfigured, match="its own words") as caught:
            await labeler.label(TOWER)
    assert remedy in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("state", ["in_progress", "queued"])
async def test_an_unfinished_response_is_named_after_one_call(server: ScriptedJudge, state: str) -> None:
    server.always = Raw(json.dumps(of_responses("{}") | {"status": state}).encode())
    async with judge(server, breaker_pause_s=60) as labeler:
        with pytest.raises(EndpointMisconfigured, match="not finished"):
            await labeler.label(TOWER)
    assert len(server.requests) == 1


async def test_an_overload_inside_asks_for_fewer_calls(server: ScriptedJudge) -> None:
    server.script.append(Raw(b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'))
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).scores != {}
        assert labeler._client._access.endpoint.asks_for_fewer_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        choice(error={"code": "content_filter", "message": "no"}, finish_reason="error"),
        {"error": {"code": 400, "message": "Content Exists Risk"}},
        {
            "object": "response",
            "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"},
            "output": [],
        },
        {"candidates": [{"finishReason": "SAFETY"}]},
        [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}],
    ],
    ids=repr,
)
async def test_a_filter_of_contents_is_no_outage(server: ScriptedJudge, body: Any) -> None:
    server.always = Raw(json.dumps(body).encode())
    async with judge(server, attempts=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_refused"}
    assert len(server.requests) == 1


async def test_the_words_of_an_error_inside_are_bounded_printable_and_without_the_key(server: ScriptedJudge) -> None:
    server.always = Raw(json.dumps(choice(error={"message": f"{SECRET}\x1b[2J{'x' * 9_000}"})).encode())
    async with judge(server, attempts=1) as labeler:
        with pytest.raises(EndpointUnavailable) as caught:
            await labeler.label(TOWER)
    assert str(caught.value).isprintable()
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1_000


NAMES = st.sampled_from([
    "choices", "message", "delta", "content", "error", "errors", "code", "status", "type", "text", "output", "response",
    "result", "data", "finish_reason", "usage", "tool_calls", "parts", "candidates", "done", "base_resp", "detail",
    "results", "predictions", "completions", "outputText", "finishReason", "output",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.sampled_from(["", "{", "error", "stop", "429", "message"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("body", "finish"),
    [
        ({"results": [{"tokenCount": 3, "outputText": "{", "completionReason": "LENGTH"}]}, "length"),
        ({"results": [{"tokenCount": 3, "outputText": "", "completionReason": "CONTENT_FILTERED"}]}, "content_filter"),
        ({"completions": [{"data": {"text": "{"}, "finishReason": {"reason": "length"}}]}, "length"),
        ({"object": "response", "status": "incomplete", "output": []}, "length"),
        ({"generation": "{", "stop_reason": "length"}, "length"),
    ],
    ids=repr,
)
def test_the_reason_of_the_end_is_read_in_every_form(body: Any, finish: str) -> None:
    found = read_reply(body, None)
    assert (found.finish, found.fault) == (finish, None)


@pytest.mark.pure
@pytest.mark.parametrize("form", ["Titan", "Llama on Bedrock", "Ollama", "Gemini", "Responses"])
def test_the_tokens_are_read_in_every_form(form: str) -> None:
    found = read_reply(FORMS[form]("{}"), None)
    assert (found.prompt_tokens, found.completion_tokens) == (7, 3)


@pytest.mark.pure
@example(reply="", is_stream=False)
@example(reply=" \n", is_stream=True)
@given(VALUES, st.booleans())
def test_any_reply_is_an_answer_or_a_fault_and_raises_nothing(reply: Any, is_stream: bool) -> None:
    body = sse(*(reply if isinstance(reply, list) else [reply])) if is_stream else json.dumps(reply).encode()
    found = read_reply(read_body(body), None)
    assert found.fault is None or found.fault.status == 200 or 400 <= found.fault.status < 600
    assert found.fault is None or found.fault.text


@pytest.mark.pure
@pytest.mark.parametrize("line", ["data: {", "data: ", '{"a": [', ": x", "event: a", '{"a": 1}', "[1", "x"])
def test_a_long_stream_is_read_in_linear_time(line: str) -> None:
    body = f"{line}\n".encode() * 20_000
    read_reply(read_body(body), None)
