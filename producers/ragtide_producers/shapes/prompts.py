"""The documents in the text of a prompt: without the instructions before them and the question after them."""

import re
from typing import Final

_NAMES: Final = r"(?:context|contexts|documents?|sources?|passages?|references?|excerpts?|snippets?|chunks?|knowledge)"
_HEADING: Final = re.compile(rf"[^:\n]{{0,200}}\b{_NAMES}\b[^:\n]{{0,80}}:[ *]*", re.IGNORECASE)
"""A line such as `Answer by these documents:`."""
_LABEL: Final = re.compile(rf"[\W_]{{0,4}}(?:\w{{1,20}} )?{_NAMES}[ *]{{0,3}}:[ *]*(?=\S)", re.IGNORECASE)
"""The beginning of a line such as `Context: The tower was built in 1889.`"""
_OPENING: Final = re.compile(rf"<({_NAMES})>", re.IGNORECASE)
_ANSWER: Final = re.compile(r"[\W_]{0,4}(?:\w{1,20} )?(?:answer|response|assistant)[ *]{0,3}:[ *]*", re.IGNORECASE)
"""A line such as `Answer:`, after which the model writes."""
LABEL_CHARS: Final = 40
"""Most characters of the label before a question."""
HEAD_CHARS: Final = 2_000
"""Characters in which the instructions before the documents end; a heading after them is a part of a document."""


def context_in(prompt: str, question: str | None, n_documents: int) -> str | None:
    r"""Return the part of a prompt that has the documents; None if nothing marks it.

    A heading, tags or a line with the question show that there are documents; so does the right number of paragraphs.

    >>> context_in("Answer by these documents:\nIt was built in 1889.\n\nQuestion: When?", "When?", 1)
    'It was built in 1889.'
    >>> context_in("You are a helpful assistant.", "When?", 1)

    Args:
        prompt: text of the user or of the system.
        question: the question of the interaction; the lines that only repeat it are left out.
        n_documents: number of the documents.
    """
    opening = _OPENING.search(prompt)
    closing = -1 if opening is None else prompt.rfind(f"</{opening[1]}>")
    if opening is not None and closing > opening.end() and (tagged := prompt[opening.end() : closing].strip()):
        return tagged
    lines = prompt.strip().split("\n")
    others = [line for line in lines if not _repeats(line, question)]
    kept = _after_heading(others)
    is_marked = len(kept) < len(lines) or kept != others
    while kept and (not kept[-1].strip() or _ANSWER.fullmatch(kept[-1].strip())):
        kept.pop()
    context = "\n".join(kept).strip()
    fits = n_documents > 1 and parts_of(context, n_documents) is not None
    return context or None if is_marked or fits else None


def marks_context(prompt: str) -> bool:
    r"""Return whether a heading or tags in a prompt say where the documents are, also if there are none.

    >>> marks_context("Answer by these documents:\n\nQuestion: When?"), marks_context("Be brief. When?")
    (True, False)
    """
    lines = prompt.strip().split("\n")
    return _OPENING.search(prompt) is not None or _after_heading(lines) is not lines


def context_after_instructions(prompt: str, n_documents: int) -> str | None:
    r"""Return the paragraphs after the first if they are as many as the documents: the first has the instructions.

    >>> context_after_instructions("Answer by the passages.\n\nIt was built in 1889.\n\nIt stands in Paris.", 2)
    'It was built in 1889.\n\nIt stands in Paris.'
    """
    paragraphs = [part.strip() for part in prompt.split("\n\n") if part.strip()]
    return "\n\n".join(paragraphs[1:]) if len(paragraphs) == n_documents + 1 > 1 else None


def parts_of(text: str, number: int) -> list[str] | None:
    """Return the paragraphs or else the lines of a text if there are so many, else None."""
    for separator in ("\n\n", "\n"):
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if len(parts) == number:
            return parts
    return None


def _repeats(line: str, question: str | None) -> bool:
    words = (question or "").strip()
    text = line.strip()
    if not words or not text.endswith(words):
        return False
    label = text.removesuffix(words).rstrip("* ")
    return not label or (len(label) <= LABEL_CHARS and label.endswith(":"))


def _after_heading(lines: list[str]) -> list[str]:
    seen = 0
    for number, line in enumerate(lines):
        if seen > HEAD_CHARS:
            break
        if _HEADING.fullmatch(line.strip()):
            return lines[number + 1 :]
        label = _LABEL.match(line)
        if label:
            return [line[label.end() :], *lines[number + 1 :]]
        seen += len(line) + 1
    return lines
