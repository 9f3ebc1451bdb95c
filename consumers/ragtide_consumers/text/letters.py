"""Reads the letters of a text as they were printed: what extraction from PDF files does to them is undone. No I/O.

Texts are compared so, and shown as they are. What a character is for is certain by itself (`plain_letters`,
`mask_letters`). Whether a space or a missing ligature divides a word is certain only if the whole word stands in the
other texts of the interaction (`mended`). All work is linear in the length of the texts.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar
from unicodedata import combining, is_normalized, normalize

from .kept_documents import KeptSentences
from .marks import nothing, signs_of

LOST: Final = "\ufffd"
"""Stands for a ligature that an extractor wrote as a control character."""

_INVISIBLE: Final = re.compile(
    # A soft hyphen, or the sign that stands for one, where a line was joined. At the end of a line it stays a hyphen.
    r"(?<=[^\W\d_])[\u00ad¬][ \xa0]{1,3}(?=[^\W\d_])(?![A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ])"
    r"|[\u00ad\ufffe\uffff](?![ \t\xa0]{0,9}[\n\r])|[\u2060\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    r"|(?<=[A-Za-z\u00c0-\u052f])[\u200b-\u200d](?=[A-Za-z\u00c0-\u052f])"
)
_CONTROL: Final = re.compile(r"(?:(?<=[a-zà-ÿ])|(?<=[a-zà-ÿ] ))[\x00\x0b\x0c\x0e\x0f\x1b-\x1f](?=[a-zà-ÿ])")
"""Where fonts of TeX have the ligatures."""
_GLYPH: Final = re.compile(r"\(cid:\d{1,5}\)")
"""A glyph of which an extractor knows the number alone."""
_ODD: Final = re.compile(
    "[\x00\u00ad\u2060\u200b-\u200f\ufeff\ufffe\uffff\u202a-\u202e\u2066-\u2069¬\x91-\x97\x0b\x0c\x0e\x0f\x1b-\x1f]"
)
_READ: Final = {
    **dict.fromkeys((0, 0x1C, 0x1D, 0x1E, 0x1F), " "),
    **{code: bytes([code]).decode("cp1252") for code in range(0x91, 0x98)},
}
"""What control characters stand for: those that this package needs are blank, others are quotes of Windows-1252."""


def mask_letters(text: str) -> str:
    """Return a text of the same length in which characters that nobody sees are nothing, and others what they mean."""
    if _ODD.search(signs_of(text)):
        text = _INVISIBLE.sub(nothing, _CONTROL.sub(LOST, text).translate(_READ))
    return _GLYPH.sub(lambda match: LOST + nothing(match)[1:], text) if "(cid:" in text else text


_FORMS: Final = re.compile(
    "[\u2e80-\u2fdf\uf900-\ufaff\ufb00-\ufdfb\ufe70-\ufefc\uff01-\uff9f\uffa0-\uffe6\U0001d400-\U0001d7ff]+"
)
"""Forms of letters and digits: ligatures, Arabic forms, full and half width, radicals, letters of formulas."""
_ODD_FORMS: Final = re.compile(f"{_FORMS.pattern}|[¨ˆ˜ˇ˚¸]")


def plain_letters(text: str) -> str:
    """Return a text in which each letter and digit has its usual form; raised numbers and fractions stay.

    >>> plain_letters("ﬁnal, １２, cafe\u0301, f¨ur, m²")
    'final, 12, café, für, m²'
    """
    if has_plain_letters(text):
        return text
    text = _ACCENT.sub(_join_accent, _FORMS.sub(lambda match: normalize("NFKC", match[0]), text))
    return normalize("NFC", text)


_ACCENTS: Final = dict(zip("¨ˆ˜ˇ˚¸", "\u0308\u0302\u0303\u030c\u030a\u0327", strict=True))
_ACCENT: Final = re.compile("(?<![¨ˆ˜ˇ˚¸])(?<![¨ˆ˜ˇ˚¸] )([¨ˆ˜ˇ˚¸]) ?([^\\W\\d_])")
"""An accent apart from the letter after it, as TeX prints it."""


def _join_accent(match: re.Match[str]) -> str:
    whole = normalize("NFC", match[2] + _ACCENTS[match[1]])
    return whole if len(whole) == 1 else match[0]


_APART: Final = {**_ACCENTS, "´": "\u0301", "`": "\u0300", "˝": "\u030b", "˙": "\u0307"}
_APART_OR_COMBINING: Final = "".join(_APART) + "\u0300-\u030c\u0327\u0328"
_HAS_APART: Final = re.compile(f"[{_APART_OR_COMBINING}]")
_TOKEN: Final = re.compile(r"\S+(?: [\u0300-\u030c\u0327\u0328]\S*)*")
_BEFORE_LETTER: Final = re.compile(f" ?([{_APART_OR_COMBINING}])([^\\W\\d_])")
_AFTER_LETTER: Final = re.compile(f"([^\\W\\d_]) ?([{_APART_OR_COMBINING}])")


def _joined(letter: str, accent: str) -> str:
    return normalize("NFC", letter + _APART.get(accent, accent))


@lru_cache(4_096)
def _accented_ways(token: str) -> tuple[str, str]:
    return (
        _BEFORE_LETTER.sub(lambda match: _joined(match[2], match[1]), token),
        _AFTER_LETTER.sub(lambda match: _joined(match[1], match[2]), token),
    )


def has_plain_letters(text: str) -> bool:
    """Return whether `plain_letters` changes nothing."""
    if text.isascii():
        return True
    signs = signs_of(text)
    # A mark that combines with a letter of ASCII is alone among the signs.
    return not (_ODD_FORMS.search(signs) or any(map(combining, frozenset(signs)))) and is_normalized("NFC", signs)


# --- Divided words ---

_Computed = TypeVar("_Computed")
_LIGATURE: Final = re.compile("ffi|ffl|ff|fi|fl")
_ALONE: Final = frozenset({"ffi", "ffl", "ff", "fi", "fl"})
_WORD: Final = re.compile(r"[^\W_]+")
_TRACE: Final = re.compile(r"[\x01-\x08\x0e-\x1a\x7f-\x84\x86-\x90\x98-\x9f\ufffd\ue000-\uf8ff]")
_AS_LETTERS: Final = bytes(
    120 if code >= 0xC0 or (code < 0x80 and chr(code).isalpha()) else code for code in range(256)
)
_WITHIN_CHARACTER: Final = bytes(range(0x80, 0xC0))
"""Make an x of each letter of a text in UTF-8, and of each character beyond ASCII: three alone divide a word."""
_DIVIDER: Final = re.compile(" f[fil]{1,2} ")
_SPACED: Final = re.compile(r"(?<!\w)[^\W\d_](?: [^\W\d_]){3,80}(?!\w)")
_HYPHEN: Final = re.compile(r"(?<!\w)([^\W\d_]{2,30})(?:- |[\x01-\x08\x0e-\x1a] ?)([^\W\d_]{2,30})(?!\w)")
_WITHIN: Final = re.compile(r"f(?<=[^\W\d_f]f)[fil]{1,2}[^\W\d_]")
_LONGEST: Final = 40
_NEAR: Final = 60
"""Characters at each side of a ligature in which its word has a blank."""
_SHORT: Final = 3
_SHORT_TEXT: Final = 60
"""Characters of a text up to which it says nothing that it has no ligature."""
_FEW: Final = 70
"""Words with a ligature up to which a search for the forms of each is faster than to look at each word."""


def mended(
    documents: Sequence[Sequence[str]], response: Sequence[str], question: str
) -> tuple[Sequence[Sequence[str]], Sequence[str]]:
    """Return the sentences of documents and response with the words whole that extraction divided.

    A word is joined only if the whole word stands on the other side: in response and question, or in the documents.

    - An accent that stands beside its letter (`caf´e`, `cafe´`) is on it then.
    - A ligature that stands alone (`veri fi ed`), a hyphen before a space (`veri- fied`) and a word of single letters
      (`p u m p`) are joined then.
    - A word in two parts (`con figuration`) is joined if no part is a word of the other side, a second word of its text
      is divided, too, and all ligatures of the text begin a word, or all end one. So `in finite` is not `infinite`.
    - A ligature that is lost (`veri ed`, `veried`) is put back if a character stands for it that is no letter; else if
      its text has no ligature at all, and two words miss theirs (three if no space is left: `ash` may be `flash`).
    """
    known = _KnownWords([response, [question]])
    return [known.mended(document) for document in documents], _KnownWords(documents).mended(response)


class _DividedWord(NamedTuple):
    start: int
    end: int
    whole: str
    is_lost: bool
    """Whether its ligature is lost."""
    is_alone: bool
    """Whether its ligature stands alone."""
    is_known: bool
    """Whether a part of it is a word of the other side."""


class _KnownWords:
    """The words by which divided words of other texts are known: those of some texts, given as sentences."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._texts = texts

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(" ".join([sentence for text in self._texts for sentence in text]).lower()))

    @cached_property
    def _forms(self) -> Mapping[str, str]:
        return {form: word for word in sorted(self._words_with_ligature) for form in _broken(word)[1]}

    @cached_property
    def _words_with_ligature(self) -> frozenset[str]:
        return frozenset().union(*[_compute_once(text, "ligatures", _ligatures) for text in self._texts])

    def mended(self, text: Sequence[str]) -> Sequence[str]:
        traits = _compute_once(text, "traits", _traits)
        if not traits:
            return text
        if "accents" in traits:
            apart = "\n".join(text)
            text = text if (whole := _TOKEN.sub(self._join_accents, apart)) == apart else whole.split("\n")
        is_suspect = "suspect" in traits
        if not (is_suspect or ("apart" in traits and len(self._words_with_ligature) > 1)):
            return text
        joined = whole = "\n".join(text)
        if is_suspect:
            joined = _SPACED.sub(self._join_letters, _HYPHEN.sub(self._join_at_hyphen, whole))
        elif not self._may_stand_in(whole.lower()):
            return text
        if self._forms:
            joined = self._restore_ligatures(joined)
        sentences = joined.split("\n")
        return sentences if joined != whole and len(sentences) == len(text) else text

    def _join_at_hyphen(self, match: re.Match[str]) -> str:
        joined = match[1] + match[2]
        return joined if joined.lower() in self._words else match[0]

    def _join_accents(self, match: re.Match[str]) -> str:
        token = match[0]
        if len(token) > _LONGEST or not _HAS_APART.search(token):
            return token
        for whole in _accented_ways(token):
            if whole != token and self._words.issuperset(_WORD.findall(whole.lower())):
                return whole
        return token

    def _join_letters(self, match: re.Match[str]) -> str:
        letters, words, at = match[0].replace(" ", ""), [], 0
        low = letters.lower()
        while at < len(low):
            ends = range(min(len(low), at + _LONGEST), at + 1, -1)
            end = next((end for end in ends if low[at:end] in self._words), 0)
            if not end:
                return match[0]
            words.append(letters[at:end])
            at = end
        return " ".join(words)

    def _may_stand_in(self, low: str) -> bool:
        words = self._words_with_ligature
        if len(words) > _FEW:
            return True
        n_words = 0
        for word in words:
            part, forms = _broken(word)
            if part in low and any(form in low for form in forms if len(form) > _SHORT):
                n_words += 1
                if n_words > 1:
                    return True
        return False

    @cached_property
    def _begins(self) -> frozenset[str]:
        return frozenset([form.partition(" ")[0] for form in self._forms])

    def _restore_ligatures(self, text: str) -> str:
        divided = list(self._divided_words(text))
        if not divided:
            return text
        lost = {word.whole for word in divided if word.is_lost and word.end - word.start > 2}
        has_gap = any(" " in text[word.start : word.end] for word in divided if word.is_lost)
        is_sure = not _LIGATURE.search(text.lower()) and len(lost) >= (2 if has_gap else 3)
        is_apart = len({word.whole for word in divided if not word.is_lost}) > 1 and _is_one_sided(text.lower())
        pieces, at = [], 0
        for start, end, whole, is_lost, is_alone, is_known in divided:
            before = start - (_TRACE.match(text, max(start - 1, 0), start) is not None)
            is_joined = is_alone or (is_apart and not is_known)
            if is_sure or _TRACE.search(text, before, end) is not None if is_lost else is_joined:
                first = whole[0].upper() if text[start].isupper() else whole[0]
                pieces += [text[at:before], first, whole[1:]]
                at = end
        return "".join([*pieces, text[at:]])

    def _divided_words(self, text: str) -> Iterator[_DividedWord]:
        words = list(_WORD.finditer(text))
        number = 0
        while number < len(words):
            if words[number][0].lower() not in self._begins:
                number += 1
                continue
            for count in (3, 2, 1):
                run = words[number : number + count]
                parts = [match[0].lower() for match in run]
                whole = self._forms.get(" ".join(parts)) if len(run) == count else None
                if whole is None or all(part in self._words for part in parts):
                    continue
                start, end = run[0].start(), run[-1].end()
                if end - start > len(whole) + 4 or "\n" in text[start:end]:
                    continue
                is_lost = sum(map(len, parts)) < len(whole)
                is_known = any(part in self._words for part in parts)
                yield _DividedWord(start, end, whole, is_lost, not _ALONE.isdisjoint(parts), is_known)
                number += count - 1
                break
            number += 1


