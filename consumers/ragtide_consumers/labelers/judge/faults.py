"""Finds the error in a reply with success: gateways answer with the status 200 although they failed. No I/O.

The cause is read from the structure of the reply, its codes and its types, and from words only where there is neither.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...text.keys import letters_of
from ..remote.posting import ErrorReply

Members = Mapping[str, Any]
"""Members of a JSON object."""

_DEPTH: Final = 4
"""Most levels of an error in which a status is looked for."""
_MEMBERS: Final = 100
"""Most members of an object in which it is looked for."""
_OK: Final = frozenset({"", "0", "none", "null", "false"})
_CODES: Final = ("code", "status_code", "statuscode", "status", "http_status", "http_code", "error_code", "errcode")
_WORDS: Final = ("detail", "message", "msg", "error_msg", "error_message", "errmsg", "status_msg", "fault", "reason")
_TYPES: Final = ("type", "code", "status", "error_type", "__type", "reason", "name", "error")
_KINDS: Final = (
    (529, ("overload", "capacity")),
    (503, ("unavailable", "timeout", "internal", "servererror")),
    (429, ("ratelimit", "toomanyrequests", "throttl", "resourceexhausted")),
    (402, ("quota", "billing", "arrear", "insufficientbalance")),
    (401, ("authent", "apikey", "unauthorized")),
    (403, ("permission", "forbidden", "accessdenied")),
    (404, ("notfound",)),
    (400, ("invalidrequest", "badrequest", "invalidargument", "invalidparameter", "validation")),
)
"""Status of each type of error, by a part of its name in letters."""

_EMPTY: Final = "it is empty"
_NO_MODEL: Final = re.compile(r"\bmodel\b[^.!?\n]{0,100}\b(?:not found|does not exist)\b|no such model", re.IGNORECASE)


class NoCompletion(ErrorReply):
    """A reply with success that is no answer.

    Args:
        status: of the error inside; 502 if it names none, and 200 if the reply has neither an answer nor an error.
        text: what the endpoint says about the error; a blank one says that the reply is empty.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, {}, text if text.strip() else _EMPTY)


def fault_in(reply: object, message: Members | None, holders: Sequence[Members], finish: str) -> NoCompletion | None:
    """Return the error in a reply; None if it has an answer and no error.

    Beside an answer only what means an error alone is one: `error`, `success` and a status; a text or a number may say
    anything there.
    """
    if isinstance(reply, str):
        return NoCompletion(502, reply)
    errors: list[Any] = []
    for holder in [*holders, message or {}]:
        errors += [holder[name] for name in ("error", "errors") if _is_error(holder.get(name))]
        errors += [part for part in holder.values() if isinstance(part, dict) and _is_bad_state(part)]
        failed = holder.get("success") is False or holder.get("ok") is False
        if failed or _status_of(holder) is not None or letters_of(str(holder.get("type"))).endswith("error"):
            errors.append({name: value for name, value in holder.items() if name not in ("choices", "output")})
    if message is None and not errors:
        named = {name.lower(): value for name, value in reply.items()} if isinstance(reply, dict) else {}
        if words := [named[name] for name in _WORDS if _is_error(named.get(name))]:
            errors += [*words, {name: named[name] for name in _TYPES if name in named}]
        elif reply and finish != "error" and "choices" not in named:
            return NoCompletion(200, as_json(reply))
        else:
            errors.append({"message": "it has no choice" if reply else _EMPTY})
    if finish == "error" and not errors:
        errors.append(
            {"message": "the answer ended with an error", "code": next(iter(holders), {}).get("finish_reason")}
        )
    if not errors:
        return None
    text = as_json(errors)
    by_words = 404 if _NO_MODEL.search(text[:2000]) else 502  # Ollama names no status
    return NoCompletion(next((status for part in errors if (status := _status(part)) is not None), by_words), text)


def _is_error(value: object) -> bool:
    if isinstance(value, dict):
        return any(value.values()) and str(value.get("code", "")) not in ("0", "200")
    return bool(value) and str(value)[:10].lower() not in _OK


def _is_bad_state(part: Members) -> bool:
    codes = [part.get(name) for name in _CODES if isinstance(part.get(name), int)]
    return any(code and not 200 <= code < 300 for code in codes) and any(
        isinstance(part.get(name), str) for name in _WORDS
    )


def _status_of(holder: Members) -> int | None:
    for name, value in [*holder.items()][:_MEMBERS]:
        if name.lower() in _CODES and isinstance(value, int | str):
            number = str(value).strip()
            if len(number) == 3 and number.isascii() and number.isdigit() and "400" <= number < "600":
                return int(number)
    return None


def _status(said: object, depth: int = 0) -> int | None:
    if isinstance(said, list):
        said = dict(enumerate(said[:20]))
    if not isinstance(said, dict) or depth > _DEPTH:
        return None
    named = {str(name).lower(): value for name, value in [*said.items()][:_MEMBERS]}
    if (status := _status_of(named)) is not None:
        return status
    for name in _TYPES:
        if isinstance(kind := named.get(name), str) and " " not in kind:
            letters = letters_of(kind)
            for status, parts in _KINDS:
                if any(part in letters for part in parts):
                    return status
    return next((status for value in named.values() if (status := _status(value, depth + 1)) is not None), None)


def as_json(value: object) -> str:
    """Return a value as JSON; empty if it cannot be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""
