"""Which of some texts stand in prompts, and which part of each.

Words are compared, not characters: white space, punctuation, marks, and escapes of JSON, Python and HTML make no
difference. Of writings without spaces, such as Chinese and Thai, each character is a word. The time is linear: each
word is looked up a bounded number of times.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from html import unescape
from itertools import accumulate, chain, compress, count, islice, takewhile
from operator import add, and_, itemgetter, ne
from typing import Final, NamedTuple

GRAM: Final = 3
"""Words by which a text is found; a text of fewer words counts only where it stands alone."""
ANCHORS: Final = 8
"""Places of a text whose words are looked up: a whole text has all of them, and is sought at the rarest."""
TRIES: Final = 64
"""Places at which a whole text is compared, before it counts as not found."""
SAMPLES: Final = 5
"""Places of a part that are looked up in the other texts."""
OTHER: Final = -1
"""Number of what stands in prompts and is no text."""
PART_WORDS: Final = 4
"""Fewest words of a part of a text, which is then a sentence or the beginning of the text."""
LONG_WORDS: Final = 8
LONG_CHARS: Final = 14
"""A part of so many words, which have so many characters, needs to be neither."""
COMMON_SHARE: Final = 0.8
"""Share of a text from which a part counts although another text has it, too."""
SAME_MAX: Final = 8
"""Most places of the same words in the texts at which a part is compared."""
BACK: Final = 4
"""Words by which parts are continued backwards, for each word of the prompts: a limit of the time."""
CHANCE_WORDS: Final = 3
"""Most words at the end of a part that what comes after it in the prompt may have by chance."""
BLOCK: Final = 32
"""Words that are compared at first; then twice as many."""
BETWEEN: Final = 5
"""Most words of the prompt between two parts of a text that are kept, such as `[NAME]`."""

_FREE: Final = bytes((1, 0)) + bytes(254)
"""Translates words that are taken to words that are free."""
SPACED: Final = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_HAS_SPACELESS: Final = re.compile(f"[{_SPACELESS}]")
_WORD: Final = re.compile(r"\w+")
_WORD_OR_CHARACTER: Final = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+")
_NEW_LINE: Final = re.compile(r"\\{1,8}[nr]")
_WHITE: Final = re.compile(r"\\{1,8}[tbfv]")
_CODE: Final = re.compile(r"\\{1,8}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))")
_CODES: Final = ("\\u", "\\x", "\\U")
_END: Final = re.compile(r"[.!?…:;]['\")\]]{0,3}(?:\s|$)|[\n。！？；|•]")
"""What stands between two sentences."""
_BREAK: Final = re.compile(r"[\n\"'…<>{}\[\]|]|\.\.\.")
"""What stands after a text that was cut."""
_ALONE: Final = re.compile(r"[^\w\s]|\n")
_JOINING: Final = frozenset([*".-'’/@&", "::"])
"""What stands beside a short text inside a longer word, such as the name of a file."""
_OF_WORDS: Final = frozenset("+#%$€£°@-")
"""Signs that are a part of the word beside them: `C++` is not `C`."""


def given_texts(prompts: Iterable[str], texts: Sequence[str], others: Iterable[str] = ()) -> dict[int, str]:
    r"""Return the texts that stand in prompts, by their numbers, each as far as it stands there.

    They are in the order of the prompts. A whole text is returned as it is. The place of a longer text is not that of a
    shorter one that is a piece of it. Of a text that was cut or compressed, the parts are returned; words that several
    texts have show none of them.

    >>> given_texts(["Answer by:\n[1] It was built in 1889.\n[2] It stands in Paris.\nWhere is it?"],
    ...             ["It stands in Paris.", "It is 330 metres high.", "It was built in 1889."])
    {2: 'It was built in 1889.', 0: 'It stands in Paris.'}

    Args:
        prompts: texts of prompts, in their order.
        texts: texts that may stand in them; of two that are equal, each needs a place of its own.
        others: what else stands in them, such as the question: its words show no text.
    """
    search = _Search(_SplitText("\n\n".join(prompts)))
    read = [_SplitText(text) for text in texts]
    places = search.whole(read, [_SplitText(other) for other in dict.fromkeys(others)])
    standing = {number: (place, texts[number]) for number, place in places.items()}
    if rest := [number for number in range(len(read)) if number not in places]:
        standing |= search.cut(read, rest)
    return {number: text for number, (_, text) in sorted(standing.items(), key=lambda item: (item[1][0], item[0]))}


class _SplitText:
    """A text as words: without the escapes of JSON, Python and HTML."""

    def __init__(self, text: str) -> None:
        self.given = text
        if "\\" in text:
            text = _WHITE.sub(" ", _NEW_LINE.sub("\n", text))
            if any(code in text for code in _CODES):
                text = _CODE.sub(_character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.text = unescape(text) if "&" in text else text
        self._spaced = self.text.translate(SPACED) if self.text.isascii() else None
        self.words: list[str] = self._pattern.findall(self.text) if self._spaced is None else self._spaced.split()

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _WORD_OR_CHARACTER if _HAS_SPACELESS.search(self.text) else _WORD

    @cached_property
    def grams(self) -> list[int]:
        return _grams(self.words)

    @cached_property
    def starts(self) -> list[int]:
        """The place of each word in the text."""
        if self._spaced is None:
            return [match.start() for match in self._pattern.finditer(self.text)]
        items = self._spaced.split(" ")
        # Of each item the lengths of those before it, and their spaces.
        return list(compress(map(add, accumulate(map(len, items), initial=0), count()), items))

    def end(self, number: int) -> int:
        """Return the place after a word."""
        return self.starts[number] + len(self.words[number])

    def before(self, number: int) -> str:
        """Return what stands before a word and after the one before it; after the last word, what follows it."""
        start = self.starts[number - 1] + len(self.words[number - 1]) if number else 0
        return self.text[start : self.starts[number] if number < len(self.words) else None]

    def signs(self, start: int, end: int) -> tuple[str, str]:
        """Return the signs right beside some words that are a part of them."""
        before, after = self.before(start)[-1:], self.before(end)[:1]
        return before if before in _OF_WORDS else "", after if after in _OF_WORDS else ""

    def part(self, first: int, last: int) -> str:
        """Return the text from a word to the word before `last`."""
        return self.text[self.starts[first] : self.end(last - 1)]


def _grams(words: Sequence[str]) -> list[int]:
    return list(map(hash, zip(*(words[shift:] for shift in range(GRAM)), strict=False)))


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or match[3], 16)
    return chr(code) if code <= 0x10FFFF else " "


class _Search:
    """Prompts, of which some words are taken: they are the place of a text that was found."""

    def __init__(self, prompt: _SplitText) -> None:
        self.prompt = prompt
        self.taken = bytearray(len(prompt))

    def whole(self, texts: Sequence[_SplitText], others: Sequence[_SplitText]) -> dict[int, int]:
        """Return the places of the texts that stand there as a whole, and take them and those of the others."""
        long: dict[tuple[str, ...], tuple[_SplitText, list[int]]] = {}
        for number, text in (*((OTHER, other) for other in others), *enumerate(texts)):
            if len(text) >= GRAM:
                long.setdefault(tuple(text.words), (text, []))[1].append(number)
        sought = sorted(
            ((text, numbers, _anchors(text)) for text, numbers in long.values()), key=lambda item: -len(item[0])
        )
        places = self._places(gram for _, _, anchors in sought for gram in anchors)
        starts: dict[int, int] = {}
        passed: Counter[int] = Counter()
        for text, numbers, anchors in sought:
            waiting = list(numbers)
            rarest = min(anchors, key=lambda gram: len(places[gram]))
            # All its places are taken, also if it is found already: an agent repeats its messages in each prompt.
            while (free := self._next(text.words, anchors[rarest], places[rarest], passed, rarest)) is not None:
                self._take(free, free + len(text))
                if waiting and waiting[0] != OTHER:
                    starts[waiting.pop(0)] = free
        short = [(OTHER, text) for text in others] + list(enumerate(texts))
        return starts | self._short([(number, text) for number, text in short if 0 < len(text) < GRAM])

    def _places(self, grams: Iterable[int]) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {gram: [] for gram in grams}
        grams = self.prompt.grams
        is_sought = [*map(places.__contains__, grams)]
        for gram, place in zip(compress(grams, is_sought), compress(count(), is_sought), strict=True):
            places[gram].append(place)
        return places

    def _next(self, words: list[str], offset: int, places: list[int], passed: Counter[int], gram: int) -> int | None:
        number = passed[gram]
        while number < len(places) and self.taken[places[number]]:
            end = self.taken.find(0, places[number])
            number = bisect_left(places, end, number) if end >= 0 else len(places)
        passed[gram] = number
        for place in places[number : number + TRIES]:
            start, end = place - offset, place - offset + len(words)
            if start >= 0 and self.taken.find(1, start, end) < 0 and self.prompt.words[start:end] == words:
                return start
        return None

    def _take(self, start: int, end: int) -> None:
        self.taken[start:end] = b"\1" * (end - start)

    def _short(self, sought: Sequence[tuple[int, _SplitText]]) -> dict[int, int]:
        waiting: dict[tuple[str, ...], list[tuple[int, tuple[str, str]]]] = {}
        for number, text in sought:
            waiting.setdefault(tuple(text.words), []).append((number, text.signs(0, len(text))))
        free: list[tuple[int, int, tuple[str, ...]]] = []
        is_free = self.taken.translate(_FREE)
        for size in sorted({len(words) for words in waiting}, reverse=True):
            there = [*zip(*(self.prompt.words[shift:] for shift in range(size)), strict=False)]
            are_free = map(all, zip(*(is_free[shift:] for shift in range(size)), strict=False))
            fits = [*map(and_, are_free, map(waiting.__contains__, there))]
            free += compress(zip(count(), count(size), there, strict=False), fits)
        ends, starts = set[int](), set[int]()
        for start, end, _ in sorted(free):
            if start in ends or self._is_edge(start, start - 1):
                ends.add(end)
        for start, end, _ in sorted(free, key=itemgetter(1), reverse=True):
            if end in starts or self._is_edge(end, end):
                starts.add(start)
        places: dict[int, int] = {}
        for start, end, words in [item for item in free if item[1] in ends and item[0] in starts]:
            if not waiting[words] or self.taken.find(1, start, end) >= 0:
                continue
            signs = self.prompt.signs(start, end)
            item = next((item for item in waiting[words][:SAME_MAX] if item[1] == signs), None)
            if item is not None:
                self._take(start, end)
                if item[0] != OTHER:
                    places[item[0]] = start
                    waiting[words].remove(item)
        return places

    def _is_edge(self, place: int, beside: int) -> bool:
        if not 0 <= beside < len(self.taken) or self.taken[beside]:
            return True
        between = self.prompt.before(place)
        return between != " " and between not in _JOINING and _ALONE.search(between) is not None

    def cut(self, texts: Sequence[_SplitText], numbers: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return the places and the parts of the numbered texts that stand there in part."""
        grams = self.prompt.grams
        free = [*compress(range(0, len(grams), GRAM - 1), self.taken[:: GRAM - 1].translate(_FREE))]
        joined = _JoinedTexts(texts, numbers, set(map(grams.__getitem__, free)))
        runs: list[_CommonRun] = []
        for run in self._runs(joined, free):
            cuts = range(min(CHANCE_WORDS, run.length) + 1)
            shorter = (run.clipped(run.start + before, run.end - after) for before in cuts for after in cuts)
            runs += islice((part for part in shorter if self._is_part(texts[part.number], part)), 1)
        if not runs:
            return {}
        own = joined.own_runs(runs, [run.samples for run in runs])
        rest = [run for run in runs if run not in own]
        own |= joined.own_runs(rest, [range(run.at, run.at + run.length - GRAM + 1) for run in rest])
        common = [run for run in runs if run.length >= COMMON_SHARE * len(texts[run.number])]
        parts: dict[int, list[_CommonRun]] = {}
        for run in sorted({*own, *common}, key=lambda run: (-run.length, run.start)):
            start = self.taken.find(0, run.start, run.end)
            taken = self.taken.find(1, start, run.end) if start >= 0 else -1
            end = taken if taken >= 0 else run.end
            part = self._cut_at_break(texts[run.number], run.clipped(start, end)) if start >= 0 else run
            if start >= 0 and (part == run or self._is_part(texts[part.number], part)):
                self._take(start, part.end)
                parts.setdefault(part.number, []).append(part)
        self._add_rests(texts, joined, parts)
        return {number: (min(own).start, self._joined(texts[number], own)) for number, own in parts.items()}

    def _add_rests(
        self, texts: Sequence[_SplitText], joined: "_JoinedTexts", parts: dict[int, list["_CommonRun"]]
    ) -> None:
        lasts = {number: max(part.at + part.length for part in own) for number, own in parts.items()}
        rests = {number: last for number, last in lasts.items() if len(texts[number]) - last >= GRAM}
        grams = {number: joined.gram(number, last) for number, last in rests.items()}
        there = set(grams.values()).intersection(self.prompt.grams)
        rests = {number: last for number, last in rests.items() if grams[number] in there}
        places = self._places(there) if there else {}
        passed: Counter[int] = Counter()
        for number, last in sorted(rests.items(), key=lambda rest: rest[1] - len(texts[rest[0]])):
            words, gram = texts[number].words[last:], grams[number]
            place = self._next(words, 0, places[gram], passed, gram)
            if place is not None:
                self._take(place, place + len(words))
                parts[number].append(_CommonRun(place, len(words), number, last))

    @staticmethod
    def _without_overlaps(parts: Sequence["_CommonRun"]) -> Iterator["_CommonRun"]:
        last = 0
        for part in sorted(parts, key=lambda part: (part.at, -part.length)):
            if part.at + part.length > last:
                new = part.clipped(max(part.start, part.start + last - part.at), part.end)
                last = new.at + new.length
                yield new

    def _runs(self, texts: "_JoinedTexts", free: Sequence[int]) -> Iterator["_CommonRun"]:
        prompt, grams, taken, words = self.prompt.words, self.prompt.grams, self.taken, texts.words
        hits = [*compress(free, map(texts.first.__contains__, map(grams.__getitem__, free)))]
        repeats = texts.repeats(set(map(grams.__getitem__, hits)))
        back, low, stop, number = BACK * len(prompt), 0, 0, 0
        while number < len(hits):
            hit = hits[number]
            if stop <= hit:
                low = taken.rfind(1, stop, hit) + 1
                stop = taken.find(1, hit)
                stop = len(prompt) if stop < 0 else stop
            length, start, begin = 0, 0, 0
            for at in (texts.first[grams[hit]], *repeats.get(grams[hit], ())):
                before = _same_before(prompt, words, hit, at, min(hit - low, at, back))
                back -= before
                size = before + _same_after(prompt, words, hit, at, stop)
                if size > length:
                    length, start, begin = size, hit - before, at - before
            if length >= PART_WORDS:
                yield _CommonRun(start, length, *texts.place(begin))
            number = bisect_left(hits, start + length, number + 1)

    def _is_part(self, text: _SplitText, run: "_CommonRun") -> bool:
        if run.length < PART_WORDS:
            return False
        last = run.at + run.length
        some = text.words[run.at : min(last, run.at + LONG_CHARS)]  # which are enough: each has a character
        if run.length >= LONG_WORDS and sum(map(len, some)) >= LONG_CHARS:
            return True
        begins = not run.at or _END.search(text.before(run.at)) is not None
        if begins and (last == len(text) or _END.search(text.before(last)) is not None):
            return True
        return not run.at and (
            self._is_cut_word(text, last, run.end) or _BREAK.search(self.prompt.before(run.end)) is not None
        )

    def _cut_at_break(self, text: _SplitText, run: "_CommonRun") -> "_CommonRun":
        for end in range(run.end - 1, max(run.start, run.end - CHANCE_WORDS - 1), -1):
            breaks = _BREAK.findall(self.prompt.before(end))
            if breaks and len(breaks) > len(_BREAK.findall(text.before(run.at + end - run.start))):
                return run.clipped(run.start, end)
        return run

    def _is_cut_word(self, text: _SplitText, last: int, end: int) -> bool:
        if last == len(text) or end == len(self.taken) or self.taken[end]:
            return False
        return text.words[last].startswith(self.prompt.words[end]) and text.words[last] != self.prompt.words[end]

    def _joined(self, text: _SplitText, parts: Sequence["_CommonRun"]) -> str:
        ordered = list(self._without_overlaps(parts))
        if sum(part.length for part in ordered) == len(text):
            return text.given
        pieces: list[str] = []
        for part, after in zip(ordered, [*ordered[1:], None], strict=True):
            pieces.append(text.part(part.at, part.at + part.length))
            if (
                after is not None
                and part.end <= after.start <= part.end + BETWEEN
                and self.taken.find(1, part.end, after.start) < 0
            ):
                pieces.append(self.prompt.text[self.prompt.end(part.end - 1) : self.prompt.starts[after.start]])
            else:
                pieces.append(self._after(text, part.at + part.length, part.end) + (" " if after else ""))
        return "".join(pieces)

    def _after(self, text: _SplitText, last: int, end: int) -> str:
        own, there = text.before(last), self.prompt.before(end)
        if own == there and self._is_cut_word(text, last, end):
            return own + self.prompt.words[end]
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(own, there, strict=False))
        same = "".join(sign for sign, _ in pairs)
        return same if len(same) < len(there) else same.rstrip()


