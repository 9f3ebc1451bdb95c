"""Answers in lines of keys, for models that write JSON badly: their parser, and grammars that admit nothing else.

A line is a key, a colon and words. A parser makes the fields of the JSON answer from the lines, so both forms are
checked by the same code. The last line of a key counts, and other lines are skipped. It takes time in proportion to
the text.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...text.keys import normalize_key
from .answers import Parsed
from .values import truth

CHARS: Final = 200_000
"""Characters of an answer that are read."""
HEAD_CHARS: Final = 24
"""Most characters of a line before its colon."""

_NOTHING: Final = frozenset({"", "none", "-", "—", "нет", "empty"})

SPECIAL: Final = ("general", "well_known_fact", "numerical_reasoning", "supported_without_sentence")
"""Words that stand for a document sentence where none applies."""

IN_WORDS: Final[Mapping[str, str]] = {
    "all_relevant_sentence_keys": "the line RELEVANT",
    "all_utilized_sentence_keys": "the line USED",
    "supporting_sentence_keys": "the list of keys",
    "fully_supported of": "the verdict of",
    "is not true or false": "is not yes, partly or no",
    "sentence_support_information": "the part with the response sentences",
    "response_claims": "the part RESPONSE",
    "reference_claims": "the part REFERENCE",
    "verdicts is": "the part with the claims is",
    "have no entry with both lists": "have no line",
    "have no entry": "have no line",
}
"""Faults name fields of the JSON answer; here they name lines."""


def parse_lines(name: str, text: str, *, cut: bool) -> Parsed | None:
    r"""Return the fields of an answer in lines; None if no line has the form that was asked for.

    Args:
        name: of the prompt: `trace`, `claims`, `verdicts` or `criteria`.
        cut: whether the answer was cut off; its last line is then dropped.

    >>> fields = parse_lines("trace", "Sure!\nRELEVANT: 0a, 0b\na: yes 0a\nUSED: none", cut=False).fields
    >>> fields["all_relevant_sentence_keys"], fields["all_utilized_sentence_keys"]
    ('0a, 0b', [])
    >>> parse_lines("verdicts", "r1: yes D0 no D1\nr2: no", cut=True).fields
    {'verdicts': [{'claim': 'r1', 'entailed_by': 'D0', 'contradicted_by': 'D1'}]}
    """
    lines = text[:CHARS].splitlines()
    if cut or len(text) > CHARS:
        lines = lines[:-1]
    fields = _READERS[name](lines)
    if name in WITH_CRITERIA:
        entries = [
            {"key": key, "answer": rest}
            for key, rest in _lines(lines)
            if key[:1] == "k" and key[1:].isascii() and key[1:].isdigit()
        ]
        if entries:
            fields["criteria"] = entries
    return Parsed(fields, complete=not cut) if fields else None


def _lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        head, colon, rest = line.strip().lstrip("-*#>• ").partition(":")
        if colon and len(head) <= HEAD_CHARS:
            yield normalize_key(head.strip("* ")), rest.strip("* ")


def _keys(text: str) -> str | list[str]:
    return [] if text.strip().lower() in _NOTHING else text


def _trace(lines: Iterable[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    entries: dict[str, dict[str, Any]] = {}
    for key, rest in _lines(lines):
        if key == "relevant":
            fields["all_relevant_sentence_keys"] = _keys(rest)
        elif key == "used":
            fields["all_utilized_sentence_keys"] = _keys(rest)
        elif key.isascii() and key.isalpha() and len(key) <= 3:
            first, *words = rest.replace(",", " ").split() or [""]
            entry: dict[str, Any] = {"response_sentence_key": key}
            if (verdict := truth(first)) is not None:
                entry["fully_supported"] = verdict
            entry["supporting_sentence_keys"] = _keys(" ".join(words))
            entries[key] = entry
    if entries:
        fields["sentence_support_information"] = [*entries.values()]
    return fields


def _claims(lines: Iterable[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    part: list[str] | None = None
    for line in lines:
        text = line.strip().lstrip("-*•> ").strip()
        head, colon, rest = text.partition(":")
        name = {"response": "response_claims", "reference": "reference_claims"}.get(normalize_key(head.strip("*# ")))
        if colon and name is not None:
            part = fields.setdefault(name, [])
            text = rest.strip("* ")
        if part is not None and text.lower() not in _NOTHING:
            number, _, claim = text.partition(" ")
            is_numbered = len(number) <= 4 and number[:-1].isdigit() and number[-1:] in (".", ")")
            part.append(claim.strip() if is_numbered else text)
    return fields


def _verdicts(lines: Iterable[str]) -> dict[str, Any]:
    entries: dict[str, dict[str, Any]] = {}
    for key, rest in _lines(lines):
        if not (key[:1] in ("r", "g") and key[1:].isascii() and key[1:].isdigit()):
            continue
        named: dict[str, list[str]] = {"entailed_by": [], "contradicted_by": []}
        into: list[str] | None = None
        words = [part.strip(".,;: ") for part in rest.replace(",", " ").split()]
        loose = False
        for word in words:
            verdict = truth(word)
            if verdict is not None:
                into = named["entailed_by" if verdict else "contradicted_by"]
            elif word.lower() not in _NOTHING:
                loose |= into is None
                (into if into is not None else []).append(word)
        # A source without yes or no has no meaning, and neither has a line without any word.
        keys = {name: _keys(" ".join(listed)) for name, listed in named.items()}
        entries[key] = {"claim": key, **({} if loose or not words else keys)}
    return {"verdicts": [*entries.values()]} if entries else {}


_READERS: Final[Mapping[str, Callable[[Iterable[str]], dict[str, Any]]]] = {
    "trace": _trace,
    "claims": _claims,
    "verdicts": _verdicts,
    "criteria": lambda _: {},
}

WITH_CRITERIA: Final = ("trace", "criteria")
"""Names of the prompts that may ask for criteria."""


def in_lines(name: str, fields: Mapping[str, Any]) -> str:
    r"""Return the fields of a JSON answer as an answer in lines, which `parse_lines` reads back.

    >>> in_lines("verdicts", {"verdicts": [{"claim": "r1", "entailed_by": ["D0"], "contradicted_by": []}]})
    'r1: yes D0'
    """
    if name == "trace":
        lines = [f"RELEVANT: {_joined(fields['all_relevant_sentence_keys'])}"]
        for entry in fields["sentence_support_information"]:
            keys = entry["supporting_sentence_keys"]
            verdict = "yes" if entry["fully_supported"] else "partly" if keys else "no"
            lines.append(" ".join([f"{entry['response_sentence_key']}:", verdict, *keys]))
        lines.append(f"USED: {_joined(fields['all_utilized_sentence_keys'])}")
    elif name == "criteria":
        lines = []
    elif name == "claims":
        lines = ["RESPONSE:", *(f"- {claim}" for claim in fields["response_claims"])]
        lines += ["REFERENCE:", *(f"- {claim}" for claim in fields["reference_claims"])]
    else:
        lines = []
        for entry in fields["verdicts"]:
            parts = [["yes", *entry["entailed_by"]], ["no", *entry["contradicted_by"]]]
            words = [word for part in parts if len(part) > 1 for word in part]
            lines.append(f"{entry['claim']}: {' '.join(words) or 'none'}")
    lines += [f"{key}: {answer}" for key, answer in fields.get("criteria", {}).items()]
    return "\n".join(lines)


def _joined(keys: Sequence[str]) -> str:
    return " ".join(keys) or "none"


def trace_grammar(documents: Sequence[str], response: Sequence[str]) -> str:
    """Return the grammar of TRACe's lines with the real keys, in the notation GBNF."""
    keys = 'keys ::= " none" | (" " key){1,200}' if documents else 'keys ::= " none"'
    known = [f"key ::= {_alternatives(documents)}"] if documents else []
    supports = " | ".join(['"yes" (" " word){0,30}', '"partly" (" " word){0,30}', '"no" (" " word){0,30}'])
    lines = " ".join(f'"{key}: " verdict "\\n"' for key in response)
    return "\n".join(
        [
            f'root ::= "RELEVANT:" keys "\\n" {lines} "USED:" keys',
            keys,
            *known,
            f"verdict ::= {supports}",
            f"word ::= {'key | ' if documents else ''}{_alternatives(SPECIAL)}",
        ]
    )


