"""Prompts for small models: short ones, answers in lines of keys, grammars, and a small window."""

import json
import string
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.consumers.judge.asking import TOWER, judge, with_documents

from ragtide import RagInteraction
from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.judge.answers import parse
from ragtide_consumers.labelers.judge.claims import read_claims, read_verdicts
from ragtide_consumers.labelers.judge.plain_answers import CHARS, SPECIAL, in_lines, parse_lines
from ragtide_consumers.labelers.judge.prompts import claims_prompt, trace_prompt, verdicts_prompt
from ragtide_consumers.labelers.judge.trace import read_trace
from ragtide_consumers.labelers.remote.usage import Usage
from ragtide_consumers.text.splitting import estimated_tokens
from ragtide_runtime.settings.labelers import JudgeSettings

BOTH = ("trace", "ragchecker")
DOCUMENTS = ("0a", "0b", "1a")
RESPONSE = ("a", "b", "ab")


@pytest.mark.processes
@pytest.mark.parametrize("variant", ["short", "keys"])
@pytest.mark.parametrize("language", ["en", "ru"])
async def test_each_variant_gives_the_scores_of_the_full_prompts(
    server: ScriptedJudge, variant: str, language: str
) -> None:
    async with judge(server, families=BOTH) as labeler:
        full = await labeler.label(TOWER)
        version = labeler.version
    async with judge(server, families=BOTH, prompt=variant, language=language) as labeler:
        found = await labeler.label(TOWER)
        assert labeler.version != version
        assert f"{variant}-trace.1" in labeler.version
    assert found.scores == full.scores
    assert found.absent == full.absent
    assert found.prompts == tuple(f"{variant}-{name}.{language}.1" for name in ("trace", "claims", "verdicts"))
    asked = [prompt for prompt in server.prompts if prompt.in_lines is (variant == "keys")][-3:]
    assert [one.kind for one in asked] == ["trace", "claims", "verdicts"]
    for one in asked:
        assert ("response_format" in one.body) is (variant == "short")


@pytest.mark.pure
@pytest.mark.parametrize("language", ["en", "ru"])
def test_short_prompts_need_less_than_two_thirds_of_the_tokens(language: Any) -> None:
    def tokens(variant: Any) -> int:
        prompts = (
            trace_prompt("q", [("0a", "d")], [("a", "r")], language, variant=variant),
            claims_prompt("q", "r", "a", language, variant=variant),
            verdicts_prompt([("D0", "d")], [("r1", "c")], language, variant=variant),
        )
        return sum(estimated_tokens(prompt.rules) + estimated_tokens(prompt.form) for prompt in prompts)

    assert tokens("keys") < 0.6 * tokens("full")
    assert tokens("short") < 0.9 * tokens("full")


keys = st.lists(st.sampled_from(DOCUMENTS), unique=True).map(list)
entries = st.fixed_dictionaries(
    {
        "supporting_sentence_keys": st.lists(st.sampled_from((*DOCUMENTS, *SPECIAL)), unique=True),
        "fully_supported": st.booleans(),
    }
)
traces = st.fixed_dictionaries(
    {
        "all_relevant_sentence_keys": keys,
        "all_utilized_sentence_keys": keys,
        "sentence_support_information": st.tuples(entries, entries, entries).map(
            lambda found: [{"response_sentence_key": key, **one} for key, one in zip(RESPONSE, found, strict=True)]
        ),
    }
)
claim_texts = st.text(string.ascii_letters + string.digits + " ,:;'", min_size=1).map(lambda text: f"It is {text}x.")


@pytest.mark.pure
@given(traces)
def test_an_answer_in_lines_has_the_labels_of_its_json(fields: dict[str, Any]) -> None:
    parsed = parse_lines("trace", in_lines("trace", fields), cut=False)
    assert parsed is not None
    found, expected = (read_trace(one, DOCUMENTS, RESPONSE, Usage()) for one in (parsed.fields, fields))
    assert found == expected


