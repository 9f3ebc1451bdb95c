"""Detects the language of a text: by function words and letters where they leave no doubt, else by a bundled model.

The model (`language_model.py`) is deterministic and loads at its first use; nothing is downloaded.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

UNKNOWN: Final = "und"
"""ISO 639-2 code of an undetermined language."""

SAMPLE_CHARS: Final = 400
"""Characters at the beginning of a text that are examined."""

CONFIDENT: Final = 0.8
"""Probability from which the model's result counts more than the language of question and documents."""

LONG_LETTERS: Final = 40
"""Letters from which a text without evidence of English is undetermined; a shorter one may be a name."""

SURE_CHINESE: Final = 8
"""Chinese letters that are a sentence; fewer may be a Japanese word."""

_LETTERS = re.compile(r"[^\W\d_]+")
_DEVANAGARI: Final = re.compile(r"[\u0900-\u0963]+")
"""A word with its vowel signs, which Python does not count as letters."""
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

_OWN_WORDS: Final = {
    word: language
    for language, words in {
        "de": (
            "und von eine für auf ist dass wurde sich einer sie aus oder sind nicht einem auch über einen "
            "während zur wird zum durch"
        ),
        "es": (
            "y los las fue también pero más está hay puede después cuando mientras otros según además desde hasta sobre"
        ),
        "fr": ("une dans pour avec sont elle aux comme cette été leur après ont ainsi était ces ils où est les des"),
        "id": "setelah karena kemudian digunakan namun yaitu bahwa terdiri sangat melakukan sedangkan antara",
        "it": (
            "è della nel sono più gli delle anche nella stati dal hanno loro essere degli dalla questo dopo sulla dell"
        ),
        "no": "ble å etter seg hadde mellom blitt enn vært siden noen noe mye tilbake uten slik",
        "pl": (
            "się roku przez że oraz został tym jego który dla jednak także również tego podczas była przed są "
            "były gdzie"
        ),
        "pt": "em uma não com são à pelo pela também mas isso seu sua até como muito foi às ao",
        "ro": ("în care pentru să fost că iar prin după astfel între unei unui până acestea cea poate toate este din"),
        "sv": ("och att för är från inte genom också detta än många hade när över finns där första deras även dess"),
        "tr": ("bir olarak için bu daha olan tarafından veya ancak gibi sonra çok diğer olduğu ayrıca göre ve ile"),
        "ar": "في على إلى التي الذي هذا هذه كان كانت عن بين لم قد أو كما ذلك حيث أن",
        "fa": "است این را برای می شد بود شده های کرد شود دارد یک خود",
        "hi": "है हैं में के और से था थे थी यह लिए गया किया होता",
        "vi": "và của các trong được có một đã với người cho không những để này về khi đó như là",
    }.items()
    for word in words.split()
}
"""The language of frequent words that few other languages have."""