class _CommonRun(NamedTuple):
    """Words of the prompts that stand in a text, too."""

    start: int
    length: int
    number: int
    """Number of the text."""
    at: int
    """Place of the first word in the text."""

    @property
    def end(self) -> int:
        return self.start + self.length

    def clipped(self, start: int, end: int) -> "_CommonRun":
        """Return the part of the run between two places."""
        return _CommonRun(start, end - start, self.number, self.at + start - self.start)

    @property
    def samples(self) -> set[int]:
        """Places in the text of a few of the run's grams."""
        last = self.length - GRAM
        return {self.at + last * number // (SAMPLES - 1) for number in range(SAMPLES)}


def _same_after(prompt: list[str], words: list[str], start: int, at: int, stop: int) -> int:
    place, block = start, BLOCK
    while place < stop:
        some = prompt[place : min(place + block, stop)]
        others = words[at + place - start : at + place - start + len(some)]
        if some != others:
            return place - start + next(compress(count(), map(ne, some, others)))
        place, block = place + len(some), 2 * block
    return place - start


def _same_before(prompt: list[str], words: list[str], end: int, at: int, most: int) -> int:
    same, block = 0, 1
    while same < most:
        size = min(block, most - same)
        some, others = prompt[end - same - size : end - same], words[at - same - size : at - same]
        if some != others:
            return same + next(compress(count(), map(ne, reversed(some), reversed(others))))
        same, block = same + size, 2 * block
    return same


class _JoinedTexts:
    """The words of some texts as one list: those that are sought, and then the others.

    Args:
        texts: all texts.
        numbers: numbers of those that are sought.
        known: grams of the prompts; without one of them nothing is found.
    """

    def __init__(self, texts: Sequence[_SplitText], numbers: Sequence[int], known: set[int]) -> None:
        self.numbers = [*numbers, *sorted({*range(len(texts))}.difference(numbers))]
        self.words = [*chain.from_iterable([*texts[number].words, "\n"] for number in self.numbers)]
        ends = [*accumulate(len(texts[number]) + 1 for number in self.numbers)]
        self.begins = [0, *ends]
        self.spans: dict[int, tuple[int, int]] = dict(
            zip(self.numbers, zip(self.begins, ends, strict=False), strict=True)
        )
        grams = _grams(self.words)
        size = self.begins[len(numbers)]
        self.grams: list[int] = [] if known.isdisjoint(grams) else grams[:size]
        self.others = grams[size:]
        self.first: dict[int, int] = dict(zip(reversed(self.grams), reversed(range(len(self.grams))), strict=True))
        """The first place of each gram of the sought texts."""
        firsts = map(self.first.__getitem__, self.grams)
        self.later = [*compress(count(), map(ne, firsts, count()))] if len(self.first) < len(self.grams) else []
        self.last: dict[int, int] = dict(zip(map(self.grams.__getitem__, self.later), self.later, strict=True))
        """The last place of those that have several."""

    def gram(self, number: int, at: int) -> int:
        """Return the gram at a place of a sought text."""
        return self.grams[self.spans[number][0] + at]

    def place(self, place: int) -> tuple[int, int]:
        """Return the number of the text at a place, and the place in the text."""
        row = bisect_right(self.begins, place) - 1
        return self.numbers[row], place - self.begins[row]

    def repeats(self, known: set[int]) -> dict[int, list[int]]:
        """Return the later places of known grams, the first of them."""
        later: dict[int, list[int]] = {}
        for place in compress(self.later, map(known.__contains__, map(self.grams.__getitem__, self.later))):
            same = later.setdefault(self.grams[place], [])
            if len(same) < SAME_MAX - 1:
                same.append(place)
        return later

    def own_runs(self, runs: Sequence["_CommonRun"], places: Sequence[Iterable[int]]) -> set["_CommonRun"]:
        """Return the runs with words that no other text has, among the grams at some places of their texts."""
        grams = [{self.gram(run.number, place) for place in some} for run, some in zip(runs, places, strict=True)]
        shared = set[int]().union(*grams).intersection(self.others) if self.others else set[int]()
        own: set[_CommonRun] = set()
        for run, some in zip(runs, grams, strict=True):
            begin, end = self.spans[run.number]
            if any(self.first[gram] >= begin and self.last.get(gram, begin) < end for gram in some.difference(shared)):
                own.add(run)
        return own


def _anchors(text: _SplitText) -> dict[int, int]:
    last = len(text) - GRAM
    places = {last * number // (ANCHORS - 1) for number in range(ANCHORS)}
    return {hash(tuple(text.words[place : place + GRAM])): place for place in places}
