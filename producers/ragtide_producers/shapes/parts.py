"""Parts of a content, by the words that clients have for them: texts, reasoning, calls of tools, and media.

Sources: OpenAI (chat, Responses, Assistants, Realtime), Anthropic, Gemini, Bedrock Converse, Model Context Protocol,
OpenTelemetry GenAI (`blob`, `uri`), LangChain, LlamaIndex, Haystack, Pydantic AI, Vercel AI SDK.
"""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes

from ragtide_schemas.plain_values import fields_of

from .document_keys import TEXTS
from .literals import CLASS, DEPTH_MAX, Constructed, UnreadableError

Kind = Literal["text", "reasoning", "result", "call", "image", "audio", "video", "file", "mark"]
MEDIA: Final = ("image", "audio", "video", "file")
_WORDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "reasoning": ("reasoning", "thinking", "thought", "signature", "summary_text", "rationale"),
    "result": (
        "tool_result",
        "call_output",
        "call_response",
        "call_result",
        "function_response",
        "execution_result",
        "error",
    ),
    "call": ("tool", "function", "_call", "executable", "approval", "system_prompt", "retry_prompt"),
    "image": ("image", "picture", "screenshot"),
    "audio": ("audio", "speech"),
    "video": ("video",),
    "file": ("file", "blob", "media", "document", "pdf", "inline_data", "attachment", "base64", "uri"),
    "mark": ("citation", "cache", "step", "source", "annotation"),
}
"""Words in the name of a part that say its kind, the surest kind first."""
_THOUGHTS: Final = re.compile(r"reasoning|thinking|thought|rationale|chain_of_thought")
_NAMES: Final = ("type", "block_type", "part_kind", "kind", "part_delta_kind")
TEXT_KEYS: Final = (
    "text", "content", "value", "refusal", "parts", "blocks", "message_content", "citationsContent", "guardContent",
    "resource", "message", "markdown", "transcript", "content_delta",
)  # fmt: skip
"""Keys under which a part has its text."""
_TEXT_KEYS: Final = frozenset(TEXT_KEYS)
NAME_CHARS: Final = 60
"""Characters of a name that are looked at."""
_ALONE: Final = frozenset(
    ("inlineData", "inline_data", "fileData", "file_data", "image_url", "imageUrl", "image", "video", "audio", "blob",
     "input_audio", "base64_image", "document")
)  # fmt: skip
"""Keys of a part without a type that is nothing but a medium: Gemini, Bedrock, Haystack."""
_BESIDE: Final = frozenset(
    ("videoMetadata", "video_metadata", "thoughtSignature", "thought_signature", "detail", "score", "id", "index")
)
HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL: Final = re.compile(r"data:(\w{1,20})/[\w.+-]{1,80}((?:;[\w=.+-]{1,80}){0,4}),", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\r\n-]{4,}={0,2}\s?")
_MAGIC: Final[Mapping[str, Kind]] = {
    "iVBORw0KGgo": "image", "/9j/": "image", "R0lGOD": "image", "UklGR": "image", "SUkqA": "image", "TU0AK": "image",
    "PHN2Zy": "image", "JVBERi0": "file", "UEsDB": "file", "0M8R4KGx": "file", "H4sIA": "file", "SUQz": "audio",
    "T2dnUw": "audio", "ZkxhQw": "audio", "//uQ": "audio", "//vQ": "audio", "//NQ": "audio", "GkXfo": "video",
    "AAAAIGZ0eX": "video", "AAAAHGZ0eX": "video", "AAAAGGZ0eX": "video",
}  # fmt: skip
"""Beginnings of files in base64."""
_MAGICS: Final = tuple(_MAGIC)
_OF_DOCUMENTS: Final = frozenset(("page_content", "pageContent", "text"))
"""Keys under which a document has its text and never its bytes: a single word looks as base64 does."""
MEDIUM_CHARS: Final = 40
"""Fewest characters of base64 by whose beginning alone a medium is known."""
SHORT: Final = 9
"""A text of fewer characters is no medium: the shortest data URL is `data:a/b,`."""
CUMULATIVE: Final = 3
"""Fewest texts, each of which begins with the text before it, that are one text at several times."""
_MIMES: Final = ("mime_type", "mimeType", "media_type", "mediaType")


