"""The result of a gate as text, as JUnit XML and as Markdown. No I/O."""

import re
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragtide_schemas.printable import printable

from .deciding import ConditionOutcome, GateOutcome, GateResult, ScopeOutcome

SHOWN: Final = 20
"""Most scopes of a condition that are written out."""

MOST_NAME_CHARS: Final = 200
"""Most characters of a scope's name that are written out."""

_MARKS: Final = {GateOutcome.PASSED: "✅ pass", GateOutcome.FAILED: "❌ fail", GateOutcome.UNDECIDED: "❔ undecided"}

# XML 1.0 has no way to write these, not even as references.
_NOT_XML: Final = re.compile("[\ufffe\uffff]")

_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")


def gate_lines(result: GateResult) -> list[str]:
    """Return the result as lines of plain text."""
    lines = [f"gate: {result.outcome}"]
    for condition in result.conditions:
        lines.append(f"  {condition.outcome}: {condition.condition}")
        lines += [f"    {sentence}" for sentence in _sentences(condition)]
    return lines


def junit_xml(result: GateResult, suite: str) -> bytes:
    """Return the result as JUnit XML with a test case for each condition; an undecided one is skipped.

    Args:
        suite: name of the test suite, such as `ragtide score`.
    """
    count = {outcome: sum(condition.outcome is outcome for condition in result.conditions) for outcome in GateOutcome}
    numbers = {
        "tests": str(len(result.conditions)),
        "failures": str(count[GateOutcome.FAILED]),
        "errors": "0",
        "skipped": str(count[GateOutcome.UNDECIDED]),
    }
    root = Element("testsuites", numbers)
    parent = SubElement(root, "testsuite", {"name": _xml(suite), **numbers})
    for condition in result.conditions:
        names = {"classname": _xml(suite.replace(" ", ".")), "name": _xml(condition.condition)}
        case = SubElement(parent, "testcase", names)
        text = "\n".join(_xml(sentence) for sentence in _sentences(condition))
        tag = {GateOutcome.FAILED: "failure", GateOutcome.UNDECIDED: "skipped"}.get(condition.outcome)
        if tag is None:
            SubElement(case, "system-out").text = text
        else:
            SubElement(case, tag, {"message": text.partition("\n")[0]}).text = text
    if result.sees:
        SubElement(parent, "system-out").text = "\n".join(_xml(str(seen["sentence"])) for seen in result.sees)
    indent(root)
    document: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def markdown_summary(result: GateResult, title: str) -> str:
    """Return the result as Markdown for a step summary; names from outside cannot add markup.

    Args:
        title: of the section, such as `ragtide score`.
    """
    lines = [f"### {_plain(title)}: {_MARKS[result.outcome]}", "", "| | condition | scope | |", "|---|---|---|---|"]
    for condition in result.conditions:
        for scope in _scopes_to_show(condition):
            cells = (_MARKS[scope.outcome], _code(condition.condition), _code(scope.scope), _plain(scope.sentence))
            lines.append(f"| {' | '.join(cells)} |")
        if len(condition.scopes) > SHOWN:
            lines.append(f"| | {_code(condition.condition)} | {len(condition.scopes) - SHOWN:,} more | |")
    lines += [line for seen in result.sees for line in ("", _plain(str(seen["sentence"])))]
    return "\n".join(lines) + "\n\n"


def _scopes_to_show(condition: ConditionOutcome) -> list[ScopeOutcome]:
    order = [GateOutcome.FAILED, GateOutcome.UNDECIDED, GateOutcome.PASSED]
    return sorted(condition.scopes, key=lambda scope: order.index(scope.outcome))[:SHOWN]


def _sentences(condition: ConditionOutcome) -> list[str]:
    lines = [
        f"{_name(scope.scope)}: {scope.sentence}" if scope.scope else scope.sentence
        for scope in _scopes_to_show(condition)
    ]
    if len(condition.scopes) > SHOWN:
        lines.append(f"{len(condition.scopes) - SHOWN:,} more scopes")
    return lines


def _name(scope: str) -> str:
    text = printable(scope)
    return text if len(text) <= MOST_NAME_CHARS else f"{text[:MOST_NAME_CHARS]}…"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", printable(text))


def _plain(text: str) -> str:
    return _PUNCTUATION.sub(lambda match: match[0] if match[0] in ".,:()%+-" else f"\\{match[0]}", printable(text))


def _code(name: str) -> str:
    text = _name(name)
    if not text:
        return ""
    if not {"`", "|"} & set(text):
        return f"`{text}`"
    return f"<code>{_PUNCTUATION.sub(lambda match: f'&#{ord(match[0])};', text)}</code>"
