# ruff: noqa: E501 - answers are quoted whole
"""Answers of real models and servers are read as a person would read them; what is a guess is not read."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, judge
from tests.support.cases import for_each

from ragtide.testing import JudgePrompt, Labels, Raw, ScriptedJudge
from ragtide_consumers.labelers.judge.answers import parse
from ragtide_consumers.labelers.judge.prompts import TRACE_SCHEMA
from ragtide_consumers.labelers.judge.values import keys_in, truth

RIGHT: dict[str, Any] = {
    "relevance_explanation": "the first",
    "all_relevant_sentence_keys": ["0a"],
    "overall_supported_explanation": "in part",
    "overall_supported": False,
    "sentence_support_information": [
        {
            "response_sentence_key": "a",
            "explanation": "0a",
            "supporting_sentence_keys": ["0a"],
            "fully_supported": True,
        },
        {"response_sentence_key": "b", "explanation": "-", "supporting_sentence_keys": [], "fully_supported": False},
    ],
    "all_utilized_sentence_keys": ["0a"],
}
DRAFT = json.dumps({**RIGHT, "all_relevant_sentence_keys": [], "all_utilized_sentence_keys": ["0b"]})
TEXT = json.dumps(RIGHT)

WRONG = json.dumps({**RIGHT, "all_relevant_sentence_keys": ["0b"]})
UNSURE = TEXT.replace(
    '"supporting_sentence_keys": [], "fully_supported": false',
    '"supporting_sentence_keys": [], "fully_supported": true',
)

READ = {
    "a draft in a block": f"<think>{DRAFT}</think>{TEXT}",
    "a draft before a closing tag alone": f"{DRAFT}</think>{TEXT}",
    "a draft in harmony's channel": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{TEXT}",
    "a draft in harmony without special tokens": f"analysisWe need {DRAFT}assistantfinal{TEXT}",
    "a draft in Magistral's block": f"[THINK]{DRAFT}[/THINK]\n{TEXT}",
    "a draft in Open WebUI's block": f'<details type="reasoning" done="true">\n{DRAFT}\n</details>\n{TEXT}',
    "a draft in a member": f'{{"thinking": {DRAFT}, "answer": {TEXT}}}',
    "a draft before the answer": f"First: {DRAFT}\nBetter:\n{TEXT}",
    "half a brace in the thoughts": f'<think>The form is {{"all_relevant_sentence_keys": [</think>{TEXT}',
    "tags inside an explanation": TEXT.replace("the first", "says <think> and </think>"),
    "a call written as text": f'<tool_call>{{"name": "labels", "arguments": {TEXT}}}</tool_call>',
    "JSON in a string": json.dumps({"arguments": TEXT}),
    "JSON in a string alone": f"Result: {json.dumps(TEXT)}",
    "a list in a string": TEXT.replace('["0a"], "overall', '"[\\"0a\\"]", "overall'),
    "verdicts by key": json.dumps(
        {**RIGHT, "sentence_support_information": {one["response_sentence_key"]: one for one in RIGHT["sentence_support_information"]}}
    ),
    "Python": repr(RIGHT),
    "HTML": TEXT.replace('"', "&quot;"),
    "quotes without escapes": TEXT.replace("the first", 'it says "yes", and "no" to {b}'),
    "a correction of one field": f'{WRONG}\n\nCorrected: {{"all_relevant_sentence_keys": ["0a"]}}',
    "a correction of each field": f'{DRAFT} Wait: {{"All relevant sentence keys": ["0a"]}}, {{"allUtilizedSentenceKeys": ["0a"]}}',
    "a correction after its name": f'{WRONG}\n**Correction:** `all_relevant_sentence_keys`: ["0a"]',
    "a correction of an entry": f'{UNSURE}\nCorrected: {json.dumps(RIGHT["sentence_support_information"][1])}',
    "a correction of a verdict": f'{UNSURE}\n{{"response_sentence_key": "b", "fully_supported": false}}',
    "a correction of entries": f'{UNSURE} {json.dumps({"sentence_support_information": RIGHT["sentence_support_information"][1:]})}',
    "a whole correction": f"{WRONG}\nCorrected:\n```json\n{TEXT}\n```",
    "the answer in pieces": "\n".join(json.dumps({name: value}) for name, value in RIGHT.items()),
    "a correction in the thoughts": f'<think>{{"all_relevant_sentence_keys": ["0b"]}}</think>{TEXT}',
    "an example after it": f'{TEXT}\nThe form is {{"claim": ...}}, with keys such as ["0b"].',
    "a comment and bare names": TEXT.replace('"overall_supported": false', "overall_supported: no /* b */"),
}  # fmt: skip
UNREAD = {
    "a block without an end": f"<think>{DRAFT}",
    "a closing tag at the end": f"{DRAFT}</think>I am not sure.",
    "two answers in one list": f"[{DRAFT}, {TEXT}]",
    "two answers in one object": f'{{"first": {DRAFT}, "second": {TEXT}}}',
    "dots for a list": TEXT.replace('["0a"]', "[...]"),
    "a draft, and an answer that was cut": f'{DRAFT}\n{{"all_relevant_sentence_keys": ["0',
    "a correction that was cut": f'{TEXT} Corrected: {{"all_relevant_sentence_keys": ["0b"',
    "a correction that cannot be read": f'{TEXT} Corrected: {{"all_relevant_sentence_keys": [...], "all_utilized_sentence_keys": []}}',
    "a schema": json.dumps(TRACE_SCHEMA),
}


@pytest.mark.pure
@for_each("case", READ)
def test_an_answer_is_read_without_a_guess(case: str) -> None:
    found = parse(READ[case], TRACE_SCHEMA)
    assert found is not None
    assert found.complete
    labels = {name: value for name, value in found.fields.items() if not name.endswith("explanation")}
    assert labels == {name: value for name, value in RIGHT.items() if not name.endswith("explanation")}


@pytest.mark.pure
@for_each("case", UNREAD)
def test_what_is_no_answer_or_a_guess_is_not_read(case: str) -> None:
    found = parse(UNREAD[case], TRACE_SCHEMA)
    assert found is None or not any(isinstance(value, list) for value in found.fields.values())


@pytest.mark.pure
@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_field_with_two_values_has_none(quote: str) -> None:
    first = '"all_relevant_sentence_keys": ["0a"]'
    text = f"{DRAFT}\n{TEXT.replace(first, first + ', ' + first.replace('0a', '0b'))}".replace('"', quote)
    found = parse(text, TRACE_SCHEMA)
    assert found is not None
    assert keys_in(found.fields["all_relevant_sentence_keys"], KNOWN) == ["two values"]
    assert found.fields["all_utilized_sentence_keys"] == ["0a"]


def as_parts(text: str) -> dict[str, Any]:
    thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": DRAFT}]}
    return {"content": [thoughts, {"type": "text", "text": text}]}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "parts": as_parts,
    "a call": lambda text: {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": text}}]},
    "a call beside words": lambda text: {
        "content": "<think>so",
        "tool_calls": [{"function": {"name": "f", "arguments": json.loads(text)}}],
    },
    "a function's call": lambda text: {"content": "", "function_call": {"name": "f", "arguments": text}},
    "parsed": lambda text: {"content": None, "parsed": json.loads(text)},
    "the refusal": lambda text: {"content": None, "refusal": text},
    "the reasoning": lambda text: {"content": None, "reasoning_content": f"I see {DRAFT}. So:\n{text}"},
    "beside the reasoning": lambda text: {"content": text, "reasoning": DRAFT},
}


@pytest.mark.processes
@pytest.mark.parametrize("place", PLACES)
async def test_an_answer_is_found_in_any_place_of_the_message(server: ScriptedJudge, place: str) -> None:
    def reply(prompt: JudgePrompt) -> Raw:
        message = PLACES[place](Labels().answer(prompt))
        return Raw(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())

    server.always = reply
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 1}


@pytest.mark.processes
@pytest.mark.parametrize(("field", "finish"), [("reasoning_content", "length"), ("reasoning", "stop")])
async def test_reasoning_that_goes_on_is_no_answer(server: ScriptedJudge, field: str, finish: str) -> None:
    def reply(prompt: JudgePrompt) -> Raw:
        more = "" if finish == "length" else " No, that is wrong."
        message = {"content": "", field: Labels().answer(prompt) + more}
        return Raw(json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode())

    server.always = reply
    async with judge(server, repairs=0) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_unusable"}


KNOWN = ("0a", "0b", "0c", "1a", "1b")
SOURCES = ("d0", "d1", "d2", "r", "a")


@pytest.mark.pure
@for_each(
    "value, keys",
    [
        (["0A.", "[0b]"], ["0a", "0b"]), ("0a, 0b and 0c", ["0a", "0b", "0c"]), ("0a-0c", ["0a", "0b", "0c"]),
        (["0a–0b", "1a"], ["0a", "0b", "1a"]), ("[0a] to [0c]", ["0a", "0b", "0c"]), ("0a...0c", ["0a", "0b", "0c"]),
        ("0a-c", ["0a", "0b", "0c"]), (["０ａ"], ["0a"]), (["sentence 0a"], ["0a"]), ("Sentences: 0a; 1b", ["0a", "1b"]),
        (["0a: The tower, built in 1889"], ["0a"]), ("all sentences of document 1", ["1a", "1b"]),
        ("0a, 9z", ["0a", "9z"]), (["general"], ["general"]), ("well known fact", ["well_known_fact"]),
        (["none"], []), ("N/A", []), ("None.", []), ([], []),
        ("0c-0a", None), ("0a-1b", None), ("0a-9z", None), ("0a or 0b", None), ("not 0a", None), ("all", None),
        ("all but 0a", None), ("0a, ..., 0c", None), ("0a: like 0b", None), ("0a - 0b - 0c", None),
        ("- 0a\n- 0b", ["0a", "0b"]), ("1. 0a\n2. 1b", ["0a", "1b"]), ("“0a”, “0b”", ["0a", "0b"]), ("0.a", ["0a"]),
        ("document 0: a, b", ["0a", "0b"]), ("Document 1 sentence a", ["1a"]), ("no relevant sentences", []),
        ("empty list", []), ("none of document 0a", None), ("0a, b", None),
        ("", None), (None, None), ({}, None), (["0a", 3], None), ([["0a"]], None),
    ],
)  # fmt: skip
def test_keys_are_read_with_the_words_around_them_or_not_at_all(value: object, keys: list[str] | None) -> None:
    assert keys_in(value, KNOWN) == keys


@pytest.mark.pure
@for_each(
    "value, keys",
    [
        ("D0-D2", ["d0", "d1", "d2"]), (["document 1", "A"], ["d1", "a"]), ("d0 a", ["d0", "a"]), ("a source", None),
        ("source R", ["r"]), ("all documents", None),
    ],
)  # fmt: skip
def test_keys_of_sources_are_read_too(value: object, keys: list[str] | None) -> None:
    assert keys_in(value, SOURCES) == keys


@pytest.mark.pure
@for_each(
    "text, value",
    [
        ("Yes, fully supported", True), ("yes (0a)", True), ("Fully supported.", True), ("Verdict: yes", True),
        ("No. Nothing supports it", False), ("no, 0a does not say it", False), ("Partially supported", False),
        ("✅ Yes", True), ("❌", False), ("\\boxed{yes}", True), ("<answer>No</answer>", False), ("Answer - yes", True),
        ("It is not true.", False), ("はい", True), ("**Answer: Yes**.", True), ("value-added", None),
        ("是，完全支持", True), ("Да, полностью", True),
        ("Yes and no", None), ("Yes, but only partly", None), ("No issues, fully supported", None), ("yes/no", None),
        ("No; it is supported", None), ("Yes. No.", None), ("not sure", None), ("", None),
    ],
)  # fmt: skip
def test_a_truth_value_is_read_with_words_that_do_not_take_it_back(text: str, value: bool | None) -> None:
    assert truth(text) is value


@pytest.mark.pure
@pytest.mark.parametrize(
    "piece", ["0a, ", "0a-", "sentence ", "all of document 0 ", "(", "yes, ", ". ", "- ", "answer: "]
)
def test_a_long_value_is_read_in_linear_time(piece: str) -> None:
    keys_in(piece * 20_000, KNOWN)
    keys_in([piece] * 20_000, KNOWN)
    truth(piece * 20_000)
