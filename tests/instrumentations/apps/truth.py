"""What an application itself saw, beside the spans of its libraries: the questions, the prompts, and what it showed.

An application of constructions asks a scripted model, which is a server of its own process with OpenAI's protocol. So
the prompts are known as the model got them, and the texts of the handbook in them are the true documents.
"""

import contextvars
import html
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry import trace

HANDBOOK = {
    "tower-built": "The Eiffel Tower was built in 1889 for the World's Fair.",
    "tower-high": "The Eiffel Tower is 330 metres high, with its antennas.",
    "tower-paris": "Every year seven million people visit the Eiffel Tower in Paris.",
    "nile-long": "The river Nile is about 6650 kilometres long.",
    "nile-sea": "The river Nile flows north, into the Mediterranean Sea.",
    "nile-source": "Lake Victoria is a source of the river Nile.",
    "insulin-made": "Insulin is produced in the pancreas, by its beta cells.",
    "insulin-found": "Banting and Best isolated insulin in 1921.",
    "titanic-sank": "The Titanic sank in April 1912, after it struck an iceberg.",
    "titanic-built": "The Titanic was built in Belfast by Harland & Wolff.",
    "pluto-found": 'Clyde Tombaugh discovered Pluto in 1930; "planet X" was its working name.',
    "guernica": "Pablo Picasso painted Guernica in 1937.",
}
"""The documents, by their ids. Some have characters that JSON and HTML write in another way."""

TOPICS = (
    ("When was the Eiffel Tower built?", "It was built in 1889."),
    ("How long is the river Nile?", "It is about 6650 kilometres long."),
    ("Where does the body make insulin?", "The pancreas makes it."),
    ("When did the Titanic sink?", "It went down in April 1912."),
    ("Who discovered Pluto?", "Clyde Tombaugh did, in 1930."),
    ("Who painted Guernica?", "Picasso painted it."),
)
"""Questions with their answers."""
STRANGE = "What is the capital of Australia?"
"""A question of which the handbook has nothing."""

WEATHER = "It is 21 degrees warm."
"""What a tool says that is no search: a document where the calls of tools have spans."""
HAS_TOOL_SPANS = [True]
"""Whether the libraries of the application make spans of the calls of tools."""
NO_CALLS = frozenset(
    (
        "research", "ask_researcher", "transfer_to_expert", "transfer_to_agent", "delegate_work_to_coworker", "handoff",
        "final_result", "Answer", "Year", "DocumentRelevanceList",
    )
)  # fmt: skip
"""Tools that are other agents, hand the question over, or are the form of an answer."""

_COMMON = {"when", "was", "the", "how", "long", "where", "does", "did", "who", "what", "with", "its", "about", "reply"}
_numbers = itertools.count(11)


def asked(topic: int = 0) -> str:
    """Return a question that no other call returned."""
    return f"{TOPICS[topic % len(TOPICS)][0]} Reply within {next(_numbers)} words."


def strange() -> str:
    """Return a question without a document, that no other call returned."""
    return f"{STRANGE} Reply within {next(_numbers)} words."


def answer_to(text: str) -> str:
    """Return the usual answer to the last question in a text, with its number, so that no other has it."""
    places = [(text.rfind(question), answer) for question, answer in TOPICS]
    at, answer = max(places)
    number = (re.findall(r"within (\d+) words", text) or [""])[-1]
    return f"{answer if at >= 0 else 'I do not know.'} That is for {number}." if number else answer


def search(query: str, k: int = 3) -> list[tuple[str, str]]:
    """Return the ids and texts with the most words of a query, the best first; nothing if none has one."""
    words = set(re.findall(r"[a-z]{3,}", query.lower())) - _COMMON
    counted = [(len(words & set(re.findall(r"[a-z]{3,}", text.lower()))), name) for name, text in HANDBOOK.items()]
    best = sorted((item for item in counted if item[0]), key=lambda item: -item[0])
    return [(name, HANDBOOK[name]) for _, name in best[:k]]


