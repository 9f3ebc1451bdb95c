"""Reads what an endpoint says when it refuses a call, whatever the words and the form of the body. No I/O.

Endpoints refuse keys, models, addresses, contents, lengths and parameters with the same status. Only the endpoint's own
words are read: a body may repeat the texts of an interaction, which may say anything.
"""

import json
import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

BODY_CHARS: Final = 20_000
"""Characters of a body that are read."""
WORDS_CHARS: Final = 2_000
"""Most characters of an endpoint's words."""
DEPTH: Final = 6


class About(Enum):
    """The reason of a refusal."""

    KEY = auto()
    QUOTA = auto()
    MODEL = auto()
    ADDRESS = auto()
    CONTENT = auto()
    """The content of this interaction."""
    LENGTH = auto()
    """The prompt is longer than the model takes."""
    ANSWER_LIMIT = auto()
    """The answer may be longer than the endpoint allows, alone or together with the prompt."""
    FORM = auto()
    """A parameter or the form of the request; `features` has those that the words name."""


@dataclass(frozen=True, slots=True)
class EndpointRefusal:
    """A refusal and the numbers in it."""

    about: About
    message: str
    """The endpoint's words."""
    features: tuple[str, ...] = field(default=())
    """Named features of a request: `structured`, `grammar`, `temperature`, `limit_name`, `roles`."""
    window: int | None = None
    """Tokens that the model takes in all."""
    prompt_tokens: int | None = None
    """Tokens of the prompt, as the endpoint counts them."""
    requested: int | None = None
    """Tokens of prompt and answer together, as the endpoint counts them."""
    answer_cap: int | None = None
    """Most tokens of an answer."""


_TEXTS: Final = (
    "message", "msg", "error_message", "errormessage", "status_msg", "error_msg", "errmsg", "detail", "details",
    "error", "errors", "title", "description", "reason", "type", "error_type", "code", "status_code", "param", "loc",
    "status", "innererror", "metadata", "raw", "n_prompt_tokens", "n_ctx",
)  # fmt: skip
"""Members whose values are the endpoint's own words."""
_TAGS: Final = re.compile(r"<(?:script|style)\b[^<>]{0,500}>[^<]{0,20000}|<[^<>]{0,500}>", re.IGNORECASE)


def message_of(body: str) -> str:
    """Return the endpoint's words in the body of a refusal: of JSON in any form, of HTML, or plain.

    >>> message_of('[{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]')
    'no 400 INVALID_ARGUMENT'
    >>> message_of('{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs", "input": "a private text"}]}')
    'Extra inputs body seed'
    >>> message_of("<html><body><h1>400 Bad Request</h1></body></html>")
    '400 Bad Request'
    """
    body = body[:BODY_CHARS].strip()
    try:
        content: Any = json.loads(body) if body[:1] in ("{", "[", '"') else body
    except (ValueError, RecursionError):
        content = body
    words: list[str] = []
    _collect(content, words, 0)
    whole = " ".join(dict.fromkeys(words))
    if "<" in whole:
        whole = _TAGS.sub(" ", whole)
    return " ".join(whole[:WORDS_CHARS].split())


