"""A judge's answer that lacks something: it is absent with its reason, and never an empty list that scores 0."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, entry, judge, with_documents

from ragtide import SentenceLabels, trace_metrics
from ragtide.testing import JudgePrompt, Labels, Raw, Says, ScriptedJudge
from ragtide_consumers.labelers.judge.trace import read_trace
from ragtide_consumers.labelers.remote.usage import Usage

pytestmark = pytest.mark.processes

RELEVANT, UTILIZED, SUPPORT = (
    "all_relevant_sentence_keys",
    "all_utilized_sentence_keys",
    "sentence_support_information",
)
OF_RELEVANT = {"trace.context_relevance", "trace.completeness"}
OF_UTILIZED = {"trace.context_utilization", "trace.completeness"}
OF_SUPPORT = {"trace.adherence", "trace.supported_fraction"}


def changed(**changes: Any) -> Says:
    """Return the right answer with these fields changed; a field that is ... is left out."""

    def text(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt)) | changes
        return json.dumps({name: value for name, value in fields.items() if value is not ...})

    return Says(text)


@pytest.mark.parametrize("text", ["{}", '{"error": {"message": "quota"}}', '{"answer": []}', "[]", '{"a": {}}'])
@pytest.mark.parametrize("families", [("trace",), ("ragchecker",), ("trace", "ragchecker")])
async def test_an_answer_without_labels_has_no_score_and_one_reason(
    server: ScriptedJudge, text: str, families: tuple[str, ...]
) -> None:
    server.always = Says(text)
    async with judge(server, families=families, breaker_failures=100) as labeler:
        labeling = await labeler.label(TOWER)
    assert dict(labeling.scores) == {}
    assert set(labeling.absent.values()) == {"judge_unusable"}
    assert len(labeling.absent) == {1: {"trace": 7, "ragchecker": 11}.get(families[0]), 2: 18}[len(families)]
    assert labeling.labels == ()


BROKEN_KEYS: list[Any] = [
    ...,
    None,
    "",
    "0a, but not 0b",
    ["..."],
    ["0a or 0b"],
    {},
    5,
    [1, 2],
    [{"key": "0a"}],
    ["7x", "9b"],
    [["0a"]],
]


@pytest.mark.parametrize("value", BROKEN_KEYS, ids=repr)
@pytest.mark.parametrize(("name", "of_it"), [(RELEVANT, OF_RELEVANT), (UTILIZED, OF_UTILIZED)])
async def test_a_missing_or_malformed_list_is_absent_and_the_rest_is_scored(
    server: ScriptedJudge, name: str, of_it: set[str], value: object
) -> None:
    server.always = changed(**{name: value})
    async with judge(server, repairs=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert {metric for metric, reason in labeling.absent.items() if reason == "judge_unusable"} == of_it
    assert labeling.absent["trace.average"] == "part_absent"
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert not of_it & set(labeling.scores)
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceLabels)
    assert (labels.relevant if name == RELEVANT else labels.utilized) is None
    assert labeling.counters["judge_repairs"] == 1


@pytest.mark.parametrize("value", [..., None, "a", {}, [1], [[]], []], ids=repr)
async def test_a_response_without_any_verdict_has_no_adherence(server: ScriptedJudge, value: object) -> None:
    server.always = changed(**{SUPPORT: value})
    async with judge(server, repairs=0) as labeler:
        labeling = await labeler.label(TOWER)
    assert {metric for metric, reason in labeling.absent.items() if reason == "judge_unusable"} == OF_SUPPORT
    assert labeling.scores["trace.context_relevance"] == pytest.approx(1 / 3)
    assert not any(name.startswith("sentences.") for name in labeling.scores)


@pytest.mark.parametrize(
    "broken",
    [
        {"response_sentence_key": "b", "fully_supported": False},
        {"response_sentence_key": "b", "supporting_sentence_keys": None, "fully_supported": False},
        {"response_sentence_key": "b", "supporting_sentence_keys": [7], "fully_supported": False},
        {"response_sentence_key": "b", "supporting_sentence_keys": []},
        {"response_sentence_key": "b", "supporting_sentence_keys": ["0a"], "fully_supported": "perhaps"},
    ],
    ids=repr,
)
async def test_a_verdict_that_lacks_something_is_no_verdict(server: ScriptedJudge, broken: dict[str, Any]) -> None:
    server.always = changed(**{SUPPORT: [entry("a", ["0a"], True), broken]})
    async with judge(server, repairs=0) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.absent["trace.adherence"] == "incomplete_labels"
    assert not OF_SUPPORT & set(labeling.scores)


async def test_empty_lists_are_an_answer(server: ScriptedJudge) -> None:
    support = [entry("a", [], False), entry("b", [], False)]
    server.always = changed(**{RELEVANT: [], UTILIZED: [], SUPPORT: support, "overall_supported": False})
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.context_relevance"] == 0.0
    assert labeling.scores["trace.adherence"] == 0.0
    assert labeling.absent["trace.completeness"] == "no_relevant_sentences"
    assert labeling.counters == {"judge_calls": 1}


@pytest.mark.parametrize("where", ['"all_relevant_sentence_keys": ["0a"', '"all_utilized_sentence_keys": ["0a"'])
async def test_a_list_that_was_cut_off_is_absent_and_not_shorter(server: ScriptedJudge, where: str) -> None:
    def cut(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt)) | {RELEVANT: ["0a", "0b"], UTILIZED: ["0a", "0b"]}
        text = json.dumps(fields)
        return text[: text.index(where) + len(where)]

    server.always = Says(cut, finish="length")
    async with judge(server, repairs=0) as labeler:
        labeling = await labeler.label(TOWER)
    lost = OF_RELEVANT if "relevant" in where else OF_UTILIZED
    assert not lost & set(labeling.scores)


async def test_a_part_of_a_context_without_a_list_makes_the_whole_list_absent(server: ScriptedJudge) -> None:
    texts = [f"Filler sentence {n} about nothing at all that matters here." for n in range(60)]

    def first_part_only(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt))
        if "0a" not in prompt.documents:
            del fields[RELEVANT]
            fields[SUPPORT] = fields[SUPPORT][:1]
        return json.dumps(fields)

    server.always = Says(first_part_only)
    async with judge(server, context_tokens=400, repairs=0) as labeler:
        labeling = await labeler.label(with_documents(" ".join(texts)))
    assert labeling.absent["trace.context_relevance"] == "judge_unusable"
    assert labeling.scores["trace.context_utilization"] == 0.0
    assert labeling.absent["trace.adherence"] == "incomplete_labels"


def claims_saying(**changes: Any) -> Says:
    """Return the right answers to both prompts about claims, with these fields changed; ... leaves one out."""

    def text(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt))
        fields |= {name: value for name, value in changes.items() if name in fields}
        return json.dumps({name: value for name, value in fields.items() if value is not ...})

    return Says(text)


@pytest.mark.parametrize("value", [..., None, "a claim", [1, 2], [["the tower", "built in", "1889"]], {}], ids=repr)
@pytest.mark.parametrize("name", ["response_claims", "reference_claims", "verdicts"])
async def test_claims_or_verdicts_that_are_missing_are_absent(server: ScriptedJudge, name: str, value: object) -> None:
    server.always = claims_saying(**{name: value})
    async with judge(server, families=("ragchecker",), repairs=0) as labeler:
        labeling = await labeler.label(TOWER)
    assert dict(labeling.scores) == {}
    assert set(labeling.absent.values()) == {"judge_unusable"}
    assert len(labeling.absent) == 11


@pytest.mark.parametrize("broken", ["entailed_by", "contradicted_by", "claim"])
@pytest.mark.parametrize("value", [..., None, 5, [7]], ids=repr)
async def test_a_claim_without_a_verdict_is_not_taken_for_neutral(
    server: ScriptedJudge, broken: str, value: object
) -> None:
    def text(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt))
        if prompt.kind == "verdicts":
            fields["verdicts"][0].pop(broken)
            fields["verdicts"][0] |= {} if value is ... else {broken: value}
        return json.dumps(fields)

    server.always = Says(text)
    async with judge(server, families=("ragchecker",), repairs=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert dict(labeling.scores) == {}
    assert set(labeling.absent.values()) == {"judge_unusable"}
    assert labeling.counters["judge_repairs"] == 1


@pytest.mark.parametrize("deep", ["[" * 200_000, '{"a":' * 200_000, '{"all_relevant_sentence_keys": ' + "[" * 200_000])
async def test_deeply_nested_json_in_an_answer_is_unusable(server: ScriptedJudge, deep: str) -> None:
    server.always = Says(deep)
    async with judge(server, repairs=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_unusable"}


async def test_a_reply_of_deeply_nested_json_is_tried_again_like_any_broken_reply(server: ScriptedJudge) -> None:
    server.script.append(Raw(b"[" * 200_000))
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 2, "judge_retries": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["0a", "0b", "a", "b", "general", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "response_sentence_key", "supporting_sentence_keys", "fully_supported"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from([RELEVANT, UTILIZED, SUPPORT, "overall_supported"]), JSON))
def test_whatever_is_read_a_score_needs_a_list_that_was_there(fields: dict[str, Any]) -> None:
    labels = read_trace(fields, ["0a", "0b"], ["a"], Usage()).labels
    if labels is None:
        return
    scores = trace_metrics(labels).scores
    for name, metric in ((RELEVANT, "context_relevance"), (UTILIZED, "context_utilization")):
        value = fields.get(name)
        usable = isinstance(value, str) or (isinstance(value, list) and all(isinstance(key, str) for key in value))
        assert usable or metric not in scores
    verdicts = fields.get(SUPPORT)
    if not (isinstance(verdicts, list) and any(isinstance(verdict, dict) for verdict in verdicts)):
        assert "adherence" not in scores


@pytest.mark.parametrize("profile", ["ragbench", "ragbench_raw", "capstone"])
def test_labels_without_a_list_leave_what_needs_it_absent_in_every_profile(profile: str) -> None:
    labels = SentenceLabels(
        relevant=None, utilized=["0a"], support={"a": ["0a"]}, fully_supported={"a": True}, n_document_sentences=4
    )
    found = trace_metrics(labels, profile=profile)
    assert set(found.scores) == {"context_utilization", "adherence", "supported_fraction"}
    assert found.absent == {
        "context_relevance": "incomplete_labels",
        "completeness": "incomplete_labels",
        "average": "part_absent",
        "rmse_aggregation": "part_absent",
    }