@dataclass(frozen=True)
class Calls:
    """The model asks for tools: pairs of a name and its arguments."""

    tools: tuple[tuple[str, dict[str, Any]], ...]
    text: str = ""


@dataclass(frozen=True)
class Failure:
    """The model service fails."""

    status: int = 400


Reply = str | Calls | Failure
Script = Callable[[list[dict[str, Any]]], Reply]


def call(name: str, **arguments: Any) -> Calls:
    """Return that the model asks for one tool."""
    return Calls(((name, arguments),))


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message."""
    content = message.get("content", message.get("output"))
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def prompt_of(messages: Iterable[dict[str, Any]]) -> str:
    """Return all texts that the model got, in order."""
    return "\n".join(map(text_of, messages))


def usual(messages: list[dict[str, Any]]) -> Reply:
    """Answer the question of the prompt."""
    return answer_to(prompt_of(messages))


def by_prompt(*cases: tuple[str, Reply | Callable[[str], Reply]], otherwise: Script = usual) -> Script:
    """Return a script that replies to prompts by a text in them; a reply may be a function of the prompt."""

    def script(messages: list[dict[str, Any]]) -> Reply:
        prompt = prompt_of(messages)
        for mark, reply in cases:
            if mark in prompt:
                return reply(prompt) if callable(reply) else reply
        return otherwise(messages)

    return script


def failing(times: int, otherwise: Script = usual) -> Script:
    """Return a script that fails so many times, and then replies."""
    left = itertools.count(times, -1)
    return lambda messages: Failure() if next(left) > 0 else otherwise(messages)


def after_tools(*rounds: Calls | Callable[[str], Calls], final: Script = usual) -> Script:
    """Return a script that asks for tools in each round, and then answers.

    A round may be a function of the last message of the user.
    """

    def script(messages: list[dict[str, Any]]) -> Reply:
        last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=0)
        done = sum(
            message.get("type") == "function_call" if "type" in message and "role" not in message
            else bool(message.get("tool_calls"))
            for message in messages[last + 1 :]
        )  # fmt: skip
        if done < len(rounds):
            wanted = rounds[done]
            return wanted if isinstance(wanted, Calls) else wanted(text_of(messages[last]))
        return final(messages)

    return script


@dataclass
class Model:
    """The scripted model service."""

    script: Script = usual
    requests: list[tuple[list[dict[str, Any]], Reply]] = field(default_factory=list)
    """What came, and what was replied, since the construction began."""
    pause_s: float = 0
    """Seconds between the pieces of a stream, so that a reader can close it before its end."""

    def reply(self, request: dict[str, Any]) -> Reply:
        """Return the reply to a request, and remember both."""
        messages = request.get("messages")
        if messages is None:
            given = request["prompt"] if "prompt" in request else request["input"]
            messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
            if request.get("instructions"):
                messages.insert(0, {"role": "system", "content": request["instructions"]})
        found = Failure() if str(request["model"]).startswith("broken") else self.script(messages)
        self.requests.append((messages, found))
        return found

    def prompts_of(self, texts: Iterable[str]) -> list[str]:
        """Return the prompts to which the model wrote one of the texts, or what one of them is the beginning of."""
        wanted = [text for text in texts if text]
        return [
            prompt_of(messages)
            for messages, reply in self.requests
            if isinstance(reply, str) and any(reply.startswith(text) for text in wanted)
        ]


MODEL = Model()


@dataclass
class _Truth:
    construction: str
    outcome: str
    seen: list[dict[str, Any]] = field(default_factory=list)
    traces: dict[str, None] = field(default_factory=dict)


_current = _Truth("", "")
_all: list[tuple[str, str, Callable[[], Any]]] = []


def construction(name: str, outcome: str = "right") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Make a function a construction of this application.

    Args:
        name: of the construction, as in the table of the pages.
        outcome: what is to be recorded: `right`, `refused (REASON)`, or `not recorded`.
    """

    def of(run: Callable[[], Any]) -> Callable[[], Any]:
        _all.append((name, outcome, run))
        return run

    return of


