"""The text of a question, an answer or a reference, in the forms in which clients and applications hand it over."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import isfinite, isnan
from typing import Any, Final, Literal

from ragtide_schemas.opaque import begins_again, is_opaque
from ragtide_schemas.plain_values import plain_text, unfit

from .literals import CALL, CLASS, Constructed, SeveralTextsError
from .literals import UnreadableError as UnreadableError  # noqa: PLC0414 - doors catch it, and read texts here
from .messages import Author, Message, message_of, messages_of
from .parts import MEDIA, joined, kind_of, plain, text_of_content
from .spelled import data_of_answer, output_of_run, spelled
from .streams import FIRST, piece_of, text_of_output, text_of_stream, values_of_lines

Meaning = Literal["question", "answer", "reference"]

DEPTH_MAX: Final = 6
"""Levels of an input or output that are searched."""
MAPPINGS_MAX: Final = 1_000
"""Mappings of one level that are searched."""
ALTERNATIVES_MAX: Final = 20
"""Objects in a list that may be alternatives."""
SPELLED_MAX: Final = 3
"""Times that a text may spell a value with a text that spells one."""
QUESTION_KEYS: Final = (
    "question", "query", "user_question", "user_query", "query_str", "query_text", "query_bundle", "user_input",
    "user_message", "input", "str_or_query_bundle", "inputs", "prompt", "text", "message", "args", "kwargs", "body",
    "content",
)  # fmt: skip
"""Keys of an input that may have the question, the surest first."""
ANSWER_KEYS: Final = (
    "answer", "response", "final_answer", "final_output", "output", "outputs", "result", "reply", "replies", "answers",
    "generation", "completion", "text", "content", "output_text", "message", "choices", "data", "response_txt",
    "outputText", "generated_text", "parts", "init_parameters", "combined_chunk_content",
    "generated_answer", "generated_texts", "pred",
)  # fmt: skip
"""Keys of an output that may have the answer, the surest first."""
_KEYS: Final[Mapping[Meaning, tuple[str, ...]]] = {
    "question": QUESTION_KEYS,
    "answer": ANSWER_KEYS,
    "reference": (*ANSWER_KEYS, "reference_answer", "expected", "expected_response"),
}
MESSAGE_KEYS: Final = ("messages", "contents", "chat_messages", "history", "chat_history", "conversation")
_STRUCTURED: Final = ("structuredContent", "structured_content", "structured_response", "parsed")
_OF_CREW: Final = frozenset(("raw", "pydantic", "json_dict"))
"""Keys of the output of CrewAI, whose text is in the first."""
_STREAMS: Final = ("stream", "events", "chunks")
_PREDICTIONS: Final = ("Prediction", "Completions")
_SURE: Final = (
    "answer",
    "response",
    "final_answer",
    "final_output",
    "reply",
    "replies",
    "generation",
    "completion",
    "output_text",
)
"""Keys that mean an answer also deep in the JSON that a text spells."""
_ERRORS: Final = ("error", "errors")
_ASIDE: Final = (*_ERRORS, "prompt", "query", "question", "input")
"""Keys beside an answer whose objects have none."""
_CHOICES: Final = {"choices": "", "candidates": "", "generations": "", "results": "outputText", "completions": "data"}
"""Keys of choices beside each other, with the key that the first of them must have: Titan, AI21."""
_OF_OTHER_CALLS: Final = (
    {"embedding"}, {"embeddings"}, {"flagged", "categories"}, {"categories", "category_scores"},
    {"index", "relevance_score"}, {"b64_json"}, {"created", "data"},
)  # fmt: skip
"""Keys of replies to calls that give no answer: embeddings, moderation, ranking, images."""
_OBJECTS: Final = frozenset(
    ("list", "embedding", "model", "batch", "file", "assistant", "thread", "thread.run", "thread.run.step",
     "vector_store", "fine_tuning.job")
)  # fmt: skip
"""Values of `object` in OpenAI's replies that have no answer of their own."""
_STEPS: Final = ("call", "result")
_SAID_BY: Final = ("system: ", "user: ", "assistant: ", "tool: ")
"""What LlamaIndex prints before the text of a message."""
_MODES: Final = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "debug")
"""What LangGraph writes before an item of a stream of several kinds."""


