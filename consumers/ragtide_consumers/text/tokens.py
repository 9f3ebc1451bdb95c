"""Estimates the number of tokens of a text. No I/O."""

from math import ceil


def estimated_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, rather too high than too low, because no tokenizer fits all models.

    A token has four characters of Latin text, two of Cyrillic, and one of most other scripts.

    >>> estimated_tokens("four"), estimated_tokens("четыре"), estimated_tokens("塔建")
    (2, 4, 3)
    """
    ascii_chars = len(text.encode("ascii", "ignore"))
    wide = sum(letter > "\u2e7f" for letter in text) if ascii_chars < len(text) else 0
    return ceil(ascii_chars / 4 + (len(text) - ascii_chars - wide) / 2 + wide) + 1