def saw(
    question: str,
    response: str,
    documents: Iterable[str] | None = None,
    *,
    through: Iterable[str] | None = None,
    calls: Iterable[tuple[int, str]] | None = None,
    failed: int = 0,
    **more: Any,
) -> None:
    """Note an answer that the application showed.

    Args:
        question: as the user typed it.
        response: as the user saw it.
        documents: texts that the model got, if they are others than those of the handbook in the prompts.
        through: replies of the model whose prompts had the documents, if the response is not one of them.
        calls: round and name of each call of a tool, if they are others than those for which the model asked.
        failed: number of the first calls, which failed.
        more: other fields of the interaction, such as `session_id`; `documents_in_any_order` if branches run in
            parallel, and `response_is_cut` if a stream was closed.
    """
    prompts = MODEL.prompts_of([response] if through is None else through)
    if documents is None:
        # An earlier prompt comes first, and in it what stands first.
        placed = [
            (number, place, text)
            for number, prompt in enumerate(prompts)
            for text in (*HANDBOOK.values(), *([WEATHER] if HAS_TOOL_SPANS[0] else ()))
            for spelled in (text, json.dumps(text)[1:-1], repr(text)[1:-1], html.escape(text))
            if (place := prompt.find(spelled)) >= 0
        ]
        documents = dict.fromkeys(text for _, _, text in sorted(placed))
    texts = sorted(documents) if "documents_in_any_order" in more else list(documents)
    made = list(_asked_calls(question) if calls is None else calls)
    with_calls = {"calls": [[*call, place < failed] for place, call in enumerate(made)]} if made else {}
    _current.seen.append({"question": question, "documents": texts, "response": response, **with_calls, **more})


def _asked_calls(question: str) -> Iterator[tuple[int, str]]:
    """Yield round and name of the calls that the model asked for, for a question and for what no question is in."""
    numbers = re.findall(r"within (\d+) words", question)
    rounds = 0
    for messages, reply in MODEL.requests if HAS_TOOL_SPANS[0] else ():
        last = re.findall(r"within (\d+) words", prompt_of(messages))[-1:]
        names = [name for name, _ in reply.tools if name not in NO_CALLS] if isinstance(reply, Calls) else []
        if names and (not last or last == numbers[-1:]):
            rounds += 1
            yield from ((rounds, name) for name in names)


