"""A local model service with OpenAI's protocol: it answers, streams, and asks for the tool that it is offered."""

import asyncio
import json
import re
from typing import Any, ClassVar

from ragtide.testing import Raw, ScriptedServer
from ragtide.testing.replies import Reply

ANSWER = "The tower was built in 1889."
TOOL_QUERY = "tower year"
"""The query that the model gives to a tool: another text than the question."""


class ModelServer(ScriptedServer):
    """Answers every question in the same way."""

    base: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/chat/completions"

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> Any:
        """Return a chat completion: a call of the offered tool, and the answer once the tool has replied."""
        call = _tool_call(request)
        if call is not None:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            return _completion(request, {"message": message, "finish_reason": "tool_calls"})
        return _completion(request, {"message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"})

    async def answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Send a reply, in events if the request asks for a stream."""
        if not request.get("stream"):
            return await super().answer(request, writer)
        call = _tool_call(request)
        if call is None:
            *words, last = re.split(r"(?<= )", ANSWER)
            choices: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": word}} for word in words]
            choices.append({"delta": {"content": last}, "finish_reason": "stop"})
        else:
            choices = [
                {"delta": {"role": "assistant", "tool_calls": [{"index": 0, **call}]}},
                {"delta": {}, "finish_reason": "tool_calls"},
            ]
        events = [_completion(request, choice, kind="chat.completion.chunk") for choice in choices]
        lines = [*(json.dumps({**event, "usage": None}) for event in events[:-1]), json.dumps(events[-1]), "[DONE]"]
        body = "".join(f"data: {line}\n\n" for line in lines)
        return await self._send_raw(writer, Raw(body.encode(), content_type="text/event-stream"))


def _tool_call(request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the call of the first offered tool, if no tool has replied since the question."""
    tools = request.get("tools")
    if not tools or request["messages"][-1]["role"] != "user":
        return None
    function = tools[0]["function"]
    arguments = json.dumps({next(iter(function["parameters"]["properties"])): TOOL_QUERY})
    return {"id": "call-1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _completion(request: dict[str, Any], choice: dict[str, Any], kind: str = "chat.completion") -> dict[str, Any]:
    return {
        "id": "completion-1",
        "object": kind,
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": None, **choice}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 8, "total_tokens": 58},
    }
