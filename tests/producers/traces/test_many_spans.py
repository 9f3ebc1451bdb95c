"""The work on a trace of any shape grows with its spans: the lines of ours that run are counted, and no time."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pytest
from tests.support.counted_lines import lines_of
from tests.support.traces import START_NS

from ragtide_producers.traces.grouping import groups_of
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.tree import Tree

pytestmark = pytest.mark.pure

SPANS: Final = 240
"""Spans of the smaller trace: enough that every bound of the grouping is reached."""
GROWTH: Final = 2.2
"""Times the lines that twice the spans may take."""


@dataclass
class Trace:
    """A trace that is written span by span; each ends when the next one begins, or with the trace if it is open."""

    spans: list[Span] = field(default_factory=list)

    def add(self, above: int, kind: str, *, is_open: bool = False, **attributes: Any) -> int:
        """Add a span below another one, or below none for 0, and return its number."""
        number = len(self.spans) + 1
        named = {"openinference.span.kind": kind} if kind else {"gen_ai.operation.name": "invoke_agent"}
        self.spans.append(
            Span(
                trace_id="0" * 31 + "1",
                span_id=f"{number:016x}",
                parent_id=f"{above:016x}" if above else None,
                name="step",
                start_ns=START_NS + number * 1000,
                end_ns=START_NS + (10**9 - number if is_open else number * 1000 + 500),
                attributes=named | {name.replace("__", "."): value for name, value in attributes.items()},
            )
        )
        return number

    def chain(self, above: int, question: str, answer: str) -> int:
        return self.add(above, "CHAIN", is_open=True, input__value=question, output__value=answer)

    def retrieve(self, above: int, query: str, *texts: str) -> None:
        self.add(above, "RETRIEVER", input__value=query, output__value=json.dumps(texts))

    def ask(self, above: int, prompt: str, reply: str, *, is_open: bool = False) -> int:
        messages = [
            json.dumps([{"role": role, "content": text}]) for role, text in (("user", prompt), ("assistant", reply))
        ]
        return self.add(
            above, "LLM", is_open=is_open, gen_ai__input__messages=messages[0], gen_ai__output__messages=messages[1]
        )

    def work(self, above: int, number: int) -> None:
        """Add a retrieval and the call of a model that got its document."""
        self.retrieve(above, f"Question {number}?", f"Document {number}.")
        self.ask(above, f"Document {number}. Question {number}?", f"Answer {number}.")


def nested_batch(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size // 3):
        above = trace.chain(above, f"Question {number}?", f"Answer {number}.")
        trace.work(above, number)
    return trace


def nested_with_one_question(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size // 3):
        above = trace.chain(above, "Question 1?", f"Other {number}.")
        trace.work(above, number)
    return trace


def wide_batch(size: int) -> Trace:
    trace = Trace()
    root = trace.chain(0, "the data set", "0.93")
    for number in range(size // 3):
        trace.work(trace.chain(root, f"Question {number}?", f"Answer {number}."), number)
    return trace


def deep_chain(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size - 2):
        above = trace.chain(above, f"Question {number}?", f"Answer {number}.")
    trace.work(above, size)
    return trace


def agents_inside_each_other(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size // 3):
        above = trace.add(
            above, "", is_open=True, gen_ai__agent__name=f"agent {number}", input__value=f"Question {number}?"
        )
        trace.work(above, number)
    return trace


def agents_beside_each_other(size: int) -> Trace:
    trace = Trace()
    root = trace.add(0, "CHAIN", is_open=True)
    for number in range(size // 4):
        agent = trace.add(root, "", gen_ai__agent__name=f"agent {number}", input__value=f"Question {number}?")
        trace.work(agent, number)
        trace.ask(root, f"Is it good? Answer {number}.", "yes")
    return trace


def tools_inside_each_other(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size // 4):
        trace.ask(above, f"Question {number}?", f"query {number}")
        above = trace.add(
            above, "TOOL", is_open=True, input__value=f"query {number}", output__value=f"Answer {number}."
        )
        trace.work(above, number)
    return trace


def calls_inside_each_other(size: int) -> Trace:
    trace, above = Trace(), 0
    trace.retrieve(0, "Question?", "Document.")
    for number in range(size - 1):
        above = trace.ask(above, f"Document. Question {number}?", f"Answer {number}.", is_open=True)
    return trace


def searches_and_steps(size: int) -> Trace:
    trace = Trace()
    root = trace.chain(0, "Question?", "It is not known.")
    for number in range(size // 10):
        trace.retrieve(root, "Question?")
        for _ in range(9):
            trace.add(root, "CHAIN", input__value=f"step {number}", output__value="[]")
    return trace


def searches_and_steps_at_each_level(size: int) -> Trace:
    trace, above = Trace(), 0
    for number in range(size // 4):
        above = trace.chain(above, f"Question {number}?", f"It is not known {number}.")
        trace.retrieve(above, f"Question {number}?", f"Document {number}.")
        for step in range(2):
            trace.add(above, "CHAIN", input__value=f"step {step}", output__value="[]")
    return trace


def turns_of_a_session(size: int) -> Trace:
    trace = Trace()
    root = trace.add(0, "CHAIN", is_open=True)
    for number in range(size // 2):
        trace.work(root, number)
    return trace


SHAPES: Final[list[Callable[[int], Trace]]] = [
    nested_batch,
    nested_with_one_question,
    wide_batch,
    deep_chain,
    agents_inside_each_other,
    agents_beside_each_other,
    tools_inside_each_other,
    calls_inside_each_other,
    searches_and_steps,
    searches_and_steps_at_each_level,
    turns_of_a_session,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_spans_take_twice_the_lines(shape: Callable[[int], Trace]) -> None:
    traces = [shape(size).spans for size in (SPANS, 2 * SPANS)]
    few, many = (lines_of(partial(_grouped, trace)) for trace in traces)
    assert many < GROWTH * few


def _grouped(trace: list[Span]) -> int:
    return len(groups_of(Tree(trace)))
