"""Splits texts into sentences. The splitter has an id, because the number of sentences affects the scores.

The same facts have the same number of sentences in any form: prose, items, steps, a table, wrapped lines, HTML or
Markdown (`markup.py`). A part of an answer that claims nothing is no sentence of it (`answers.py`).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import sentencex

from ragtide_schemas import RagInteraction

from . import answers
from .kept_documents import KEPT, CutDocument, KeptSentences
from .keys import document_keys, response_keys
from .languages import evident_by_words, evident_language, language_of
from .letters import has_plain_letters, mask_letters, mended, plain_letters
from .marks import NOTHING, set_of, signs_of, without_marks
from .markup import BULLETS, SPACE, Block, assemble, blocks, has_form, is_prose, mask_marks
from .reasoning import without_thoughts

SPLITTER_ID: Final = "sentencex-1+forms-3"
"""Id of the rules that split sentences: the library's major version, and the version of the rules about forms."""

GIVEN: Final = "given"
"""Splitter id of an interaction that has its own sentences."""

_QUOTES: Final = "'`\"“«‘„「《"

_QUOTES_BY_LENGTH: Final = 100_000_000
"""Number of quotes of a line times its characters, above which the line is split window by window.

The library searches for the end of a quote up to the end of the line, so a line of open quotes takes quadratic time.
"""

_WINDOW: Final = 4000
"""Characters of a window, and of the shortest line that may need windows."""

_TIGHT_STOP: Final = re.compile(r"[。！？｡．]|[^\w\s.,;:'\"()\[\]{}<>/\\|*_#$%&+=~^@`“”‘’«»„…–—-](?![\sa-zA-Z0-9])")
_STOPS_BY_LENGTH: Final = 500_000
"""Number of possible stops without a blank of a line times its characters, above which it is split in windows.

The library counts the characters before each of them anew, so a line of short Chinese sentences takes quadratic time.
"""
_TIGHT_WINDOW: Final = 1000

_ABBREVIATIONS: Final = set_of(
    "bzw z b d h u o ca nr str usw evtl ggf inkl vgl abb tab bd hrsg dr prof hr fr st mio mrd kap art abs ziff "
    "jh geb gest mme mlle mm mgr p pp ex env av sr sra dra ud uds núm pág sig dott mr mrs ms vs inc ltd jr fig "
    "eq al approx dept est gov no г гг ул кв стр рис тыс млн млрд руб им т е др пр см напр англ проф"
)
"""Abbreviations of some language: after one, the language of the place decides whether a sentence ends there."""

_FEW_CHARS: Final = 160
_BEGINNING_CHARS: Final = 2000
"""Characters at the beginning of a text that show its language: mostly the first number, else the second."""

_FIRST_SENTENCES: Final = 4
"""Sentences of a document by which a response without evidence of its own gets its language."""

_CHECKED_CHARS: Final = 300
"""Characters at each side of an abbreviation that show the language of the place."""

_ONLY_NUMBER: Final = re.compile(r"\(?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Zа-я]|[ivxIVX]{2,5})[.)]\)?")
_BLANKS: Final = f"{SPACE}\n\r"
_STARTS: Final = f" {SPACE}\n*_~`|│┃║{BULLETS}"


HEAVY_CHARS: Final = 50_000
"""Characters above which an interaction is worked on in a thread, because it would block the worker's event loop."""


def characters(interaction: RagInteraction) -> int:
    """Return the number of characters of the texts of an interaction."""
    documents = sum([len(document.text) for document in interaction.documents])
    return len(interaction.question) + len(interaction.response) + documents


class Sentence(NamedTuple):
    """A sentence of a text."""

    start: int
    end: int
    plain: str
    """The sentence without the marks of its form, on one line, as labelers compare words."""


@dataclass(frozen=True, slots=True)
class CutInteraction:
    """An interaction for labelers: question, sentences and their keys, and the language by which they were split."""

    question: str
    documents: Sequence[Sequence[str]]
    """The sentences of each document, as they stand in it."""
    response: Sequence[str]
    """The sentences of the response that claim something, as they stand in it."""
    language: str
    """ISO 639-1 code of the response's language, or `und`."""
    splitter: str
    """Id of the rules that split the sentences; `given` if the interaction has its own sentences."""
    plain_documents: Sequence[Sequence[str]]
    """The same sentences without marks of their form; own sentences stay unchanged."""
    plain_response: Sequence[str]
    """The same sentences without marks, links, citations and headings; own sentences stay unchanged."""
    refuses: bool
    """Whether the response is a refusal that claims nothing."""
    earlier: str
    """The question before this one in a conversation; empty without one."""

    @property
    def document_keys(self) -> tuple[str, ...]:
        """Key of every document sentence, in order: `0a`, `0b`, `1a`."""
        return document_keys(len(sentences) for sentences in self.documents)

    @property
    def response_keys(self) -> tuple[str, ...]:
        """Key of every response sentence, in order: `a`, `b`."""
        return response_keys(len(self.response))


