"""Reads a judge's answer as a person would: it finds the object that was asked for, and the values in its fields.

Models write drafts into reasoning blocks, words and code fences around the object, wrappers, Python's literals, smart
quotes and broken escapes. Every answer that needs no guess is read. The time is in proportion to the text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragtide_schemas.plain_values import whole

from ...text.keys import letters_of, normalize_key
from ...text.reasoning import TAG, after_block, meaning_of, without_reasoning, without_silent_analysis
from .sloppy_json import NoJson, ReadingBudget, Sloppy, one_value
from .sloppy_json import read as read_sloppy
from .values import truth

if TYPE_CHECKING:
    from ..remote.posting import ErrorReply  # needs an extra, and the scripted judge of tests does not

CHARS: Final = 200_000
"""Characters of an answer that are read; a longer answer is no answer."""
DEPTH: Final = 6
"""Most wrappers around the object, JSON in strings included."""

ATTEMPT: Final = 500
"""Work of the try to read an object at a bracket, without that of its characters."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A judge's answer, and its cost."""

    text: str
    finish: str = "stop"
    """Reason of its end: `stop`, `length` (cut off), `content_filter`."""
    refusal: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    cost_source: str | None = None
    """Source of the price; None if no price is known."""
    from_cache: bool = False
    limit: int | None = None
    """Most tokens that the request allowed; None if it named no limit."""
    fault: "ErrorReply | None" = None
    """The error that a reply with success has in place of an answer."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The JSON object in an answer."""

    fields: dict[str, Any]
    complete: bool
    """False if the answer was cut off; then `fields` has the fields before the cut, without a list that was cut."""


# --- Refusals ---

_CANNOT: Final = r"(?:can(?:no|['’])t|can not|could(?:n['’]| no)t|won['’]t|will not|am (?:not able|unable)|['’]m (?:not able|unable)|unable|not able|must (?:decline|refuse)|have to (?:decline|refuse)|refuse|decline)"  # noqa: E501
_REFUSAL: Final = re.compile(
    r"(?:"
    # Sorry, and then that it cannot.
    rf"(?:sorry|apolog|unfortunately|regret)[^.{{}}]{{0,80}}\b{_CANNOT}\b"
    rf"|as an? (?:ai|language|large|responsible|assistant)[^.{{}}]{{0,80}}\b{_CANNOT}\b"
    # That it cannot do what is asked of an assistant.
    rf"|\b{_CANNOT}\b(?: to)?[ ,]{{1,3}}(?:[a-z]+ly )?(?:\w+ ){{0,2}}?(?:assist|help|comply|fulfil|proceed"
    r"|continue with|provide|engage|discuss"
    r"|support (?:this|that|your)|process (?:this|that|your)|respond to (?:this|that|your)"
    r"|participate|do (?:this|that)|judge (?:this|that)|evaluate (?:this|that)|analy[sz]e (?:this|that)"
    r"|label (?:this|that)|this request|that request|your request)"
    r"|against my (?:guidelines|programming|policy|policies)|violates? (?:my|our|the) (?:\w+ )?(?:polic|guideline)"
    # Russian, Ukrainian
    r"|(?:извин|прости|прошу прощения|к сожалению|сожале)[^.{}]{0,60}\bне (?:мог|могу|буду|в состоянии|имею)"
    r"|не могу (?:\w+ )?(?:помочь|выполнить|ответить|обсуждать|предоставить|оценить это)|вибач[^.{}]{0,60}не можу"
    # Chinese, Japanese, Korean
    r"|(?:抱歉|对不起|對不起|很遗憾|不好意思)[^。{}]{0,40}(?:无法|不能|無法|不可以|没法|沒辦法)"
    r"|我(?:无法|不能|無法)(?:协助|帮助|提供|满足|回答|完成|處理|处理|協助|幫助|评估|继续)"
    r"|(?:申し訳|すみません|恐れ入ります)[^。{}]{0,60}(?:できません|できかね|お答えでき|いたしかね)"
    r"|(?:죄송|미안)[^.{}]{0,60}(?:수 없|어렵|못)"
    # Spanish, Portuguese, French, Italian, German, Dutch, Polish, Turkish, Arabic, Hindi, Vietnamese
    r"|(?:lo siento|lo lamento|disculp)[^.{}]{0,60}\bno (?:puedo|podemos|me es posible)"
    r"|\bno puedo (?:ayudar|asistir|cumplir|proporcionar|responder|realizar|continuar)"
    r"|(?:desculp|lamento|sinto muito)[^.{}]{0,60}\bnão (?:posso|consigo)"
    r"|\bnão posso (?:ajudar|fornecer|responder|atender|continuar)"
    r"|(?:désolé|je regrette|excusez|malheureusement)[^.{}]{0,60}\b(?:ne (?:peux|puis)|pas en mesure)"
    r"|je ne (?:peux|puis) pas (?:\w+ )?(?:aider|répondre|fournir|traiter|accéder)"
    r"|(?:mi dispiace|spiacente|purtroppo)[^.{}]{0,60}\bnon (?:posso|sono in grado)"
    r"|(?:tut mir leid|entschuldig|bedau|leider)[^.{}]{0,60}\b(?:kann|darf|bin)\b[^.{}]{0,60}\b(?:nicht|keine)\b"
    r"|\bsorry\b[^.{}]{0,60}\bkan\b[^.{}]{0,40}\bniet\b|(?:przykro mi|przepraszam)[^.{}]{0,60}\bnie mogę"
    r"|(?:üzgünüm|maalesef)[^.{}]{0,80}(?:amam|emem|amıyorum|emiyorum)"
    r"|(?:عذر|آسف|أعتذر|للأسف)[^.{}]{0,60}(?:لا أستطيع|لا يمكنني|لن أتمكن)"
    r"|لا (?:أستطيع|يمكنني) (?:المساعدة|تقديم|الإجابة)"
    r"|(?:क्षमा|माफ)[^।{}]{0,80}(?:नहीं|असमर्थ)|xin lỗi[^.{}]{0,60}không thể"
    r")"
)
_REFUSAL_CHARS: Final = 400
"""Characters at the start of an answer in which a refusal is looked for."""