def text_in(
    value: Any, meaning: Meaning, keys: Sequence[str] | None = None, left_out: Counter[str] | None = None
) -> str | None:
    """Return the text of a value whose meaning is known; None if it holds none, as null, NaN, or a call of a tool.

    >>> text_in({"role": "assistant", "content": [{"type": "text", "text": "In "}, {"text": "1889."}]}, "answer")
    'In 1889.'
    >>> text_in(1889.0, "answer"), text_in(True, "answer"), text_in(["In 1889."], "answer"), text_in(None, "answer")
    ('1889', 'true', 'In 1889.', None)

    Args:
        value: text, number, bytes, content parts, messages, chunks of a stream, reply of a model service, or an object
            or a text that has or spells one of them.
        meaning: what the text is.
        keys: keys of an object that may have the text, the surest first; by default those that are known.
        left_out: counts by name what was left out on purpose, such as `image` or `reasoning`.

    Raises:
        UnreadableError: the value cannot be read without guessing.
    """
    reader = _TextSearch(meaning, keys or _KEYS[meaning])
    text = reader.search(plain(value, reader.left_out, reasoning=False))
    if left_out is not None:
        left_out.update(reader.left_out)
    media = [kind for kind in MEDIA if reader.left_out[kind]]
    if text is None and (reader.problem or media):
        raise UnreadableError(reader.problem or f"it has only media ({', '.join(media)}): give the text beside it")
    return text