class _Tracing:
    """Notes which traces a construction made."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        _current.traces[f"{span.get_span_context().trace_id:032x}"] = None

    def on_end(self, span: Any) -> None:
        pass

    def _on_ending(self, span: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def run_all(chosen: Iterable[str] = ()) -> None:
    """Run the constructions, all or those of the names, and write what each saw, a line each, into RAGTIDE_TRUTH."""
    global _current  # noqa: PLW0603 - spans begin in any thread
    wanted = set(chosen)
    trace.get_tracer_provider().add_span_processor(_Tracing())  # type: ignore[attr-defined]
    with Path(os.environ["RAGTIDE_TRUTH"]).open("w", encoding="utf-8") as file:
        for name, outcome, run in _all:
            if wanted and name not in wanted:
                continue
            MODEL.script, MODEL.requests = usual, []
            _current = _Truth(name, outcome)
            # As a server handles a request: some instrumentations leave spans open in their context.
            contextvars.Context().run(run)
            file.write(json.dumps(vars(_current) | {"traces": list(_current.traces)}) + "\n")


@contextmanager
def scripted(script: Script = usual, pause_s: float = 0) -> Iterator[None]:
    """Let the model follow a script, with pauses between the pieces of a stream."""
    before = MODEL.script, MODEL.pause_s
    MODEL.script, MODEL.pause_s = script, pause_s
    try:
        yield
    finally:
        MODEL.script, MODEL.pause_s = before


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/embeddings"):
            given = request["input"] if isinstance(request["input"], list) else [request["input"]]
            rows = [{"object": "embedding", "index": at, "embedding": [1.0, float(at)]} for at in range(len(given))]
            self._send({"object": "list", "data": rows, "model": "e", "usage": {"prompt_tokens": 1, "total_tokens": 1}})
            return
        reply = MODEL.reply(request)
        if isinstance(reply, Failure):
            self._send({"error": {"message": "the model is overloaded", "type": "error"}}, reply.status)
            return
        is_response = self.path.endswith("/responses")
        whole = _response(request, reply) if is_response else _completion(request, reply)
        if "prompt" in request:
            text = {"text": reply, "index": 0, "finish_reason": "stop", "logprobs": None}
            whole = {**whole, "object": "text_completion", "choices": [text]}
        if not request.get("stream"):
            self._send(whole)
            return
        events = _response_events(whole) if is_response else _completion_events(whole)
        with_done = [*(json.dumps(event) for event in events), *([] if is_response else ["[DONE]"])]
        lines = [
            (f"event: {json.loads(line)['type']}\n" if is_response else "") + f"data: {line}\n\n" for line in with_done
        ]
        self._send_bytes("".join(lines).encode(), "text/event-stream", pieces=[line.encode() for line in lines])

    def _send(self, value: Any, status: int = 200) -> None:
        self._send_bytes(json.dumps(value).encode(), "application/json", status)

    def _send_bytes(self, body: bytes, kind: str, status: int = 200, pieces: Iterable[bytes] = ()) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        # An application has several event loops, one after another: a connection belongs to one of them.
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(OSError):  # nobody reads a stream that is closed early
            for piece in pieces if MODEL.pause_s else [body]:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(MODEL.pause_s)

    def log_message(self, *_: Any) -> None:
        pass


_call_ids = itertools.count(1)
_TOKENS = {"prompt_tokens": 50, "completion_tokens": 8, "total_tokens": 58}


def _completion(request: dict[str, Any], reply: str | Calls) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else reply.text or None}
    if isinstance(reply, Calls):
        message["tool_calls"] = [
            {
                "id": f"call-{next(_call_ids)}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in reply.tools
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if isinstance(reply, Calls) else "stop",
        "logprobs": None,
    }
    return {
        "id": "completion-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [choice],
        "usage": _TOKENS,
    }


def _completion_events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    choice = whole["choices"][0]
    if "text" in choice:
        return [{**whole, "choices": [{**choice, "text": word}]} for word in re.split(r"(?<= )", choice["text"])]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.split(r"(?<= )", message["content"] or "")]
    deltas += [{"tool_calls": [{"index": at, **one}]} for at, one in enumerate(message.get("tool_calls", ()))]
    base = {**whole, "object": "chat.completion.chunk", "usage": None}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    return [*chunks, end, {**base, "choices": [], "usage": _TOKENS}]


def _response(request: dict[str, Any], reply: str | Calls) -> dict[str, Any]:
    """Return a reply in the protocol of OpenAI's Responses."""
    output: list[dict[str, Any]] = []
    text = reply if isinstance(reply, str) else reply.text
    if text or isinstance(reply, str):
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        output.append(
            {"id": "message-1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    for name, arguments in reply.tools if isinstance(reply, Calls) else ():
        number = next(_call_ids)
        output.append(
            {
                "id": f"function-{number}",
                "type": "function_call",
                "call_id": f"call-{number}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
        )
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "response-1",
        "object": "response",
        "created_at": 1,
        "model": request["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "usage": {"input_tokens": 50, "output_tokens": 8, "total_tokens": 58, **details},
    }


def _response_events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}}]
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
        for part in item.get("content", ()):
            inner = {**place, "content_index": 0}
            events.append({"type": "response.content_part.added", **inner, "part": {**part, "text": ""}})
            events += [
                {"type": "response.output_text.delta", **inner, "delta": word, "logprobs": []}
                for word in re.split(r"(?<= )", part["text"])
            ]
            events.append({"type": "response.output_text.done", **inner, "text": part["text"], "logprobs": []})
            events.append({"type": "response.content_part.done", **inner, "part": part})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _start() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


URL = _start()
"""Address of the model."""
os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = URL, "sk-test"
