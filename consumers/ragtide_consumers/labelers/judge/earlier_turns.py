"""The earlier turns of a conversation in a prompt: the last turns, bounded in characters."""

from typing import Final

from ragtide_schemas import RagInteraction

TEXT_CHARS: Final = 1_500
"""Characters of one question or response; the middle of a longer text is left out."""

TURNS_CHARS: Final = 8_000
"""Characters of all turns together; older turns are left out."""

OMITTED: Final = " [...] "
"""Mark in place of the middle of a text."""

KeyedTexts = tuple[tuple[str, str], ...]
"""Pairs of key and text: `T1Q` and `T1R` are question and response of the first turn."""


def earlier_turns(interaction: RagInteraction) -> KeyedTexts:
    """Return the last earlier turns of an interaction for a prompt, oldest first; empty without a history."""
    shown: list[tuple[str, str]] = []
    left = TURNS_CHARS
    for turn in reversed(interaction.history or ()):
        texts = _shortened(turn.question), _shortened(turn.response)
        left -= sum(map(len, texts))
        if left < 0:
            break
        shown.insert(0, texts)
    return tuple(
        (f"T{number}{letter}", text)
        for number, texts in enumerate(shown, start=1)
        for letter, text in zip("QR", texts, strict=True)
    )


def _shortened(text: str) -> str:
    """Return a text, or its beginning and its end: a prompt with documents has its question at the end."""
    if len(text) <= TEXT_CHARS:
        return text
    half = (TEXT_CHARS - len(OMITTED)) // 2
    return text[:half] + OMITTED + text[-half:]
