"""Finds the reasoning that models write into their texts: `<think>...</think>`, channels of harmony, their kin.

A judge's reply is asked for as JSON, so every tag in it counts. The answer of an application may be about such tags,
so there a tag counts only where a model writes it, and not in code or in the middle of a sentence. No I/O; all work is
linear in the length of the text.
"""

import re
from functools import lru_cache
from typing import Final

from ragtide_schemas import RagInteraction

TAG: Final = re.compile(
    r"<\|channel\|>\s?(\w{1,20})|<([^<>{}\n]{1,120})>|\[(/?THINK(?:ING)?|/?THOUGHTS?)\]|◁([^◁▷]{1,20})▷"
)
_THOUGHTS: Final = (
    "think", "thinking", "thought", "thoughts", "reasoning", "reason", "reflection", "reflect", "scratchpad",
    "analysis", "monologue", "cot", "deliberation", "thoughtprocess", "rationale",
)  # fmt: skip
_NAME_CHARS: Final = 24
_SILENT_ANALYSIS: Final = re.compile(r"\s*analysis(?=[^\W_])")
"""Start of a harmony answer whose special tokens a server dropped: `analysisWe need ... assistantfinal{...}`."""
_FINAL: Final = "assistantfinal"


def meaning_of(tag: re.Match[str]) -> str:
    """Return the meaning of a tag: `open` or `close` of a reasoning block, `final` of harmony, or nothing."""
    channel, name, upper, kimi = tag.groups()
    if channel is not None:
        return "final" if channel == "final" else "open"
    return _meaning_of_name(name or upper or kimi)


@lru_cache(1_000)
def _meaning_of_name(name: str) -> str:
    inner = name.strip().lower()
    if inner in ("|channel", "channel|"):  # Gemma's
        return "open" if inner[0] == "|" else "close"
    closes = inner.lstrip("|｜ ").startswith("/")
    if inner.startswith("details") and any(word in inner for word in ("reason", "think", "thought")):
        return "open"
    word = inner.strip("|｜/ ").partition(" ")[0]
    letters = "".join(letter for letter in word if letter.isalpha())
    if len(letters) > _NAME_CHARS or not letters.endswith(_THOUGHTS):
        return "close" if inner == "/details" else ""
    return "close" if closes or letters.startswith("end") else "open"


def after_block(text: str, start: int) -> int | None:
    """Return the end of the reasoning block that begins before `start`; None if it has no end."""
    for tag in TAG.finditer(text, start):
        meaning = meaning_of(tag)
        if meaning == "close":
            return tag.end()
        if meaning == "final":
            return tag.start()
    return None


def without_silent_analysis(text: str) -> str:
    """Return a harmony answer whose special tokens a server dropped without what stands before its final part."""
    if _SILENT_ANALYSIS.match(text) is None:
        return text
    at = text.rfind(_FINAL)
    return "" if at < 0 else text[at + len(_FINAL) :]


def without_reasoning(text: str) -> str:
    """Return a judge's reply without its reasoning blocks; a closing tag alone ends one that began with the text."""
    text = without_silent_analysis(text)
    kept: list[str] = []
    at = 0
    while (tag := TAG.search(text, at)) is not None:
        meaning = meaning_of(tag)
        if meaning == "open":
            kept.append(text[at : tag.start()])
            end = after_block(text, tag.end())
            if end is None:
                return "".join(kept)
            at = end
            continue
        if meaning == "final" or (meaning == "close" and "details" not in tag[0]):
            kept.clear()
        else:
            kept.append(text[at : tag.end()])
        at = tag.end()
    return "".join([*kept, text[at:]])


# --- Answers of applications ---

_CODE: Final = re.compile(r"```.*?```|`[^`\n]{1,300}`", re.DOTALL)
_TOKENS: Final = re.compile(r"<\|[a-z_]{1,20}\|>(?:assistant(?=<\|))?")
"""Special tokens of harmony, which stand around the final part."""
_BEFORE: Final = frozenset(".!?。！？…>")
"""Characters after which a model may begin to think within a line."""
_OPEN_QUOTES: Final = frozenset("\"'“‘«(")
_AFTER_QUOTED: Final = frozenset("\"'”’»),.;:")


def answer_of(text: str) -> str:
    r"""Return the answer of an application without the reasoning in it.

    A block begins at the start of a line, or right after a sentence; a closing tag alone ends a block that began with
    the text, and so does the final channel of harmony. A block without an end counts if the text begins with it. Tags
    in code, in quotes and in the middle of a sentence are what the text is about.

    >>> answer_of("<think>\nIs it 6?\n</think>\n\nSix months."), answer_of("It is 6, I think.</think>Six months.")
    ('\n\nSix months.', 'Six months.')
    >>> answer_of("Models write <think> and </think> around it.")
    'Models write <think> and </think> around it.'
    """
    if not ("<" in text or "[" in text or "◁" in text or text.lstrip().startswith("analysis")):
        return text
    if _SILENT_ANALYSIS.match(text) is not None and _FINAL in text:
        text = without_silent_analysis(text)
    if TAG.search(text) is None:
        return text
    in_code = [code.span() for code in _CODE.finditer(text)]
    kept: list[str] = []
    first = len(text) - len(text.lstrip())
    at, code, is_harmony, is_endless = 0, 0, False, False
    for tag in TAG.finditer(text):
        start, end, meaning = *tag.span(), meaning_of(tag)
        while code < len(in_code) and in_code[code][1] <= start:
            code += 1
        if start < at or not meaning or (code < len(in_code) and in_code[code][0] < start):
            continue
        is_harmony |= tag[1] is not None
        if meaning == "open":
            if not (tag[1] or _begins_block(text, start, end)):
                continue
            after = None if is_endless else after_block(text, end)
            is_endless |= after is None
            if after is None and tag[1] is None and start > first:
                continue
            kept.append(text[at:start])
            at = len(text) if after is None else after
        elif meaning == "final" or _ends_block(text, start, end):
            kept.clear()
            at = end
    rest = "".join([*kept, text[at:]])
    return _TOKENS.sub("", rest) if is_harmony else rest


def _begins_block(text: str, start: int, end: int) -> bool:
    before = _line_before(text, start)
    return not before or (before[-1] in _BEFORE and not text[end : end + 1].isspace())


def _ends_block(text: str, start: int, end: int) -> bool:
    if text.startswith("</details", start) or text[end : end + 1] in _AFTER_QUOTED:
        return False
    before = _line_before(text, start)
    if text[start - 1 : start].isspace():
        return not before or before[-1] in _BEFORE
    return before[-1:] not in _OPEN_QUOTES


def _line_before(text: str, start: int) -> str:
    return text[max(start - 100, 0) : start].rpartition("\n")[2].rstrip(" \t")


def without_thoughts(interaction: RagInteraction) -> RagInteraction:
    """Return an interaction as it is scored: the reasoning of its model is no part of its answers."""
    changes: dict[str, object] = {}
    if (response := answer_of(interaction.response)) != interaction.response:
        changes["response"] = response.strip()
    turns = interaction.history
    if not turns:
        return interaction.model_copy(update=changes) if changes else interaction
    answers = [answer_of(turn.response) for turn in turns]
    if any(answer != turn.response for answer, turn in zip(answers, turns, strict=True)):
        changes["history"] = tuple(
            turn.model_copy(update={"response": answer}) for answer, turn in zip(answers, turns, strict=True)
        )
    return interaction.model_copy(update=changes) if changes else interaction