def cut(interaction: RagInteraction) -> CutInteraction:
    """Return an interaction split into sentences; its own sentences stay unchanged.

    Documents are split by their own language, and the response by its own.
    """
    interaction = without_thoughts(interaction)
    own_sentences = [document.sentences for document in interaction.documents] + [interaction.response_sentences]
    ids = [GIVEN if sentences is not None else SPLITTER_ID for sentences in own_sentences]
    documents: list[Sequence[str]] = []
    plain_documents: list[Sequence[str]] = []
    for document in interaction.documents:
        own = document.sentences
        verbatim, plain = _kept_document(document.text, interaction.question) if own is None else (own, own)
        documents.append(verbatim)
        plain_documents.append(plain)
    context = _context(interaction.question, plain_documents)
    own = interaction.response_sentences
    response: Sequence[str]
    plain_response: Sequence[str]
    if own is None:
        beginning = interaction.response[:_BEGINNING_CHARS]
        language = _language(mask_marks(beginning) if has_form(beginning) else beginning, context)
        located = locate_sentences(interaction.response, language, answer=True)
        response, plain_response = _texts(interaction.response, located)
    else:
        response = plain_response = own
        language = language_of(interaction.response, context)
    whole_documents, whole_response = mended(plain_documents, plain_response, interaction.question)
    return CutInteraction(
        question=interaction.question,
        documents=documents,
        response=response,
        language=language,
        splitter="/".join(dict.fromkeys(sorted(ids))),
        plain_documents=[
            whole if document.sentences is None else document.sentences
            for document, whole in zip(interaction.documents, whole_documents, strict=True)
        ],
        plain_response=whole_response if own is None else own,
        refuses=answers.is_refusal(plain_response, interaction.question),
        earlier=interaction.history[-1].question if interaction.history else "",
    )


def sentence_counts(interaction: RagInteraction) -> list[int]:
    """Return the number of sentences of each document, as `cut` splits them."""
    return [
        len(document.sentences)
        if document.sentences is not None
        else len(_kept_document(document.text, interaction.question).verbatim)
        for document in interaction.documents
    ]


def _context(question: str, documents: Sequence[Sequence[str]]) -> Iterator[str]:
    yield question
    for sentences in documents[:3]:
        yield " ".join(sentences[:_FIRST_SENTENCES])


def split_sentences(text: str, language: str | None = None) -> list[str]:
    r"""Return the sentences of a text as they stand in it, in order, without surrounding white space and marks.

    Each sentence has a letter or a digit. Marks of lists, rules, fences and borders of tables are none.

    Args:
        text: any text.
        language: ISO 639-1 code, which determines the abbreviations that do not end a sentence; None for the text's.

    >>> split_sentences("Dr. Smith came. He saw\nthree cats!\n- Then he left.")
    ['Dr. Smith came.', 'He saw\nthree cats!', 'Then he left.']
    """
    return [text[sentence.start : sentence.end] for sentence in locate_sentences(text, language)]


def locate_sentences(
    text: str, language: str | None = None, *, answer: bool = False, context: Iterable[str] = ()
) -> list[Sentence]:
    """Return the sentences of a text with their places.

    Args:
        text: any text.
        language: ISO 639-1 code of the text; None if it is to be recognized.
        answer: whether links, citations, lists of sources and courtesy are no sentences. A heading belongs to the
            sentence after it then; in a document it is a sentence of its own.
        context: texts that decide about the language of a text without evidence of its own.
    """
    marked = mask_marks(text, answers.without_sources if answer else None)
    formed = marked != text or has_form(text)
    reader = _SentenceReader(text, marked, language, context)
    text_blocks = blocks(marked, answer=answer) if formed else [Block([(0, len(text))], section=True)]
    if answer:
        return list(_claims(reader, text_blocks))
    return [sentence for block in text_blocks for sentence in reader.sentences(block)]


def _kept_document(text: str, question: str) -> CutDocument:
    def document() -> tuple[CutDocument, bool]:
        context = _QuestionContext(question)
        verbatim, plain = _document(text, context)
        return CutDocument(verbatim, KeptSentences(plain)), not context.was_read

    return KEPT.document(text, document)