@pytest.mark.pure
@given(st.lists(claim_texts), st.lists(claim_texts))
def test_claims_in_lines_are_those_of_their_json(response: list[str], reference: list[str]) -> None:
    fields = {"response_claims": response, "reference_claims": reference}
    parsed = parse_lines("claims", in_lines("claims", fields), cut=False)
    assert parsed is not None
    found, expected = (read_claims(one, Usage(), has_reference=True) for one in (parsed.fields, fields))
    assert found == expected


sources = st.lists(st.sampled_from(["D0", "D1", "A", "R"]), unique=True)


@pytest.mark.pure
@given(st.tuples(sources, sources), st.tuples(sources, sources))
def test_verdicts_in_lines_are_those_of_their_json(first: Any, second: Any) -> None:
    fields = {
        "verdicts": [
            {"claim": claim, "entailed_by": yes, "contradicted_by": no}
            for claim, (yes, no) in (("r1", first), ("g1", second))
        ]
    }
    parsed = parse_lines("verdicts", in_lines("verdicts", fields), cut=False)
    assert parsed is not None
    found, expected = (
        read_verdicts(one, ["r1", "g1"], ["d0", "d1", "a", "r"], Usage()) for one in (parsed.fields, fields)
    )
    assert found == expected


@pytest.mark.pure
@given(st.text(), st.sampled_from(["trace", "claims", "verdicts"]), st.booleans())
def test_any_text_is_read_or_has_no_labels(text: str, name: str, cut: bool) -> None:
    parsed = parse_lines(name, text, cut=cut)
    fields = {} if parsed is None else parsed.fields
    read_trace(fields, DOCUMENTS, RESPONSE, Usage())
    read_claims(fields, Usage(), has_reference=True)
    read_verdicts(fields, ["r1"], ["d0"], Usage())


@pytest.mark.pure
def test_a_cut_answer_loses_its_last_line_and_a_huge_one_is_cut() -> None:
    whole = "RELEVANT: 0a 0b\na: yes 0a\nb: no"
    found = parse_lines("trace", whole, cut=True)
    assert found is not None
    assert not found.complete
    assert [one["response_sentence_key"] for one in found.fields["sentence_support_information"]] == ["a"]
    huge = parse_lines("trace", "RELEVANT: 0a\n" + "a: yes 0a\n" * CHARS, cut=False)
    assert huge is not None
    assert len(huge.fields["sentence_support_information"]) < CHARS / 9
    assert parse_lines("trace", "I cannot do that.", cut=False) is None


def lines(prompt: JudgePrompt, **changed: str) -> str:
    """Return the usual answer in lines, some of them changed; a line that is empty is left out."""
    found = [line.partition(":") for line in Labels().answer(prompt).splitlines()]
    given = [(key, changed.get(key, rest.strip())) for key, _, rest in found]
    return "\n".join(f"{key}: {rest}" for key, rest in given if rest)


@pytest.mark.processes
async def test_a_fault_of_a_line_is_named_and_the_answer_asked_for_again(server: ScriptedJudge) -> None:
    server.script += [
        Says("I would say that all is fine."),
        Says(lambda prompt: lines(prompt, a="maybe 0a", RELEVANT="")),
    ]
    async with judge(server, prompt="keys") as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters["judge_repairs"] == 2
    assert labeling.scores["trace.supported_fraction"] == 0.5
    first, second = (one.body["messages"][-1]["content"] for one in server.prompts[1:3])
    assert "none of the lines" in first
    assert "the line RELEVANT is missing" in second
    assert "the verdict of response sentence a is not yes, partly or no" in second
    assert "_" not in second


@pytest.mark.processes
@pytest.mark.parametrize(("name", "place"), [("vllm", ("structured_outputs", "grammar")), ("llama.cpp", ("grammar",))])
async def test_a_grammar_admits_the_real_keys_and_goes_where_the_server_takes_it(
    server: ScriptedJudge, name: str, place: tuple[str, ...]
) -> None:
    async with judge(server, prompt="keys", grammar=name, families=BOTH) as labeler:
        await labeler.label(TOWER)
    grammars = [str(reduce(lambda body, part: body[part], place, dict(prompt.body))) for prompt in server.prompts]
    assert all(grammar.startswith("root ::= ") for grammar in grammars)
    for key in ('"0a"', '"0b"', '"1a"', '"a: "', '"b: "', '"general"'):
        assert key in grammars[0]
    for key in ('"D0"', '"A"', '"r1: "', '"g1: "'):
        assert key in grammars[2]