@dataclass(slots=True)
class _TextSearch:
    """One search for a text: what it looks for, what it left out, and why a text could not be taken."""

    meaning: Meaning
    keys: Sequence[str]
    left_out: Counter[str] = field(default_factory=Counter)
    problem: str = ""

    @property
    def author(self) -> Author:
        return "user" if self.meaning == "question" else "assistant"

    def search(self, value: Any) -> str | None:
        """Return the text in a value, or in the mappings of a mapping, such as those of a Haystack pipeline.

        Lists are searched under known keys only: another list may have the documents.
        """
        level = [value]
        for _ in range(DEPTH_MAX):
            for item in level:
                text = self.read(item)
                if text is not None or _is_known(item):
                    return text
            inner = (item.items() if isinstance(item, dict) else () for item in level)
            aside = _ERRORS if self.meaning == "question" else _ASIDE
            level = [item for items in inner for key, item in items if isinstance(item, dict) and key not in aside]
            level = level[:MAPPINGS_MAX]
        return None

    def read(self, value: Any, depth: int = 0, times: int = 0) -> str | None:
        """Return the text in a value itself, or under its surest key."""
        if isinstance(value, str):
            return self.read_text(value, depth, times)
        if isinstance(value, bool | int | float):
            return text_of_number(value)
        if isinstance(value, list):
            return self.read_list(value, depth, times)
        if isinstance(value, dict):
            return (
                self.read_spelled(value, text=value.text.strip(), depth=depth, times=times + 1)
                if isinstance(value, Constructed)
                else self.read_mapping(value, depth, times)
            )
        if value is not None:
            self.problem = f"it {unfit(value)}"
        return None

    def read_text(self, text: str, depth: int, times: int) -> str | None:
        """Return the text that a text spells, or the text."""
        stripped = text.strip()
        if not stripped or stripped == f"{self.author}:":  # LlamaIndex: str() of an empty message
            return None
        if is_opaque(stripped):
            self.problem = f"{stripped[:60]!r} is the name of an object and no text: give the text that it yields"
            return None
        if stripped.startswith(_SAID_BY) and any(f"\n{author}" in stripped for author in _SAID_BY):
            raise UnreadableError("it is a printed conversation of several messages: give the text of one")
        said = stripped.removeprefix(f"{self.author}: ").lstrip()  # LlamaIndex: str() of a message
        printed = None if said == "None" != stripped else output_of_run(data_of_answer(said or stripped))
        stripped = (printed or "").strip()
        value: Any = spelled(stripped) if times <= SPELLED_MAX else stripped
        if value != stripped:
            read = self.read_text if isinstance(value, str) else partial(self.read_spelled, text=stripped)
            return read(value, depth=depth, times=times + 1)
        lines = values_of_lines(stripped) or []
        streamed = text_of_stream(lines) if lines else None
        if streamed is None:
            have_texts = all(isinstance(item, dict) and not item.keys().isdisjoint(ANSWER_KEYS) for item in lines)
            is_stream = bool(lines) and (stripped[0] != "{" or (len(lines) > 1 and have_texts))
            if is_stream:
                self.problem = "it is a stream of events that are not known: give the text that they make"
            if not stripped or is_stream or (lines and all(piece_of(item) for item in lines)):
                return None
            # A text that spells nothing else is as it was given, white space included.
            whole = text if stripped == text.strip() and not (depth or times) else stripped
            return self.last_of_growing(stripped) if self.meaning == "answer" else whole
        return self.read_text(streamed, depth, times + 1)

    @staticmethod
    def last_of_growing(text: str) -> str:
        """Return the last line of a text whose lines are one growing text, as a loop over a stream prints it."""
        if not begins_again(text):
            return text
        lines = [line.rstrip() for line in text.split("\n") if line.strip()]
        return lines[-1] if " " in lines[-1] and joined(lines) == lines[-1] else text

    def read_spelled(self, value: Any, *, text: str, depth: int, times: int) -> str | None:
        """Return the text in a value that a text spells, or the text: an application may answer in JSON or in code."""
        before = Counter(self.left_out)
        value = plain(value, self.left_out, reasoning=False)
        if isinstance(value, list) and not any(isinstance(item, str | dict | list) for item in value):
            return text
        answer = self.read_mapping(value, depth, times) if isinstance(value, dict) else self.read(value, depth, times)
        if answer is None and isinstance(value, dict) and not _is_known(value):
            inner = [item for key, item in value.items() if isinstance(item, dict) and key not in _ASIDE]
            for item in inner[:ALTERNATIVES_MAX]:
                keys = ANSWER_KEYS if _has_generated(item) else _SURE
                nested = _TextSearch(self.meaning, keys, self.left_out, self.problem)
                answer = nested.search(item)
                self.problem = nested.problem
                if answer is not None:
                    break
            if answer is None and (_is_other_call(value) or any(map(_has_generated, inner))):
                self.problem = self.problem or "it is a reply without an answer: give the answer, or an empty text"
        left_out = self.left_out - before
        objects = [item for item in value.values() if isinstance(item, dict)] if isinstance(value, dict) else []
        has_error = any(any(map(item.get, _ERRORS)) for item in objects)
        if (
            answer is not None
            or self.problem
            or _is_known(value)
            or piece_of(value) is not None
            or not value
            or any(left_out[kind] for kind in MEDIA)
            or (isinstance(value, dict) and not value.keys().isdisjoint((*_SURE, *_ERRORS)))
            or has_error
        ):
            if answer is None and isinstance(value, dict) and any(value.get(key) for key in _SURE) and not self.problem:
                self.problem = "its answer has no text that is known: give the text alone"
            return answer
        if isinstance(value, dict | list) and _hides_messages(value):
            self.problem = "it spells objects of which it is not clear which has the text: give the text alone"
            return None
        if not isinstance(value, dict) or not (left_out["reasoning"] or value.get(CLASS) in _PREDICTIONS):
            return text
        others = [item for key, item in value.items() if isinstance(item, str) and key != CLASS]
        if len(others) == 1:
            return self.read_text(others[0], depth, times)
        self.problem = "its answer has no known name beside the reasoning: give the answer alone"
        return None

    def read_list(self, items: list[Any], depth: int, times: int) -> str | None:
        """Return the text of a stream, of messages, of parts, or of alternatives that are all the same."""
        present = [
            item for item in items if item is not None and item != "" and not (isinstance(item, float) and isnan(item))
        ]
        if present and all(isinstance(item, str) for item in present):
            return self.read_texts(present, depth, times)
        if len(present) == 2 and present[0] in _MODES:
            return self.read(present[1], depth, times)
        if len(present) == 1 and not isinstance(present[0], list):
            return self.read(present[0], depth, times)
        text = text_of_stream(present)
        messages = messages_of(present) if text is None else []
        if messages:
            return self.read_messages(messages, present, depth, times)
        if text is None and present and all(_is_part(item, bare=not depth) for item in present):
            text = text_of_content(present, "\n" if self.meaning == "question" else "")
        return (
            self.read_text(text, depth, times + 1)
            if text is not None
            else self.read_alternatives(present, depth, times)
        )

    def read_alternatives(self, items: list[Any], depth: int, times: int) -> str | None:
        first = max(0, len(items) - ALTERNATIVES_MAX)
        messages = [message_of(item) for item in items[first:]] if self.author == "assistant" else []
        calls = [place for place, message in enumerate(messages, first + 1) if message and message.calls_tools]
        items = items[max(calls, default=0) :]  # what was said before a call of a tool is a step
        texts = (self.read(item, depth + 1, times) for item in items[:ALTERNATIVES_MAX])
        distinct = list(dict.fromkeys(text for text in texts if text is not None))
        if depth and (len(distinct) > 1 or len(items) > ALTERNATIVES_MAX):
            return None  # a list of something else, such as documents
        return self.only(distinct)

    def read_texts(self, texts: list[str], depth: int, times: int) -> str | None:
        if all(text.lstrip()[:1] == "{" or text.startswith("data:") or CALL.match(text) for text in texts):
            is_stream = text_of_stream([value for text in texts[:FIRST] for value in _values_in(text)]) is not None
            values = [value for text in texts for value in _values_in(text)] if is_stream else []
            if (streamed := text_of_stream(values)) is not None:
                self.problem = "" if streamed.strip() else "its stream has no text: give the text that was shown"
                return self.read_text(streamed, depth, times + 1)
        distinct = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
        if len(distinct) > 1:
            grows = joined(texts)
            if self.meaning == "answer" and (_are_chunks(texts) or grows == texts[-1]):
                return self.read_text(grows, depth, times + 1)
            if self.meaning == "reference" and not _are_chunks(texts):
                distinct = distinct[:1]
        return self.only(distinct, depth, times)

    def only(self, distinct: list[str], depth: int = 0, times: int = SPELLED_MAX + 1) -> str | None:
        """Return the one text; of several references the first."""
        if len(distinct) > 1 and self.meaning != "reference":
            several = (
                "questions: give one row for each"
                if self.meaning == "question"
                else "answers: give the one that was shown to the user"
            )
            raise SeveralTextsError(f"it has several {several}")
        if len(distinct) > 1:
            raise SeveralTextsError("its texts may be one reference in parts, or several: give one text")
        return self.read_text(distinct[0], depth, times) if distinct else None

    def read_messages(self, messages: Sequence[Message], items: list[Any], depth: int, times: int) -> str | None:
        """Return the last text of the author after the last question; of choices beside each other the first."""
        are_choices = all(isinstance(item, dict) and "finish_reason" in item for item in items)
        if are_choices and all(message.author == "assistant" and not message.calls_tools for message in messages):
            messages = messages[:1]
        for message in reversed(messages):
            is_step = self.author == "assistant" and message.calls_tools
            if message.author == self.author and not is_step and message.text.strip():
                return self.read_text(message.text, depth, times + 1)
            if message.author == "user" and self.author == "assistant":
                return None
        return None

    def read_mapping(self, value: Mapping[str, Any], depth: int, times: int) -> str | None:
        """Return the text of a reply, a message, or under the surest key."""
        if depth > DEPTH_MAX:
            return None
        for key, mark in _CHOICES.items():
            items: Any = value.get(key)
            is_choice = (
                isinstance(items, list) and items and (not mark or (isinstance(items[0], dict) and mark in items[0]))
            )
            if is_choice and (key == "candidates" or piece_of(value) is None):
                return self.read_choice(items, depth, times)
        text = self.stream_text(value)
        if text is None and self.meaning == "answer" and value.keys() >= _OF_CREW and isinstance(value["raw"], str):
            text = value["raw"]
        if text is not None:
            return self.read_text(text, depth, times + 1)
        for key in (*_STRUCTURED, "stream"):
            inner = value.get(key)
            nested = self.read_keys(inner, depth + 1, times) if isinstance(inner, dict) else None
            if key == "stream" and isinstance(inner, list):
                nested = self.read(inner, 0, times)
            if nested is not None:
                return nested
        message = message_of(value)
        if message is not None:
            return self.read_messages([message], [value], depth, times)
        is_step = _is_part(value) and kind_of(value) in _STEPS
        nested = None if is_step else self.read_keys(value, depth, times)
        return (
            nested
            if nested is not None or not _is_part(value)
            else self.read_text(text_of_content(value), depth, times + 1)
        )

    @staticmethod
    def stream_text(value: Mapping[str, Any]) -> str | None:
        """Return the text of the output of a reply, of the chunks that a mapping has, or of an event; None without."""
        if _has_items(value.get("output")):
            return text_of_output(value["output"]) or ""
        streams = (text_of_stream(value[key]) for key in _STREAMS if isinstance(value.get(key), list))
        piece = piece_of(value)
        return next(
            (text for text in streams if text is not None), piece.text if piece is not None and piece.level else None
        )

    def read_choice(self, choices: list[Any], depth: int, times: int) -> str | None:
        """Return the text of the choice that a client shows: the one with the lowest index, else the first."""
        if all(isinstance(choice, list) for choice in choices):  # LangChain: a list for each prompt
            texts = [text for choice in choices if choice and (text := self.read(choice[0], depth + 1, times))]
            return self.only(list(dict.fromkeys(texts)))
        indexes = [choice.get("index") if isinstance(choice, dict) else None for choice in choices]
        numbers = [index if isinstance(index, int) else place for place, index in enumerate(indexes)]
        return self.read(choices[numbers.index(min(numbers))], depth + 1, times)

    def read_keys(self, value: Mapping[str, Any], depth: int, times: int) -> str | None:
        for key in self.keys:
            item = value.get(key)
            if item is not None and item not in ("", [], {}):
                text = self.read(item, depth + (key not in _SURE), times)
                if text is not None or _is_known(item):
                    return text
        for key in MESSAGE_KEYS:
            if messages := messages_of(value.get(key)):
                return self.read_messages(messages, value[key], depth, times)
        return None


