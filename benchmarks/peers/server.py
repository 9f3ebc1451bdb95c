"""An endpoint of the chat completions protocol, in a process of its own, that answers what every peer can parse.

    python benchmarks/peers/server.py --latency 0.2 --capacity 64     # prints its URL, then serves

It works on so many calls at once; more wait. Each call takes the latency. ragtide's prompts get labels of their
sentences. Other answers follow the JSON schema of the request, or of the first tool that it demands: every list has 4
elements, every text 12 words, every choice is the first. Without a schema, prompts of RAGChecker get 4 triplets, or a
verdict for each triplet, and others 4 lines with a score. Calls of the responses protocol are refused, so that clients
use this one.
`GET /count` returns calls and tokens since the last `POST /reset`. A token here is a word or a punctuation mark.
"""

import argparse
import asyncio
import json
import logging
import re
import time
from typing import Any

from aiohttp import web

from ragtide.testing import JudgePrompt, Labels

ELEMENTS = 4
TEXT = "This is what the text says about it, in about twelve words."
TRIPLET = '("the subject of it", "is related to", "the object of it")'
TOKEN = re.compile(r"\w+|[^\w\s]")


def answer(request: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    """Return the message of an answer."""
    text = "\n".join(str(message["content"]) for message in request["messages"])
    if "RESPONSE SENTENCES" in text:
        prompt = JudgePrompt(request)
        sentences = prompt.text.partition("DOCUMENT SENTENCES")[2]
        if sentences not in known:
            known[sentences] = Labels().answer(prompt)
        return {"role": "assistant", "content": known[sentences]}
    if tools := request.get("tools"):
        function = tools[0]["function"]
        schema = function["parameters"]
        called = {"name": function["name"], "arguments": json.dumps(example(schema, schema.get("$defs", {})))}
        return {"role": "assistant", "tool_calls": [{"id": "call", "type": "function", "function": called}]}
    schema = schema_of(request, text)
    if schema is not None:
        return {"role": "assistant", "content": json.dumps(example(schema, schema.get("$defs", {})))}
    if "### KG:" in text:
        return {"role": "assistant", "content": "\n".join([TRIPLET] * ELEMENTS)}
    if "### Claim" not in text:
        return {"role": "assistant", "content": "\n".join([f"{TEXT} Score: 1"] * ELEMENTS)}
    claims = text.rpartition("### Claim")[2].count('("')
    return {"role": "assistant", "content": "\n".join(["Entailment"] * max(claims, 1))}


def arguments_of(message: dict[str, Any]) -> list[str]:
    """Return the arguments of the calls of tools of an answer."""
    return [str(call["function"]["arguments"]) for call in message.get("tool_calls", ())]


def schema_of(request: dict[str, Any], text: str) -> dict[str, Any] | None:
    """Return the JSON schema that an answer must follow; None if the request has none."""
    wanted = request.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return dict(wanted["json_schema"]["schema"])
    if wanted.get("type") != "json_object":
        return None
    # Instructor writes the schema into a message.
    for place in re.finditer(r"\{", text):
        try:
            found, _ = json.JSONDecoder().raw_decode(text, place.start())
        except ValueError:
            continue
        if isinstance(found, dict) and "properties" in found:
            return found
    raise web.HTTPBadRequest(text="no schema in the prompt")


def example(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return a value that follows a schema."""
    if reference := schema.get("$ref"):
        return example(definitions[reference.rpartition("/")[2]], definitions)
    if choices := schema.get("anyOf"):
        return example(choices[0], definitions)
    if values := schema.get("enum") or [schema[name] for name in ("const",) if name in schema]:
        return values[0]
    if schema.get("type") == "object":
        return {name: example(field, definitions) for name, field in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example(schema["items"], definitions) for _ in range(ELEMENTS)]
    return {"integer": 1, "number": 1.0, "boolean": True}.get(schema["type"], TEXT)


class Endpoint:
    """Answers calls and counts them.

    Args:
        latency_s: seconds of a call.
        capacity: calls at once.
    """

    def __init__(self, latency_s: float, capacity: int) -> None:
        self._latency_s = latency_s
        self._slots = asyncio.Semaphore(capacity)
        self._known: dict[str, str] = {}
        self.reset()

    def reset(self) -> None:
        """Begin counting anew."""
        self.calls = self.prompt_tokens = self.completion_tokens = self.at_once = self.most_at_once = 0

    async def complete(self, http: web.Request) -> web.Response:
        """Answer a call."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async with self._slots:
                due = time.monotonic() + self._latency_s
                request = await http.json()
                message = answer(request, self._known)
                prompt = sum(len(TOKEN.findall(str(part["content"]))) for part in request["messages"])
                texts = [message.get("content") or "", *arguments_of(message)]
                completion = sum(len(TOKEN.findall(text)) for text in texts)
                self.calls += 1
                self.prompt_tokens += prompt
                self.completion_tokens += completion
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
        finally:
            self.at_once -= 1
        return web.json_response(
            {
                "id": "call",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": request["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                },
            }
        )

    async def count(self, _: web.Request) -> web.Response:
        """Return the counts."""
        names = ("calls", "prompt_tokens", "completion_tokens", "most_at_once")
        return web.json_response({name: getattr(self, name) for name in names})

    async def refuse(self, _: web.Request) -> web.Response:
        """Refuse a call of the responses protocol."""
        return web.json_response({"error": {"message": "The responses API is not supported."}}, status=404)

    async def begin(self, _: web.Request) -> web.Response:
        """Begin counting anew."""
        self.reset()
        return web.Response()


async def serve(latency_s: float, capacity: int) -> None:
    """Serve until killed."""
    # A peer that is killed does not wait for its answers.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    endpoint = Endpoint(latency_s, capacity)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", endpoint.complete)
    app.router.add_post("/v1/responses", endpoint.refuse)
    app.router.add_get("/count", endpoint.count)
    app.router.add_post("/reset", endpoint.begin)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--capacity", type=int, default=64)
    options = parser.parse_args()
    asyncio.run(serve(options.latency, options.capacity))
