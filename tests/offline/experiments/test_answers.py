"""Answers of targets, and the interactions that are published."""

from dataclasses import replace
from typing import Any

import pytest
from tests.offline.experiments.items import ITEM
from tests.support.cases import for_each
from tests.support.experiment_plans import plan
from tests.support.transcripts import EXPECTED, TRANSCRIPTS, fields_seen_in

from ragtide_offline.experiments import Answer
from ragtide_offline.experiments.answers import answer_from, interaction_of
from ragtide_offline.experiments.errors import AnswerError
from ragtide_schemas import AnswerUsage, EarlierTurn
from ragtide_schemas.experiments import Config
from ragtide_schemas.retrieval_steps import RetrievalStep


@for_each(
    "value",
    [
        (["a"], "b"),
        [["a"], "b"],
        {"documents": ["a"], "response": "b"},
        Answer(["a"], "b"),
    ],
)
def test_an_answer_may_be_given_in_several_forms(value: object) -> None:
    assert answer_from(value) == Answer(["a"], "b")


@for_each(
    "value, words",
    [
        ("text", "return \\(documents, response\\)"),
        (None, "NoneType"),
        (("a", "b"), "documents is str"),
        ({"documents": ["a"]}, "give documents, response"),
        ({"documents": ["a"], "response": "b", "token": 3}, "no field of an answer 'token'"),
        ({"documents": ["a"], "response": "b", "steps": "search"}, "steps is str: give a list of steps"),
        ({"messages": []}, "messages cannot be read: it is no list of messages: give"),
        ({"messages": [{"role": "user", "content": "q"}]}, "no answer and no call"),
        ({"documents": ["a"], "response": "b", "question": "q"}, "no field of an answer 'question'"),
        ({"documents": ["a"], "response": "b", "cost_usd": -1}, "cost_usd is -1"),
        ({"documents": ["a"], "response": "b", "cost_usd": float("nan")}, "cost_usd is nan"),
        ({"documents": ["a"], "response": "b", "prompt_tokens": "3"}, "prompt_tokens is '3'"),
    ],
)
def test_what_is_no_answer_is_refused(value: object, words: str) -> None:
    with pytest.raises(AnswerError, match=words):
        answer_from(value)


def test_an_answer_becomes_an_interaction_of_its_config_and_run() -> None:
    made = interaction_of(
        plan(), Config(name="c1"), 4, item=ITEM, answer=Answer([{"text": "x", "id": "d"}], "y"), scores={"own.f1": 0.5}
    )
    assert (made.interaction_id, made.pipeline, made.run, made.population_size) == ("item-4", "c1", "e", 20)
    assert (made.question, made.reference_answer, made.response) == ("When was it built?", "In 1889.", "y")
    assert made.metadata == {"year": 1889, "item_id": "q1", "ragtide_scores": {"own.f1": 0.5}}
    assert (made.cluster, made.session_id, made.turn, made.user_id) == (None, None, None, None)


def test_an_answer_of_an_agent_has_its_calls() -> None:
    calls: list[Any] = [
        {"name": "search", "kind": "tool", "round": 1, "query": "tower", "documents": [0], "returned": 3},
        RetrievalStep(name="search", kind="tool", round=2, error="timeout"),
    ]
    for value in (Answer(["x"], "y", steps=calls), {"documents": ["x"], "response": "y", "steps": calls}):
        made = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=answer_from(value), scores={})
        assert [(call.name, call.round, call.error) for call in made.calls] == [
            ("search", 1, None), ("search", 2, "timeout"),
        ]  # fmt: skip
    plain = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=Answer(["x"], "y"), scores={})
    assert plain.steps is None
    with pytest.raises(AnswerError, match="has the document 1, and there are 1"):
        interaction_of(
            plan(), Config(name="c1"), 4, item=ITEM, answer=Answer(["x"], "y", steps=[{**calls[0], "documents": [1]}]),
            scores={},
        )  # fmt: skip


@pytest.mark.parametrize("make", TRANSCRIPTS, ids=lambda make: make.__name__)
def test_the_messages_of_an_agent_are_its_answer(make: Any) -> None:
    answer = answer_from({"messages": make(), "cost_usd": 0.5})
    made = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=answer, scores={})
    own = {"question": ITEM.question, "history": None}
    assert fields_seen_in(made) == {**EXPECTED, **own}
    assert (made.usage and made.usage.cost_usd, made.left_out) == (0.5, {})
    given = answer_from({"messages": make(), "response": "No."})
    assert (given.response, len(given.steps)) == ("No.", len(answer.steps))


def test_what_is_left_out_of_messages_is_counted_in_the_metadata() -> None:
    call = {"id": "a", "function": {"name": "search", "arguments": "{}"}}
    run: list[Any] = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "x " * 600_000},
    ]
    answer = answer_from({"messages": [{"role": "user", "content": "q"}, *run, {"role": "assistant", "content": "Y"}]})
    made = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=answer, scores={})
    assert made.metadata["left_out"] == {"documents.text": 1}
    many = [{**run[0], "tool_calls": [{**call, "id": str(n)} for n in range(70)]}]
    cut = answer_from({"messages": [{"role": "user", "content": "q"}, *many]})
    assert interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=cut, scores={}).steps_left_out == 6


def test_an_answer_has_the_cluster_of_its_item() -> None:
    item = replace(ITEM, cluster="towers")
    made = interaction_of(plan(), Config(name="c1"), 4, item=item, answer=Answer(["x"], "y"), scores={})
    assert made.cluster == "towers"


@for_each("documents, response", [([1], "x"), ([""], "x"), (["a"], {3}), (["a"], None)])
def test_an_answer_of_another_type_is_a_failed_call(documents: list[Any], response: Any) -> None:
    with pytest.raises(AnswerError, match="cannot be scored"):
        interaction_of(plan(), Config(name="c"), 0, item=ITEM, answer=Answer(documents, response), scores={})


@for_each("documents, response", [([], "x"), (["a"], " "), ([], "")])
def test_an_empty_answer_is_an_outcome_and_no_failed_call(documents: list[Any], response: str) -> None:
    made = interaction_of(plan(), Config(name="c"), 0, item=ITEM, answer=Answer(documents, response), scores={})
    assert (made.nothing_retrieved, made.no_response) == (not documents, response != "x")


@pytest.mark.parametrize("wrong", [5.5, -1, 10**20, True, "7", None])
async def test_a_count_of_tokens_that_is_none_is_refused(wrong: object) -> None:
    fields = {"documents": ["a"], "response": "b", "prompt_tokens": wrong}
    with pytest.raises(AnswerError, match=r"prompt_tokens is .*: give a whole number"):
        answer_from(fields)


def test_an_answer_has_the_history_of_its_item_for_the_judge() -> None:
    item = replace(ITEM, history=(EarlierTurn(question="What is the tower?", response="A landmark."),))
    made = interaction_of(plan(), Config(name="c1"), 4, item=item, answer=Answer(["x"], "y"), scores={})
    assert made.history == item.history


def test_an_answer_has_the_usage_that_its_target_states_and_its_latency() -> None:
    said = Answer(["x"], "y", prompt_tokens=20, cost_usd=0.25)
    made = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=said, scores={}, latency_s=1.5)
    assert made.usage == AnswerUsage(latency_s=1.5, prompt_tokens=20, cost_usd=0.25)
    # 0 is the default of a target that states nothing.
    silent = interaction_of(plan(), Config(name="c1"), 4, item=ITEM, answer=Answer(["x"], "y"), scores={})
    assert silent.usage == AnswerUsage()