_OWN_SCRIPTS: Final = (
    ("ja", re.compile(r"[\u3041-\u30fa]")),
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("th", re.compile(r"[\u0e01-\u0e4e]")),
    ("el", re.compile(r"[\u03b1-\u03ce]")),
    ("he", re.compile(r"[\u05d0-\u05ea]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
)
"""Letters that a single language has. Japanese stands before Chinese, because it has the Chinese letters, too."""

_VARIANTS: Final = {"wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar", "nn": "no", "ext": "es", "uzs": "fa"}
"""Languages of the model that are mostly written like another one, and that one."""

_CLOSE: Final = (("id", "ms"), ("no", "da"), ("es", "gl", "an"), ("pt", "gl"))
"""Languages with many words in common. If the model is sure only that it is one of them, it is the first."""

_RANKED: Final = frozenset({*_VARIANTS, *_VARIANTS.values(), *(language for close in _CLOSE for language in close)})

_RUSSIAN = _words(
    "что это как был была было были для или также из года году который которая которые если чтобы его она они при "
    "этот эта эти уже нет когда где почему после"
)

_NOT_RUSSIAN = re.compile("[іїєґўјљњћђџѓќѕқңөүұһәғ]")
_BULGARIAN = _words("че са във със това които който която което също бъде към след чрез има се")


def language_of(text: str, context: Iterable[str] = ()) -> str:
    """Return the ISO 639-1 code of a text's language, or `und`.

    A text without evidence of its own ("In 1889.", "42") gets the language of the context. If the context has no
    evidence either, the language of a short text is English, or Russian if the letters are Cyrillic, and that of a
    longer one is undetermined.

    Args:
        text: the text.
        context: other texts that are probably in the same language, the most reliable first.

    >>> language_of("The tower was built in 1889."), language_of("Башня была построена в 1889 году.")
    ('en', 'ru')
    >>> language_of("Der Turm wurde im Jahr 1889 gebaut.")
    'de'
    """
    words = _letters(text)
    language = _evident(words) or _language_by_model(text, words)
    if language is not None:
        return language
    script = _script(words)
    for other in context:
        other_words = _letters(other)
        language = _evident(other_words) or _language_by_model(other, other_words)
        scripts = {script, _script(other_words)}
        if language is not None and ("none" in scripts or len(scripts) == 1):
            return language
    if script == "latin" and sum(map(len, words)) >= LONG_LETTERS and sum(map(_ENGLISH.__contains__, words)) < 2:
        return "en" if _ranked(text)[0][0] == "en" else UNKNOWN
    return _OF_SCRIPT.get(script, UNKNOWN)


_OF_SCRIPT: Final = {"none": "en", "latin": "en", "cyrillic": "ru"}
"""By script, the language of a short text without other evidence."""


def evident_by_words(text: str) -> str | None:
    """Return the language of a text if function words and letters leave no doubt; otherwise None."""
    return _evident(_letters(text))


def evident_language(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, or `und`; None if the text alone does not show it."""
    words = _letters(text)
    return _evident(words) or _language_by_model(text, words)


def _letters(text: str) -> list[str]:
    sample = text[:SAMPLE_CHARS].lower()
    # Most text is ASCII: translating and splitting it costs a fifth of matching a pattern.
    if sample.isascii():
        return sample.encode().translate(_ASCII_LETTERS).decode().split()
    words = _LETTERS.findall(sample)
    return _DEVANAGARI.findall(sample) if words and "\u0900" <= words[0][0] <= "\u097f" else words


def _evident(words: list[str]) -> str | None:
    """Return the language of words if function words and letters leave no doubt; otherwise None."""
    script = _script(words)
    if script == "latin":
        english = sum(map(_ENGLISH.__contains__, words))
        foreign = sum(map(_FOREIGN.__contains__, words))
        enough = english >= 2 and english >= 0.08 * len(words)
        return "en" if enough and english > 2 * foreign else _language_by_words(words, english)
    if script == "cyrillic":
        joined = " ".join(words)
        if (
            _NOT_RUSSIAN.search(joined) is None
            and _BULGARIAN.isdisjoint(words)
            and (any(word in _RUSSIAN for word in words) or ("ы" in joined and len(joined) > 20))
        ):
            return "ru"
    return (_language_by_script(words) or _language_by_words(words, 0)) if script == "other" else None


def _language_by_words(words: list[str], english: int) -> str | None:
    languages = [*filter(None, map(_OWN_WORDS.get, words))]
    if len(languages) < 3:
        return None
    counts = Counter(languages)
    counts["en"] = english
    (language, most), *others = counts.most_common(2)
    enough = most >= 3 and most >= 0.08 * len(words) and language != "en"
    return language if enough and all(3 * count <= most for _, count in others) else None


def _language_by_script(words: list[str]) -> str | None:
    joined = "".join(words)
    for language, letter in _OWN_SCRIPTS:
        count = len(letter.findall(joined))
        # Japanese has letters of its own among the Chinese ones, which alone may be either in a short text.
        if language == "zh":
            return "zh" if count > len(joined) // 2 and count >= SURE_CHINESE else None
        if count > len(joined) // (10 if language == "ja" else 2):
            return language
    return None


def _language_by_model(text: str, words: list[str]) -> str | None:
    script = _script(words)
    if script == "none" or (script != "other" and sum(map(len, words)) < 12):
        return None
    ranked = _ranked(text)
    language, probability = ranked[0]
    if language in {"ja", "zh"} and sum(map(len, words)) < SURE_CHINESE:
        return None
    if probability >= CONFIDENT:
        return UNKNOWN if script == "other" and language in {"en", "ru"} else language
    for close in _CLOSE:
        if language in close and sum(share for other, share in ranked if other in close) >= CONFIDENT:
            return close[0]
    return None


def _ranked(text: str) -> list[tuple[str, float]]:
    # Only texts without evidence of their own need the model, and NumPy with it.
    from .language_model import shipped_model  # noqa: PLC0415

    sample = text[:SAMPLE_CHARS]
    language, probability = shipped_model().most_probable(sample)
    # Ranking takes as long again, and matters for a language that shares its probability with others.
    if probability >= CONFIDENT or language not in _RANKED:
        return [(_VARIANTS.get(language, language), probability)]
    by_variant = shipped_model().shares(sample)
    shares: dict[str, float] = {}
    for variant in sorted(by_variant, key=by_variant.__getitem__, reverse=True):
        language = _VARIANTS.get(variant, variant)
        shares[language] = shares.get(language, 0.0) + by_variant[variant]
    return sorted(shares.items(), key=lambda share: (-share[1], share[0]))


def _script(words: list[str]) -> str:
    if not words:
        return "none"
    if "".join(words).isascii():
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