def _compute_once(text: Sequence[str], name: str, compute: Callable[[str], _Computed]) -> _Computed:
    if not isinstance(text, KeptSentences):
        return compute("\n".join(text).lower())
    if name not in text.computed:
        text.computed[name] = compute("\n".join(text).lower())
    computed: _Computed = text.computed[name]
    return computed


def _is_beside_letter(low: str) -> bool:
    return any(
        low[match.end() : match.end() + 1].isalpha()
        or low[match.start() - 1 : match.start()].isalpha()
        or match[0] > "\u02ff"
        for match in _HAS_APART.finditer(low)
    )


def _traits(low: str) -> frozenset[str]:
    signs = signs_of(low)
    traits = []
    if signs and _HAS_APART.search(signs) and _is_beside_letter(low):
        traits.append("accents")
    padded = f" {low} "
    encoded = padded.encode("utf-8", "surrogatepass")
    letters = encoded.translate(_AS_LETTERS, b"" if len(encoded) == len(padded) else _WITHIN_CHARACTER)
    may_divide = " fi " in padded or " fl " in padded or " ff" in padded
    if b" x x x " in letters or b"x- x" in letters or (may_divide and _DIVIDER.search(padded)) or _TRACE.search(signs):
        traits.append("suspect")
    if _is_apart(low):
        traits.append("apart")
    return frozenset(traits)


