"""Reads the form of a text: HTML, Markdown, lists, tables and wrapped lines. It finds the parts that are text. No I/O.

Every mark is replaced by characters of the same number, so each place of the masked text is the same place of the text.
All work is linear in the length of the text: no pattern can backtrack over more than a bounded number of characters.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from typing import Final

from .letters import mask_letters
from .marks import NOTHING, set_of, signs_of, without_marks

_HEADING: Final = "\x1c"
_HEADER_CELL: Final = "\x1d"
_ITEM: Final = "\x1e"
"""Stand at the begin of a heading, of a cell of a table's header, and of an item, where HTML says so."""

BULLETS: Final = "•‣◦▪▫●○■□⁃∙►▶➤➢➔✓✔✗✘✅❌❖★☆\uf0b7\uf0a7"
"""Characters that begin an item even without a space after them."""

HYPHENS: Final = "-‐‑\u00ad\x02\ufffe¬"
"""Characters with which a line ends within a word."""
_CELLS: Final = "|│┃║"
SPACE: Final = " \t\x00\x0b\x0c\x1c\x1d\x1e\x1f\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u202f\u205f\u3000\ufeff"
"""White space within a line."""
_STOPS: Final = frozenset(".!?。！？…؟।")
_AFTER_WORD: Final = f"\"'”’»)]}}*_`{SPACE}"
_BEFORE_WORD: Final = f"\"'“‘«„([{{*_`¿¡{SPACE}"

_FORM: Final = re.compile(rf"[\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029<&|│┃║*_\[【\t{BULLETS}①-⓿❶-➓]")
_STARTS_WITH_MARK: Final = re.compile(r"\W|\w{1,5}[.):]|step |paso", re.IGNORECASE)
"""Characters and begins without which a text has no form: it is prose on one line."""

_OTHER_ENDS: Final = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")
_LINE_ENDS: Final = re.compile("\r+\n?|[\x0b\x0c\x85\u2028\u2029]")

_HIDDEN: Final = re.compile(r"<!--|<(script|style)\b[^<>]*>", re.IGNORECASE)
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][\w:.-]{0,30}|[!?][a-zA-Z]{2,20})(?:\s[^<>]*)?/?>")
_INLINE: Final = set_of(
    "a abbr acronym b bdi bdo big citation cite co code data del dfn em fn font footnote i img input ins kbd label mark "
    "meter q ref ruby rp rt s samp small span strike strong sub sup time tt u var wbr"
)
_BLOCKS: Final = set_of(
    "address article aside blockquote body br button caption center col colgroup dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form frame head header hgroup hr html iframe legend li link main map "
    "menu meta nav noscript object ol optgroup option p pre section select summary table tbody td textarea "
    "tfoot th thead title tr ul video audio svg h1 h2 h3 h4 h5 h6"
)
_LEVELS: Final = {"title": 1, "h1": 1, "h2": 2, "h3": 3, "h4": 3, "h5": 3, "h6": 3}
"""Levels of headings; the lowest ones look alike, because a mark has no more space than its tag."""
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,10});")

_LINK: Final = re.compile(
    r"(!?\[)([^\[\]\n]{0,1000})(\](?:\([^()\s]{0,2000}(?:\([^()\s]{0,300}\)[^()\s]{0,2000})?(?:\s+\"[^\"\n]{0,300}\")?\)"
    r"|\[[^\[\]\n]{0,100}\]))"
)
_MARKS: Final = re.compile(r"\*+|_+|`+|~+")