def _is_known(value: Any) -> bool:
    if not isinstance(value, dict):
        return bool(messages_of(value)) or (isinstance(value, list) and text_of_stream(value) is not None)
    if _is_reply(value) or messages_of(value.get("messages")) or message_of(value) is not None:
        return True
    piece = piece_of(value)
    return (piece is not None and piece.level > 0) or (_is_part(value) and kind_of(value) in _STEPS)


def _is_other_call(value: Mapping[str, Any]) -> bool:
    name = str(value.get("object"))
    if (name in _OBJECTS or name.endswith(".deleted")) and not {"id", "data"}.isdisjoint(value):
        return True
    lists = (value[key] for key in ("data", "results", "predictions") if isinstance(value.get(key), list))
    places = (value, *(item for items in lists for item in items[:1] if isinstance(item, dict)))
    return any(place.keys() >= keys for place in places for keys in _OF_OTHER_CALLS)


def _has_generated(value: Mapping[str, Any]) -> bool:
    answers = value.get("answers")
    return (
        isinstance(answers, list)
        and len(value) == 1
        and all(isinstance(item, dict) and item.keys() >= {"data", "query"} for item in answers)
    )


def _hides_messages(value: Any) -> bool:
    """Whether a value has printed objects or messages inside, so that its text is no answer."""
    level = list(value.values() if isinstance(value, dict) else value)
    for _ in range(DEPTH_MAX):
        level = [item for item in level[:MAPPINGS_MAX] if isinstance(item, dict | list)]
        if any(isinstance(item, dict) and (CLASS in item or message_of(item) is not None) for item in level):
            return True
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return False


