"""The processor time of every function that reads foreign text, on hostile inputs of 100 kB.

    python benchmarks/hostile_forms.py [--only PART] [--search DRAWS] [--seed SEED] [--every]

Each input of `INPUTS` goes through each function of `READERS` that takes it; `--search` also draws mixes of the tokens
of all forms. Printed as Markdown: the slowest input of each function, the best of five calls, each with another length
so that nothing is remembered. `--every` prints every input above 20 ms.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from ragtide_consumers.labelers.judge import answers as judge_answers
from ragtide_consumers.labelers.judge import faults, sloppy_json
from ragtide_consumers.labelers.judge import values as judge_values
from ragtide_consumers.text import answers, keys, letters, marks, markup, reasoning, sentences
from ragtide_producers.given_fields import interaction_of
from ragtide_producers.shapes import documents, literals, messages, parts, prompts, replies, texts, turns
from ragtide_producers.shapes.given_texts import given_texts
from ragtide_schemas import RagInteraction
from ragtide_schemas.opaque import closing_place, is_opaque
from ragtide_schemas.plain_values import plain_value, whole
from ragtide_schemas.sent import sent
from ragtide_schemas.times import time_in
from ragtide_schemas.value_readers import id_text, metadata_values, name_text

SIZE: Final = 100_000
LIMIT_S: Final = 0.05
SHOWN_S: Final = 0.02
ROUNDS: Final = 5
SLOWEST: Final = 3
"""Inputs of a function that are measured again after one call with each."""
Make = Callable[[int], Any]


def repeated(unit: str, begin: str = "", end: str = "") -> Make:
    """Return what makes a text of a size from a unit."""
    return lambda size: f"{begin}{unit * ((size - len(begin) - len(end)) // len(unit))}{end}"[:size]


def listed(item: Any, key: str = "") -> Make:
    """Return what makes a list of one item, alone or under a key, of a size as JSON."""
    length = len(json.dumps(item)) + 2

    def make(size: int) -> Any:
        items = [item] * (size // length)
        return {key: items} if key else items

    return make


def nested(levels: int, *, mapping: bool = False) -> Make:
    """Return what makes lists or mappings of some levels, with many items in the deepest."""

    def make(size: int) -> Any:
        value: Any = ["a"] * (size // 5)
        for _ in range(levels):
            value = {"a": value} if mapping else [value]
        return value

    return make


def named(item: Any) -> Make:
    """Return what makes a mapping of many names."""
    length = len(json.dumps(item)) + 12
    return lambda size: {f"name{number}": item for number in range(size // length)}


CHUNK: Final = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
MESSAGE: Final = {"role": "user", "content": "a"}
TOKENS: Final = (
    "[", "]", "{", "}", "(", ")", "<", ">", "'", '"', '"""', ",", ":", "=", "\\", "\n", " ", ".", "-", "`", "```", "*",
    "_", "#", "|", "&", ";", "$", "@", "0", "9", "1.", "a", "A", "é", "塔", "\ud83d", "\u200b", "\u00ad", "\ufffd", "ﬁ",
    "²", "<think>", "</think>", "data: ", "event: ", "a(", "a()", "a=", "A(a=", "f(x=1)", "None", "nan", "np.",
    "array(", "b'", "\\u0061", "\\n", "{'a': ", '{"a": ', '"a", ', "'a' ", "0x1f", "<A at ", "[object Object]",
    "content='", "[1]", "【1】", "https://a", "&amp;", "<b>", "<!--", "- a\n", "| a ", "e.g. ", "Sources:\n", "not ",
    "Yes, ", "4/5", '"key": ', "role", "fi ", "a- b ",
)  # fmt: skip
"""The tokens of the forms of values, answers and replies, of which a search draws mixes."""
REPEATED: Final = (
    ("[", "a(),", "]"),
    ("f(", "a=b(),", "z=1)"),
    ("(", "a(),", ")"),
    ("f(x=[", "f(x=1),", "])"),
    ("[", "A(a='b'), ", "]"),
    ("Prediction(answer='a', ", "a=a(),", "b=1)"),
    ("f(a=1, ", "a='',", "b=1)"),
    ("a='' ", "a='' ", ""),
    ("content='a' ", "b={} ", ""),
    ("[", "'',", "'']"),
    ("[", '"",', '""]'),
    ("[", "'a' ", "'a']"),
    ("['a '\n", " 'a '\n", "'a']"),
    ("[", "{'a': 1}, ", "{}]"),
    ("[", '{"a": 1}, ', "{}]"),
    ("[", '{"text": "a"}, ', '{"text": "a"}]'),
    ("[", "<A>, ", "]"),
    ("[", "<A.B: 'c'>, ", "]"),
    ("[", "1,", "1]"),
    ("[", "nan, ", "1]"),
    ("['", "\\n", "']"),
    ("['", "\\u0061", "']"),
    ("['", "\\x", "']"),
    ('["', '""', '"]'),
    ("{", "'a': 'b', ", "}"),
    ("[", "[],", "[]]"),
    ("[", "['a'], ", "['a']]"),
    ("array([", "'a', ", "'a'])"),
    ("array([", "'a' ", "'a'], dtype=object)"),
    ("[", "b'a', ", "]"),
    ("[", "'''a''', ", "]"),
    ("", 'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n', ""),
    ("", 'data: {"type": "a.delta", "delta": "a"}\n', ""),
    ("", '{"response": "a", "done": false}\n', ""),
    ("", '0:"a"\n', ""),
    ("", "data: a\n", ""),
    ("data: {}\n", "event: a\n", ""),
    ("", "{}\n", ""),
    ("[", '{"role": "user", "content": "a"}, ', "{}]"),
    ("[", '"{\\"a\\": 1}", ', '"a"]'),
    ("[", "\"['a']\", ", '"a"]'),
    ("<A ", "<b>", " at 0x1>"),
    ("<A ", "<", ""),
    ("data:image/png;base64,", "AAAA", ""),
    ("iVBORw0KGgo", "AAAA", "="),
    ("Aaaa(", "'=", ""),
    ("A(a=", "'", ""),
    ("{'a': '", "\\'", ""),
    ("f(x=1", "(" * 30 + ")" * 30, ")"),
    ('{"key_list": ["', '0a", "', '0b"]}'),
    ('{"key_list": ', '{"key_list": ', ""),
    ("```json\n", '{"a": [1]}\n', "```"),
    ("", '{"a": "b" "c", ', ""),
    ("", "{'a': “b”, ", ""),
    ("Answer: ", "4/5 out of ", ""),
    ("a\n", "<think>a</think>\n", ""),
    ("a", "\n\n| a | b |\n|---|---|\n", ""),
    ("", "1. a\n   - b\n", ""),
    ("", "(Smith, 2020) ", ""),
    ("", " ①", ""),
    ("", ". (1) (1)", ""),
    ("", "[3.1] ", ""),
    ("", "x\n", ""),
    ("", "塔。", ""),
    ("", "caf´e ", ""),
    ("", "a-\nb ", ""),
    ("", "[a](https://b) ", ""),
    ("", "Dr. A. B. e.g. U.S. ", ""),
    ("", "“a b.” C ", ""),
    ("", "a-\nb", ""),
    ("", "veri fi ed ", ""),
    ("", "I cannot say. ", ""),
    ("I cannot say", ", but I do not know", ""),
    ("", "##0$$ ", ""),
    ("<think>data: ", "<!--$a", ""),
    ("", "【4:0†source】", ""),
    ("[Data: Sources (", "1, ", ")]"),
)
"""Beginnings, units that are repeated, and ends."""
TEXTS: Final[Mapping[str, Make]] = {
    **{f"{token!a} repeated": repeated(token) for token in TOKENS},
    **{f"{begin!a}, {unit!a} repeated, {end!a}": repeated(unit, begin, end) for begin, unit, end in REPEATED},
}
VALUES: Final[Mapping[str, Make]] = {
    "chunks": listed(CHUNK),
    "chunks under a key": listed(CHUNK, "stream"),
    "messages": listed(MESSAGE),
    "messages under a key": listed(MESSAGE, "messages"),
    "parts": listed({"type": "text", "text": "a"}),
    "media": listed({"type": "image", "data": "a"}),
    "bare parts": listed({"text": "a"}),
    "documents": listed({"page_content": "a", "metadata": {"id": "b"}}),
    "documents under a key": listed({"text": "a", "id": "b"}, "documents"),
    "wrapped documents": listed({"node": {"text": "a"}, "score": 1}),
    "texts": listed("a"),
    "empty texts": listed(""),
    "empty mappings": listed({}),
    "empty lists": listed([]),
    "pairs": listed(["a", 1]),
    "triples of lists": listed(["a", ["b"]]),
    "numbers": listed(1),
    "nulls": listed(None),
    "truths": listed(True),
    "texts of mappings": listed('{"text": "a"}'),
    "texts of lists": listed('["a"]'),
    "texts of calls": listed("f(x=1)"),
    "printed objects": listed("<a at 0x1>"),
    "half surrogates": listed("\ud83d"),
    "words of nothing": listed("nan"),
    "names": named("a"),
    "names of mappings": named({"a": "b"}),
    "names of lists": named(["a"]),
    "deep lists": nested(30),
    "deep mappings": nested(30, mapping=True),
    "choices": listed({"index": 1, "message": {"role": "assistant", "content": "a"}}, "choices"),
    "events": listed({"type": "response.output_text.delta", "delta": "a"}),
    "unknown events": listed({"type": "a.b", "a": 1}),
    "tool results": listed({"role": "tool", "content": [{"type": "tool_result", "content": "a"}]}),
    "columns": lambda size: {"ids": [["a"] * (size // 10)], "documents": [["b"] * (size // 10)]},
    "places": lambda size: {str(number): "a" for number in range(size // 12)},
    "mappings of mappings": lambda size: {
        f"a{outer}": {f"b{inner}": {"c": "d"} for inner in range(30)} for outer in range(size // 600)
    },
    "rows of a table": lambda size: {"columns": ["text"], "data": [["a"]] * (size // 7)},
    "bytes": lambda size: b"a" * size,
    "numbers in a set": lambda size: set(range(size // 7)),
}
INPUTS: Final[Mapping[str, Make]] = {**TEXTS, **VALUES}


def _fields(**fields: Any) -> dict[str, Any]:
    return {"pipeline": "a", "question": "b", "documents": ["c"], "response": "d", **fields}


NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA: Final = {"properties": {"key_list": {"type": "array", "items": {"type": "string"}}, "a": {"type": "string"}}}
OF_VALUES: Final[Mapping[str, Callable[[Any], object]]] = {
    "texts: text_in, answer": lambda value: texts.text_in(value, "answer"),
    "texts: text_in, question": lambda value: texts.text_in(value, "question"),
    "texts: text_in, reference": lambda value: texts.text_in(value, "reference"),
    "texts: messages_of": messages.messages_of,
    "texts: turns_of": turns.turns_of,
    "texts: results_by_call": messages.results_by_call,
    "texts: all_texts": messages.all_texts,
    "documents: documents_in": replies.documents_in,
    "documents: documents_of": documents.documents_of,
    "documents: reply_documents": replies.reply_documents,
    "schema: interaction_of, response": lambda value: interaction_of(_fields(response=value)),
    "schema: interaction_of, documents": lambda value: interaction_of(_fields(documents=value)),
    "schema: from_fields, response": lambda value: RagInteraction.from_fields(_fields(response=value)),
    "schema: from_fields, documents": lambda value: RagInteraction.from_fields(_fields(documents=value)),
    "schema: from_fields, metadata": lambda value: RagInteraction.from_fields(_fields(metadata={"a": value})),
    "schema: from_fields, segments": lambda value: RagInteraction.from_fields(_fields(segments=value)),
    "schema: from_fields, history": lambda value: RagInteraction.from_fields(_fields(history=value)),
    "schema: sent": lambda value: sent(RagInteraction.from_fields, _fields(occurred_at=value), NOW),
    "schema: plain_value": lambda value: plain_value(value, "a", Counter()),
    "schema: metadata_values": lambda value: metadata_values(value, "a", Counter()),
    "schema: id_text": lambda value: id_text(value, "a", Counter()),
    "schema: name_text": lambda value: name_text(value, "a", Counter()),
    "schema: time_in": lambda value: time_in(value, NOW),
    "judge: fault_in": lambda value: faults.fault_in({"error": value}, None, [{"error": value}], ""),
    "judge: keys_in": lambda value: judge_values.keys_in(value, ["0a", "0b"]),
    "judge: truth": judge_values.truth,
    "judge: as_json": faults.as_json,
}


def _pieces(text: str) -> list[str]:
    """Return a text as up to a hundred pieces, and some of their words alone."""
    size = len(text) // 100 + 1
    whole = [text[place : place + size] for place in range(0, len(text), size)]
    return [*whole, *dict.fromkeys(word for piece in whole for word in piece.split()[:2])]


def _halves(text: str) -> str:
    """Return the first half of each of these pieces."""
    return "\n".join(piece[: len(piece) // 2 + 1] for piece in _pieces(text)[:100])


OF_TEXTS: Final[Mapping[str, Callable[[str], object]]] = {
    "texts: value_of": literals.value_of,
    "texts: medium_of": parts.medium_of,
    "texts: marks_context": prompts.marks_context,
    "texts: given_texts, whole": lambda text: given_texts([text], _pieces(text), [text[:200]]),
    "texts: given_texts, cut": lambda text: given_texts([_halves(text)], _pieces(text)),
    "texts: given_texts, other": lambda text: given_texts([text], _pieces(text[::-1])),
    "schema: is_opaque": is_opaque,
    "schema: closing_place": closing_place,
    "schema: whole": whole,
    "text: without_sources": answers.without_sources,
    "text: words_of": answers.words_of,
    "text: begins_sources": answers.begins_sources,
    "text: is_source": answers.is_source,
    "text: is_about_links": partial(answers.is_about_links, linked=True),
    "text: is_courtesy": answers.is_courtesy,
    "text: is_stock_heading": answers.is_stock_heading,
    "text: topic": answers.topic,
    "text: without_emptied": answers.without_emptied,
    "text: is_refusal": lambda text: answers.is_refusal([text], text),
    "text: has_form": markup.has_form,
    "text: is_prose": markup.is_prose,
    "text: mask_marks": markup.mask_marks,
    "text: blocks": markup.blocks,
    "text: blocks, answer": partial(markup.blocks, answer=True),
    "text: is_mark": marks.is_mark,
    "text: readable": marks.readable,
    "text: without_marks": partial(marks.without_marks, files=True),
    "text: mask_letters": letters.mask_letters,
    "text: plain_letters": letters.plain_letters,
    "text: mended": lambda text: letters.mended([[text]], [text[: len(text) // 2]], ""),
    "text: without_reasoning": reasoning.without_reasoning,
    "text: answer_of": reasoning.answer_of,
    "text: locate_sentences": sentences.locate_sentences,
    "text: locate_sentences, answer": partial(sentences.locate_sentences, answer=True),
    "judge: parse": lambda text: judge_answers.parse(text, SCHEMA),
    "judge: is_refusal": judge_answers.is_refusal,
    "judge: last_object": judge_answers.last_object,
    "judge: sloppy_json.read": lambda text: sloppy_json.read(text, 0),
    "judge: stated": judge_values.stated,
    "text: letters_of": keys.letters_of,
}
READERS: Final[dict[str, Callable[[Any], object]]] = {**OF_VALUES, **OF_TEXTS}
"""Every function that reads foreign text, by its group and name."""


def inputs_of(reader: str) -> Mapping[str, Make]:
    """Return the inputs that a reader takes."""
    return INPUTS if reader in OF_VALUES else TEXTS


def read(reader: str, value: Any) -> None:
    """Call a reader; a refusal is an answer, too."""
    with suppress(ValueError, sloppy_json.NoJson):
        READERS[reader](value)


class Finding(NamedTuple):
    """The best time of one function on one input."""

    seconds: float
    input: str


def seconds_of(reader: str, make: Make, size: int) -> float:
    """Return the processor time of one call."""
    value = make(size)
    started = time.process_time()
    read(reader, value)
    return time.process_time() - started


def drawn(draws: int, seed: int) -> Iterator[tuple[str, Make]]:
    """Yield texts of drawn tokens: some at the beginning, some repeated, some at the end."""
    rng = random.Random(seed)
    for _ in range(draws):
        begin, unit, end = ("".join(rng.choices(TOKENS, k=rng.randint(least, 4))) for least in (0, 1, 0))
        yield f"{begin!a}, {unit!a} repeated, {end!a}", repeated(unit, begin, end)


def findings_of(reader: str, more: Mapping[str, Make], size: int) -> list[Finding]:
    """Return the times of a reader on every input, the slowest first: of the slowest, the best of five."""
    makes = {**inputs_of(reader), **more}
    found = sorted((Finding(seconds_of(reader, make, size), name) for name, make in makes.items()), reverse=True)
    again = [
        Finding(min(seconds_of(reader, makes[name], size - number) for number in range(1, ROUNDS + 1)), name)
        for _, name in found[:SLOWEST]
    ]
    return sorted(again, reverse=True) + found[SLOWEST:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PART", help="part of the names of functions")
    parser.add_argument("--search", type=int, default=0, metavar="DRAWS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--every", action="store_true", help="print every input above 20 ms on the way")
    arguments = parser.parse_args()
    more = dict(drawn(arguments.search, arguments.seed))
    rows = []
    for reader in READERS:
        if arguments.only in reader:
            found = findings_of(reader, more, arguments.size)
            rows.append((found[0].seconds, reader, found[0].input))
            for seconds, name in found if arguments.every else ():
                if seconds > SHOWN_S:
                    print(f"{reader}, {seconds * 1e3:.0f} ms: {name}", file=sys.stderr)
    above = sum(seconds > LIMIT_S for seconds, _, _ in rows)
    number, size = len(INPUTS) + len(more), f"{arguments.size // 1000} kB"
    print("# Hostile inputs\n")
    print(f"Written by `make hostile` (`benchmarks/hostile_forms.py`): the slowest of {number} inputs of {size}")
    print(f"for each of {len(rows)} functions that read foreign text; processor time on this machine,")
    print(f"the best of {ROUNDS} calls.")
    print(f"{above or 'None'} of them took more than {LIMIT_S * 1e3:.0f} ms.\n")
    print("| function | milliseconds | slowest input |\n|---|---|---|")
    for seconds, reader, name in sorted(rows, key=lambda row: row[1].partition(":")[0]):
        shown = name.replace("|", "\\|").replace("`", "ˋ")
        print(f"| `{reader}` | {seconds * 1e3:.1f} | `{shown}` |")


if __name__ == "__main__":
    main()
