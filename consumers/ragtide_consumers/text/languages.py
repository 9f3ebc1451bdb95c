"""Which language a text is in, as far as the labelers need to know."""

import unicodedata


def is_supported(text: str) -> bool:
    """Return whether most letters of a text are Latin or Cyrillic, as this module's rules assume.

    >>> is_supported("塔建于1889年。")
    False
    """
    letters = [letter for letter in text[:2000] if letter.isalpha()]
    known = sum(unicodedata.name(letter, "").startswith(("LATIN", "CYRILLIC")) for letter in letters)
    return not letters or known >= len(letters) / 2


def language_of(text: str) -> str:
    """Return `ru` if a text has more Cyrillic than Latin letters, else `en`."""
    sample = text[:2000]
    cyrillic = sum("Ѐ" <= letter <= "ӿ" for letter in sample)
    return "ru" if cyrillic > sum("a" <= letter <= "z" for letter in sample.lower()) else "en"
