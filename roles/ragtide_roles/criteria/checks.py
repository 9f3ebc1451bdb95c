"""Checks of the words of criteria. All are hints of simple word lists, because only the writer knows the meaning."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final, Literal

from ragtide_consumers.text.languages import UNKNOWN, language_of
from ragtide_schemas.criterion import BUILT_IN, Criterion, Need
from ragtide_schemas.metrics import Direction

Kind = Literal["invalid", "overlap", "double question", "scale", "needs", "direction"]

ALIKE: Final = 0.8
"""Share of equal letter triples from which two questions count as nearly the same."""


@dataclass(frozen=True, slots=True)
class CriterionFinding:
    """A problem of a criterion."""

    criterion: str
    level: Literal["error", "hint"]
    """An `error` keeps the criterion from being asked; a `hint` is for the writer to decide."""
    kind: Kind
    message: str
    """The problem with its remedy."""

    def as_dict(self) -> dict[str, Any]:
        """Return the finding, for programs."""
        return asdict(self)


def criterion_findings(criteria: Sequence[Criterion], beside: Sequence[Criterion] = ()) -> list[CriterionFinding]:
    """Return the problems of criteria, in their order.

    Args:
        beside: criteria that are asked already, to find overlaps with.

    >>> asked = Criterion(name="polite", question="Is the response polite and correct?", scale="yes_no")
    >>> [finding.kind for finding in criterion_findings([asked])]
    ['double question']
    """
    findings = []
    for criterion in criteria:
        if criterion is not next(other for other in criteria if other.name == criterion.name):
            message = "another criterion has this name: give each a name of its own"
            findings.append(CriterionFinding(criterion.name, "error", "invalid", message))
        findings += _wording_findings(criterion)
    return [*findings, *_overlaps(criteria, beside)]


def _wording_findings(criterion: Criterion) -> Iterator[CriterionFinding]:
    if criterion.is_built_in:
        return
    for kind, messages in (
        ("double question", _double_question(criterion.question)),
        ("scale", _unexplained_scale(criterion)),
        ("needs", _contradicted_needs(criterion)),
        ("direction", _doubtful_direction(criterion)),
    ):
        for message in messages:
            yield CriterionFinding(criterion.name, "hint", kind, message)  # type: ignore[arg-type]


def _overlaps(criteria: Sequence[Criterion], beside: Sequence[Criterion]) -> Iterator[CriterionFinding]:
    known = {criterion.name for criterion in criteria}
    others = [other for other in beside if other.name not in known]
    built_in = [
        (name, _triples(str(fields["question"]).partition("?")[0]))
        for name, fields in BUILT_IN.items()
        if name not in known | {other.name for other in others}
    ]
    own = [(criterion, _triples(criterion.question)) for criterion in criteria]
    pairs = [
        *combinations(own, 2),
        *(((other, _triples(other.question)), pair) for other in others for pair in own),
    ]
    for (first, first_triples), (second, second_triples) in pairs:
        if first.name != second.name and _likeness(first_triples, second_triples) >= ALIKE:
            message = f"asks nearly the same as {first.name}: keep one of them, or write the difference into both"
            yield CriterionFinding(second.name, "hint", "overlap", message)
    for criterion, triples in own:
        for name, triples_of_built_in in () if criterion.is_built_in else built_in:
            if _likeness(triples, triples_of_built_in) >= ALIKE:
                message = f"asks nearly the same as the built-in criterion {name}: use it, or write the difference"
                yield CriterionFinding(criterion.name, "hint", "overlap", message)


def _triples(text: str) -> Counter[str]:
    line = f" {' '.join(_WORD.findall(text.casefold()))} "
    return Counter(line[place : place + 3] for place in range(len(line) - 2))


def _likeness(first: Counter[str], second: Counter[str]) -> float:
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


_WORD: Final = re.compile(r"\w+")
_MARKS: Final = re.compile("[?\uff1f\u061f]")

_CONJUNCTIONS: Final[Mapping[str, str]] = {
    "en": "and or",
    "de": "und oder sowie",
    "fr": "et ou",
    "es": "y e o u",
    "it": "e ed o oppure",
    "pt": "e ou",
    "nl": "en of",
    "pl": "i oraz lub albo",
    "ru": "и или",
    "uk": "і й та або чи",
    "sv": "och eller",
    "cs": "a nebo",
    "tr": "ve veya",
}
"""Words that join two parts of a question, by language."""

_ONE_IDEA: Final = re.compile(
    r"\b(?:yes or no|true or false|more or less|one or more|and/or|and so on|terms and conditions|question and answer|"
    r"ja oder nein|mehr oder weniger|ein oder mehrere|да или нет|один или несколько|oui ou non|sí o no)\b"
)
"""Phrases with such a word that are one idea."""


def _double_question(question: str) -> Iterator[str]:
    if len(_MARKS.findall(question)) > 1:
        yield "has several question marks: make a criterion of each question, so that an answer is about one"
        return
    language = language_of(question)
    joining = set(_CONJUNCTIONS.get("en" if language == UNKNOWN else language, "").split())
    # What comes after the question mark explains the answers.
    words = _WORD.findall(_ONE_IDEA.sub(" ", _MARKS.split(question)[0].casefold()))
    for word in words[1:-1]:
        if word in joining:
            yield (
                f"may ask two questions, joined by {word!r}: if one can be answered differently from the other, make "
                "two criteria"
            )
            return


def _unexplained_scale(criterion: Criterion) -> Iterator[str]:
    if criterion.scale == "1-5" and not {"1", "5"} <= set(_WORD.findall(criterion.question)):
        yield "does not say what 1 and 5 mean: add it, such as '1: not at all, 5: fully'"


_MENTIONS: Final[Mapping[Need, tuple[re.Pattern[str], str]]] = {
    "documents": (
        re.compile(
            r"\b(?:documents?|sources?|passages?|retrieved|context|dokument\w*|quellen?|kontext|abschnitte?|"
            r"документ\w*|источник\w*|контекст\w*|fuentes?|documentos?|contexto|sorgenti|fonti|brondocument\w*)\b"
        ),
        "the documents",
    ),
    "reference": (
        re.compile(
            r"\b(?:reference answer|reference|gold answer|gold standard|ground truth|expected answer|referenzantwort|"
            r"musterantwort|эталон\w*|réponse de référence|respuesta de referencia)\b"
        ),
        "the reference answer",
    ),
    "history": (
        re.compile(
            r"\b(?:earlier turns?|previous turns?|earlier in the conversation|conversation|dialog(?:ue)?|chat history|"
            r"earlier (?:answer|message|question)s?|previous (?:answer|message|question)s?|gespräch\w*|"
            r"unterhaltung|frühere\w*|диалог\w*|разговор\w*|предыдущ\w*|conversación|conversation précédente)\b"
        ),
        "earlier turns",
    ),
    "calls": (
        re.compile(
            r"\b(?:tool calls?|function calls?|calls? of (?:the |its )?tools?|called (?:the |a )?tools?|"
            r"werkzeugaufruf\w*|вызов\w* инструмент\w*)\b"
        ),
        "the calls of tools",
    ),
    "question": (
        re.compile(
            r"\b(?:(?:the|users?'?s?|original) question|(?:was|user) asked|(?:die|der) frage|gefragt|на вопрос|"
            r"вопрос\w* пользовател\w*|la (?:pregunta|question|domanda)|de vraag)\b"
        ),
        "the question",
    ),
    "response": (
        re.compile(r"\b(?:response|answers?|antwort\w*|ответ\w*|réponse|respuesta|risposta|antwoord)\b"),
        "the response",
    ),
}
"""Words of a question about each text."""


def _contradicted_needs(criterion: Criterion) -> Iterator[str]:
    question = criterion.question.casefold()
    reference = _MENTIONS["reference"][0].search(question)
    if not criterion.needs:
        if reference:
            yield (
                f"is about the reference answer ({reference[0]!r}), and needs does not name it, so items without one "
                'are judged, too: set needs to all texts that it is about, such as ["response", "reference"]'
            )
        if calls := _MENTIONS["calls"][0].search(question):
            yield (
                f"is about the calls of tools ({calls[0]!r}), and needs does not name them, so the judge does not see "
                'them: set needs to all texts that it is about, such as ["question", "calls", "response"]'
            )
        return
    # An answer that is spoken of may be the reference answer, and "asks" may be of the response.
    for need, (words, name) in _MENTIONS.items():
        mention = words.search(question)
        if mention and need not in criterion.needs and not (need == "response" and "history" in criterion.needs):
            yield (
                f"is about {name} ({mention[0]!r}), and needs leaves it out, so the judge does not see it: add {need!r}"
            )


_FAULTS: Final = re.compile(
    r"\b(?:hallucinat\w*|contradict\w*|invent\w*|made.up|fabricat\w*|refus\w*|wrong|errors?|mistakes?|incorrect\w*|"
    r"rude|toxic\w*|offensive|insult\w*|leak\w*|irrelevant|unsupported|misleading|harmful|biased|off.topic|evasive|"
    r"erfind\w*|erfund\w*|falsch\w*|fehler\w*|unhöflich\w*|widersprich\w*|beleidig\w*|irreführ\w*|"
    r"ошиб\w*|неверн\w*|груб\w*|выдум\w*|противореч\w*|оскорб\w*|отказ\w*)\b"
)
_NOT: Final = re.compile(
    r"\b(?:no|not|never|without|free of|avoids?|avoiding|nicht|kein\w*|ohne|frei von|vermeid\w*|не|нет|без|избега\w*)\b"
)
_GOOD: Final = frozenset({"good", "yes", "correct", "fully", "full", "right", "best", "gut", "ja", "хорошо", "да"})
_BAD: Final = frozenset({"bad", "no", "wrong", "none", "not_at_all", "worst", "schlecht", "nein", "плохо", "нет"})


def _doubtful_direction(criterion: Criterion) -> Iterator[str]:
    question = criterion.question.casefold()
    higher = criterion.direction == Direction.HIGHER
    fault = _FAULTS.search(question)
    if criterion.scale == "yes_no":
        if higher and fault and not _NOT.search(question):
            yield f"a yes sounds like a fault ({fault[0]!r}), and direction is higher: set direction to lower"
        return
    values = {answer.casefold().replace(" ", "_"): value for answer, value in criterion.answers.items()}
    good, bad = _mean(values, _GOOD), _mean(values, _BAD)
    if good is not None and bad is not None and (good > bad) != higher:
        better, other = ("higher", "lower") if good > bad else ("lower", "higher")
        yield f"the values say that {better} is better, and direction is {other}: change one of them"


def _mean(values: Mapping[str, float], words: Iterable[str]) -> float | None:
    known = [values[word] for word in words if word in values]
    return sum(known) / len(known) if known else None
