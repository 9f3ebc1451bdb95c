"""Whether the result of a tool is evidence for an answer, or only says that something was done."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic_core import to_json

from ragtide_schemas.retrieval_steps import step_name

from .documents import Found
from .literals import CLASS, UnreadableError, value_of
from .parts import text_of_content
from .replies import documents_in, is_error

WORDS_MAX: Final = 12
"""Most words of a sentence that only says that something was done."""
_CHARS: Final = 400
_DEPTH_MAX: Final = 4
_READS: Final = re.compile(
    r"(?:^|_)(?:search(?:es)?|find|get|lookups?|look|list|query|fetch|read|retrieve[rs]?|show|status|check|view|browse|"
    r"describe|ask|rag|knowledge|recall|select|sql|web|vector)(?:_|$)"
)
"""A word of the name of a tool that brings texts, whatever else the name has."""
_WRITES: Final = re.compile(
    r"(?:book|reserve|place|buy|pay|refund|create|make|add|insert|upsert|update|edit|modify|set|save|write|delete|"
    r"remove|clear|cancel|submit|send|post|publish|notify|email|schedule|reschedule|log|enable|disable|stop|approve|"
    r"reject|assign|escalate|confirm|register|subscribe|unsubscribe|upload|rename|reset|configure|reindex|remember)"
)
"""The first or the last word of the name of a tool that does something."""
_CONTROL: Final = re.compile(
    r"(?:transfer|hand_?off|delegate)_(?:to|back)_.*|hand_?off(?:_.*)?|finish|final_(?:result|answer|output).*|"
    r"submit_(?:final_)?answer|respond_to_user|exit_loop|write_todos|todo_write|document_relevance_list|"
    r"(?:delegate_work|ask_question)_to_co_?worker"
)
"""Tools by which a framework goes to another agent, ends a run or keeps notes: OpenAI Agents, LangGraph, Google ADK,
LlamaIndex, DSPy, Pydantic AI, smolagents, CrewAI."""
_FINAL: Final = re.compile(r"finish|final_(?:result|answer|output).*|submit_(?:final_)?answer|respond_to_user")
_SAID: Final = re.compile(
    r"ok(?:ay)?|done|true|false|yes|no|success(?:ful(?:ly)?)?|succeeded|completed?|accepted|none|null", re.IGNORECASE
)
_DONE: Final = re.compile(
    r"\b(?:booked|created|sent|updated|deleted|removed|saved|stored|added|cancell?ed|submitted|scheduled|reserved|posted|"
    r"published|confirmed|registered|processed|refunded|charged|paid|completed|assigned|escalated|notified|emailed|"
    r"uploaded|recorded|logged|opened|closed|approved|rejected|written|inserted|moved|renamed|enabled|disabled|started|"
    r"stopped|subscribed|queued|accepted|successful(?:ly)?)\b",
    re.IGNORECASE,
)
_WRAPPERS: Final = frozenset(("result", "output", "response", "content", "text", "data", "value"))
"""Keys of an object that has nothing but the result."""
_KEY: Final = re.compile(r"(?=[^\d]*\d)[\w./:#-]{1,80}")
_OF_STATUS: Final = re.compile(
    r"(?:.*_)?(?:id|ids|uuid|key|ref|reference|number|status|state|ok|success|succeeded|done|code|message|msg|detail|"
    r"type|error|errors|timestamp|time|at|date|count|version|url|affected|confirmation|result|created|updated|sent|"
    r"queued|deleted|saved)|is_?error|rowcount|_meta"
)
"""Names of the values of an object that says how an action went."""


def is_control(name: str) -> bool:
    """Whether a name is that of a step of a framework, such as a handoff to another agent, and of no call of a tool."""
    return _CONTROL.fullmatch(step_name(name) or "") is not None


def is_final(name: str) -> bool:
    """Whether the arguments of the control tool with this name are the answer."""
    return _FINAL.fullmatch(step_name(name) or "") is not None


def is_action(name: str) -> bool:
    """Whether the name of a tool indicates that it does something, rather than that it brings texts.

    >>> [name for name in ("book_return", "search_handbook", "orders", "order_status", "sendEmail") if is_action(name)]
    ['book_return', 'sendEmail']
    """
    words = (step_name(name) or "").split("_")
    return not _reads(name) and any(_WRITES.fullmatch(word) for word in (words[0], words[-1]))


def _reads(name: str) -> bool:
    return _READS.search(step_name(name) or "") is not None


def is_evidence(name: str, result: Any, documents: Sequence[Found], action_names: Collection[str] = ()) -> bool:
    """Whether the documents in the result of a tool are evidence; if there are none, whether it looked for some.

    Args:
        name: of the tool.
        result: the result as it is.
        documents: that were read from it.
        action_names: names of tools whose results are no evidence.
    """
    if name in action_names or is_control(name) or is_error(result):
        return False
    if not documents:
        return not is_action(name) and (result not in (None, "", {}) or _reads(name))
    if acknowledges(result, strictly=_reads(name)):
        return False
    return not is_action(name) or any(document.id is not None or document.score is not None for document in documents)


def evidence_in(name: str, result: Any, action_names: Collection[str] = ()) -> list[Found] | None:
    """Return the documents in the result of a tool; None if it is no evidence, such as `ok` of a booking.

    Of a result that is no list of documents, such as a row of a table, the text that the model read is the document.

    Args:
        name: of the tool.
        result: the result as it is.
        action_names: names of tools whose results are no evidence.
    """
    try:
        documents = documents_in(result)
    except UnreadableError:
        documents = None
    if documents is None or any(document.text is None for document in documents):
        text = text_of_result(result)
        documents = [Found(text)] if text.strip() else None
    return documents if documents is not None and is_evidence(name, result, documents, action_names) else None


def text_of_result(result: Any) -> str:
    """Return the text of a result as a model reads it: its text, or the JSON of its values."""
    text = result if isinstance(result, str) else text_of_content(result)
    if text.strip() or not isinstance(result, Mapping | list | int | float) or isinstance(result, bool):
        return text
    return to_json(result).decode()


def acknowledges(value: Any, *, strictly: bool = False, depth: int = 0) -> bool:
    """Whether a result says nothing but that something was done: `ok`, a number, an id, or an object of these.

    >>> acknowledges("Your table has been booked."), acknowledges({"status": "ok", "id": 7}), acknowledges("Rain.")
    (True, True, False)

    Args:
        value: the result.
        strictly: whether a number, an id, a status or a sentence may be what was looked up.
        depth: levels above the value.
    """
    if depth > _DEPTH_MAX:
        return False
    if isinstance(value, str):
        inner = _spelled(value)
        if isinstance(inner, str):
            return _text_acknowledges(inner.strip(), strictly=strictly)
        return acknowledges(inner, strictly=strictly, depth=depth + 1)
    if isinstance(value, Mapping):
        return _object_acknowledges(value, strictly, depth + 1)
    if isinstance(value, list):
        return 0 < len(value) <= WORDS_MAX and all(
            acknowledges(item, strictly=strictly, depth=depth + 1) for item in value
        )
    return value is None or isinstance(value, bool) or not strictly


def _spelled(text: str) -> Any:
    if len(text) > _CHARS or text.strip()[:1] not in ("{", "[", '"'):
        return text
    try:
        return value_of(text.strip())
    except ValueError:
        return text


def _text_acknowledges(text: str, *, strictly: bool) -> bool:
    is_said = _SAID.fullmatch(text.rstrip(".! ")) is not None
    if is_said or strictly or len(text) > _CHARS:
        return is_said
    return bool(_KEY.fullmatch(text)) or (len(text.split()) <= WORDS_MAX and bool(_DONE.search(text)))


def _object_acknowledges(value: Mapping[str, Any], strictly: bool, depth: int) -> bool:
    parts = {str(key).lower(): item for key, item in value.items() if key != CLASS}
    content = parts.get("content") if isinstance(parts.get("content"), list) else parts.get("text")
    if content and (isinstance(content, list) or "type" in parts):  # of MCP, or one of its parts
        return acknowledges(content, strictly=strictly, depth=depth)
    if len(parts) == 1 and not _WRAPPERS.isdisjoint(parts):
        return acknowledges(*parts.values(), strictly=strictly, depth=depth)
    return bool(parts) and all(
        (strictly or _OF_STATUS.fullmatch(key) is not None)
        and (
            acknowledges(item, strictly=strictly, depth=depth)
            or (isinstance(item, str | int | float) and not strictly and len(str(item).split()) == 1)
        )
        for key, item in parts.items()
    )