def trace_and_criteria_grammar(
    documents: Sequence[str], response: Sequence[str], answers: Mapping[str, Sequence[str]]
) -> str:
    """Return the grammar of TRACe's lines, and after them those of criteria, in the notation GBNF."""
    root, _, rules = trace_grammar(documents, response).partition("\n")
    return "\n".join([f'{root} "\\n" {_criteria_lines(answers)}', rules])


def criteria_grammar(answers: Mapping[str, Sequence[str]]) -> str:
    """Return the grammar of the lines of criteria, by key with their possible answers, in the notation GBNF."""
    return f"root ::= {_criteria_lines(answers)}"


def _criteria_lines(answers: Mapping[str, Sequence[str]]) -> str:
    lines = [
        f'"{key}: " ({" | ".join(json.dumps(answer, ensure_ascii=False) for answer in possible)})'
        for key, possible in answers.items()
    ]
    return ' "\\n" '.join(lines)


def claims_grammar(*, has_reference: bool) -> str:
    """Return the grammar of the lines of claims, in the notation GBNF."""
    reference = ' "REFERENCE:\\n" claim{0,60}' if has_reference else ' "REFERENCE:\\n"'
    return f'root ::= "RESPONSE:\\n" claim{{0,60}}{reference}\nclaim ::= "- " [^\\n]{{1,400}} "\\n"'


def verdicts_grammar(sources: Sequence[str], claims: Sequence[str]) -> str:
    """Return the grammar of the lines of verdicts with the real keys, in the notation GBNF."""
    lines = " ".join(f'"{key}: " verdict "\\n"' for key in claims)
    return "\n".join(
        [
            f"root ::= {lines}",
            'verdict ::= "none" | "yes" keys (" no" keys)? | "no" keys',
            'keys ::= (" " key){1,30}',
            f"key ::= {_alternatives(sources)}",
        ]
    )


def _alternatives(keys: Iterable[str]) -> str:
    return " | ".join(f'"{key}"' for key in keys)
