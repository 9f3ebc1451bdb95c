"""The documents of an interaction are those in the prompts that led to its answer, in the order of the prompt."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.traces import Branch, branch, spans

from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_producers.traces.interactions import Mapped, Refusal, interactions_of
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import RagInteraction

pytestmark = pytest.mark.pure

QUESTION, ANSWER = "How long is the river Nile?", "It is about 6650 kilometres long."
LONG = "The river Nile is about 6650 kilometres long, says the survey of that year."
SEA = "The river Nile flows north, into the Mediterranean Sea."
LAKE = "Lake Victoria is a source of the White Nile, which is the longer of its two arms."
TEXTS = (LONG, SEA, LAKE)
CONTEXT = "Answer by these documents:\n{0}\n\nQuestion: {1}"


def retriever(*texts: str, query: str = QUESTION, **more: Any) -> Branch:
    found = {f"retrieval.documents.{place}.document.content": text for place, text in enumerate(texts)}
    return branch("find", {"openinference.span.kind": "RETRIEVER", "input.value": query, **found, **more})


def llm(*messages: str | tuple[str, str], said: str = ANSWER, **more: Any) -> Branch:
    """Return a model call as an instrumentation writes it; a message without an author is the user's."""
    given: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.invocation_parameters": "{}"}
    for place, message in enumerate(messages):
        author, text = ("user", message) if isinstance(message, str) else message
        given[f"llm.input_messages.{place}.message.role"] = author
        given[f"llm.input_messages.{place}.message.content"] = text
    given |= {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": said}
    return branch("model", {**given, **more})


def prompt(*texts: str, question: str = QUESTION) -> str:
    return CONTEXT.format("\n\n".join(texts), question)


def mapped(*below: Branch, answer: str = ANSWER, **more: Any) -> Mapped:
    asked = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": answer}
    (found,) = interactions_of(spans(branch("rag", {**asked, **more}, *below)), IngestSettings())
    return found


def recorded(*below: Branch, **more: Any) -> RagInteraction:
    found = mapped(*below, **more)
    assert found.interaction is not None, found.detail
    return found.interaction


def documents(*below: Branch, **more: Any) -> list[str]:
    return [document.text for document in recorded(*below, **more).documents]


@given(st.permutations(TEXTS), st.integers(0, 3))
def test_what_an_own_step_dropped_or_moved_is_seen_in_the_prompt(order: list[str], number: int) -> None:
    found = recorded(retriever(*TEXTS), llm(prompt(*order[:number])))
    assert [document.text for document in found.documents] == order[:number]
    assert (found.metadata["documents_from"], found.metadata["documents_not_given"]) == ("prompt", 3 - number)


def test_a_text_that_was_cut_is_the_part_in_the_prompt_and_keeps_its_id() -> None:
    found = recorded(retriever(*TEXTS, **{"retrieval.documents.2.document.id": "lake"}), llm(prompt(LAKE[:40] + "...")))
    assert [(document.id, document.text) for document in found.documents] == [("lake", LAKE[:40])]
    assert found.metadata["documents_not_given"] == 2


def refine(said: str) -> list[Branch]:
    return [
        llm(prompt(LONG), said=said),
        llm(f"The question is: {QUESTION}\nThe existing answer is: {said}\nRefine it by more context.\n{SEA}"),
    ]


@for_each("said", ["It is long, as some say.", "6650.", "About 6650 km", f"The survey says: {LONG}"])
def test_an_answer_that_was_refined_rests_on_the_documents_of_both_calls(said: str) -> None:
    assert documents(retriever(*TEXTS), *refine(said)) == [LONG, SEA]


def test_a_question_that_the_prompts_have_in_other_words_changes_nothing() -> None:
    ask = "What is the length of the Nile?"
    calls = [
        llm(prompt(LONG, question=ask), said="The survey knows it."),
        llm(f"{ask}\nSo far: The survey knows it.\nMore context:\n{SEA}"),
    ]
    assert documents(retriever(*TEXTS, query="Nile length"), *calls) == [LONG, SEA]


def test_answers_of_parts_that_a_call_joins_rest_on_all_their_documents() -> None:
    parts = [llm(prompt(text), said=f"Part {place} is known.") for place, text in enumerate(TEXTS)]
    join = llm("Join:\nPart 0 is known.\nPart 1 is known.\nPart 2 is known.")
    assert documents(retriever(*TEXTS), *parts, join) == list(TEXTS)
    # Also if the application joins them itself; a part that is left out has led to nothing.
    assert documents(retriever(*TEXTS), *parts, answer="Part 0 is known.\nPart 2 is known.") == [LONG, LAKE]


@for_each("verdict", ["yes", "Yes.", '{"binary_score": "yes"}', "relevant", "7", "The text is about the river."])
def test_graders_do_not_lead_to_the_answer(verdict: str) -> None:
    graders = [llm(f"Is it about the question? {QUESTION}\n{text}\nSay 'yes' or 'no'.", said=verdict) for text in TEXTS]
    assert documents(retriever(*TEXTS), *graders, llm(prompt(LONG, LAKE))) == [LONG, LAKE]


def test_calls_that_rank_write_queries_or_check_the_answer_do_not_lead_to_it() -> None:
    before = [
        llm(f"Write a better query for: {QUESTION} These did not help:\n{SEA}", said="length of the river Nile"),
        llm("Rank by number:\n" + "\n".join(TEXTS), said="Doc: 2, Relevance: 9\nDoc: 1, Relevance: 2"),
    ]
    check = llm(f"Is this grounded?\n{SEA}\n{ANSWER}", said="It is grounded.")
    again = retriever(*TEXTS, query="length of the river Nile")
    answer = llm(prompt(LAKE, question=f"{QUESTION}\nQuery: length of the river Nile"))
    assert documents(*before, again, answer, check) == [LAKE]


def test_an_answer_that_was_thrown_away_lends_no_documents_though_it_quotes_one() -> None:
    first = llm(prompt(LONG, SEA), said=f"I am not sure: {SEA}")
    assert documents(retriever(*TEXTS), first, llm(prompt(SEA, LAKE))) == [SEA, LAKE]


def test_an_application_that_answers_itself_after_grading_gave_no_documents() -> None:
    graders = [llm(f"Is it about the question?\n{QUESTION}\n{text}", said="no") for text in TEXTS]
    assert documents(retriever(*TEXTS), *graders, answer="Sorry, I found nothing.") == []


def test_the_messages_of_an_agent_have_the_documents_of_this_turn_first() -> None:
    before: list[str | tuple[str, str]] = [
        QUESTION,
        ("tool", SEA),
        ("assistant", f"In short: {LAKE}"),
        "And once more?",
    ]
    call = llm(*before, ("tool", json.dumps([{"text": LONG}, {"text": SEA}])))
    found = recorded(retriever(LONG, SEA, LAKE), call, **{"input.value": "And once more?"})
    assert [document.text for document in found.documents] == [LONG, SEA]  # the assistant's own words are none


def test_a_text_made_of_documents_alone_is_the_document() -> None:
    summary = "The Nile is about 6650 km long and flows north."
    steps = [llm("Summarize:\n" + "\n".join(TEXTS), said=summary), llm(prompt(summary))]
    found = recorded(retriever(*TEXTS), *steps)
    assert [document.text for document in found.documents] == [summary]
    assert found.steps is None


@for_each("empty", [prompt(), prompt("None"), prompt("No documents found."), "Be brief.", QUESTION])
def test_an_empty_or_absent_context_is_no_documents(empty: str) -> None:
    found = recorded(retriever(*TEXTS), llm(empty))
    assert (list(found.documents), found.metadata["documents_not_given"]) == ([], 3)


@for_each("words", ["The Mediterranean takes it in.", "Some 6650 kilometres."])
def test_other_words_without_a_mark_are_refused(words: str) -> None:
    found = mapped(retriever(*TEXTS), llm(f"{words}\n{QUESTION}"))
    assert (found.interaction, found.refusal) == (None, Refusal.INVALID)
    assert "ragtide.documents" in found.detail
    own = {"ragtide.documents": (LONG,), "ragtide.question": QUESTION, "ragtide.response": ANSWER}
    explicit = recorded(retriever(*TEXTS), llm(f"{words}\n{QUESTION}"), **own)
    assert "documents_from" not in explicit.metadata


@for_each(
    "call",
    [
        branch("model", {"openinference.span.kind": "LLM", "output.value": ANSWER}),
        branch("model", {"openinference.span.kind": "LLM", "input.value": QUESTION, "output.value": ANSWER}),
        branch("model", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "conte'}),
        branch("model", {"langfuse.observation.type": "generation", "langfuse.observation.input": {"style": "kind"}}),
    ],
)
def test_without_a_prompt_or_with_a_cut_one_the_retrieval_decides(call: Branch) -> None:
    found = recorded(retriever(*TEXTS), call)
    assert [document.text for document in found.documents] == list(TEXTS)
    assert found.metadata["documents_from"] == "retrieval"
    assert "documents_not_given" not in found.metadata


def test_a_prompt_beside_an_input_that_is_cut_may_be_cut_too() -> None:
    whole = llm(prompt(LONG))
    cut = branch("model", {**whole.attributes, "input.value": '{"messages": [["Answer by the'})
    assert recorded(retriever(*TEXTS), cut).metadata["documents_from"] == "retrieval"
    assert documents(retriever(LONG), cut) == [LONG]


def test_the_context_of_an_earlier_turn_is_none_of_this_one() -> None:
    call = llm(
        prompt("The Nile ends in the Mediterranean Sea."), ("assistant", "It ends there."), "And how long is it?"
    )
    assert documents(retriever(*TEXTS), call, **{"input.value": "And how long is it?"}) == []


def test_documents_are_counted_by_whether_they_were_given() -> None:
    process = ProcessTelemetry()
    without = branch("model", {"openinference.span.kind": "LLM", "output.value": ANSWER})
    given = [recorded(retriever(*TEXTS), llm(prompt(LONG))), recorded(retriever(*TEXTS), without)]
    IngestTelemetry(process).assembled(given)
    counts = {
        outcome: process.registry.get_sample_value("ragtide_ingest_documents_total", {"outcome": outcome})
        for outcome in ("given", "not_given", "unknown")
    }
    assert counts == {"given": 1, "not_given": 2, "unknown": 3}


def test_the_instructions_of_the_system_may_be_a_parameter_of_the_call() -> None:
    parameters = json.dumps({"model": "m", "system": "Answer by:\n" + "\n".join((SEA, LONG))})
    assert documents(retriever(*TEXTS), llm(QUESTION, **{"llm.invocation_parameters": parameters})) == [SEA, LONG]


def test_the_text_of_the_metadata_that_stands_in_the_prompt_for_a_sentence_is_the_document() -> None:
    window: dict[str, Any] = {"retrieval.documents.0.document.metadata": {"window": f"{LONG} {SEA}"}}
    assert documents(retriever(LONG, **window), llm(prompt(f"{LONG} {SEA}"))) == [f"{LONG} {SEA}"]


def test_the_steps_are_those_of_the_documents_that_were_given() -> None:
    found = recorded(
        retriever(LONG, SEA), branch("other", retriever(SEA, LAKE).attributes), llm(prompt(LAKE[:50], LONG))
    )
    assert [(step.documents, step.returned) for step in found.steps or ()] == [((1,), 2), ((0,), 2)]
