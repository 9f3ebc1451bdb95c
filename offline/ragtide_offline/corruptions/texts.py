"""Changes numbers, units, dates and names in a text: each function returns the changed text, or None. Pure, linear.

Numbers and names need no language. Number words, units and months are known in English and Russian, months and days
of the week also in German, French and Spanish.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Final, NamedTuple

from ragtide_consumers.text.answers import without_sources
from ragtide_consumers.text.marks import without_marks


def _group(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NUMBER: Final = re.compile(r"(?<!\w)(?<!\d[.,])(?<![^\W\d_][-–])\d+(?:[.,]\d+)*")
"""A number that is not part of a name such as `H1N1`, `v1.2` or `COVID-19`."""

_ITEM: Final = re.compile(r"^[ \t]*\d{1,3}[.)](?=\s)", re.MULTILINE)
"""Number of an item of a list, which says nothing."""

_NUMBER_WORDS: Final = (
    _group("two three four five six seven eight nine ten eleven twelve"),
    _group("thirteen fourteen fifteen sixteen seventeen eighteen nineteen"),
    _group("twenty thirty forty fifty sixty seventy eighty ninety"),
    _group("second third fourth fifth sixth seventh eighth ninth tenth"),
    _group("twice thrice"),
    _group("пять шесть семь восемь девять десять одиннадцать двенадцать"),
    _group("два три четыре"),
    _group("двух трёх трех четырёх четырех"),
    _group("пяти шести семи восьми девяти десяти"),
    _group("двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто"),
)

_MONTHS: Final = (
    _group("January February March April June July August September October November December"),
    _group("января февраля марта апреля мая июня июля августа сентября октября ноября декабря"),
    _group("январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре"),
    _group("Januar Februar März Juni Juli Oktober Dezember"),
    _group("janvier février mars avril juin juillet août septembre octobre novembre décembre"),
    _group("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
)

_DAYS: Final = (
    _group("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    _group("понедельник вторник четверг воскресенье"),
    _group("среду пятницу субботу"),
    _group("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
    _group("lundi mardi mercredi jeudi vendredi samedi dimanche"),
    _group("lunes martes miércoles jueves viernes sábado domingo"),
)

_UNITS: Final = (
    _group("minutes hours days weeks months years decades centuries"),
    _group("minute hour day week month year decade century"),
    _group("metres kilometres centimetres millimetres"),
    _group("meters kilometers centimeters millimeters miles feet inches yards"),
    _group("grams kilograms milligrams tons tonnes pounds ounces"),
    _group("thousand million billion trillion"),
    _group("dollars euros pounds yen rubles francs"),
    _group("Celsius Fahrenheit Kelvin"),
    _group("bytes kilobytes megabytes gigabytes terabytes"),
    _group("минут часов дней недель месяцев лет"),
    _group("минуты часа дня недели месяца года"),
    _group("метров километров сантиметров миллиметров миль"),
    _group("граммов килограммов миллиграммов тонн"),
    _group("рублей долларов евро"),
    _group("тысяч миллионов миллиардов"),
    _group("Stunden Minuten Wochen Monaten Monate Jahre Jahren"),
)
"""Words that mean a unit anywhere. The first group that has a word changes it into another of its group."""

_SHORT_UNITS: Final = (
    _group("mm cm m km"),
    _group("mg g kg"),
    _group("ml l"),
    _group("KB MB GB TB"),
    _group("мм см м км"),
    _group("мг г кг"),
    _group("мл л"),
    _group("тыс млн млрд"),
    ("°C", "°F"),
)
"""Symbols that mean a unit after a number only."""

_CURRENCIES: Final = ("$", "€", "£", "¥")


def _groups(*families: Sequence[Sequence[str]]) -> dict[str, Sequence[str]]:
    groups: dict[str, Sequence[str]] = {}
    for group in chain(*families):
        for word in group:
            groups.setdefault(word.lower(), group)
    return groups


_COUNTED: Final = _groups(_NUMBER_WORDS)
_DATED: Final = _groups(_MONTHS, _DAYS, _UNITS)
_SHORT: Final[Mapping[str, Sequence[str]]] = {unit: group for group in _SHORT_UNITS for unit in group}
_NAMES_OF_TIMES: Final = frozenset(chain(*_MONTHS[:1], *_MONTHS[3:4], *_DAYS[:1], *_DAYS[3:4]))
"""Words that are months or days with a capital letter only: `march` and `august` are not."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_SHORT_UNIT: Final = re.compile(r"(?<=\d)\s?(°[CF]|[^\W\d_]{1,3})(?![\w/])")
_YEAR: Final = re.compile(r"(?<![\w.,-])(?:1\d|20)\d\d(?![\w%])(?![.,]\d)")
_CURRENCY: Final = re.compile(r"[$€£¥](?=\s?\d)|(?<=\d)\s?[€£¥]")


