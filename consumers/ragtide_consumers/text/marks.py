"""Finds the marks of sources in a text by their shape: `[1]`, `[Data: Sources (1, 5)]`, `##0$$`, `【4:0†source】`.

They are found in answers and documents alike, before sentences are cut, and are no part of what is compared or asked.
No I/O; all work is linear in the length of the text.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

NOTHING: Final = "\x00"
"""Stands for a character that is no text: the characters around it are neighbors."""


_ORDINARY: Final = bytes(code for code in range(128) if chr(code).isalnum() or chr(code) in " .,;:!?'\"-/%+=>)]}")
"""ASCII characters that neither begin a mark nor form a text."""


def signs_of(text: str) -> str:
    """Return the characters of a text that are no ordinary ones of ASCII, in order: few, so searches in them are cheap.

    >>> signs_of("Built in 1889 (it is “tall”)."), signs_of("No.")
    ('(“”', '')
    """
    return text.encode("utf-8", "surrogatepass").translate(None, _ORDINARY).decode("utf-8", "surrogatepass")


def set_of(words: str) -> frozenset[str]:
    """Return the words of a list that is written as a text."""
    return frozenset(words.split())


def nothing(match: re.Match[str]) -> str:
    """Return a replacement of a match that is no text; its line ends stay."""
    text = match[0]
    return (
        NOTHING * len(text)
        if "\n" not in text
        else "".join(character if character == "\n" else NOTHING for character in text)
    )


def readable(text: str) -> str:
    """Return a text without the marks of sources, as a judge reads it."""
    match = without_marks(text)
    return text if match is text else match.replace(NOTHING, "")


_SOURCE: Final = (
    r"(?:sources?|src|docs?|documents?|refs?|references?|chunks?|passages?|contexts?|citations?|cite[sd]?|"
    r"results?|pages?|pp?|notes?|footnotes?|fn|ids?|idx|index|snippets?|excerpts?|evidence|nodes?|kb|"
    r"источник(?:и|у|а)?|документ(?:ы|а)?|ссылк[аи]|стр|страниц[аы]|фрагмент|сноска|см|cf|vgl|ср|"
    r"quellen?|siehe|dokumente?|seiten?|fußnote|abschnitt|fuentes?|página|referencia|fonte|fonti|voir|see|źródło|"
    r"kaynak|kilde|källa|sumber|nguồn|πηγή|מקור|المصدر|مصدر|منبع|स्रोत|"
    r"来源|來源|资料|資料|文档|文檔|文献|文獻|参考|參考|引用|出典|出所|参照|注|脚注|출처|문서|참고)"
)
"""Words for a source. They are needed only where the shape alone does not tell a mark from content."""
WORD_OF_SOURCE: Final = re.compile(_SOURCE, re.IGNORECASE)

EXTENSION: Final = r"\.(?:pdf|docx?|odt|rtf|txt|md|rst|html?|csv|tsv|xlsx?|pptx?|epub|jsonl?|xml|ya?ml)"
FILE: Final = rf"[\w./\\%+-]{{0,120}}{EXTENSION}"

CIRCLED: Final = "①-⓿❶-➓"
_PRIVATE: Final = "\ue000-\uf8ff"
_SUPERSCRIPT: Final = "¹²³⁰⁴-⁹"
_TARGET: Final = r"(?:\([^()\s]{1,2000}\)|\{[\w =\"]{1,40}\})?"
_CANDIDATES: Final = re.compile(
    # Code and formulas, in which no mark is looked for. Each alternative begins with a character, for speed.
    r"`(?P<code>``.*?```|[^`\n]{1,300}`)|\$(?P<formula>(?!\^[{\[\d])(?<![\w$]\$)(?![\s$])[^$\n]{1,200}(?<!\s)\$(?![\d$]))"
    r"|\$(?P<raised>\^\{?\[?\d[\d, –-]{0,12}\]?\}?\$)|\^(?P<caret>\[?\d[\d, –-]{0,12}\]?\^)"
    # [1], [[1]](address), [^note], [oaicite:0]{index=0}
    rf"|\[(?P<square>(?:\\?\[)?(?P<in_square>[^\[\]\n]{{1,300}})\]{{1,2}}){_TARGET}"
    r"|\{(?P<brace>\{?(?P<in_brace>[^{}\n]{1,100})\}{1,2})"
    r"|\((?P<round>(?P<in_round>(?=[^)])[^()\n]{0,100}(?:\([^()\n]{1,100}\)[^()\n]{0,100}){0,8})\))"
    # <ref>1</ref>, <sup>[2]</sup>, <cite id="3"/>
    r"|<(?P<tag>(?P<name>[a-zA-Z]{1,20})(?P<attributes>[ :=][^<>\n]{0,200})?"
    r"(?:/>|>(?:(?P<in_tag>[^<>\n]{0,200})</(?P=name)>)?))"
    r"|<(?P<angle>(?P<in_angle>[\w:|. -]{1,40})>)"
    r"|\\(?P<command>[a-zA-Z]{0,12}(?:cite|ref)[a-zA-Z]{0,10}\*?(?:\[[^\[\]\n]{0,100}\]){0,2}\{[^{}\n]{1,200}\})"
    # ##0$$, @@1@@
    r"|#(?P<hashes>#{1,3}(?P<in_hashes>[\w:,; -]{1,40})[#$%@&]{2,4})"
    r"|@(?P<ats>@{1,3}(?P<in_ats>[\w:,; -]{1,40})[#$%@&]{2,4})",
    re.DOTALL,
)
_WIDE: Final = re.compile(
    rf"(?P<wide>[【［〔〖⟦⟨⟪〈⁅（](?P<in_wide>[^【】［］〔〕〖〗⟦⟧⟨⟩⟪⟫〈〉⁅⁆（）\n]{{1,300}})[】］〕〗⟧⟩⟫〉⁆）]){_TARGET}"
    rf"|(?P<private>[{_PRIVATE}](?:[\w:.,|-]{{0,60}}[{_PRIVATE}]){{1,20}})"
    rf"|(?P<superscript>⁽?[{_SUPERSCRIPT}]{{1,4}}(?:[⁻⁽⁾˒,][{_SUPERSCRIPT}]{{1,4}}){{0,5}}⁾?)|(?P<dagger>[†‡]+)"
    rf"|(?P<circled>[{CIRCLED}]+(?: [{CIRCLED}]+){{0,11}})"
)
"""Candidates that begin outside ASCII."""
_MAY_BEGIN: Final = re.compile(r"[\[({<\\^]|##|@@")
_MAY_BEGIN_WIDE: Final = re.compile(rf"[【［〔〖⟦⟨⟪〈⁅（{_PRIVATE}{_SUPERSCRIPT}⁽†‡{CIRCLED}]")
_BARE_KEYS: Final = re.compile(
    r"(?<!\w)(?P<bare>(?:cite ?)?(?P<turn>[a-z]{4})\d{1,3}[a-z]{4,12}\d{1,3}"
    r"(?P<more>(?: ?(?P=turn)\d{1,3}[a-z]{4,12}\d{1,3}){0,11}))(?!\w)"
)
"""Keys that lost their private characters on the way: `citeturn0search1`, `turn0search1turn0news2`."""
_AS_BARE_KEYS: Final = bytes(97 if 97 <= code <= 122 else 48 if 48 <= code <= 57 else code for code in range(256))
"""Make an a of each small letter and a 0 of each digit, so that one search tells whether there may be such a key."""
_PREFIX: Final = re.compile(r"(?::[a-zA-Z]{1,30}|[\^\\])\Z")
"""What may stand before a square bracket: `^[2]`, `:word[oaicite:0]{index=0}`."""

_PIECE: Final = re.compile(r"-?@[\w:.#&+?<>~/-]+|\w[\w\u0591-\u06ed\u0900-\u0e7f.@†‡:#\\/–-]*|\S")
_NUMBER: Final = re.compile(r"\d{1,6}[a-z]?(?:[:–-]L?\d{1,6}[a-z]?){0,3}(?:[†‡].*)?", re.IGNORECASE)
_SECTION: Final = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,4}")
_HASH: Final = re.compile(r"[0-9a-f-]{8,64}", re.IGNORECASE)
_GLUED: Final = re.compile(r"([^\W\d_]{1,30})([_:.#-]{0,2})([\w.:#†‡–-]*)")
_TURN: Final = re.compile(r"\d{1,6}[a-z]{1,20}\d{1,6}")
_DATE: Final = re.compile(r"\d{1,4}[-–]\d{1,2}[-–]\d{1,4}|(?:1\d|20)\d\d(?:[-–](?:1\d|20)?\d\d)?")
_KEY: Final = re.compile("(?:cite|citation|ref)_[a-z]{1,20}", re.IGNORECASE)
_NOTE: Final = re.compile("[a-z]|[ivx]{2,4}")
_AND: Final = set_of("and und et y e i og och en ve dan và και и и і および 和 및 與 与")
_PUNCTUATION: Final = frozenset(",;:()[]{}#№§@^|&–—-.~_/")
_TAGS: Final = re.compile(
    "refs?|references?|cite[sd]?|citations?|sources?|src|docs?|documents?|chunks?|passages?|footnotes?|fn|co|sup",
    re.IGNORECASE,
)
_STOPS: Final = frozenset(".!?。！？…؟।")
_BLANK: Final = " \t\xa0\u202f\u200b\u2060\x00"
_BARE: Final = re.compile(r"[A-Za-z]?\d{1,6}(?: ?[,;–-] ?[A-Za-z]?\d{1,6}){0,30}")
_SECTIONS: Final = re.compile(r"[#§]? ?\d{1,2}(?:\.\d{1,2}){0,2}(?: ?[,;–-] ?[#§]?\d{1,2}(?:\.\d{1,2}){0,2}){0,9}")
_ENDS_WORD: Final = re.compile(r"(?:\]|[^\W\d_]{4}|[\u0900-\u109f\u3040-\ud7ff])\Z")
"""The end of another mark, or of a word to which no number belongs: a long one, or one of a language from India to
Japan, where such words stand behind their number."""
_NUMBERS_BEFORE: Final = re.compile(r"(?:[ \xa0]?\([#\d.,;– -]{1,12}\)){1,4}[ \xa0]?\Z")
"""Marks in a row before one in round brackets."""
_ENDS: Final = {*_STOPS, *",;[\n\r", ""}
_OPERATORS: Final = ("=", "≠", "≈", "≤", "≥", "∈", "∉", "⊂", "⊆", "∪", "∩", "×", "÷", "→", " +")
_ARTICLES: Final = set_of(
    "the a an der die das den dem des ein eine einem einen einer le la les un une el los las il lo gli"
)
_NEED_NUMBER: Final = _ARTICLES | set_of("is are was were equals ist sind war est sont es son è sono")
_COUNTED: Final = set_of(
    "chapter section sec figure fig table step part track version level volume line row column room item number no "
    "equation eq theorem lemma rule article appendix phase stage button option question exercise platform gate kapitel "
    "schritt teil tabelle abbildung nummer nr chapitre étape tableau capítulo paso figura tabla глава главе главы "
    "главу раздел раздела разделе шаг рисунок рисунке таблица таблице таблицы таблицу часть части номер"
)
"""Nouns that need a number: `in Chapter [2]`; after an article they need none."""
_ABBREVIATED: Final = set_of("no nr fig sec eq")
_OF_NUMBERS: Final = set_of(
    "vector vectors array arrays list lists interval range ranges matrix tuple set sets value values"
)
"""Nouns that need several, also after an article."""


@lru_cache(4_096)
def is_mark(inside: str, *, labeled: bool = False, files: bool = False) -> bool:
    """Return whether what stands in brackets marks a source: it has no word but labels of numbers and ids.

    A label is a word for a source, or any word with a colon or a bracket before its numbers: `Data: Sources (1, 5)`. An
    id is a number, a key (`@smith2020`, `^a`), or a label and a number in one (`doc-3`, `chunk_3`, `turn0search3`). So
    these are content: words (`the pump must be off`, `sic`), quantities (`5 km`, `30%`, `3.14`, `5 to 10`), years and
    dates alone (`1989`), names with numbers (`GPT-4`, `CO2`, `Windows 10`), quotes and operators (`"a": 1`, `x = 3`).

    Args:
        inside: the text between the brackets.
        labeled: whether a word for a source is needed, because numbers and ids alone are content.
        files: whether the name of a file is an id also without a label.

    >>> [is_mark(text) for text in ("1", "Data: Sources (1, 5, +more)", "4:0†source", "5 km", "the pump must be off")]
    [True, True, True, False, False]
    """
    if inside[0] == "^" and len(inside.split()) == 1:
        return True
    n_ids, pending, after_id, has_label = 0, "", False, False
    for piece in _PIECE.findall(inside):
        core = piece.rstrip(".:-–/\\")
        if not piece[0].isalnum():
            if len(piece) > 1:  # @smith2020
                n_ids, after_id, has_label = n_ids + 1, True, True
                continue
            if piece not in _PUNCTUATION and not (piece == "+" and n_ids) and not (piece == "=" and has_label):
                return False
            if piece == "(" and pending:
                pending, has_label = "", True
            pending = "+" if piece == "+" else pending
            after_id, has_label = False, has_label or (piece == "§" and not labeled)
        elif not any(map(str.isdigit, core)) and not _is_file(core, files or has_label):
            if _KEY.fullmatch(core) or (has_label and not (pending or after_id) and len(core) == 1 and core.isupper()):
                n_ids, after_id = n_ids + 1, True  # [cite_start], [Source A]
                continue
            if after_id and core.lower() in _AND:
                after_id = False
                continue
            is_source = WORD_OF_SOURCE.fullmatch(core) is not None
            if after_id or (pending and pending != "+"):
                return False
            has_label |= is_source or (piece[-1] == ":" and not labeled)
            pending = "" if is_source or pending or piece[-1] == ":" else core  # `+more` stands for more numbers
        else:
            is_source = _is_id(core, labeled=labeled) or _is_file(core, files or has_label)
            is_number = _NUMBER.fullmatch(core) is not None or (has_label and _SECTION.fullmatch(core) is not None)
            if pending or not (is_source or (is_number and (has_label or not labeled))):
                return False
            n_ids += is_source or not _DATE.fullmatch(core) or (has_label and not labeled)
            after_id, has_label = True, has_label or is_source
    return n_ids > 0 and pending in ("", "+")


def _is_file(core: str, may_be: bool) -> bool:
    return may_be and re.fullmatch(FILE, core, re.IGNORECASE) is not None


def _is_id(core: str, *, labeled: bool) -> bool:
    n_digits = sum(map(str.isdigit, core))
    glued = _GLUED.fullmatch(core)
    if n_digits and glued is not None:
        word, sign, rest = glued.groups()
        if WORD_OF_SOURCE.fullmatch(word):
            return True
        if not labeled and (sign[:1] in ("_", ":", "#") or _TURN.fullmatch(rest)):
            return True
        if labeled and _BARE_KEYS.fullmatch(core):
            return True
        if not labeled and not sign and len(word) == 1 and word.isascii() and len(rest) < 3 and rest.isdigit():
            return True
    return n_digits > 1 and not core.isdigit() and not _DATE.fullmatch(core) and _HASH.fullmatch(core) is not None


def without_marks(text: str, *, files: bool = False) -> str:
    """Return a text of the same length in which the marks of sources are nothing, and so are the spaces before them.

    A mark is what `is_mark` says in brackets of any kind, in a tag or between signs (`##0$$`); a raised number after a
    word or a stop; a citation command of LaTeX; keys between private characters; and after the stop of a sentence also
    `①`, `(1)`, `(#1)`, `[3.1]` and `turn0search1`. These stay: code and formulas; what belongs to a name or an operator
    (`array[0]`, `f(1)`, `x[1]`, `= [1, 2]`, `{1, 2}`); what stands for a word (`Chapter [2]`, `the [2]`, `is [42]`);
    raised numbers of units and powers (`m²`, `10³`); round brackets, but for a label and its numbers.

    Args:
        text: any text.
        files: whether names of files in brackets are marks, as in answers.
    """
    if b"a0aaaa" in text.encode("utf-8", "surrogatepass").translate(_AS_BARE_KEYS):
        text = _without(text, _BARE_KEYS, files)
    if not (signs := signs_of(text)):
        return text
    if _MAY_BEGIN.search(signs):
        text = _without(text, _CANDIDATES, files)
    return _without(text, _WIDE, files) if not signs.isascii() and _MAY_BEGIN_WIDE.search(signs) else text


def _without(text: str, candidates: re.Pattern[str], files: bool) -> str:
    parts: list[str] = []
    at = search = 0
    while (match := candidates.search(text, search)) is not None:
        kind = match.lastgroup or ""
        start, end = match.span()
        if (start > at and text[start - 1] == "]") or not _IS_MARK[kind](match, text, files):
            search = end if kind in _WHOLE else start + 1
            continue
        before, after = text[at:start], text[end : end + 1]
        if kind == "square" and before and (before[-1].isalpha() or before[-1] in "^\\"):
            prefix = _PREFIX.search(text, max(start - 31, at), start)
            start = start if prefix is None else prefix.start()
            before = text[at:start]
        if parts and not (before and before.strip(f"{_BLANK},;&、，-–—")):
            start = at  # marks in a row
        elif not after.isalnum():
            start = at + len(before.rstrip(_BLANK))
        last = text[start - 1 : start]
        is_apart = after.isalnum() and after < "\u2e80" and not last.isspace() and last not in ("", "(", "[", NOTHING)
        parts += [text[at:start], " " if is_apart else NOTHING, NOTHING * (end - start - 1)]
        at = search = end
    return "".join([*parts, text[at:]]) if parts else text


def _is_between(text: str, start: int, end: int) -> bool:
    before = text[max(start - 24, 0) : start]
    if _STOPS.isdisjoint(before):
        return False
    following = text[end : end + 3].lstrip(_BLANK)[:1]
    before = _NUMBERS_BEFORE.sub("", before) if ")" in before[-2:] else before
    before = before.rstrip(_BLANK + "\r\n" * (following in "\r\n"))
    return before[-1:] in _STOPS and not (text[end : end + 1].isalnum() or following.islower())


def _stands_for_word(text: str, start: int, end: int) -> bool:
    before = text[max(start - 40, 0) : start]
    following, word = text[end : end + 3], before.rstrip(_BLANK)
    if following.lstrip(_BLANK).startswith(_OPERATORS[:-1]) or following == " + " or word.endswith(_OPERATORS):
        return True
    if not word or not (word[-1].isalpha() or word[-1] == "."):
        return False
    rest, _, last = word.replace("\xa0", " ").rpartition(" ")
    last = last.lower().rstrip(".").lstrip("(\"'“«")
    if word[-1] == ".":  # only that of an abbreviation: `no. [2]`, but `the next step. [2]`
        return last in _ABBREVIATED
    if word is not before and last in _NEED_NUMBER:
        return True
    if "," in text[start:end] and (last in _OF_NUMBERS or (text[start + 1] == "0" and len(last) < 4)):
        return True
    return last in _COUNTED and rest.rpartition(" ")[2].lower() not in _ARTICLES


def _is_section(text: str, start: int, end: int, inside: str) -> bool:
    if _SECTIONS.fullmatch(inside) is None:
        return False
    before = text[max(start - 6, 0) : start].rstrip(_BLANK)
    is_after_word = _ENDS_WORD.search(before) is not None
    return _is_between(text, start, end) or (is_after_word and text[end : end + 3].lstrip(_BLANK)[:1] in _ENDS)


def _is_square(match: re.Match[str], text: str, files: bool) -> bool:
    start, end = match.span()
    square, inside = match["square"], match["in_square"]
    before = text[max(start - 3, 0) : start]
    rest, last = before.rstrip(_BLANK), before[-1:]
    is_note = last in _STOPS and _NOTE.fullmatch(inside) is not None  # of the sentence before it
    is_double = square.startswith(("[", "\\["))
    if is_double != square.endswith("]]") or not (
        is_note or is_mark(inside, files=files) or _is_section(text, start, end, inside)
    ):
        return False
    if is_note or last == "]":  # the end of another mark
        return True
    if (
        last in ("$", '"', "'", "[")
        or (last == "_" and before[-2:-1].isalnum())
        or (last == "\\" and not inside.endswith("\\"))
        or rest.endswith(("=", "{", '":'))
        or (last == "(" and before[-2:-1].isalnum())
    ):
        return False
    if last.isalnum() and last < "\u2e80" and not is_double:
        after = text[end : end + 3]
        if inside == "0" or (after[:1] == "." and after[1:2].islower()) or after.lstrip()[:1] in ("=", "("):
            return False
        return last.isdigit() or before[-2:-1].isalnum()
    return _BARE.fullmatch(inside) is None or not _stands_for_word(text, start, end)


def _is_brace(match: re.Match[str], text: str, files: bool) -> bool:
    inside, before = match["in_brace"], text[max(match.start() - 3, 0) : match.start()]
    if not (match["brace"].startswith("{") or WORD_OF_SOURCE.match(inside)) and (
        ":" in inside or before[-1:].isalnum() or before[-1:] in ("_", "}", "]", ")")
    ):
        return False
    if not match["brace"].startswith("{") and _BARE.fullmatch(inside):  # a set, or what a program fills in
        ends = (
            inside.isdecimal() and text[match.end() : match.end() + 1] in _STOPS and before.rstrip(_BLANK)[-1:] != ":"
        )
        return ends or _is_between(text, *match.span())
    return not before.rstrip(_BLANK).endswith(("$", "\\", "^", '"', "=", "∈", ":")) and is_mark(inside, files=files)


def _is_round(match: re.Match[str], text: str, files: bool) -> bool:
    inside, before = match["in_round"], text[max(match.start() - 9, 0) : match.start()]
    if _SECTIONS.fullmatch(inside):
        return _is_between(text, *match.span())
    return not (before[-1:].isalnum() and inside.isalnum()) and is_mark(inside, labeled=True, files=files)


def _is_tag(match: re.Match[str], text: str, files: bool) -> bool:
    name, inside = match["name"], match["in_tag"]
    is_raised = name.lower() == "sup"
    if not _TAGS.fullmatch(name):
        return False
    if inside is None:
        return not is_raised and bool(match["attributes"] or match["tag"].endswith("/>"))
    inside = inside.strip(" []()")
    if inside and not is_mark(inside, files=files):
        return False
    return not is_raised or _is_raised(text, *match.span())


def _is_raised(text: str, start: int, end: int) -> bool:
    before = text[max(start - 3, 0) : start]
    if text[end : end + 1].isalnum():
        return False
    return (len(before) == 3 and before.isalpha()) or not before[-1:].isalnum() or before[-1:] > "\u2e7f"


_WHOLE: Final = frozenset({"code", "formula", "private", "superscript", "circled", "bare"})
"""Candidates in which there is no other."""
_IS_MARK: Final[Mapping[str, Callable[[re.Match[str], str, bool], bool]]] = {
    "code": lambda *_: False,
    "formula": lambda *_: False,
    "raised": lambda match, text, files: _is_raised(text, *match.span()),
    "caret": lambda match, text, files: _is_raised(text, *match.span()),
    "angle": lambda match, text, files: (
        not text[match.start() - 1 : match.start()].isalnum()
        and match["in_angle"][0] not in "hH "
        and is_mark(match["in_angle"], files=files)
    ),
    "square": _is_square,
    "brace": _is_brace,
    "round": _is_round,
    "tag": _is_tag,
    "command": lambda *_: True,
    "hashes": lambda match, text, files: is_mark(match["in_hashes"], files=files),
    "ats": lambda match, text, files: is_mark(match["in_ats"], files=files),
    "wide": lambda match, text, files: is_mark(match["in_wide"], labeled=match["wide"][0] == "（", files=files),
    "private": lambda match, text, files: any(
        _NUMBER.fullmatch(part) or _is_id(part, labeled=False) for part in re.split(f"[{_PRIVATE}]", match[0])
    ),
    "superscript": lambda match, text, files: _is_raised(text, *match.span()),
    "dagger": lambda *_: True,
    "circled": lambda match, text, files: (
        _is_between(text, *match.span())
        or (
            text[max(match.start() - 3, 0) : match.start()].isalpha()
            and text[match.start() - 1] < "\u2e80"
            and not text[match.end() : match.end() + 1].isalnum()
        )
    ),
    "bare": lambda match, text, files: (
        match["bare"].startswith("cite") or bool(match["more"]) or _is_between(text, *match.span())
    ),
}
