"""An agent: a model asks tools in rounds until it can answer. The model is a script here, so it needs no key.

Yours asks an API: `next_message` takes and returns messages in the form of OpenAI's chat completions.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from mcp import Client

Message = dict[str, Any]
Calls = list[tuple[str, dict[str, Any]]]

LOANS = re.compile(r"(?:When are loans|Please remind the reader of loan) (\d+)(?: and (\d+))?\b")
ENOUGH = 1 / 3
"""Share of the words of a question that a sentence must have to answer it."""


async def answered(question: str, tools: Client) -> list[Message]:
    """Return the messages from a question to its answer; the calls of a message run at once."""
    messages: list[Message] = [{"role": "user", "content": question}]
    while "tool_calls" in (message := next_message(messages)):
        results = await asyncio.gather(*(_result(call, tools) for call in message["tool_calls"]))
        messages += [message, *results]
    return [*messages, message]


async def _result(call: Message, tools: Client) -> Message:
    function = call["function"]
    reply = await tools.call_tool(function["name"], json.loads(function["arguments"]))
    content = [{"type": "text", "text": block.text} for block in reply.content if block.type == "text"]
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def next_message(messages: Sequence[Message]) -> Message:
    """Return the calls of the next round, or the answer."""
    question = str(messages[0]["content"])
    loans = LOANS.match(question)
    calls_by_round = _of_loans(loans, question) if loans else _of_articles(question, messages)
    rounds = sum(message["role"] == "assistant" for message in messages)
    if rounds >= len(calls_by_round):
        due = " ".join(sentence for sentence in _sentences(messages) if " is due on " in sentence)
        return {"role": "assistant", "content": due or _best_sentence(question, messages) or "I could not find this."}
    calls = [
        {"id": f"{rounds}-{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(asked)}}
        for place, (name, asked) in enumerate(calls_by_round[rounds])
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _of_loans(loans: re.Match[str], question: str) -> list[Calls]:
    asked = [{"number": int(number)} for number in loans.groups() if number]
    reminders: list[Calls] = [[("send_reminder", loan) for loan in asked]] if "remind" in question else []
    return [[("find_loan", loan) for loan in asked], *reminders]


def _of_articles(question: str, messages: Sequence[Message]) -> list[Calls]:
    again: Calls = [("search_articles", {"query": " ".join(sorted(_words(question))), "limit": 4})]
    return [[("search_articles", {"query": question})], *([] if _best_sentence(question, messages) else [again])]


def _best_sentence(question: str, messages: Sequence[Message]) -> str | None:
    wanted = _words(question)
    best = max(_sentences(messages), key=lambda sentence: len(wanted & _words(sentence)), default="")
    return best if len(wanted & _words(best)) >= ENOUGH * len(wanted) else None


def _sentences(messages: Sequence[Message]) -> list[str]:
    results = [part["text"] for message in messages if message["role"] == "tool" for part in message["content"]]
    texts = [json.loads(text).get("text", "") if text.startswith("{") else text for text in results]
    return [sentence for text in texts for sentence in re.split(r"(?<=[.?!])\s+", text)]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}