class _QuestionContext(Iterable[str]):
    """The question as context of the language of a document, which most documents show by themselves."""

    def __init__(self, question: str) -> None:
        self._question = question
        self.was_read = False

    def __iter__(self) -> Iterator[str]:
        self.was_read = True
        yield self._question


def _document(text: str, context: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
    line, formed, is_ascii = text, has_form(text), text.isascii()
    if formed:
        line = text.strip(_BLANKS)
    if NOTHING in text or (formed and not is_prose(line)) or without_marks(mask_letters(text)) is not text:
        return _texts(text, locate_sentences(text, context=context))
    language = None if is_ascii else _language(text, context)
    pieces = list(_segments(language or "en", line))
    if any(map(_may_go_on, pieces[:-1])):
        start = text.index(line[0])
        reader = _SentenceReader(text, text, language, context)
        return _texts(text, reader.sentences(Block([(start, start + len(line))], section=True)))
    if is_ascii and not formed:
        sentences = [sentence for piece in pieces if (sentence := piece.strip()) and _is_sentence(sentence)]
        return sentences, sentences
    sentences = [sentence for piece in pieces if (sentence := _strip_marks(piece))]
    plain = sentences
    if "  " in line:
        plain = [" ".join(sentence.split()) if "  " in sentence else sentence for sentence in sentences]
    return sentences, plain if has_plain_letters(text) else [*map(plain_letters, plain)]


def _strip_marks(piece: str) -> str:
    sentence = piece.strip()
    if sentence and not (sentence[0].isalnum() and sentence[-1] in ".!?"):
        sentence = sentence.strip(_STARTS)
    return sentence if sentence and _is_sentence(sentence) else ""


def _is_sentence(text: str) -> bool:
    return text[0].isalnum() or any(map(str.isalnum, text))


def _may_go_on(piece: str) -> bool:
    piece = piece.rstrip()
    if len(piece) < 8:
        return True
    if piece[-1] != ".":
        return False
    last = piece[-9:-1].rpartition(" ")[2]
    if len(last) > 6:
        return False
    if last.isalpha():
        return last.lower() in _ABBREVIATIONS
    if len(last) < 3 and last.isdecimal():
        return True
    return last.rpartition(".")[2].strip(_BEFORE_ABBREVIATIONS).lower() in _ABBREVIATIONS


_BEFORE_ABBREVIATIONS: Final = '("„«“'


def _language(marked: str, context: Iterable[str]) -> str:
    beginning = marked[:_BEGINNING_CHARS]
    if NOTHING in beginning:
        beginning = beginning.replace(NOTHING, "")
    beginning = plain_letters(beginning)
    return evident_by_words(beginning[:_FEW_CHARS]) or language_of(beginning.lstrip(), context)


def _texts(text: str, sentences: Sequence[Sentence]) -> tuple[list[str], list[str]]:
    return [text[sentence.start : sentence.end] for sentence in sentences], [
        plain_letters(sentence.plain) for sentence in sentences
    ]


def _claims(reader: "_SentenceReader", text_blocks: Sequence[Block]) -> Iterator[Sentence]:
    waiting: list[Sentence] = []
    in_sources = in_notes = False
    for number, block in enumerate(text_blocks):
        following = text_blocks[number + 1] if number + 1 < len(text_blocks) else None
        if in_sources and not (block.section and not block.item):
            continue
        in_notes = reader.is_footnote(block, in_notes=in_notes or in_sources)
        if in_notes:
            continue
        sentences = reader.sentences(block)
        in_links = False
        for place, sentence in enumerate(sentences):
            if place == 0 and answers.begins_sources(sentence.plain):
                in_sources = (len(sentences) == 1 and sentence.plain.endswith(":")) or ":" not in sentence.plain
                continue
            if in_sources:
                if not block.level and answers.is_source(sentence.plain):
                    continue
                in_sources = False
            is_page = in_links and sentence.plain.strip(".").isdecimal()  # the rest of `manual.pdf, p. 3`
            in_links = is_page or answers.is_about_links(sentence.plain, linked=reader.is_linked(sentence))
            if in_links or answers.is_courtesy(sentence.plain) or not answers.without_emptied(sentence.plain).strip():
                continue
            if following is not None and place == len(sentences) - 1:
                if len(sentences) == 1 and answers.is_stock_heading(sentence.plain):
                    continue
                if reader.leads(block, sentence, following):
                    waiting.append(sentence)
                    continue
            start = waiting[0].start if waiting else sentence.start
            leading = [answers.topic(heading.plain) for heading in waiting]
            waiting = []
            plain = answers.without_emptied(" ".join([*filter(None, leading), sentence.plain]))
            yield Sentence(start, sentence.end, plain)
    yield from waiting


class _SentenceReader:
    """Cuts the blocks of one text into sentences."""

    def __init__(self, text: str, marked: str, language: str | None, context: Iterable[str]) -> None:
        self._text = text
        self.marked = marked
        self.language = language
        self._context = context
        self._has_brackets = "[" in text
        if language is None and not text.isascii():
            self._recognized()
        self._checks = 20 + len(text) // 200
        """Places whose language may still be recognized, so that the work stays linear."""

    def _recognized(self) -> str:
        if self.language is None:
            self.language = _language(self.marked, self._context)
        return self.language

    def leads(self, block: Block, sentence: Sentence, following: Block) -> bool:
        """Return whether a sentence of an answer belongs to the next: a heading, a header row, a line before a list."""
        if block.header or (sentence.plain[-1] == ":" and (following.item or following.row or following.section)):
            return True
        if sentence.plain[-1] in ".!?" or len(block.parts) > 1 or block.item or block.row:
            return False
        if block.level:
            return not 0 < following.level <= block.level
        start, end = block.parts[0]
        before, after = self._text[max(start - 2, 0) : start], self._text[end : end + 2]
        return before in ("**", "__", "b>") and after in ("**", "__", "</")

    def is_footnote(self, block: Block, *, in_notes: bool) -> bool:
        """Return whether a block is the text of a footnote or of a numbered source: `[^1]: Smith, 2020`.

        Without a colon (`[1] Smith, 2020`) it stands among others or apart from the text that cites it. Else the mark
        may be that of the sentence before it.
        """
        if not self._has_brackets:
            return False
        begin = self._text.rfind("\n", 0, block.parts[0][0]) + 1
        footnote = _FOOTNOTE.match(self._text, begin)
        if footnote is None or footnote[1] is None:
            return footnote is not None
        return in_notes or (block.section and 0 <= self._text.find(footnote[1]) < begin)

    def is_linked(self, sentence: Sentence) -> bool:
        """Return whether a link or a citation is in a sentence, or touches it."""
        return NOTHING in self.marked[max(sentence.start - 3, 0) : sentence.end + 3]

    def sentences(self, block: Block) -> list[Sentence]:
        """Return the sentences of a block."""
        parts = block.parts
        start, end = parts[0]
        line = self.marked[start:end]
        if len(parts) == 1 and NOTHING not in line:
            places = None
            if "\n" in line:
                line = line.replace("\n", " ")
        else:
            line, places, origins = assemble(self.marked, parts)
        sentences = []
        for first, after in self._places_in_line(line, block):
            sentence = line[first:after]
            if block.row:
                sentence = _strip_row_number(sentence, block.row)
            if "  " in sentence or "\t" in sentence:
                sentence = " ".join(sentence.split())
            if places is None:
                sentences.append(Sentence(start + first, start + after, sentence))
                continue
            run, end_run = bisect_right(places, first) - 1, bisect_right(places, after - 1) - 1
            begin, end = origins[run] + first - places[run], origins[end_run] + after - places[end_run]
            sentences.append(Sentence(begin, end, sentence))
        return sentences

    def _places_in_line(self, line: str, block: Block) -> list[tuple[int, int]]:
        pieces = list(_segments(self.language or "en", line))
        if self.language is None and any(map(_may_go_on, pieces[:-1])) and self._recognized() != "en":
            pieces = list(_segments(self._recognized(), line))
        places: list[tuple[int, int]] = []
        at, last, held = 0, len(pieces) - 1, -1
        for number, piece in enumerate(pieces):
            begin, at = at, at + len(piece)
            if number != last and (block.row or _may_go_on(piece)) and not self._ends(pieces, number, block):
                held = begin if held < 0 else held
                continue
            if held >= 0:
                begin, held = held, -1
            whole = line[begin:at]
            if sentence := _strip_marks(whole):
                first = begin + whole.index(sentence)
                places.append((first, first + len(sentence)))
        return places

    def _ends(self, pieces: Sequence[str], number: int, block: Block) -> bool:
        piece, following = pieces[number], pieces[number + 1]
        body = piece.strip()
        if len(body) <= 12 and _ONLY_NUMBER.fullmatch(body):
            return False
        if block.row and (following.lstrip()[:1] in _CELLS or piece[-1:] == "\t" or piece.endswith("  ")):
            return False
        last = body[-9:-1].rpartition(" ")[2].rpartition(".")[2].strip(_BEFORE_ABBREVIATIONS).lower()
        if body and body[-1] == "." and (last in _ABBREVIATIONS or last.isdecimal()) and len(body) > len(last) + 1:
            return self._checks <= 0 or self._ends_in_its_language(piece[-_CHECKED_CHARS:], following[:_CHECKED_CHARS])
        return True

    def _ends_in_its_language(self, before: str, after: str) -> bool:
        self._checks -= 1
        language = evident_language(before + after)
        if language is None or language == self.language:
            return True
        pieces = list(_segments(language, before + after))
        return len(before) in accumulate(map(len, pieces))


_FOOTNOTE: Final = re.compile(r"[ \t]*(?:\[\^[^\[\]\s]{1,40}\]:|\[\d{1,3}\]:[ \t]|(\[\d{1,3}\])[ \t])")


_CELLS: Final = ("|", "│", "┃", "║")


def _strip_row_number(sentence: str, row: int) -> str:
    cell, bar, rest = sentence.partition("|") if "|" in sentence else sentence.partition("\t")
    number = cell.strip(" .)#\t")
    if not bar or not number.isdecimal() or len(number) > 4 or int(number) not in (row, row - 1) or not rest.strip():
        return sentence
    return rest


def place_sentences(response: str, sentences: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a response and the place of each sentence in it; if a sentence is not in it, the sentences in one text.

    >>> place_sentences("In 1889. It is  tall.", ["In 1889.", "It is  tall."])
    ('In 1889. It is  tall.', [(0, 8), (9, 21)])
    >>> place_sentences("In 1889.", ["In 1888.", "Why?"])
    ('In 1888. Why?', [(0, 8), (9, 13)])
    """
    places = []
    at = 0
    for sentence in sentences:
        start = response.find(sentence, at)
        if start < 0:
            break
        at = start + len(sentence)
        places.append((start, at))
    if len(places) == len(sentences):
        return response, places
    text = " ".join(sentences)
    ends = accumulate(len(sentence) + 1 for sentence in sentences)
    return text, [(end - 1 - len(sentence), end - 1) for end, sentence in zip(ends, sentences, strict=True)]


def _segments(language: str, line: str) -> Iterable[str]:
    if line.isascii() and line.find(".", 0, -1) < 0 and line.find("!", 0, -1) < 0 and line.find("?", 0, -1) < 0:
        return (line,)
    window = len(line)
    if (
        window > _TIGHT_WINDOW
        and (len(signs_of(line)) + line.count("!") + line.count("?")) * window > _STOPS_BY_LENGTH  # it has no more
        and len(_TIGHT_STOP.findall(line)) * window > _STOPS_BY_LENGTH
    ):
        window = _TIGHT_WINDOW
    elif window > _WINDOW and sum(map(line.count, _QUOTES)) * window > _QUOTES_BY_LENGTH:
        window = _WINDOW
    pieces: Iterable[str] = _windows(language, line, window)
    if language == "ru" and "и т" in line:
        return _split_and_so_on(pieces)
    return _split_thai_clauses(pieces) if language == "th" else pieces


_AND_SO_ON: Final = re.compile(r"(?<=\bи т\.[дп]\.)\s(?=[А-ЯЁA-Z«„\"])|(?<=\bи т\. [дп]\.)\s(?=[А-ЯЁA-Z«„\"])")


def _split_and_so_on(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        at = 0
        for end in _AND_SO_ON.finditer(piece):
            yield piece[at : end.end()]
            at = end.end()
        yield piece[at:]


_THAI_SPACE: Final = re.compile(r"(?<=[\u0e01-\u0e4e]) +(?=[\u0e01-\u0e4e])")
_THAI_CHARS: Final = 60
"""Least characters of a Thai piece: a sentence ends with a space, and so do many shorter parts of one."""


def _split_thai_clauses(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        at = 0
        for space in _THAI_SPACE.finditer(piece):
            if min(space.end() - at, len(piece) - space.end()) >= _THAI_CHARS:
                yield piece[at : space.end()]
                at = space.end()
        yield piece[at:]


def _windows(language: str, line: str, window: int) -> Iterator[str]:
    start = 0
    while len(line) - start > window:
        pieces: list[str] = list(sentencex.segment(language, line[start : start + window]))
        ends = list(accumulate(map(len, pieces)))
        # A sentence longer than that is split, so that each character is read a bounded number of times.
        whole = bisect_right(ends, window * 3 // 4) or 1
        yield from pieces[:whole]
        start += ends[whole - 1]
    yield from sentencex.segment(language, line[start:])
