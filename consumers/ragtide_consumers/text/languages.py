"""Detects the language of a text: English and Russian by cheap evidence, other languages by a bundled model.

The model (py3langid) comes with its package, is deterministic and loads at its first use; nothing is downloaded.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

UNKNOWN: Final = "und"
"""ISO 639-2 code of an undetermined language."""

SAMPLE_CHARS: Final = 400
"""Characters at the beginning of a text that are examined."""

CONFIDENT: Final = 0.8
"""Probability from which the model's result counts more than the language of question and documents."""

_LETTERS = re.compile(r"[^\W\d_]+")
_ASCII_LETTERS: Final = bytes(code if chr(code).isalpha() and code < 128 else ord(" ") for code in range(256))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGLISH = _words(
    "the of and to are were been being by from with for that this these those which who whose when where what how why "
    "it its they their there you your she his her have not or but if as can could would should may might must about "
    "into after before between because than then such only other more does did"
)
"""Frequent English words that are rare in other languages: without `is`, `was`, `in`, which are also Dutch."""

_FOREIGN = _words(
    # German, Dutch; French, Spanish, Italian, Portuguese, Romanian; Swedish, Danish, Norwegian; Polish, Czech, Turkish.
    "der das und ist nicht mit von ein eine einen zu auf für dem des sich im wurde het een van niet zijn voor met op "
    "werd le la les et une dans du que pour pas sur qui est el los las del por con para es como más un se fue il che "
    "di della sono non per gli nel è os um uma não em da dos com foi și este din cu pe och att det som är på av ikke "
    "af til og nie na się jest że je ve bu bir için ile"
)
"""Frequent words of other Latin languages that are no English words."""

_RUSSIAN = _words(
    "что это как был была было были для или также из года году который которая которые если чтобы его она они при "
    "этот эта эти уже нет когда где почему после"
)

_NOT_RUSSIAN = re.compile("[іїєґўјљњћђџѓќѕқңөүұһәғ]")


def language_of(text: str, context: Iterable[str] = ()) -> str:
    """Return the ISO 639-1 code of a text's language, or `und`.

    A text without evidence of its own ("In 1889.", "42") gets the language of the context. If the context has no
    evidence either, the language is English, or Russian if the letters are Cyrillic.

    Args:
        text: the text.
        context: other texts that are probably in the same language, the most reliable first.

    >>> language_of("The tower was built in 1889."), language_of("Башня была построена в 1889 году.")
    ('en', 'ru')
    >>> language_of("Der Turm wurde im Jahr 1889 gebaut.")
    'de'
    """
    words = _letters(text)
    found = _evident(words) or _by_model(text, words)
    if found is not None:
        return found
    for other in context:
        other_words = _letters(other)
        found = _evident(other_words) or _by_model(other, other_words)
        if found is not None and _same_script(words, other_words):
            return found
    return "ru" if _script(words) == "cyrillic" else "en"


def evident_by_words(text: str) -> str | None:
    """Return `en` or `ru` if function words and letters leave no doubt; otherwise None."""
    return _evident(_letters(text))


def evident_language(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, or `und`; None if the text alone does not tell."""
    words = _letters(text)
    return _evident(words) or _by_model(text, words)


def _letters(text: str) -> list[str]:
    """Return the words of letters in the beginning of a text, in lower case."""
    sample = text[:SAMPLE_CHARS].lower()
    # Most text is ASCII: translating and splitting it costs a fifth of matching a pattern.
    return sample.encode().translate(_ASCII_LETTERS).decode().split() if sample.isascii() else _LETTERS.findall(sample)


def _evident(words: list[str]) -> str | None:
    """Return `en` or `ru` if function words and letters leave no doubt; otherwise None."""
    script = _script(words)
    if script == "latin":
        english = sum(map(_ENGLISH.__contains__, words))
        foreign = sum(map(_FOREIGN.__contains__, words))
        enough = english >= 2 and english >= 0.08 * len(words)
        return "en" if enough and english > 2 * foreign else None
    if script == "cyrillic":
        joined = " ".join(words)
        if _NOT_RUSSIAN.search(joined) is None and (
            any(word in _RUSSIAN for word in words) or ("ы" in joined and len(joined) > 20)
        ):
            return "ru"
    return None


def _by_model(text: str, words: list[str]) -> str | None:
    """Return the model's language; None if the text is too short or the model is not confident."""
    script = _script(words)
    if script == "none" or (script != "other" and sum(map(len, words)) < 12):
        return None
    language, probability = _model().classify(text[:SAMPLE_CHARS])
    if script == "other":
        return UNKNOWN if language in {"en", "ru"} else str(language)
    return str(language) if probability >= CONFIDENT else None


def _script(words: list[str]) -> str:
    """Return the script of most letters: `latin`, `cyrillic`, `other`, or `none` without letters."""
    if not words:
        return "none"
    if all(map(str.isascii, words)):
        return "latin"
    letters = sum(map(len, words))
    cyrillic = other = 0
    for word in words:
        if word.isascii() or word[0] < "ʰ" or "Ḁ" <= word[0] <= "ỿ":
            continue
        if "Ѐ" <= word[0] <= "ԯ":
            cyrillic += len(word)
        else:
            other += len(word)
    if other * 2 > letters:
        return "other"
    return "cyrillic" if cyrillic > letters - cyrillic - other else "latin"


def _same_script(words: list[str], others: list[str]) -> bool:
    return "none" in (mine := _script(words), _script(others)) or mine == _script(others)


@lru_cache(maxsize=1)
def _model() -> Any:
    """Return the identifier, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415  # most traffic never needs it

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
