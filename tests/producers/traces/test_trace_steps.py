"""The retrieval steps of a trace: by name, matched to the documents of the interaction, or left out."""

from collections.abc import Sequence
from typing import Any

from tests.producers.traces.test_captures import mapped
from tests.producers.traces.test_captures import spans as captured
from tests.support.traces import Branch, branch, spans

from ragtide_producers.traces.interactions import interactions_of
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX

A, B, C, D, E = (f"{name} is described in this text." for name in ("Ant", "Bee", "Cat", "Dog", "Eel"))


def found(kind: str, texts: Sequence[str], ids: Sequence[str] = ()) -> dict[str, Any]:
    side = "retrieval.documents" if kind == "RETRIEVER" else "reranker.output_documents"
    given = {f"{side}.{place}.document.content": text for place, text in enumerate(texts)}
    given |= {f"{side}.{place}.document.id": name for place, name in enumerate(ids)}
    return {"openinference.span.kind": kind, "input.value": "Which?", **given}


def retriever(name: str, texts: Sequence[str], *inside: Branch, ids: Sequence[str] = (), **more: Any) -> Branch:
    return branch(name, {**found("RETRIEVER", texts, ids), **more}, *inside)


def reranker(name: str, texts: Sequence[str], inputs: Sequence[str] = (), ids: Sequence[str] = ()) -> Branch:
    given = {f"reranker.input_documents.{place}.document.content": text for place, text in enumerate(inputs)}
    return branch(name, {**found("RERANKER", texts, ids), **given})


def steps(*below: Branch, options: IngestSettings | None = None) -> list[dict[str, Any]] | None:
    answer = branch("chat", {"openinference.span.kind": "LLM", "output.value": "An ant."})
    root = branch("ask", {"openinference.span.kind": "CHAIN", "input.value": "Which?"}, *below, answer)
    (mapping,) = interactions_of(spans(root), options or IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    given = mapping.interaction.steps
    return None if given is None else [step.model_dump(exclude_none=True) for step in given]


def test_two_retrievers_and_a_reranker_are_three_steps_with_the_documents_that_reached_the_generator() -> None:
    assert steps(
        retriever("BM25Retriever", [A, B, C]),
        retriever("Vector Store", [C, D, A, E]),
        reranker("CohereRerank", [C, D]),
    ) == [
        {"name": "bm25_retriever", "kind": "retriever", "documents": (0,), "returned": 3, "shared": 2},
        {"name": "vector_store", "kind": "retriever", "documents": (0, 1), "returned": 4, "shared": 2},
        {"name": "cohere_rerank", "kind": "reranker", "documents": (0, 1), "returned": 2},
    ]


def test_a_fusion_chooses_among_the_documents_of_the_retrievers_inside_it() -> None:
    fusion = retriever("EnsembleRetriever", [B, D], retriever("BM25Retriever", [A, B]), retriever("Dense", [D, B]))
    assert steps(fusion) == [
        {"name": "bm25_retriever", "kind": "retriever", "documents": (0,), "returned": 2, "shared": 1},
        {"name": "dense", "kind": "retriever", "documents": (1, 0), "returned": 2, "shared": 1},
        {"name": "ensemble_retriever", "kind": "reranker", "documents": (0, 1), "returned": 2},
    ]


def test_a_retriever_around_a_reranking_is_no_step_of_its_own() -> None:
    outer = retriever("Compression", [B], retriever("Dense", [A, B]), reranker("Rerank", [B], [A, B]))
    assert [step["name"] for step in steps(outer) or ()] == ["dense", "rerank"]


def test_a_retriever_that_is_seen_twice_or_returns_what_no_part_has_is_one_step() -> None:
    twice = retriever("Index.retrieve", [A], retriever("Index._retrieve", [A]))
    assert [step["name"] for step in steps(twice, retriever("Dense", [B])) or ()] == ["index_retrieve", "dense"]
    parent = retriever("ParentDocument", [A], retriever("Child", ["Ant"]))
    assert [step["name"] for step in steps(parent, retriever("Dense", [B])) or ()] == ["parent_document", "dense"]


def test_several_queries_of_one_retriever_are_one_step_whatever_ids_its_name_has() -> None:
    given = steps(
        retriever("search 4f0c1a2e-9a0b-4c3d-8e1f-0a1b2c3d4e5f", [A, B]),
        retriever("search 20261127", [B, C]),
        retriever("Dense", [D]),
    )
    assert given is not None
    assert [(step["name"], step["returned"]) for step in given] == [("search", 3), ("dense", 1)]


def test_documents_whose_texts_were_changed_are_matched_by_ids_that_are_theirs_alone() -> None:
    by_id = steps(retriever("Dense", [A, B], ids=["1", "2"]), reranker("Rerank", ["Ant.", "Bee."], ids=["1", "2"]))
    assert by_id is not None
    assert by_id[0]["documents"] == (0, 1)
    assert (
        steps(retriever("Dense", [A, B], ids=["f", "f"]), reranker("Rerank", ["Ant.", "Bee."], ids=["f", "f"])) is None
    )
    assert steps(retriever("Dense", [A, B]), reranker("Rerank", ["Ant."])) is None


def test_a_single_retrieval_has_no_steps_and_neither_have_too_many() -> None:
    assert steps(retriever("Dense", [A])) is None
    assert steps(*(retriever(f"r{number}x", [A]) for number in range(STEP_NAMES_MAX + 1))) is None
    assert len(steps(*(retriever(f"r{number}x", [A]) for number in range(STEP_NAMES_MAX))) or ()) == STEP_NAMES_MAX


def test_a_name_that_its_kind_would_make_that_of_another_step_leaves_the_steps_out_and_not_the_interaction() -> None:
    both = retriever("Index", [A]), reranker("Index", [A])
    assert [step["name"] for step in steps(*both) or ()] == ["index_retriever", "index_reranker"]
    assert steps(*both, retriever("Index Retriever", [A])) is None


def test_names_come_from_an_attribute_of_ones_own_from_components_of_haystack_and_from_tools() -> None:
    component = {"haystack.component.type": "InMemoryBM25Retriever", "haystack.component.name": "bm25"}
    output = {
        "haystack.component.input": {"query": "Which?"},
        "haystack.component.output": {"documents": [{"content": B}]},
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search_faq"}
    given = steps(
        retriever("Dense", [A], **{"ragtide.step": "Index of shops"}),
        branch("haystack.component.run", {**component, **output}),
        branch("running tool", {**tool, "gen_ai.tool.call.result": [{"id": "1", "content": C}]}),
        retriever("検索", [D]),
    )
    assert [step["name"] for step in given or ()] == ["search_faq", "index_of_shops", "bm25", "retriever"]


def test_a_captured_application_with_a_reranker_has_both_steps() -> None:
    found = [item.interaction for item in mapped(captured("openai_openinference_manual")) if item.interaction]
    assert found
    for interaction in found:
        assert interaction.steps is not None
        assert [(step.name, step.kind, step.returned) for step in interaction.steps] == [
            ("search", "retriever", 5), ("rerank", "reranker", 2),
        ]  # fmt: skip