def _is_reply(value: Mapping[str, Any]) -> bool:
    if _has_items(value.get("output")) or value.get("object") == "response" or not _OF_REPLIES.isdisjoint(value):
        return True
    choices: list[Any] = next((value[key] for key in ("choices", "candidates") if isinstance(value.get(key), list)), [])
    return any(isinstance(choice, dict) and not _OF_CHOICES.isdisjoint(choice) for choice in choices)


_OF_REPLIES: Final = frozenset(("promptFeedback", "prompt_feedback", "additional_kwargs"))
"""Keys of replies that have no other mark: Gemini, LangChain."""
_OF_CHOICES: Final = frozenset(("message", "delta", "finish_reason", "finishReason", "content", "text"))


def _is_part(item: Any, *, bare: bool = True) -> bool:
    if not isinstance(item, dict):
        return isinstance(item, str)
    named = isinstance(item.get("type"), str) or "block_type" in item or "part_kind" in item
    named = named or str(item.get(CLASS)).endswith(("Part", "Block", "Content"))
    return named or (bare and len(item) <= 2 and ("text" in item or kind_of(item) != "text"))


def _has_items(output: Any) -> bool:
    output = output if isinstance(output, list) else ()
    return any(
        isinstance(item, dict) and item.get("type") in ("message", "function_call", "reasoning") for item in output
    )


def _are_chunks(texts: Sequence[str]) -> bool:
    if all(text[:1].isspace() for text in texts) or all(text[-1:].isspace() for text in texts):
        return False
    return any(before[-1:].isspace() or after[:1].isspace() for before, after in pairwise(texts))


def _values_in(text: str) -> list[Any]:
    value = spelled(text)
    return [value] if isinstance(value, dict) else values_of_lines(text) or []


def text_of_number(value: float) -> str | None:
    """Return a number as a text, a whole one without a point; None for NaN.

    >>> text_of_number(1889.0), text_of_number(0.5), text_of_number(float("nan"))
    ('1889', '0.5', None)
    """
    return plain_text(value) if isinstance(value, int) or isfinite(value) else None