def kind_of(part: Mapping[str, Any]) -> Kind:
    """Return what a part of a content is, by its type, or by its only key.

    >>> kind_of({"type": "output_text", "text": "Yes."}), kind_of({"thought": True, "text": "Perhaps."})
    ('text', 'reasoning')
    >>> kind_of({"toolUse": {"name": "search"}}), kind_of({"type": "blob", "content": "aGVsbG8="})
    ('call', 'file')
    """
    if part.get("thought") is True or part.get("role") in ("thinking", "reasoning"):
        return "reasoning"
    for key in _NAMES:
        if isinstance(part.get(key), str):
            return _kind_of_name(part[key][:NAME_CHARS])
    name = part.get(CLASS)
    if isinstance(name, str) and name.endswith(("Part", "Block", "PartDelta")):
        return _kind_of_name(name[:NAME_CHARS])
    if not part or len(part) > len(_BESIDE) or not _TEXT_KEYS.isdisjoint(part):
        return "text"
    (*keys,) = part.keys() - _BESIDE
    return "file" if isinstance(part.get("blob"), str) else _kind_of_name(keys[0]) if len(keys) == 1 else "text"


@lru_cache(maxsize=4_096)
def _kind_of_name(name: str) -> Kind:
    plain = HUMP.sub("_", name).replace("-", "_").replace(".", "_").lower()
    kinds = (kind for kind, words in _WORDS.items() if any(word in plain for word in words))
    return "text" if "transcript" in plain else next(kinds, "text")


@lru_cache(maxsize=4_096)
def _is_thought(key: str) -> bool:
    return _THOUGHTS.search(HUMP.sub("_", key).lower()) is not None