_FENCE: Final = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})[^`\n]{0,200}$")
_TEXT_FENCES: Final = frozenset({"", "text", "txt", "plain", "plaintext", "markdown", "md", "html", "output"})
_ATX: Final = re.compile(r"#{1,6}(?=[ \t])")
_SETEXT: Final = re.compile(r"=+|-+")
_QUOTE: Final = re.compile(r"(?:>[ \t]?)+")
_SEPARATOR: Final = re.compile(r"[-+:|=│┃║─━┼├┤┌┐└┘┬┴╞╪╡╤╧╔╗╚╝╠╣╬╦╩╟╢╥╨═ \t]{3,}")
_SIMPLE: Final = re.compile(
    rf"(?:[-*+–—·»→](?=[ \t]|$)|[{BULLETS}]\ufe0f?|[①-⓿❶-➓]|\d\ufe0f?\u20e3)[ \t]*(?:\[[ xX✓✔]\][ \t]+)?"
    r"|\([0-9a-zA-Zа-яёА-ЯЁ]{1,3}\)[ \t]+|(?:[a-zA-Zа-яёА-ЯЁ]|[ivxIVX]{1,5})\)[ \t]+"
    r"|(?i:step|шаг|schritt|étape|etape|paso|passo)[ \t]+\d{1,3}[ \t]*[.:)–—-][ \t\x00]+"
)
_NUMBERED: Final = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Z]|[ivxIVX]{2,5})([.)])(?:[ \t\x00]+|$)|(\d{1,2}(?:\.\d{1,2}){1,4})[ \t]+"
)
_NUMBERED_LINES: Final = re.compile(
    r"^[ \t>*_#]*(?:(\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Z]|[ivxIVX]{2,5})[.)]|(\d{1,2}(?:\.\d{1,2}){1,4}))(?=[ \t]|$)",
    re.MULTILINE,
)
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")

_GAP: Final = re.compile(r"(?<=[^\s.!?:;,]) {2,}(?=\S)")
_LOWER_START: Final = 40
"""Columns from which a text is wrapped by a program, even if each line begins with a capital letter."""


@dataclass(slots=True)
class Block:
    """A part of a text that no sentence leaves: a paragraph, an item, a heading, a row, a line of code."""

    parts: list[tuple[int, int]]
    """Places of its lines in the text, without marks at their begin and end."""
    level: int = 0
    """Level of a heading, from 1; 0 for a block of another kind."""
    header: bool = False
    """Whether it is the header row of a table."""
    row: int = 0
    """Number of the row in its table, from 1; 0 if it is no row."""
    item: bool = False
    section: bool = False
    """Whether a blank line, or another kind of block, stands before it."""


def has_form(text: str) -> bool:
    """Return whether a text may be more than prose on one line."""
    if "   " in text or _STARTS_WITH_MARK.match(text):
        return True
    return _FORM.search(signs_of(text)) is not None


def is_prose(line: str) -> bool:
    """Return whether a text without blanks around it is prose on one line that has no mark at all, as `blocks` reads it."""
    if not line or line[0] in "#>" or "`" in line or "~" in line or not any(map(str.isalnum, line)):
        return False
    for mark in set(_FORM.findall(signs_of(line))):
        if mark == "&":
            if _ENTITY.search(line):
                return False
        elif mark == "[":
            if "](" in line or "][" in line:
                return False
        elif mark != "<" or ">" in line:
            return False
    return _marker(_BlockReader(line), line) == 0


def mask_marks(text: str, more: Callable[[str], str] | None = None) -> str:
    """Return a text of the same length in which marks are replaced; `more` replaces further ones after HTML's."""
    text = mask_letters(text)
    if _OTHER_ENDS.search(signs_of(text)):
        text = _LINE_ENDS.sub(_mask_line_end, text)
    text = without_marks(text, files=more is not None)
    if "<" in text and ">" in text:
        text = _mask_tags(text)
    if "&" in text:
        text = _ENTITY.sub(_mask_entity, text)
    if more is not None:
        text = more(text)
    if "[" in text:
        text = _LINK.sub(lambda link: NOTHING * len(link[1]) + link[2] + NOTHING * len(link[3]), text)
    if "*" in text or "_" in text or "`" in text or "~" in text:
        text = _MARKS.sub(_mask_emphasis, text)
    return text


def _mask_line_end(match: re.Match[str]) -> str:
    n = len(match[0])
    return " " * (n - 1) + "\n" if match[0][-1] == "\n" else "\n" * n


def _mask_entity(match: re.Match[str]) -> str:
    plain = unescape(match[0])
    if len(plain) >= len(match[0]) or plain in "<\x1c\x1d\x1e\x1f\n\r":
        return match[0]
    return plain.replace("\xa0", " ") + NOTHING * (len(match[0]) - len(plain))


def _mask_emphasis(match: re.Match[str]) -> str:
    run, start, end, text = match[0], match.start(), match.end(), match.string
    kind, n = run[0], len(run)
    if kind in "`~":
        is_mark = n <= 2 if kind == "`" else n == 2
        return NOTHING * n if is_mark else run
    before, after = text[start - 1 : start], text[end : end + 1]
    is_open = not before.isalnum() and after != "" and not after.isspace()
    is_close = not after.isalnum() and before != "" and not before.isspace()
    inside = kind == "*" and n > 1 and before.isalnum() and after.isalnum()
    return NOTHING * n if n <= 3 and (is_open or is_close or inside) else run


def _mask_tags(text: str) -> str:
    text = _mask_hidden(text)
    closed = {match[2].lower().rstrip(":") for match in _TAG.finditer(text) if match[1]} | {"!doctype", "?xml"}
    parts: list[str] = []
    at, rows = 0, 0
    for match in _TAG.finditer(text):
        name, n = match[2].lower().rstrip(":"), len(match[0])
        if name not in _INLINE and name not in _BLOCKS and name not in closed:
            continue  # such as <your name>
        between = text[at : match.start()]
        parts.append(between.replace("\n", " ") if rows else between)
        at = match.end()
        if name == "tr":
            rows = not match[1]
        elif name in ("table", "tbody", "thead"):
            rows = 0
        if name in _INLINE:
            parts.append((" " if name in ("sup", "img", "input") else NOTHING) * n)
        elif name in ("td", "th"):
            parts.append(NOTHING * n if match[1] else f"|{NOTHING * (n - 2)}{_HEADER_CELL if name == 'th' else ' '}")
        elif rows and name != "tr":
            parts.append(" " * n)
        elif name == "br":
            parts.append(f"{' ' * (n - 1)}\n")
        else:
            mark = "\n"
            if not match[1]:
                mark = _ITEM if name in ("li", "dt", "dd", "option") else mark
                mark = _HEADING * _LEVELS.get(name, 0) or mark
            parts.append("\n" * (n - len(mark)) + mark)
    parts.append(text[at:])
    return "".join(parts)


def _mask_hidden(text: str) -> str:
    parts, at = [], 0
    open_ended: set[str] = set()
    for match in _HIDDEN.finditer(text):
        end = f"</{match[1].lower()}" if match[1] else "-->"
        if match.start() < at or end in open_ended:
            continue
        stop = text.find(end, match.end())
        if stop < 0:
            stop = text.find(end.upper(), match.end())
        if stop < 0:
            open_ended.add(end)
            continue
        stop = min(stop + len(end) + (1 if match[1] else 0), len(text))
        parts += [text[at : match.start()], "\n" * (stop - match.start())]
        at = stop
    return "".join([*parts, text[at:]])


class _BlockReader:
    """The lines of a masked text on their way to blocks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.number = 0
        self.blocks: list[Block] = []
        self.group: list[tuple[int, int]] = []
        self.group_item = False
        self.section = True
        self.rows = 0
        self._numbers: set[str] | None = None

    def line(self, after: int) -> str:
        """Return the line some lines after this one, or before it; empty where there is none."""
        number = self.number + after
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def is_divided(self, number: int) -> bool:
        """Return whether the last word of the open lines goes on after an empty line."""
        end = self.group[-1][1]
        following = next((line for line in self.lines[number + 1 : number + 3] if line.strip(SPACE)), "")
        return (
            self.text[end - 1] in HYPHENS
            and self.text[end - 2 : end - 1].isalpha()
            and following.lstrip(SPACE)[:1].islower()
        )

    def end_group(self) -> None:
        """Turn the open lines into blocks: a line continues in the next one, or ends."""
        if not self.group:
            return
        item, section = self.group_item, self.section
        for parts in [self.group] if len(self.group) == 1 else _paragraphs(self.text, self.group):
            self.blocks.append(Block(parts, item=item, section=section))
            item = section = False
        self.group, self.group_item, self.section = [], False, False

    def add(self, block: Block) -> None:
        self.end_group()
        block.section = self.section
        self.blocks.append(block)
        self.section = False

    def ends_section(self) -> None:
        self.end_group()
        self.section, self.rows = True, 0

    def is_number(self, number: str, *, only: bool) -> bool:
        """Return whether a number at the start of a line is that of an item: it is 1, or its neighbor is there, too."""
        before, last = number.rpartition(".")[::2]
        stem = before and f"{before}."
        if last.isdigit():
            if not stem and last in ("0", "1") and not only:
                return True
            near = {f"{stem}{int(last) - 1}", f"{stem}{int(last) + 1}"}
        else:
            low = last.lower()
            near = {chr(ord(last) - 1), chr(ord(last) + 1)} if len(last) == 1 else set()
            if low in _ROMAN:
                place = _ROMAN.index(low)
                near |= {numeral for numeral in _ROMAN[max(place - 1, 0) : place + 2] if numeral != low}
                near |= {numeral.upper() for numeral in near}
        if self._numbers is None:
            self._numbers = {first or second for first, second in _NUMBERED_LINES.findall(self.text)}
        return not near.isdisjoint(self._numbers)


def blocks(text: str, *, answer: bool = False) -> list[Block]:
    """Return the blocks of a masked text, in order. Front matter of an answer claims nothing, so it is none."""
    lines = _BlockReader(text)
    at = 0
    code = ""
    front, n_front = _front_matter(lines.lines), 0
    for number, line in enumerate(lines.lines):
        start, at = at, at + len(line) + 1
        body = line.strip(SPACE)
        if not body or (front and number in (0, front)):
            if not body and lines.group and ("\x00" in line or lines.is_divided(number)):
                continue  # neither a line of marks alone nor one within a word ends a paragraph
            lines.ends_section()
            n_front = len(lines.blocks) if number == front else n_front
            continue
        start += line.index(body[0]) if line[0] != body[0] else 0
        end = start + len(body)
        if body[0] in "`~" and (fence := _FENCE.match(body)):
            if not code:
                code = fence[1] if fence[2].lower() in _TEXT_FENCES else f"{fence[1]} "
            elif fence[1].startswith(code.strip()) and not fence[2]:
                code = ""
            lines.ends_section()
        elif code[-1:] == " ":
            if any(map(str.isalnum, body)):
                lines.add(Block([(start, end)]))
        elif 0 < number < front:
            lines.group[:] = [(lines.group[0][0] if lines.group else start, end)]
        else:
            lines.number = number
            _take_line(lines, line, start, body)
    lines.end_group()
    if 0 < n_front < len(lines.blocks):  # front matter goes with the first sentence after it
        head, *rest = lines.blocks
        rest[0].parts[:0] = [] if answer else head.parts
        return rest
    return lines.blocks


def _take_line(lines: _BlockReader, line: str, start: int, body: str) -> None:
    end = start + len(body)
    first = body[0]
    if first == ">" and (quote := _QUOTE.match(body)):
        rest = body[quote.end() :].lstrip(SPACE)
        start, body = end - len(rest), rest
        if not body:
            lines.ends_section()
            return
        first = body[0]
    level = line.count(_HEADING) if _HEADING in line else 0
    if first == "#" and (atx := _ATX.match(body)):
        rest = body[atx.end() :].lstrip(SPACE)
        start, level = end - len(rest), min(atx.end(), 3)
        body = rest.rstrip(" \t#") or rest
        end = start + len(body)
        if not body:
            return
        first = body[0]
    if not (first.isalnum() or body[-1].isalnum() or any(map(str.isalnum, body))):
        _take_rule(lines, body)
        return
    if level:
        lines.ends_section()
        if marker := _marker(lines, body):
            start, body = start + marker, body[marker:]
        if any(map(str.isalnum, body)):
            lines.add(Block([(start, end)], level=level))
        return
    if _is_row(body, line, lines):
        lines.end_group()
        lines.rows += 1
        lines.add(Block([(start, end)], row=lines.rows, header=_HEADER_CELL in line or _is_header(lines)))
        return
    lines.rows = 0
    marker = _marker(lines, body)
    if marker or _ITEM in line:
        lines.end_group()
        lines.group_item = True
        start += marker
        body = body[marker:]
        if not body.strip(SPACE):
            return
        start += len(body) - len(body.lstrip(SPACE))
    lines.group.append((start, end))


def _take_rule(lines: _BlockReader, body: str) -> None:
    if lines.group and _SETEXT.fullmatch(body) and len(body) > 1 and not lines.group_item:
        last = lines.group.pop()
        lines.end_group()
        lines.add(Block([last], level=1 if body[0] == "=" else 2))
        lines.ends_section()
    elif lines.rows and _SEPARATOR.fullmatch(body):
        pass  # the table continues
    elif body[0] in BULLETS + "-*+–—·" and len(body) == 1:
        lines.end_group()
        lines.group_item = True
    else:
        lines.ends_section()


_EMPHASIS: Final = f"*_{NOTHING}"


def _marker(lines: _BlockReader, body: str) -> int:
    first = body[0]
    at = 0
    while first in _EMPHASIS and at < 4 and body[at + 1 : at + 2] not in ("", " ", "\t"):
        at += 1
        first = body[at]
    if (
        first.isalpha()
        and body[at + 1 : at + 2] not in (".", ")", "v", "i", "x", "V", "I", "X")
        and first not in "sSшШéÉeEpP"
    ):
        return 0
    if simple := _SIMPLE.match(body, at):
        rest = body[simple.end() :]
        has_word = rest[-1:].isalnum() or any(map(str.isalnum, rest))
        return simple.end() if has_word or len(simple[0].strip()) == 1 else 0
    if numbered := _NUMBERED.match(body, at):
        number = numbered[1] or numbered[3]
        empty = numbered.end() == len(body)
        only = numbered[3] is not None or empty
        if lines.is_number(number, only=only):
            return numbered.end()
    return 0


def _is_header(lines: _BlockReader) -> bool:
    if lines.rows > 1 or not _is_separator(lines.line(1)):
        return False
    return not (_is_separator(lines.line(-1)) and _is_separator(lines.line(3)))


def _is_separator(line: str) -> bool:
    body = line.strip(SPACE)
    return (
        len(body) > 2
        and _SEPARATOR.fullmatch(body) is not None
        and ("-" in body or "─" in body or "=" in body or "━" in body or "═" in body)
    )


def _is_row(body: str, line: str, lines: _BlockReader) -> bool:
    if body[0] in _CELLS or body[-1] in _CELLS or "\t" in body or " | " in body or "│" in body:
        return True
    if "|" in body and (lines.rows or "|" in lines.line(1)):
        return True
    if "  " not in body or not (gaps := _gaps(line)):
        return False
    if lines.rows or _share_columns(gaps, _gaps(lines.line(1))) or _is_separator(lines.line(1)):
        return True
    if not lines.group:
        return False
    start, end = lines.group[-1]
    return _share_columns(gaps, _gaps(lines.text[lines.text.rfind("\n", 0, start) + 1 : end]))


def _gaps(line: str) -> set[int]:
    return {match.end() for match in _GAP.finditer(line)}


def _share_columns(gaps: set[int], near: set[int]) -> bool:
    return bool(near) and (gaps <= near or near <= gaps)


def _front_matter(lines: Sequence[str]) -> int:
    fence = lines[0].strip()
    for number, line in enumerate(lines[1:60] if fence in ("---", "+++") else (), start=1):
        if number > 1 and line.strip() in (fence, "..."):
            return number
        if line.strip() and not re.match(r"[\w-]{1,40}[ \t]{0,3}[:=]|[ \t]+\S|-[ \t]", line):
            break
    return 0


def _paragraphs(text: str, group: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    bodies = [text[start:end] for start, end in group]
    width = max(map(len, bodies))
    starts = [body[0] if body[0].isalnum() else body.lstrip(_BEFORE_WORD)[:1] for body in bodies]
    ends = [body[-1] if body[-1].isalnum() else body.rstrip(_AFTER_WORD)[-1:] for body in bodies]
    lower = [*map(str.islower, starts)]
    has_stop = not _STOPS.isdisjoint(ends) or any(". " in body or "? " in body for body in bodies)
    is_list = not has_stop and lower[0] and all(lower) and width < _LOWER_START
    wrapped = not is_list and any(lower[1:])
    paragraphs = [[group[0]]]
    for place, (before, after) in enumerate(pairwise(bodies)):
        if not is_list and _continues(
            before, after, ends[place], starts[place + 1], width, wrapped=wrapped, has_stop=has_stop
        ):
            paragraphs[-1].append(group[place + 1])
        else:
            paragraphs.append([group[place + 1]])
    return paragraphs


def _continues(before: str, after: str, end: str, start: str, width: int, *, wrapped: bool, has_stop: bool) -> bool:
    if after[0] in ",;:.!?)]}»”…%" or start.islower():
        return True
    if before[-1] in ",(&/–—«“" and len(before) > 1:
        return True
    if end == ":" and len(before) < _LOWER_START:
        return False
    wide = start > "\u2e7f"
    word = 1 if wide else min(len(after.partition(" ")[0]), 20)
    room = width * (0.6 if wrapped else 0.85)
    is_full = len(before) + 1 + word > room and (wrapped or width >= (18 if wide else _LOWER_START))
    if end in _STOPS:
        return is_full
    return is_full and (wrapped or has_stop)


def assemble(text: str, parts: Sequence[tuple[int, int]]) -> tuple[str, list[int], list[int]]:
    """Return the text of parts without marks, the places where its runs begin, and where these are in the whole text.

    A word that was divided at the end of a line is one word again.
    """
    pieces: list[str] = []
    places: list[int] = []
    origins: list[int] = []
    at = 0

    def add(chunk: str, origin: int) -> None:
        nonlocal at
        if chunk:
            pieces.append(chunk)
            places.append(at)
            origins.append(origin)
            at += len(chunk)

    for number, (start, end) in enumerate(parts):
        chunk = text[start:end]
        if number:
            last = pieces[-1] if pieces else ""
            if last[-1:] in HYPHENS and last[-2:-1].isalpha() and chunk[:1].islower():
                pieces[-1] = last[:-1]
                at -= 1
            else:
                add(" ", start)
        if NOTHING not in chunk and "\n" not in chunk:
            add(chunk, start)
            continue
        for match in _RUN.finditer(chunk):
            add(match[0].replace("\n", " "), start + match.start())
    return "".join(pieces), places, origins


_RUN: Final = re.compile(f"[^{NOTHING}]+")