def _without_citations(text: str) -> str:
    return without_sources(without_marks(text, files=True))


def change_numbers(text: str, rng: Random) -> str | None:
    """Return a text with other numbers, in digits and in words; None if it has none.

    Equal numbers stay equal, and a number keeps its number of digits. Numbers in citations, of items of lists and
    inside names (`COVID-19`) stay.

    Args:
        text: any text.
        rng: draws the numbers.

    >>> change_numbers("Built in 1889 [1], for 10,000 visitors of COVID-19 times.", Random(1))
    'Built in 1878 [1], for 34,177 visitors of COVID-19 times.'
    """
    facts = _ITEM.sub(lambda match: "\x00" * len(match[0]), _without_citations(text))
    known: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        if match[0] not in known:
            known[match[0]] = _other_number(match[0], rng)
        return known[match[0]]

    text = _replace(text, facts, _NUMBER, number)
    facts = _replace(facts, facts, _NUMBER, number)
    text = _replace(text, facts, _WORD, _other_words(_COUNTED, known, rng))
    return text if any(new != old for old, new in known.items()) else None


def changed_unit_or_date(text: str, rng: Random) -> str | None:
    """Return a text with other units, currencies, months, days of the week and years; None if it has none.

    Args:
        text: any text.
        rng: draws the units and dates.

    >>> changed_unit_or_date("On Monday, 3 March 1889, it grew by 5 km.", Random(1))
    'On Saturday, 3 February 1884, it grew by 5 cm.'
    """
    known: dict[str, str] = {}

    earlier = rng.randint(1, 20)

    def year(match: re.Match[str]) -> str:
        return known.setdefault(match[0], str(int(match[0]) - earlier))

    def short(match: re.Match[str]) -> str:
        group = _SHORT.get(match[1])
        if group is None:
            return match[0]
        return match[0][: -len(match[1])] + known.setdefault(match[1], _other(match[1], group, rng))

    def currency(match: re.Match[str]) -> str:
        sign = match[0].strip()
        return match[0].replace(sign, known.setdefault(sign, _other(sign, _CURRENCIES, rng)))

    for pattern, change in (
        (_WORD, _other_words(_DATED, known, rng)),
        (_SHORT_UNIT, short),
        (_CURRENCY, currency),
        (_YEAR, year),
    ):
        text = _replace(text, _without_citations(text), pattern, change)
    return text if known else None


def names_of(texts: Iterable[str]) -> list[str]:
    """Return the names in texts, each once, in order: runs of capitalized words, and words such as `NASA`.

    A capitalized word at the start of a sentence is a name only with a second one, or if it stands inside a sentence
    too. Texts without capital letters have no names.

    Args:
        texts: texts of any language.

    >>> names_of(["The Eiffel Tower stands in Paris. Paris is in France."])
    ['Eiffel Tower', 'Paris', 'France']
    """
    runs = [run for text in texts for run in _runs(text)]
    inside = {run.words[0] for run in runs if not run.starts} | {word for run in runs for word in run.words[1:]}
    names: dict[str, None] = {}
    for run in runs:
        words = run.words
        if run.starts and (words[0].lower() in _STARTING or (len(words) == 1 and not _is_name(words[0], inside))):
            words = words[1:]  # "In Paris" begins with a word that is no part of the name
        if any(len(word) > 1 and word not in _NAMES_OF_TIMES for word in words):
            names.setdefault(" ".join(words))
    return list(names)