def text_of_content(content: Any, between: str = "\n") -> str:
    """Return the text of a message's content: a text, or a list of parts of which some are texts.

    Args:
        content: text, part, or list of parts.
        between: what joins two parts that have no white space between them, if it is not clear that they are one text.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        kind = kind_of(content)
        if kind in MEDIA and _is_medium(content):
            return text_of_medium(content) or ""
        if kind in ("reasoning", "call", "result") or content.get("phase") == "commentary":
            return ""
        return text_of_content(next((content[key] for key in TEXT_KEYS if content.get(key)), ""), between)
    texts: list[str] = []
    is_apart = False
    for part in content if isinstance(content, list) else ():
        text = text_of_content(part, between)
        last = texts[-1][-1] if texts else " "
        if text and not last.isspace() and not text[0].isspace():
            text = ("\n" if is_apart or (last in ".!?" and text[0].isupper()) else between) + text
        texts += [text] if text else []
        is_apart = not text
    return "".join(texts)


def joined(texts: Sequence[str]) -> str:
    """Return the texts of a stream as one; the last if each has the text before it.

    >>> joined(["The pump ", "is ", "new."]), joined(["The", "The pump", "The pump is new."])
    ('The pump is new.', 'The pump is new.')
    """
    filled = [text for text in texts if text]
    grows = len(set(filled)) >= CUMULATIVE and all(after.startswith(before) for before, after in pairwise(filled))
    return filled[-1] if grows else "".join(texts)


def medium_of(text: str) -> Kind | None:
    """Return what a whole text is in base64: a data URL, or a file that is known by its beginning; None for a text.

    >>> medium_of("data:image/png;base64,iVBORw0KGgo="), medium_of("data: the pump is serviced")
    ('image', None)
    """
    start = text[:200].lstrip()
    url = _URL.match(start)
    if url is not None and not any(character in " \t" for character in text.strip()):
        return _kind_of_mime(url[1])
    if len(text) < MEDIUM_CHARS or not start.startswith(_MAGICS):
        return None
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    return kind if kind is not None and _BASE64.fullmatch(text.strip()) else None


def _kind_of_mime(mime: str) -> Kind:
    kinds: Mapping[str, Kind] = {"image": "image", "audio": "audio", "video": "video", "text": "text"}
    return kinds.get(mime.partition("/")[0].lower(), "file")


def plain(value: Any, left_out: Counter[str], *, reasoning: bool, depth: int = 0) -> Any:
    """Return a value with lists, mappings and texts in place of objects, and without media.

    Args:
        value: what an application hands over.
        left_out: counts by name what is left out.
        reasoning: whether reasoning stays.
        depth: levels above the value.

    Raises:
        UnreadableError: the value is too deep, or has texts in no order.
    """
    if depth > DEPTH_MAX:
        raise UnreadableError(f"it has more than {DEPTH_MAX} levels of lists and objects: give the text alone")
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, _TEXTS):
        return _decoded_text(value, left_out)
    if isinstance(value, _NUMBERS):
        return value
    if not isinstance(value, (dict, list, tuple)):
        value = _plain_object(value)
    if isinstance(value, (dict, Mapping)):
        part = _plain_part(value, left_out, reasoning=reasoning)
        if not isinstance(part, Mapping):
            return part
        kept = {key: plain(item, left_out, reasoning=reasoning, depth=depth + 1) for key, item in part.items()}
        return Constructed(kept, value.text) if isinstance(value, Constructed) else kept
    if isinstance(value, (list, tuple)):
        return [
            item
            if (len(item) < SHORT if type(item) is str else type(item) in _EMPTY and not item)
            else plain(item, left_out, reasoning=reasoning, depth=depth + 1)
            for item in value
        ]
    return value


# Tuples of classes, because `isinstance` takes four times as long with a union.
_TEXTS: Final = (str, bytes, bytearray, memoryview)
_NUMBERS: Final = (int, float, type(None))
_EMPTY: Final = frozenset((list, dict, type(None)))


def _decoded_text(value: Any, left_out: Counter[str]) -> str | None:
    if not isinstance(value, str):
        try:
            value = bytes(value).decode()
        except UnicodeDecodeError:
            left_out["file"] += 1
            return None
    kind = medium_of(value)
    if kind == "text":
        head, _, data = value.partition(",")
        with suppress(ValueError):
            return (b64decode(data) if head.endswith("base64") else unquote_to_bytes(data)).decode()
        kind = "file"
    if kind is None:
        return str(value)
    left_out[kind] += 1
    return None


def _plain_part(value: Mapping[Any, Any], left_out: Counter[str], *, reasoning: bool) -> Any:
    if value.get("type") == "not_implemented" and isinstance(value.get("repr"), str):
        return value["repr"]  # LangChain: an object that its JSON does not have
    kind = kind_of(value)
    if kind == "reasoning" and not reasoning:
        left_out["reasoning"] += 1
        return None
    if kind in MEDIA and _is_medium(value):
        text = text_of_medium(value)
        if text is not None and (reasoning or value.get("type") != "document"):  # of documents beside a question
            return {"type": "text", "text": text}
        inner = _inner(value)
        mime = next((str(part[key]) for part in (value, inner) for key in _MIMES if part.get(key)), "")
        modality = value.get("modality")
        left_out[modality if modality in MEDIA else _kind_of_mime(mime) if mime and kind == "file" else kind] += 1
        return None
    if reasoning:
        return value
    thoughts = [key for key in value if isinstance(key, str) and _is_thought(key[:NAME_CHARS])]
    if any(value[key] for key in thoughts):
        left_out["reasoning"] += 1
    return {key: item for key, item in value.items() if key not in thoughts} if thoughts else value


def _is_medium(part: Mapping[Any, Any]) -> bool:
    if not any(isinstance(part.get(name), str) for name in _NAMES):
        if isinstance(part.get("blob"), str):
            return True
        (*keys,) = part.keys() - _BESIDE
        inner = part[keys[0]] if len(keys) == 1 else None
        source = isinstance(inner, Mapping) and isinstance(inner.get("source"), Mapping)
        return (
            len(keys) == 1 and keys[0] in _ALONE and (source or (isinstance(inner, Mapping) and keys[0] != "document"))
        )
    texts = {key: part[key] for key in TEXTS if isinstance(part.get(key), str)}
    return not any(
        text.strip() and medium_of(text) is None and (key in _OF_DOCUMENTS or not _BASE64.fullmatch(text))
        for key, text in texts.items()
    )


def text_of_medium(part: Mapping[Any, Any]) -> str | None:
    """Return the transcript of a medium, or the text of a part whose type of content is a text; None without one."""
    inner = _inner(part)
    for place in (part, inner):
        said = place.get("transcript")
        if isinstance(said, str) and said.strip():
            return said
        if place.get("type") == "content":  # a source of Anthropic
            return text_of_content(place.get("content"))
        mime = next((place[key] for key in _MIMES if isinstance(place.get(key), str)), "")
        data = next((place[key] for key in ("data", "blob", "content") if isinstance(place.get(key), str)), None)
        if data is not None and _kind_of_mime(mime) == "text":
            with suppress(ValueError):
                return b64decode(data, validate=True).decode()
            return str(data)
    return None


def _inner(part: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return next((item for key, item in part.items() if isinstance(item, Mapping) and key != "metadata"), {})


def _plain_object(value: Any) -> Any:
    store = getattr(value, "__dict__", {}).get("_store")  # DSPy
    named = fields_of(value) if not isinstance(store, Mapping) else store
    if named is not None:
        return {CLASS: type(value).__name__, **named} if named else None
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas") and hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, AbstractSet) and len(value) > 1:
        raise UnreadableError("it is a set, whose texts have no order: give a list")
    return list(value) if isinstance(value, AbstractSet | Sequence) else value