def is_refusal(text: str) -> bool:
    """Return whether an answer without an object is a refusal in plain words, in one of the usual languages.

    >>> is_refusal("I'm sorry, but I can't assist with that."), is_refusal("I cannot find a relevant sentence.")
    (True, False)
    """
    plain = without_reasoning(text[:CHARS]).strip()
    return "{" not in plain and _REFUSAL.search(plain[:_REFUSAL_CHARS].lower()) is not None


# --- Objects ---

_ESCAPED_START: Final = r"[\[{](?:\\n|\s){0,80}\\[\"'\\]"
"""Start of an object whose quotes are escaped, because it stands or stood in a JSON string."""
_MARK: Final = re.compile(
    rf"(?P<value>\{{|\[(?=\s{{0,80}}[{{\[\]\"'“])|\"(?=\s{{0,40}}{_ESCAPED_START}))|{TAG.pattern}"
)
_DRAFTS: Final = frozenset({
    "draft", "drafts", "firstdraft", "thinking", "think", "thought", "thoughts", "reasoning", "reasoningcontent",
    "analysis", "scratchpad", "reflection", "example", "examples", "exampleanswer", "schema", "jsonschema", "template",
    "initialanswer", "previousanswer", "firstattempt", "wrong", "rejected",
})  # fmt: skip
"""Names of members that hold no answer, in letters."""
_BEFORE: Final = re.compile(r"[\"'“]([\w .-]{1,40})[\"'”]\s{0,10}:\s{0,10}\[?\s{0,10}$")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unambiguous_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in members:
        fields[name] = one_value(fields.get(name, value), value)
    return fields


_STRICT: Final = json.JSONDecoder(strict=False, parse_constant=_refuse, object_pairs_hook=_unambiguous_object)


class _Ambiguous(Exception):  # noqa: N818  # never leaves this module
    """There are several answers in one value, and nothing says which counts."""


