"""The labels of a judge: TRACe in one call, RAGChecker in two, long contexts in parts."""

import json

import pytest
from tests.consumers.judge.asking import TOWER, entry, judge, with_documents

from ragtide import ClaimLabels, RagInteraction, SentenceLabels
from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_schemas import MetricEvent, utc_now

pytestmark = pytest.mark.processes


async def test_one_call_labels_all_of_trace(server: ScriptedJudge) -> None:
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert len(server.requests) == 1
    assert labeling.scores["trace.context_relevance"] == pytest.approx(1 / 3)
    assert labeling.scores["trace.completeness"] == 1.0
    assert labeling.scores["trace.adherence"] == 0.0
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.scores["sentences.fully_supported"] == 1
    assert labeling.scores["sentences.partially_supported"] == 0
    assert labeling.scores["sentences.unsupported"] == 1
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceLabels)
    assert labels.support == {"a": ("0a",), "b": ()}
    assert labeling.prompts == ("trace.en.1",)
    assert labeling.prompt_tokens > 0
    assert labeling.completion_tokens > 0
    assert labeling.counters == {"judge_calls": 1}


async def test_ragchecker_takes_two_calls_however_many_claims_and_chunks(server: ScriptedJudge) -> None:
    large = with_documents(*(f"Chunk {n} about tower." for n in range(12))).model_copy(
        update={
            "interaction_id": "large",
            "response": " ".join(f"The tower number {n} was built." for n in range(30)),
            "reference_answer": " ".join(f"The tower number {n} was built." for n in range(20)),
        }
    )
    async with judge(server, families=("ragchecker",)) as labeler:
        assert labeler.profile == "ragchecker_strict"
        labeling = await labeler.label(TOWER)
        assert len(server.requests) == 2
        (labels,) = labeling.labels
        assert isinstance(labels, ClaimLabels)
        assert labels.answer2response == ("Entailment", "Neutral")
        assert labels.response2answer == ("Entailment",)
        assert labels.retrieved2answer == (("Entailment", "Neutral"),)
        assert labels.retrieved2response == (("Entailment", "Neutral"), ("Neutral", "Neutral"))
        assert labeling.scores["ragchecker.precision"] == 0.5
        assert labeling.scores["ragchecker.hallucination"] == 0.5
        assert labeling.prompts == ("claims.en.1", "verdicts.en.1")
        await labeler.label(large)
    assert len(server.requests) == 4


async def test_a_document_longer_than_a_call_takes_is_checked_in_pieces(server: ScriptedJudge) -> None:
    filler = "Nothing of interest stands in this sentence at all. " * 40
    long = with_documents(f"{filler} The tower was built in 1889. {filler}", "Penguins admire it.")
    async with judge(server, families=("ragchecker",), context_tokens=300) as labeler:
        labeling = await labeler.label(long)
    assert len(server.requests) > 3
    (labels,) = labeling.labels
    assert isinstance(labels, ClaimLabels)
    assert labels.retrieved2response == (("Entailment", "Neutral"), ("Neutral", "Entailment"))
    assert labels.retrieved2answer == (("Entailment", "Neutral"),)


async def test_without_a_reference_answer_only_what_needs_none_is_scored(server: ScriptedJudge) -> None:
    async with judge(server, families=("ragchecker",)) as labeler:
        labeling = await labeler.label(TOWER.model_copy(update={"reference_answer": None}))
    assert set(labeling.scores) == {"ragchecker.faithfulness"}
    assert len(labeling.absent) == 10
    assert "REFERENCE" not in server.requests[0]["messages"][1]["content"]


