"""A server that speaks the OpenAI chat completions protocol, for tests and benchmarks: real HTTP, scripted behavior.

    python tests/support/judge_server.py --latency 0.2      # prints its URL, then serves until it is killed

Rules make its answers from the prompt it gets (`rules_model`), so that answers fit the sentences and claims
they are about. A test puts behaviors in a queue, one per request: `server.script += [Status(429, ...), Broken(...)]`.
"""

import argparse
import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

Model = Callable[[dict[str, Any]], str]

_DOCUMENT = re.compile(r'^(\d+[a-z]+): (".*")$', re.MULTILINE)
_RESPONSE = re.compile(r'^([a-z]+): (".*")$', re.MULTILINE)
_CLAIM = re.compile(r'^([rg]\d+): (".*")$', re.MULTILINE)
_SOURCE = re.compile(r'^(D\d+(?:\.\d+)?|A|R): (".*")$', re.MULTILINE)
_TEXT = re.compile(r'^(RESPONSE|REFERENCE): (".*")$', re.MULTILINE)


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def rules_model(request: dict[str, Any]) -> str:
    """Answer a labeling prompt by shared words: a mindless judge that does read the prompt."""
    prompt = request["messages"][1]["content"]
    name = schema_name(request)
    if name == "claims":
        texts = {key: json.loads(text) for key, text in _TEXT.findall(prompt)}
        return json.dumps(
            {
                "response_claims": sentences(texts.get("RESPONSE", "")),
                "reference_claims": sentences(texts.get("REFERENCE", "")),
            }
        )
    if name == "verdicts":
        sources = {key: words(json.loads(text)) for key, text in _SOURCE.findall(prompt)}
        return json.dumps(
            {
                "verdicts": [
                    {
                        "claim": key,
                        "entailed_by": [
                            source
                            for source, said in sources.items()
                            if words(json.loads(text)) <= said and source != ("R" if key[0] == "r" else "A")
                        ],
                        "contradicted_by": [],
                    }
                    for key, text in _CLAIM.findall(prompt)
                ]
            }
        )
    documents = {key: words(json.loads(text)) for key, text in _DOCUMENT.findall(prompt)}
    response = {key: words(json.loads(text)) for key, text in _RESPONSE.findall(prompt)}
    support = {
        key: [document for document, said in documents.items() if len(mine & said) >= max(1, len(mine) // 2)]
        for key, mine in response.items()
    }
    used = list(dict.fromkeys(key for keys in support.values() for key in keys))
    return json.dumps(
        {
            "relevance_explanation": "shared words",
            "all_relevant_sentence_keys": used,
            "overall_supported_explanation": "shared words",
            "overall_supported": all(support.values()),
            "sentence_support_information": [
                {
                    "response_sentence_key": key,
                    "explanation": "shared words",
                    "supporting_sentence_keys": keys,
                    "fully_supported": bool(keys),
                }
                for key, keys in support.items()
            ],
            "all_utilized_sentence_keys": used,
        }
    )


def sentences(text: str) -> list[str]:
    return [piece.strip() for piece in re.split(r"(?<=[.!?])\s+", text) if piece.strip()]


def schema_name(request: dict[str, Any]) -> str:
    """Return which answer is asked for, however the endpoint was asked for its form."""
    declared = request.get("response_format", {}).get("json_schema", {}).get("name")
    if declared:
        return str(declared)
    system = request["messages"][0]["content"]
    return next((name for name in ("verdicts", "response_claims") if f'"{name}"' in system), "labels").replace(
        "response_claims", "claims"
    )


@dataclass(frozen=True)
class Says:
    """Answers with this text, or with the result of this function of the request."""

    text: str | Model
    finish: str = "stop"
    refusal: str | None = None
    tool_calls: bool = False


@dataclass(frozen=True)
class Status:
    """Answers with an HTTP error."""

    code: int
    message: str = "an error"
    headers: dict[str, str] = field(default_factory=dict)
    kind: str | None = None
    param: str | None = None


@dataclass(frozen=True)
class Hangs:
    """Takes the request and never answers."""


@dataclass(frozen=True)
class Drops:
    """Sends half of the response's bytes and closes the connection."""


@dataclass(frozen=True)
class Slow:
    """Answers properly after some seconds more."""

    seconds: float


@dataclass(frozen=True)
class Raw:
    """Answers with these bytes as they are, `times` over."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1


Behavior = Says | Status | Hangs | Drops | Slow | Raw


class JudgeServer:
    """Serves on 127.0.0.1 in a thread of its own; use it as a context manager."""

    base = "/v1"
    path = "/chat/completions"

    def __init__(self, *, latency_s: float = 0.0, model: Model = rules_model, capacity: int | None = None) -> None:
        self.latency_s = latency_s
        self.model = model
        self.capacity = capacity
        """Requests at once above which the rest get 429."""
        self.script: deque[Behavior] = deque()
        self.always: Behavior | None = None
        """Behavior of every request while the script is empty."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answered = 0
        self.raw_sent = 0
        """Bytes of the bodies of `Raw` that the network has taken."""
        self.in_flight = 0
        self.most_in_flight = 0
        self.keep = True
        """Whether requests are stored in `requests`."""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=16 * 1024 * 1024, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self.base}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if not head[0].startswith(f"POST {self.base}{self.path} "):
            await self._send(writer, 404, {"error": {"message": f"no such path: {head[0]}"}})
            return True
        request = json.loads(body)
        if self.keep:
            self.requests.append(request)
            self.headers.append(headers)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answer(request, writer)
        finally:
            self.in_flight -= 1

    async def answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Answer a request as the next behavior says, and return whether the connection stays open."""
        behavior = self.script.popleft() if self.script else self.always
        if self.capacity is not None and self.in_flight > self.capacity:
            behavior = Status(429, "too many requests at once")
        if isinstance(behavior, Status):
            error = {"message": behavior.message, "type": behavior.kind, "param": behavior.param, "code": behavior.kind}
            await self._send(writer, behavior.code, {"error": error}, behavior.headers)
            return True
        if isinstance(behavior, Raw):
            return await self.send_raw(writer, behavior)
        if isinstance(behavior, Hangs):
            await asyncio.sleep(3600)
        await asyncio.sleep(self.latency_s + (behavior.seconds if isinstance(behavior, Slow) else 0.0))
        reply = self.reply(request, behavior)
        if isinstance(behavior, Drops):
            payload = json.dumps(reply).encode()
            writer.write(http_head(200, len(payload), {}) + payload[: len(payload) // 2])
            await writer.drain()
            return False
        self.answered += 1
        await self._send(writer, 200, reply)
        return True

    def reply(self, request: dict[str, Any], behavior: Behavior | None) -> Any:
        """Return the JSON of a proper answer."""
        said = behavior if isinstance(behavior, Says) else Says(self.model)
        text = said.text if isinstance(said.text, str) else said.text(request)
        return completion(request, text, said)

    @staticmethod
    async def _send(writer: asyncio.StreamWriter, code: int, reply: Any, headers: dict[str, str] | None = None) -> None:
        payload = json.dumps(reply).encode()
        writer.write(http_head(code, len(payload), headers or {}) + payload)
        await writer.drain()

    async def send_raw(self, writer: asyncio.StreamWriter, said: Raw) -> bool:
        """Send bytes as they are, and return that the connection stays open."""
        headers = {"content-type": said.content_type, **said.headers}
        writer.write(http_head(said.code, len(said.body) * said.times, headers))
        for _ in range(said.times):
            writer.write(said.body)
            await writer.drain()
            self.raw_sent += len(said.body)
        return True


def http_head(code: int, length: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Status", f"content-length: {length}"]
    headers = {"content-type": "application/json", **headers}
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def completion(request: dict[str, Any], text: str, said: Says) -> dict[str, Any]:
    prompt_tokens = sum(len(message["content"]) for message in request["messages"]) // 4
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": said.refusal}
    if said.refusal is not None:
        message["content"] = None
    if said.tool_calls:
        call = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        message |= {"content": None, "tool_calls": [call]}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": said.finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(text) // 4,
            "total_tokens": prompt_tokens + len(text) // 4,
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--fast", action="store_true", help="answer the same sentences the same, whatever the question")
    options = parser.parse_args()
    known: dict[str, str] = {}

    def remembering(request: dict[str, Any]) -> str:
        sentences_asked = request["messages"][1]["content"].partition("DOCUMENT SENTENCES")[2]
        if sentences_asked not in known:
            known[sentences_asked] = rules_model(request)
        return known[sentences_asked]

    server = JudgeServer(latency_s=options.latency, model=remembering if options.fast else rules_model)
    server.keep = False
    with server:
        print(server.url, flush=True)  # noqa: T201
        threading.Event().wait()
