"""Answers in the forms of clients and frameworks, nested, mixed and cut: the text they were made from, or a refusal."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any, Final

from ragtide_producers.shapes.texts import UnreadableError, text_in

WORDS: Final = (
    "pump", "it's", 'the "valve"', "closed, on Monday", "1889", "iron;", "Öffnung", "9.5", "🙂", "two\nlines",
    "a\ttab", "back\\slash", "[1]", "(see p. 4)", "{x}", "f(x=1)", "role: user", "<b>now</b>", "nan", "e.g.", "U.S.",
    "泵每六个月。", '{"a": [1]}', "['x', 'y']", "data: 5", "=", "It's", "\u2028", "```json\n{}\n```", "None",
    "don't 'quote'", "//", "é",
)  # fmt: skip
DECOY: Final = "WRONG: never this text."
"""What a model thought, or another choice said: it may never come out."""
PNG: Final = "iVBORw0KGgo" + "AAAA" * 20
KEYS: Final = ("answer", "response", "final_answer", "reply", "generation", "completion")

Value = Any
Make = Callable[[random.Random, str], Value]


def answer_of(rng: random.Random) -> str:
    words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9)))
    return f"Text {rng.randint(0, 99)} {words} ends here{rng.choice(('.', '!', ' now', ')', ''))}".strip()


def pieces(rng: random.Random, text: str, fewest: int = 1) -> list[str]:
    """Return a text cut anywhere, with empty pieces among the others."""
    number = rng.randint(fewest, 8)
    places = sorted(rng.sample(range(1, len(text)), min(number - 1, len(text) - 1)))
    found = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    if rng.random() < 0.3:
        found.insert(rng.randint(0, len(found)), "")
    return found


def words_of(rng: random.Random, text: str) -> list[str]:
    """Return a text cut before or after its first white space and anywhere behind, as models stream words."""
    place = text.index(" ")
    if rng.random() < 0.5:
        return [text[: place + 1], *pieces(rng, text[place + 1 :])]
    return [text[:place], text[place : place + 3], *pieces(rng, text[place + 3 :])]


def sentences(rng: random.Random, text: str) -> list[str]:
    """Return the text of parts: cut at white space, which one of two parts keeps."""
    places = [place for place, character in enumerate(text) if character == " "]
    cuts = sorted(rng.sample(places, min(len(places), rng.randint(0, 3))))
    cuts = [place + rng.randint(0, 1) for place in cuts]
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if start < end]


def thought(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        (
            {"type": "thinking", "thinking": DECOY, "signature": "x"}, {"type": "reasoning", "text": DECOY},
            {"type": "reasoning", "reasoning": DECOY}, {"type": "reasoning", "content": DECOY},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": DECOY}]},
            {"text": DECOY, "thought": True}, {"reasoningContent": {"reasoningText": {"text": DECOY}}},
            {"type": "redacted_thinking", "data": DECOY}, {"block_type": "thinking", "content": DECOY},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG},
            {"inlineData": {"mimeType": "image/png", "data": PNG}}, {"type": "input_audio", "input_audio": {"data": PNG}},
            {"type": "server_tool_use", "id": "t", "name": "search", "input": {"query": DECOY}},
            {"type": "web_search_tool_result", "content": [{"title": DECOY, "url": "u"}]},
        )
    )  # fmt: skip


def parts(rng: random.Random, text: str) -> Value:
    kind = rng.randint(0, 4)
    made: list[Any] = [
        [{"type": "text", "text": sentence}, {"text": sentence}, {"type": "output_text", "text": sentence, "annotations": []},
         {"type": "text", "content": sentence}, {"block_type": "text", "text": sentence}][kind]
        for sentence in sentences(rng, text)
    ]  # fmt: skip
    if rng.random() < 0.5:
        made.insert(rng.choice((0, len(made))), thought(rng))
    return made


def message(rng: random.Random, text: str) -> Value:
    content = text if rng.random() < 0.4 else parts(rng, text)
    made: Value = rng.choice(
        (
            {"role": "assistant", "content": content}, {"type": "ai", "content": content, "tool_calls": []},
            {"role": "model", "parts": content if isinstance(content, list) else [{"text": content}]},
            {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"},
            {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": content}},
            {"_role": "assistant", "_content": [{"text": text}], "_meta": {}},
        )
    )  # fmt: skip
    if rng.random() < 0.3 and "content" in made:
        made = {**made, rng.choice(("reasoning_content", "thinking", "reasoning")): DECOY}
    return made


def conversation(rng: random.Random, text: str) -> Value:
    before = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": DECOY}]
    made = [*before * rng.randint(0, 2), {"role": "user", "content": "Why?"}, message(rng, text)]
    return made if rng.random() < 0.5 else {"messages": made}


def reply(rng: random.Random, text: str) -> Value:
    said = message(rng, text)
    other = {"index": 1, "message": {"role": "assistant", "content": DECOY}}
    output = [{"type": "reasoning", "summary": [{"text": DECOY}]},
              {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]  # fmt: skip
    return rng.choice(
        (
            {"object": "chat.completion", "choices": [{"index": 0, "message": said}, *([other] if rng.random() < 0.3 else [])]},
            {"choices": [other, {"index": 0, "message": said}]},
            {"object": "response", "output": output}, {"type": "response.completed", "response": {"output": output}},
            {"candidates": [{"content": {"parts": [{"text": DECOY, "thought": True}, {"text": text}], "role": "model"}}]},
            {"output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": "end_turn"},
            {"generations": [[{"text": text, "message": {"type": "ai", "content": text}}, {"text": DECOY}]]},
            {"llm": {"replies": [said]}}, {"model": "m", "message": {"role": "assistant", "content": text}, "done": True},
            {"content": [{"type": "text", "text": DECOY}], "structuredContent": {"answer": text}},
            {"answers": [{"data": text, "documents": [{"content": DECOY}]}]},
        )
    )  # fmt: skip


def openai_chunks(rng: random.Random, made: list[str]) -> list[Any]:
    def chunk(index: int, content: str) -> dict[str, Any]:
        return {"object": "chat.completion.chunk", "choices": [{"index": index, "delta": {"content": content}}]}

    items = [chunk(0, piece) for piece in made]
    if rng.random() < 0.3:
        items.insert(rng.randint(0, len(items)), chunk(1, DECOY))
    return [*items, {"object": "chat.completion.chunk", "choices": [], "usage": {}}]


def responses_events(rng: random.Random, made: list[str]) -> list[Any]:
    ends = [{"type": "response.output_text.done", "text": "".join(made)}]
    return [
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.reasoning_text.delta", "delta": DECOY},
        *({"type": "response.output_text.delta", "delta": piece} for piece in made),
        *(ends if rng.random() < 0.5 else []),
    ]


def anthropic_events(_: random.Random, made: list[str]) -> list[Any]:
    return [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": DECOY}},
        *({"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}} for piece in made),
        {"type": "message_stop"},
    ]


def bedrock_events(_: random.Random, made: list[str]) -> list[Any]:
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"reasoningContent": {"text": DECOY}}}},
        *({"contentBlockDelta": {"delta": {"text": piece}}} for piece in made),
        {"messageStop": {}},
    ]


def bedrock_bytes(rng: random.Random, made: list[str]) -> list[Any]:
    events = (json.dumps(item).encode() for item in anthropic_events(rng, made))
    return [{"chunk": {"bytes": base64.b64encode(item).decode()}} for item in events]


def gemini_chunks(_: random.Random, made: list[str]) -> list[Any]:
    return [{"candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}}]} for piece in made]


def langchain_chunks(rng: random.Random, made: list[str]) -> list[Any]:
    chunks = [{"type": "AIMessageChunk", "content": piece, "tool_call_chunks": []} for piece in made]
    kind = rng.randint(0, 2)
    if kind == 0:
        return chunks
    if kind == 1:
        return [[one, {"langgraph_node": "m"}] for one in chunks]
    return [{"event": "on_chat_model_stream", "data": {"chunk": one}} for one in chunks]


def ollama_chunks(_: random.Random, made: list[str]) -> list[Any]:
    said = [{"model": "m", "message": {"role": "assistant", "content": piece}, "done": False} for piece in made]
    return [*said, {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}]


def vercel_chunks(_: random.Random, made: list[str]) -> list[Any]:
    deltas = [{"type": "text-delta", "id": "1", "delta": piece} for piece in made]
    return [{"type": "start"}, {"type": "reasoning-delta", "delta": DECOY}, *deltas, {"type": "finish"}]


STREAMS: Final = (
    openai_chunks, responses_events, anthropic_events, bedrock_events, bedrock_bytes, gemini_chunks, langchain_chunks,
    ollama_chunks, vercel_chunks,
)  # fmt: skip


def stream(rng: random.Random, text: str) -> Value:
    if rng.random() < 0.1:
        return words_of(rng, text)
    items = rng.choice(STREAMS)(rng, pieces(rng, text))
    if rng.random() > 0.2 or isinstance(items[0], list):
        return items
    if rng.random() < 0.5:
        return "\n".join(json.dumps(item) for item in items)
    return "".join(f"data: {json.dumps(item)}\n\n" for item in items) + "data: [DONE]\n"


def printed(rng: random.Random, text: str) -> Value:
    return rng.choice(
        (
            f"Prediction(\n    reasoning={DECOY!r},\n    answer={text!r}\n)",
            f"Prediction(answer={text!r}, rationale={DECOY!r})",
            f"Prediction(\n    reasoning={DECOY!r},\n    advice={text!r}\n)",
            f"Prediction(\n    answer={text!r},\n    completions=Completions(...)\n) (2 completions omitted)",
            f"AIMessage(content={text!r}, additional_kwargs={{'reasoning_content': {DECOY!r}}})",
            f"content={text!r} additional_kwargs={{}} id='run-1'",
            f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text={text!r})], _meta={{}})",
            f"Message(content=[ThinkingBlock(thinking={DECOY!r}, type='thinking'), TextBlock(text={text!r}, type='text')], "
            "role='assistant', type='message')",
        )
    )


def keyed(rng: random.Random, text: str) -> Value:
    others = {"reasoning": DECOY, "usage": {"tokens": 3}, "documents": [{"page_content": DECOY}]}
    made = {rng.choice(KEYS): value_of(rng, text, 1)}
    made |= {name: value for name, value in others.items() if rng.random() < 0.3}
    return dict(sorted(made.items(), key=lambda _: rng.random()))


MAKES: Final[tuple[Make, ...]] = (
    lambda _, text: text, parts, message, conversation, reply, stream, stream, printed, keyed,
)  # fmt: skip


def value_of(rng: random.Random, text: str, depth: int = 0) -> Value:
    made = rng.choice(MAKES if depth < 2 else MAKES[:3])(rng, text)
    dice = rng.random()
    if isinstance(made, str) or dice > 0.25:
        return made
    return json.dumps(made, ensure_ascii=dice < 0.1, indent=rng.choice((None, 2))) if dice < 0.18 else repr(made)


def check(seed: int) -> None:
    """Read a form that was made from a known answer, whole or cut, and compare."""
    rng = random.Random(seed)
    text = answer_of(rng)
    value = value_of(rng, text)
    is_cut = isinstance(value, str) and value != text and rng.random() < 0.4
    if is_cut:
        value = value[: rng.randint(12, max(12, len(value) - 1))]
    try:
        found = text_in(value, "answer")
    except UnreadableError as error:
        if not is_cut:
            raise AssertionError(f"{error}: {value!r} of {text!r}") from None
        return
    if is_cut:
        # A stream that ends between two lines is a whole stream with fewer chunks.
        assert found is None or found == text.strip() or _is_shorter_stream(value, found, text), (found, value, text)
        return
    assert found == text.strip(), (found, text, value)


def _is_shorter_stream(value: str, found: str, text: str) -> bool:
    return value.startswith(("data: ", '{"')) and "\n" in value and text.startswith(found)
