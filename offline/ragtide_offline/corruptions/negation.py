"""Negates a sentence, or takes its negation away: English and Russian by rules, the copula in three more languages.

The rules find an auxiliary, a frequent verb, or a verb by its ending, without a dictionary. They change what a sentence
claims, and most results are grammatical. Pure, linear.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from ragtide_consumers.text.languages import language_of

_NEGATED: Final[Mapping[str, str]] = {
    "cannot": "can", "can't": "can", "won't": "will", "shan't": "shall", "ain't": "is", "never": "always",
    "without": "with", "neither": "both", "nor": "and", "no longer": "still",
}  # fmt: skip

_AUXILIARY: Final = "is|are|was|were|am|will|would|should|could|can|must|may|might|shall|do|does|did|has|have|had"

_EN_NEGATION: Final = re.compile(
    rf"\b(?:(?P<do>do|does|did)(?: not|n['’]t) have\b"
    rf"|(?P<aux>{_AUXILIARY}|['’]s|['’]re)(?P<mark> not\b|n['’]t\b)(?! only)"
    rf"|(?P<be>is|are|was|were|has|have|had)(?P<no> no)\b(?! (?:longer|one)\b)"
    r"|(?P<word>cannot|(?:ca|wo|sha|ai)n['’]t|no longer|never|without|neither|nor)\b)",
    re.IGNORECASE,
)

_PARTICIPLE: Final = (
    r"been|\w{2,}ed|\w{2,}en|become|begun|built|come|done|found|given|gone|grown|had|held|kept|known|led|left|lost|"
    r"made|met|put|seen|sent|set|shown|sold|taken|told|won|\w{3,}ly \w{2,}ed"
)
_VERB_PAST: Final = (
    "became|began|built|brought|came|chose|cost|died|drew|fell|felt|flew|fought|found|gave|got|grew|held|kept|knew|led|"
    "left|lost|made|meant|met|paid|played|ran|rose|said|saw|sent|sold|spent|spoke|stood|taught|thought|told|took|"
    "understood|went|won|wore|wrote"
)
_VERB_PRESENT: Final = (
    "allow|affect|appear|become|begin|belong|bring|cause|come|consist|contain|cost|cover|create|depend|describe|enable|"
    "exist|follow|get|give|go|grow|happen|help|hold|improve|include|increase|indicate|involve|keep|know|lead|live|lose|"
    "make|mean|need|occur|offer|operate|play|prevent|produce|provide|reduce|refer|remain|require|run|say|seem|serve|"
    "show|stand|state|suggest|support|take|tend|use|want|work"
)
_EN_VERB: Final = re.compile(
    rf"\b(?:(?P<cannot>can)\b(?! not)"
    rf"|(?P<own>has|have|had)\b(?! not\b)(?! to\b)(?! (?:{_PARTICIPLE})\b)"
    rf"|(?P<aux>(?<!not )(?:is|are|was|were|am|will|would|should|could|must|may|might|shall|has|have|had))\b(?! not)"
    rf"|(?P<short>(?<=it|he)['’]s|(?<=she|her)['’]s|(?<=that|here)['’]s|(?<=there)['’]s|['’]re)\b"
    rf"|(?<![-\w])(?-i:(?P<verb>{_VERB_PAST}|(?:{_VERB_PRESENT})(?:s|es)?"
    r"|(?<!, )(?<!\ba )(?<!\ban )(?<!\bthe )(?<!\bof )(?<!\bin )(?<!\bby )(?<!\bwith )(?<!\band )[a-z]{3,}(?<!e)ed))\b"
    r"(?! (?:of|by)\b))",
    re.IGNORECASE,
)
_HAVE: Final = {"do": "have", "does": "has", "did": "had"}
_DO: Final = {own: auxiliary for auxiliary, own in _HAVE.items()}

_RU_NEGATION: Final = re.compile(
    r"\b(?:(?P<never>никогда не)|(?P<not>не)(?= [^\W\d_])|(?P<none>нет)|(?P<may>нельзя)|(?P<impossible>невозможно)"
    r"|(?P<without>без))\b ?",
    re.IGNORECASE,
)
_RU_VERB: Final = re.compile(
    r"\b(?:(?P<may>можно)|(?P<possible>возможно)"
    r"|(?P<verb>был[аио]?|будет|будут|может|могут|мог(?:ла|ло|ли)?|должн[аоы]|должен|имеет|имеют|стал[аио]?|начал[аи]?"
    r"|составляет|находится|содержит|входит|говорит|значит|носит|стоит|основан[аоы]?|построен[аоы]?|создан[аоы]?"
    r"|назван[аоы]?|написан[аоы]?|выпущен[аоы]?|\w{2,}(?:ает|яет|ует|ают|яют|уют)|\w{2,}(?:ется|ются|ится|ятся|утся)"
    r"|\w{2,}(?:лся|лась|лось|лись)|\w{2,}(?:ировал|овал|ывал|ивал)[аио]?"
    r"|(?:по|при|от|вы|пере|на|за|об|у|рас|раз|со|с|про)\w{2,}(?:ил|ал|ел|ял)[аои]?))\b"
    r"|(?P<dash> [—–-] )(?!не\b)",
    re.IGNORECASE,
)

_COPULAS: Final[Mapping[str, tuple[re.Pattern[str], str, re.Pattern[str]]]] = {
    "de": (
        re.compile(r"\b(ist|sind|war|waren|wird|werden|wurde|wurden|kann|können|hat|haben)\b", re.IGNORECASE),
        r"\1 nicht",
        re.compile(r" nicht\b"),
    ),
    "es": (
        re.compile(r"(?<!no )\b(es|son|fue|fueron|era|está|están|puede|pueden|tiene|tienen)\b"),
        r"no \1",
        re.compile(r"\bno (?=es|son|fue|era|est|pued|tien)"),
    ),
    "fr": (
        re.compile(r"\b(sont|était|étaient|peut|peuvent|fut|sera|seront)\b"),
        r"ne \1 pas",
        re.compile(r"\bne (\w+) pas\b"),
    ),
}
"""By language: the copula, its negation, and what is taken away from a negated sentence."""


def negate(text: str) -> str | None:
    """Return a sentence that claims the opposite; None if no verb or negation is found.

    A negation is taken away if there is one ("is not" becomes "is"); otherwise the first verb is negated.

    Args:
        text: a sentence. Of a longer text only one sentence changes.

    >>> negate("The tower is tall."), negate("The tower is not tall.")
    ('The tower is not tall.', 'The tower is tall.')
    >>> negate("Eiffel built it in 1889."), negate("It has three floors.")
    ('Eiffel never built it in 1889.', 'It does not have three floors.')
    >>> negate("Башня была построена в 1889 году."), negate("Это не башня.")
    ('Башня не была построена в 1889 году.', 'Это башня.')
    """
    language = language_of(text)
    if language == "en":
        return _once(_EN_NEGATION, _affirm, text) or _once(_EN_VERB, _deny, text)
    if language == "ru":
        return _once(_RU_NEGATION, _affirm_russian, text) or _once(_RU_VERB, _deny_russian, text)
    if language in _COPULAS:
        verb, negation, taken = _COPULAS[language]
        kept = taken.sub(lambda found: found[1] if found.groups() else "", text, count=1)
        found, count = verb.subn(negation, text, count=1)
        return kept if kept != text else found if count else None
    return None


def _once(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else text[: match.start()] + change(match) + text[match.end() :]


def _affirm(match: re.Match[str]) -> str:
    if match["do"]:
        return _HAVE[match["do"].lower()]
    if match["aux"]:
        return match["aux"]
    if match["be"]:
        return match["be"]
    word = match["word"].lower().replace("’", "'")
    return _capital(_NEGATED[word], match[0])


def _deny(match: re.Match[str]) -> str:
    if match["cannot"]:
        return _capital("cannot", match[0])
    if match["own"]:
        return f"{_DO[match['own'].lower()]} not have"
    if match["verb"]:
        return f"{_capital('never', match[0])} {match['verb']}"
    return f"{match[0]} not"


def _affirm_russian(match: re.Match[str]) -> str:
    for name, word in (("none", "есть "), ("may", "можно "), ("impossible", "возможно "), ("without", "с ")):
        if match[name]:
            return _capital(word, match[0]) if match[0].endswith(" ") else _capital(word.rstrip(), match[0])
    return "всегда " if match["never"] else ""


def _deny_russian(match: re.Match[str]) -> str:
    if match["may"]:
        return _capital("нельзя", match[0])
    if match["possible"]:
        return _capital("невозможно", match[0])
    if match["dash"]:
        return f"{match[0]}не "
    return _capital(f"не {match[0].lower()}", match[0]) if match[0][0].isupper() else f"не {match[0]}"


def _capital(word: str, like: str) -> str:
    return word[0].upper() + word[1:] if like[0].isupper() else word