async def test_both_families_share_one_event_whose_profile_names_both(server: ScriptedJudge) -> None:
    async with judge(server, families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(TOWER)
        event = metric_event(TOWER, labeler_id(labeler), labeling, labeled_at=utc_now(), latency_s=0.1)
    assert event.profile == "ragbench+ragchecker_strict"
    assert {name.partition(".")[0] for name in event.scores} == {
        "trace", "sentences", "ragchecker", "retrieval", "response"
    }  # fmt: skip
    assert MetricEvent.decode(event.encode()) == event


async def test_a_long_context_is_split_and_the_parts_are_merged(server: ScriptedJudge) -> None:
    texts = [f"Filler sentence {n} about nothing at all that matters here." for n in range(60)]
    texts[5] = "The tower was built in 1889."
    texts[55] = "Penguins admire the tower."
    long = with_documents(" ".join(texts))
    async with judge(server, context_tokens=400) as labeler:
        labeling = await labeler.label(long)
        calls = len(server.requests)
        whole = await labeler.label(TOWER)
    assert calls > 1
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceLabels)
    assert labels.n_document_sentences == 60
    assert labels.relevant == ("0f", "0bd")
    assert labels.fully_supported == {"a": True, "b": True}
    assert labeling.scores["trace.adherence"] == 1.0
    assert labeling.scores["trace.context_relevance"] == pytest.approx(2 / 60)
    assert whole.scores["trace.adherence"] == 0.0


async def test_a_sentence_supported_by_two_parts_together_gets_a_second_look(server: ScriptedJudge) -> None:
    def halves(prompt: JudgePrompt) -> str:
        keys = [key for key, mark in (("0a", "First half"), ("1a", "Second half")) if mark in prompt.text]
        whole = len(keys) == 2
        fields = {
            "all_relevant_sentence_keys": keys,
            "all_utilized_sentence_keys": keys,
            "overall_supported": whole,
            "sentence_support_information": [entry("a", keys, whole)],
        }
        return json.dumps(fields)

    server.always = Says(halves)
    texts = ["First half of it " + "word " * 300, "Second half of it " + "word " * 300]
    two = RagInteraction(pipeline="p", question="What?", documents=texts, response="Both halves.")
    async with judge(server, context_tokens=400) as labeler:
        labeling = await labeler.label(two)
    assert len(server.requests) == 3
    assert labeling.scores["trace.adherence"] == 1.0


async def test_an_endpoint_with_a_smaller_context_than_thought_gets_smaller_parts(server: ScriptedJudge) -> None:
    too_long = Status(400, "This model's maximum context length is 600 tokens", kind="context_length_exceeded")
    server.always = lambda prompt: too_long if len(prompt.text) > 2500 else None
    long = with_documents(*(f"Sentence {n} of many words. " * 3 for n in range(40)))
    server.script += [too_long] * 2
    async with judge(server, context_tokens=2400) as labeler:
        labeling = await labeler.label(long)
    assert labeling.counters["context_split"] == 2
    assert "trace.adherence" in labeling.scores


async def test_a_russian_interaction_gets_russian_prompts(server: ScriptedJudge) -> None:
    russian = RagInteraction(
        pipeline="p",
        question="Когда построили башню?",
        documents=["Башня построена в 1889 году."],
        response="Башня построена в 1889 году.",
    )
    async with judge(server) as labeler:
        labeling = await labeler.label(russian)
    assert labeling.prompts == ("trace.ru.1",)
    assert "Ты размечаешь" in server.requests[0]["messages"][0]["content"]
    assert labeling.scores["trace.adherence"] == 1.0
    async with judge(server, language="en") as labeler:
        assert (await labeler.label(russian)).prompts == ("trace.en.1",)


async def test_sentences_the_producer_cut_are_judged_as_given(server: ScriptedJudge) -> None:
    given = RagInteraction(
        pipeline="p",
        question="When?",
        documents=[{"text": "Built in 1889. In Paris.", "sentences": ["Built in 1889. In Paris."]}],
        response="Built in 1889. In Paris.",
        response_sentences=["Built in 1889. In Paris."],
    )
    async with judge(server) as labeler:
        labeling = await labeler.label(given)
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceLabels)
    assert labels.n_document_sentences == 1
    assert list(labels.support) == ["a"]
    assert labeling.splitter == "given"


async def test_the_version_changes_with_everything_that_may_change_scores(server: ScriptedJudge) -> None:
    versions = set()
    for changes in ({}, {"model": "other"}, {"families": ("ragchecker",)}, {"language": "ru"}):
        async with judge(server, **changes) as labeler:
            versions.add(labeler.version)
    assert len(versions) == 4


async def test_a_judge_may_be_verbose_around_its_json(server: ScriptedJudge) -> None:
    server.script.append(Says(lambda prompt: f"Sure!\n```json\n{Labels().answer(prompt)}\n```\nAnything else?"))
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).counters == {"judge_calls": 1}