def _collect(value: Any, words: list[str], depth: int) -> None:
    if depth > DEPTH or len(words) > 100:
        return
    if isinstance(value, str):
        inner = value.strip()
        if inner[:1] in ("{", "["):
            try:
                _collect(json.loads(inner), words, depth + 1)
            except (ValueError, RecursionError):
                words.append(inner)
        elif inner:
            words.append(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        words.append(str(value))
    elif isinstance(value, list):
        for item in value[:20]:
            _collect(item, words, depth + 1)
    elif isinstance(value, dict):
        members = {str(name).lower(): member for name, member in list(value.items())[:100]}
        for name in _TEXTS:
            if name in members:
                if name.startswith("n_"):
                    words.append(name)
                _collect(members[name], words, depth + 1)


def _names_any(words: str, *parts: str) -> bool:
    return any(part in words for part in parts)


_CONTENT: Final = (
    "content_filter", "content filter", "contentfilter", "content management policy", "content_policy",
    "contentpolicy", "responsibleaipolicy", "responsible ai", "safety system", "content exists risk",
    "data_inspection_failed", "datainspectionfailed", "inappropriate content", "flagged",
    "violating our usage policy", "usage policies", "violates our", "usage guidelines", "content filtering policy",
    "moderation", "guardrail", "prohibited_content", "blocked by safety", "safety settings", "blockreason",
    "block_reason", "sensitive content", "content_violation", "content violates", "prompt was blocked",
    "request was blocked due to", "敏感", "违规", "不安全",
)  # fmt: skip
_KEY: Final = (
    "api key", "api_key", "apikey", "invalid x-api-key", "unauthorized", "unauthenticated", "authentication",
    "invalid proxy server token", "bearer token", "credential", "access token", "permission_denied", "not authorized",
    "subscription key",
)  # fmt: skip
_QUOTA: Final = (
    "insufficient_quota", "insufficient balance", "insufficient funds", "insufficient credit", "billing", "payment",
    "out of credit", "credit balance", "budget has been exceeded", "budgetexceeded", "arrearage", "余额不足", "欠费",
)  # fmt: skip
_MODEL: Final = (
    "model_not_found", "model not found", "model not exist", "model_not_exist", "invalid_model", "invalid model",
    "unknown model", "no such model", "not a valid model", "deploymentnotfound", "api deployment", "pulling it first",
    "model is not available", "model does not exist", "no healthy deployments", "model_not_available",
    "no model named", "decommissioned", "model has been deprecated", "模型不存在",
)  # fmt: skip
_GONE: Final = (
    "not found",
    "does not exist",
    "doesn't exist",
    "not exist",
    "no access",
    "not have access",
    "unavailable",
)
_LIMIT: Final = (
    "max_tokens", "max_completion_tokens", "max_new_tokens", "maxoutputtokens", "max_output_tokens", "output tokens",
    "completion tokens", "in the completion", "for the completion", "maxtokens", "answer tokens",
)  # fmt: skip
_LONG: Final = (
    "context length", "context_length", "context window", "contextwindow", "context size", "exceed_context",
    "maximum context", "too many tokens", "prompt is too long", "input is too long", "prompt too long",
    "input too long", "token count", "max_model_len", "max model len", "maximum model length", "input length",
    "number of tokens allowed", "tokens per minute", "reduce the length", "reduce your", "request too large",
    "request_too_large", "entity too large", "payload too large", "content too large", "body too large", "n_ctx",
    "maximum length", "`inputs` tokens", "must have less than", "exceeds the limit", "token limit",
    "tokens in your prompt", "longer than the", "输入长度", "超长",
)  # fmt: skip
_UNKNOWN_NAME: Final = (
    "unsupported parameter", "not supported", "unsupported_parameter", "extra_forbidden", "extra inputs", "unknown",
    "unrecognized", "unrecognised", "not permitted", "not allowed", "unexpected", "no longer supported",
    "unsupported field", "does not support parameter", "don't support", "doesn't support", "is unsupported",
    "instead", "invalid parameter",
)  # fmt: skip
_FEATURES: Final = {
    "grammar": ("structured_outputs", "grammar", "guided_"),
    "structured": (
        "response_format", "response format", "responseformat", "json_schema", "json schema", "jsonschema",
        "json_object", "json mode", "json output", "json_mode", "structured output", "structured_output",
        "responseschema", "response_schema", "response mime", "responsemimetype", "guided", "outputs in json",
        "schema", "xgrammar", "failed to parse grammar", "word 'json'",
    ),
    "temperature": ("temperature",),
    "roles": (
        "system role", "role system", "'system'", "`system`", '"system"', "role:system", "got system",
        "system message", "system prompt", "system instruction", "developer instruction", "system_instruction",
        "roles must alternate", "role must alternate", "roles are supported", "conversation roles", "unknown role",
        "unexpected role", "invalid role", "unsupported role", "messages.0", "messages[0].role",
        "alternate user/assistant", "chat template",
    ),
}  # fmt: skip

_COMMAS: Final = re.compile(r"(?<=\d)[,_ ](?=\d{3}(?!\d))")
_N: Final = r"(\d{1,9})"
_WINDOW: Final = re.compile(
    rf"(?:context[ _]?(?:length|window|size)|max[_ ]?model[_ ]?len(?:gth)?|model length|n_ctx|number of tokens allowed"
    rf"|maximum length|tokens \+ `?max_new_tokens`? must be|\(tpm\): limit|per minute[^0-9]{{0,10}}limit"
    rf"|inputs?`? (?:must|should) have less than|input length[^0-9]{{0,30}}(?:exceeds|limit of))"
    rf"[^0-9]{{0,60}}{_N}|> {_N} maximum"
)
_PROMPT: Final = re.compile(
    rf"{_N} (?:tokens )?(?:in the messages|in your prompt|input tokens|prompt tokens|`inputs` tokens|from the input"
    rf"|of text input|tokens from the input|in the input)"
    rf"|(?:request has|request \(|token count \(?|prompt is too long: ?|n_prompt_tokens|messages resulted in"
    rf"|prompt contains(?: at least)?|input length(?: of)?|given:|prompt has) ?{_N}"
)
_REQUESTED: Final = re.compile(rf"(?:you requested|requested(?: a total of)?|requested about) ?{_N}")
_CAP: Final = re.compile(
    rf"(?:at most|less than or equal to|no more than|up to|lower than|<=|supported range is from 1[^0-9]{{0,20}}to"
    rf"|between 1 and|\[1, ?|maximum (?:allowed )?(?:value|number)?[^0-9]{{0,60}}|limit(?: of| is)?)[ `'\":]{{0,4}}{_N}"
    rf"|> {_N}, which is the maximum"
)


def _number(pattern: re.Pattern[str], words: str) -> int | None:
    match = pattern.search(words)
    return None if match is None else int(next(group for group in match.groups() if group))


def read_refusal(status: int, body: str) -> EndpointRefusal:  # noqa: PLR0911 - one answer a reason
    """Return the meaning of a refusal.

    Args:
        status: of the reply, 400 or more.

    >>> refusal = read_refusal(400, '{"error": "max_tokens must be at most 4096"}')
    >>> refusal.about, refusal.answer_cap
    (<About.ANSWER_LIMIT: 7>, 4096)
    >>> read_refusal(422, '{"detail": "Sampling temperature is unknown here"}').features
    ('temperature',)
    """
    message = message_of(body)
    words = _COMMAS.sub("", message.lower())
    if _names_any(words, *_CONTENT):
        return EndpointRefusal(About.CONTENT, message)
    if status == 402 or (status in (400, 403, 429) and _names_any(words, *_QUOTA)):
        return EndpointRefusal(About.QUOTA, message)
    if status in (401, 403, 407):
        return EndpointRefusal(About.KEY, message)
    features = tuple(name for name, parts in _FEATURES.items() if _names_any(words, *parts))
    names_limit, too_long = _names_any(words, *_LIMIT), status == 413 or _names_any(words, *_LONG)
    if names_limit and not too_long and _names_any(words, *_UNKNOWN_NAME) and _number(_CAP, words) is None:
        return EndpointRefusal(About.FORM, message, ("limit_name",))
    if names_limit or too_long:
        window, prompt, requested = (_number(pattern, words) for pattern in (_WINDOW, _PROMPT, _REQUESTED))
        cap = None if window is not None else _number(_CAP, words)
        together = names_limit or requested is not None
        return EndpointRefusal(
            About.ANSWER_LIMIT if together else About.LENGTH,
            message,
            window=window,
            prompt_tokens=prompt,
            requested=requested,
            answer_cap=cap if names_limit else None,
        )
    if status < 500 and not features:
        if _names_any(words, *_KEY):
            return EndpointRefusal(About.KEY, message)
        if (
            _names_any(words, *_MODEL)
            or ("model" in words and _names_any(words, *_GONE))
            or (status == 404 and "model" in words)
        ):
            return EndpointRefusal(About.MODEL, message)
        if status in (404, 405, 410) and "parameter" not in words:
            return EndpointRefusal(About.ADDRESS, message)
    return EndpointRefusal(About.FORM, message, features)