class _Shape:
    """The fields that were asked for, under every spelling of their names."""

    def __init__(self, schema: Schema) -> None:
        self._properties: Mapping[str, Schema] = schema["properties"]
        self.spellings = {letters_of(name): name for name in self._properties}
        lists = [name for name, field in self._properties.items() if field.get("type") == "array"]
        self._lists = lists or [*self._properties]

    def name(self, spelling: str) -> str | None:
        """Return the name of a field that has this spelling; None if no field has it."""
        return self.spellings.get(letters_of(spelling))

    def rank(self, value: Mapping[str, Any]) -> int:
        """Return 2 for all lists that were asked for, 1 for some of the fields, 0 for none."""
        names = {self.name(name) for name, member in value.items() if not _is_schema(member)}
        return 2 if names.issuperset(self._lists) else int(any(name in names for name in self._properties))

    def fields(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields under their own names, with the types that were asked for where they can be read so.

        A field that stands there twice with different values has none that can be read.
        """
        fields: dict[str, Any] = {}
        for spelling, raw in value.items():
            name = self.name(spelling) or spelling
            read = _read(raw, self._properties.get(name, {}))
            fields[name] = one_value(fields.get(name, read), read)
        return fields

    def part(self, value: Any) -> dict[str, Any] | None:
        """Return the field of which a value is a part: entries of a list, or members of an object; None if of none."""
        entries = value if isinstance(value, list) else [value]
        for name, schema in self._properties.items():
            inner: Schema = schema.get("items", schema)
            if inner.get("type") != "object" or not entries or not all(isinstance(entry, dict) for entry in entries):
                continue
            shape, key = _Shape(inner), next(iter(inner["properties"]))
            named = [[shape.name(spelling) for spelling in entry] for entry in entries]
            if "items" in schema and all(key in names and len(names) > 1 for names in named):
                return {name: entries}
            if "items" not in schema and isinstance(value, dict) and named[0] and None not in named[0]:
                return {name: value}
        return None

    def later(self, before: dict[str, Any] | None, value: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the last word about each; a whole answer replaces what was said before it."""
        fields = self.fields(value)
        if before is None or (len(self._lists) > 1 and self.rank(value) == 2):
            return fields
        latest = {
            name: _later(before.get(name), value, self._properties.get(name, {})) for name, value in fields.items()
        }
        return {**before, **latest}


def _later(before: Any, value: Any, schema: Schema) -> Any:
    items: Schema = schema.get("items", {})
    if items.get("type") == "object" and isinstance(before, list) and isinstance(value, list):
        key = next(iter(items["properties"]))
        first, second = _by_key(before, key), _by_key(value, key)
        if second.keys() < first.keys():
            return [*{**first, **{name: _later(first[name], entry, items) for name, entry in second.items()}}.values()]
    elif schema.get("type") == "object" and isinstance(before, dict) and isinstance(value, dict):
        properties: Mapping[str, Schema] = schema.get("properties", {})
        if value.keys() < before.keys():
            return {
                **before,
                **{name: _later(before[name], member, properties.get(name, {})) for name, member in value.items()},
            }
    return value


def _by_key(entries: list[Any], key: str) -> dict[str, Any]:
    return {normalize_key(str(entry.get(key))[:80]): entry for entry in entries if isinstance(entry, dict)}


def _is_schema(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and len(value) <= 4


def _read(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        read = truth(value)
        return value if read is None else read
    if kind == "object":
        inner_value = _inside(value, "{[")
        return _Shape(schema).fields(inner_value) if isinstance(inner_value, dict) else inner_value
    if kind != "array":
        return value
    items: Schema = schema.get("items", {})
    value = _inside(value, "[")
    if items.get("type") != "object":
        return value
    shape = _Shape(items)
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        key = next(iter(items["properties"]))  # an object by key instead of a list
        value = [{key: name, **fields} for name, fields in value.items()]
    if isinstance(value, list):
        return [shape.fields(item) if isinstance(item, dict) else item for item in value]
    return value


def _inside(value: Any, openers: str) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(tuple(openers)):
        return value
    try:
        inner = read_sloppy(value, len(value) - len(value.lstrip()))
    except NoJson:
        return value
    return value if inner.cut or value[inner.end :].strip() else inner.value


def parse(text: str, schema: Schema) -> Parsed | None:
    """Return the fields that were asked for, with the last word about each, of objects outside of reasoning blocks.

    A whole object replaces all that stood before it, a partial one only its own fields. None if there is no object.

    Args:
        schema: JSON schema of the object.

    >>> schema = {"properties": {"key_list": {"type": "array", "items": {"type": "string"}}}}
    >>> parse('<think>{"key_list": []}</think> Here it is: ```json {"result": {"keyList": ["a"]}} ``` {ok}', schema)
    Parsed(fields={'key_list': ['a']}, complete=True)
    >>> parse("{'key_list': ['0a', '0b'], 'b': ['1", schema)
    Parsed(fields={'key_list': ['0a', '0b']}, complete=False)
    >>> parse("I cannot do that.", schema) is None
    True
    """
    if len(text) > CHARS:
        return None
    try:
        return _parsed(without_silent_analysis(text), _Shape(schema), ReadingBudget(len(text)), 0)
    except (_Ambiguous, RecursionError):
        return None


def _parsed(text: str, shape: _Shape, budget: ReadingBudget, depth: int) -> Parsed | None:
    answer: dict[str, Any] | None = None
    begun: dict[str, Any] | None = None
    is_cut = inside_cut = False
    for start, value in _values(text, budget):
        if start < 0:  # what stood before was reasoning
            answer, begun, inside_cut = None, None, False
        elif value is None:  # it cannot be read, and may take back what stood before
            first = _FIRST_NAME.match(text, start)
            if first is not None and shape.name(first[1]) is not None:
                answer = None
        elif isinstance(value, Sloppy):  # the text ends before the object does
            inside_cut |= bool(value.value)
            if any(shape.name(name) for name in value.names):
                begun = value.value
        elif not _is_named_draft(text, start):
            is_after = answer is not None and not inside_cut
            fields = _answers(value, shape, budget, depth) or (
                _correction(text, start, value, shape) if is_after else None
            )
            if fields is not None:
                budget.use(sum(len(before) for before in (answer or {}).values() if isinstance(before, list)) * 20)
                is_cut = inside_cut or (is_cut and answer is not None and shape.rank(fields) < 2)
                answer, begun = shape.later(answer, fields), None
    if budget.spent:  # the last word is not known
        return None
    if begun is not None:
        return Parsed(shape.fields(begun), complete=False) if shape.rank(begun) else None
    if answer is not None or depth >= DEPTH or "&quot;" not in text:
        return None if answer is None else Parsed(answer, complete=not is_cut)
    text = text.replace("&quot;", '"').replace("&#39;", "'").replace("&amp;", "&")
    return _parsed(text, shape, budget, depth + 1)


_FIRST_NAME: Final = re.compile(r"\{\s{0,40}[\"'“]?([\w .-]{1,60})[\"'”]?\s{0,10}[:：]")


def _correction(text: str, start: int, value: Any, shape: _Shape) -> dict[str, Any] | None:
    if not isinstance(value, list) or any(isinstance(item, dict) for item in value):
        return shape.part(value)
    before = text[max(0, start - 80) : start].rstrip()
    if not before.endswith((":", "=", "：")):
        return None
    letters = letters_of(before[:-1].rpartition("\n")[2])
    return next(({name: value} for spelling, name in shape.spellings.items() if letters.endswith(spelling)), None)


def _is_named_draft(text: str, start: int) -> bool:
    before = _BEFORE.search(text, max(0, start - 80), start)
    return before is not None and letters_of(before[1]) in _DRAFTS


def _values(text: str, budget: ReadingBudget) -> Iterator[tuple[int, Any]]:
    """Yield start and value of each JSON value, None for one that cannot be read.

    The start is -1 for the end of a reasoning block that began with the text.
    """
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        if mark["value"] is None:
            at = mark.end()
            tag = TAG.match(text, mark.start())
            meaning = meaning_of(tag) if tag is not None else ""
            if meaning == "open":
                end = after_block(text, at)
                if end is None:
                    return
                at = end
            elif meaning == "final" or (meaning == "close" and "details" not in mark[0]):
                yield -1, None
            continue
        start = mark.start()
        at = start + 1
        if budget.spent:
            return
        reading = _value_at(text, start, budget)
        if reading is None:
            yield start, None
            continue
        value, end = reading
        yield start, value
        if not isinstance(value, Sloppy):
            at = end


def _value_at(text: str, start: int, budget: ReadingBudget) -> tuple[Any, int] | None:
    budget.use(ATTEMPT)
    try:
        value, end = _STRICT.raw_decode(text, start)
        return _whole_characters(value) if "\\ud" in text[start:end].lower() else value, end
    except json.JSONDecodeError as error:
        budget.use(error.pos - start + error.pos // 10)  # the error counts the lines up to its place
    except (ValueError, RecursionError):
        budget.use(50_000)
    if _ESCAPED_OBJECT.match(text, start) is not None:
        return _escaped_value_at(text, start, budget)
    try:
        sloppy = read_sloppy(text, start, budget)
    except NoJson:
        return None
    if any(meaning_of(tag) in ("close", "final") for tag in TAG.finditer(text, start, sloppy.end)):
        return None  # braces of the thoughts, read over their end
    if sloppy.cut:
        return (sloppy, sloppy.end) if isinstance(sloppy.value, dict) else None
    return _whole_characters(sloppy.value), sloppy.end


def _whole_characters(value: Any) -> Any:
    return json.loads(whole(json.dumps(value, ensure_ascii=False)))


def _answers(value: Any, shape: _Shape, budget: ReadingBudget, depth: int) -> dict[str, Any] | None:
    if depth > DEPTH:
        return None
    children: list[Any]
    if isinstance(value, dict):
        if shape.rank(value):
            return value
        children = [child for name, child in value.items() if letters_of(name) not in _DRAFTS]
    elif isinstance(value, list):
        children = value
    elif isinstance(value, str) and "{" in value:
        inner = _parsed(without_silent_analysis(value), shape, budget, depth + 1)
        return inner.fields if inner is not None and inner.complete else None
    else:
        return None
    known: dict[str, Any] | None = None
    for child in children:
        answer = _answers(child, shape, budget, depth + 1) if isinstance(child, dict | list | str) else None
        if answer is None:
            continue
        if known is not None and shape.fields(known) != shape.fields(answer):
            raise _Ambiguous
        known = answer
    return known


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPED: Final = re.compile(r"\\([\"'\\/nrt])")
_ESCAPED_OBJECT: Final = re.compile(_ESCAPED_START)


def _escaped_value_at(text: str, start: int, budget: ReadingBudget) -> tuple[Any, int] | None:
    rest = text[start:]
    budget.use(4 * len(rest))
    plain = _ESCAPED.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), rest)
    value, end = _value_at(plain, 0, budget) or (None, 0)
    if value is None or isinstance(value, Sloppy):
        return None
    removed = 0
    for escape in _ESCAPED.finditer(rest):
        if escape.start() - removed >= end:
            break
        removed += 1
    return value, start + end + removed


def last_object(text: str) -> str:
    r"""Return the JSON object with which a text ends; empty if it does not end with one.

    >>> last_object('First {"a": 1}. Then {"a": 2}\n```'), last_object('{"a": 1} is wrong')
    ('{"a": 2}', '')
    """
    text = text[-CHARS:]
    budget = ReadingBudget(len(text))
    at = 0
    while (start := text.find("{", at)) >= 0 and not budget.spent:
        reading = _value_at(text, start, budget)
        if reading is None or isinstance(reading[0], Sloppy):
            at = start + 1
            continue
        if not text[reading[1] :].strip(" \t\r\n`.*_-~>"):
            return text[start : reading[1]]
        at = reading[1]
    return ""