def swap_entity(text: str, names: Sequence[str], rng: Random) -> str | None:
    """Return a text in which one of its names is another name; None if it has no name, or `names` has no other.

    A name with as many words is preferred. A name that shares a word with the text is never put in.

    Args:
        text: any text.
        names: from `names_of` the documents or other texts.
        rng: draws both names.

    >>> swap_entity("The tower stands in Paris.", ["Paris", "Berlin"], Random(1))
    'The tower stands in Berlin.'
    """
    words = {word.lower() for word in _WORD.findall(text)}
    known = {*names}
    in_text = names_of([text])
    first = [" ".join(run.words) for run in _runs(text) if run.starts]
    in_text += [name for name in dict.fromkeys(first) if name in known and name not in in_text]
    others = [name for name in dict.fromkeys(names) if words.isdisjoint(_WORD.findall(name.lower()))]
    if not in_text or not others:
        return None
    name = rng.choice(in_text)
    alike = [other for other in others if _shape(other) == _shape(name)]
    other = rng.choice(alike or others)
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _: other, text)


def _other_number(number: str, rng: Random) -> str:
    if number.isascii() and number.isdecimal():
        value = int(number) if len(number) < 10 else 10**9
        if len(number) == 4 and 1100 <= value <= 2100:
            return str(value - rng.randint(3, 40))
        if value <= 31:
            others = [other for other in range(2, 10 if len(number) == 1 else 32) if other != value]
            if len(number) > 1:
                others = [other for other in others if other >= 10 or number[0] == "0"]
            return str(rng.choice(others)).zfill(len(number))
    first, rest = number[0], number[1:]
    digits = [str((int(first) - 1 + rng.randint(1, 8)) % 9 + 1) if first != "0" else first]
    digits += [str(rng.randint(0, 9)) if each.isdecimal() else each for each in rest]
    if first == "0":  # 0.5: another digit after the separator
        place = next((place for place, each in enumerate(rest, 1) if each.isdecimal()), None)
        if place is None:
            return "7"
        digits[place] = str((int(rest[place - 1]) + rng.randint(1, 9)) % 10)
    return "".join(digits)


def _other_words(
    groups: Mapping[str, Sequence[str]], known: dict[str, str], rng: Random
) -> Callable[[re.Match[str]], str]:
    def change(match: re.Match[str]) -> str:
        word = match[0]
        group = groups.get(word.lower())
        if group is None or (word.capitalize() in _NAMES_OF_TIMES and word[0].islower()):
            return word
        if word not in known:
            other = _other(word, group, rng)
            known[word] = other[0].upper() + other[1:] if word[0].isupper() else other
        return known[word]

    return change


def _other(word: str, group: Sequence[str], rng: Random) -> str:
    return rng.choice([other for other in group if other.lower() != word.lower()])


def _replace(text: str, facts: str, pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> str:
    parts, at = [], 0
    for match in pattern.finditer(facts):
        parts += [text[at : match.start()], change(match)]
        at = match.end()
    return "".join([*parts, text[at:]])


_STARTING: Final = frozenset(
    _group(
        "a an the this that these those it its he she they we i you his her their there here in on at by for from to "
        "of with without as after before during since while when where who what which why how if although because but "
        "and or so however according both all some many most each no not yes one two also once today "
        "в во на по из за от до к с у о об при для и а но или если когда где кто что как это эта этот эти он она оно "
        "они его её ее их мы вы я так также после перед однако согласно все не да нет "
        "der die das ein eine im in am mit und oder wenn es sie er wir le la les un une des dans en el los las una y"
    )
)
"""Words that begin a sentence with a capital letter and are no names."""

_TOKEN: Final = re.compile(r"[^\W_](?:\.(?= ))|[^\W_]+(?:[-'’&.](?!s\b)[^\W_]+)*|[.!?:;\n…]|[^\s\w]")
"""A word, an initial with its point, or a mark."""


class _Run(NamedTuple):
    """Capitalized words in a row."""

    words: list[str]
    starts: bool
    """Whether they begin a sentence."""


def _runs(text: str) -> list[_Run]:
    runs: list[_Run] = []
    starts, end = True, -1
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word[0].isupper():
            if runs and end >= 0 and text[end : token.start()] == " ":
                runs[-1].words.append(word)
            else:
                runs.append(_Run([word], starts))
            end = token.end()
        else:
            end = -1
        starts = word in ".!?:;…\n" or (starts and not word[0].isalnum())
    return runs


def _is_name(word: str, inside: set[str]) -> bool:
    return word in inside or (len(word) > 1 and word.isupper())


def _shape(name: str) -> tuple[int, bool]:
    return name.count(" "), name.isupper()