def _is_apart(low: str) -> bool:
    if _WITHIN.search(low):
        return False
    return (len(low) > _SHORT_TEXT and not _LIGATURE.search(low)) or _is_one_sided(low)


def _ligatures(low: str) -> frozenset[str]:
    tokens = set()
    for match in _LIGATURE.finditer(low):
        place = match.start()
        start, end = low.rfind(" ", max(place - _NEAR, 0), place), low.find(" ", place, place + _NEAR)
        if (start < 0 and place > _NEAR) or (end < 0 and place + _NEAR < len(low)):
            tokens = {low}  # a text without blanks
            break
        tokens.add(low[start + 1 : end if end >= 0 else len(low)])
    words = _WORD.findall(" ".join(tokens))
    return frozenset([word for word in words if "f" in word and len(word) <= _LONGEST and _LIGATURE.search(word)])


def _is_one_sided(low: str) -> bool:
    places = [match.span() for match in _LIGATURE.finditer(low)]
    return len(places) > 2 and (
        not any(low[start - 1 : start].isalpha() for start, _ in places)
        or not any(low[end : end + 1].isalpha() for _, end in places)
    )


@lru_cache(4_096)
def _broken(word: str) -> tuple[str, Sequence[str]]:
    places = [match.span() for match in _LIGATURE.finditer(word)]
    forms = []
    for before, kept, after in ((" ", True, " "), (" ", True, ""), ("", True, " "), (" ", False, ""), ("", False, "")):
        for some in [places, *([place] for place in places[1:] and places)]:
            at, form = 0, ""
            for start, end in some:
                form += word[at:start] + before + (word[start:end] if kept else "") + after
                at = end
            forms.append(" ".join((form + word[at:]).split()))
    part = max(_LIGATURE.split(word), key=len)
    return part, [form for form in dict.fromkeys(forms) if form and form != word]