@pytest.mark.processes
async def test_a_server_that_takes_no_grammar_is_asked_without_it(server: ScriptedJudge) -> None:
    server.always = lambda prompt: Status(400, "unknown field: grammar") if "grammar" in prompt.body else None
    async with judge(server, prompt="keys", grammar="llama.cpp") as labeler:
        for number in range(2):
            labeling = await labeler.label(TOWER.model_copy(update={"interaction_id": str(number)}))
            assert labeling.scores["trace.supported_fraction"] == 0.5
    assert ["grammar" in one.body for one in server.prompts] == [True, False, False]


@pytest.mark.pure
def test_a_grammar_needs_lines() -> None:
    with pytest.raises(ValidationError, match='set prompt to "keys"'):
        JudgeSettings(model="m", grammar="vllm")


def long_context(sentences: int) -> RagInteraction:
    return with_documents(
        " ".join(f"Sentence number {number} speaks of matter {number}." for number in range(sentences)),
        "The tower was built in 1889.",
    )


@pytest.mark.processes
@pytest.mark.parametrize("variant", ["full", "short", "keys"])
async def test_every_call_fits_the_window(server: ScriptedJudge, variant: str) -> None:
    window = 4096
    async with judge(server, prompt=variant, window_tokens=window, families=BOTH, structured="text") as labeler:
        labeling = await labeler.label(long_context(600))
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert len(server.prompts) > 3
    for prompt in server.prompts:
        tokens = sum(estimated_tokens(message["content"]) for message in prompt.body["messages"])
        assert tokens + prompt.body["max_tokens"] <= window


@pytest.mark.processes
async def test_a_response_that_leaves_no_room_is_absent_with_its_reason(server: ScriptedJudge) -> None:
    long = TOWER.model_copy(update={"response": "The tower was built in 1889. " * 400})
    async with judge(server, prompt="keys", window_tokens=2048) as labeler:
        labeling = await labeler.label(long)
    assert labeling.absent["trace.adherence"] == "context_too_long"
    assert server.prompts == []


@pytest.mark.processes
async def test_a_variant_has_cached_answers_of_its_own(server: ScriptedJudge) -> None:
    for variant in ("full", "short", "keys", "keys"):
        async with judge(server, prompt=variant, cache_ttl_s=60.0) as labeler:
            await labeler.label(TOWER)
            await labeler.label(TOWER)
    assert len(server.prompts) == 4


@pytest.mark.pure
def test_versions_that_are_cut_differ() -> None:
    from ragtide_consumers.labelers.judge.labeler import VERSION_CHARS, _version

    long = "m" * 199
    found = {_version(JudgeSettings(model=long, prompt=variant), BOTH, ()) for variant in ("full", "short", "keys")}
    assert len(found) == 3
    assert {len(one) for one in found} == {VERSION_CHARS}


def with_commas(value: Any) -> str:
    """Return the JSON of a value with a comma after the last element of each list and object."""
    if isinstance(value, list) and value:
        return f"[{''.join(with_commas(one) + ' , ' for one in value)}]"
    if isinstance(value, dict) and value:
        return "{" + "".join(f"{json.dumps(key)}: {with_commas(one)}, " for key, one in value.items()) + "\n}"
    return json.dumps(value)


@pytest.mark.pure
@given(st.recursive(st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_commas_after_last_elements_are_forgiven_and_texts_stay(value: Any) -> None:
    parsed = parse(with_commas({"key": value}), {"properties": {"key": {}}})
    assert parsed is not None
    assert parsed.fields == {"key": value}
    assert parsed.complete
