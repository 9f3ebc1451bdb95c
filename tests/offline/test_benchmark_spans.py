"""F1 of unsupported spans: the arithmetic, each data set's true spans, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragtide.cli.app import cli
from ragtide_offline.benchmark.spans import ComparedSpans, found_spans, true_spans
from ragtide_schemas import Labels, RagInteraction, SentenceLabels, SentenceProbabilities, UnsupportedSpan

pytestmark = pytest.mark.pure

RESPONSE = "It is old.  It is tall."
"""Two sentences, with two spaces between them."""
FIRST, SECOND = (0, 10), (12, 23)


def interaction(response: str = RESPONSE, **more: Any) -> RagInteraction:
    return RagInteraction.from_fields(
        {"pipeline": "p", "interaction_id": "1", "question": "Why?", "documents": ["A."], "response": response, **more}
    )


def ragtruth(*spans: tuple[Any, Any]) -> dict[str, Any]:
    labels = [{"start": start, "end": end, "text": "", "label_type": "Evident Conflict"} for start, end in spans]
    return {"source_id": "1", "response": RESPONSE, "labels": labels}


def labels(first: bool, second: bool, *spans: tuple[str, int, int]) -> SentenceLabels:
    support = {"a": ("0a",) if first else (), "b": ("0a",) if second else ()}
    marked = tuple(UnsupportedSpan(sentence=key, start=start, end=end, probability=0.9) for key, start, end in spans)
    return SentenceLabels(
        relevant=None,
        utilized=None,
        support=support,
        fully_supported={"a": first, "b": second},
        unsupported_spans=marked,
        n_document_sentences=1,
    )


def figures(rows: list[tuple[dict[str, Any], Labels]]) -> dict[str, float | None]:
    found = ComparedSpans()
    for number, (fields, given_labels) in enumerate(rows):
        found.take("a", interaction(question=f"Why {number}?"), fields, [given_labels])
    compared = found.figures(confidence=0.95, seed=0)
    return {} if compared is None else {figure.name: figure.mean.value for figure in compared.figures}


def test_true_spans_are_those_of_each_data_set() -> None:
    found = true_spans(interaction(), ragtruth((3, 9)))
    assert found is not None
    assert (found.text, found.places, found.spans) == (RESPONSE, [FIRST, SECOND], [(3, 9)])
    bench = {
        "response_sentences": [["a", "It is old."], ["b", "It is tall."]],
        "unsupported_response_sentence_keys": ["b"],
    }
    found = true_spans(interaction(response_sentences=["It is old.", "It is tall."]), bench)
    assert found is not None
    assert found.spans == [SECOND]
    claims = [{"claim": "It is old.", "support": "Complete"}, {"claim": "It is tall.", "support": "Partial"}]
    experts: dict[str, Any] = {"claims": claims, "contexts": ["A."]}
    found = true_spans(interaction(), experts)
    assert found is not None
    assert found.spans == [SECOND]
    unjudged = {**experts, "claims": [claims[0], {"claim": "It is tall.", "support": None}]}
    other_words = {**experts, "claims": [claims[0], {"claim": "It is high.", "support": "Missing"}]}
    for fields in (unjudged, other_words, {"passage": "A.", "answer": "B.", "label": "FAIL"}):
        assert true_spans(interaction(), fields) is None


def test_sentences_that_are_not_in_the_response_are_compared_with_each_other() -> None:
    bench = {"response_sentences": [["a", "Old."], ["b", "Tall!"]], "unsupported_response_sentence_keys": ["b"]}
    found = true_spans(interaction(response_sentences=["Old.", "Tall!"]), bench)
    assert found is not None
    assert found.text == "Old. Tall!"
    assert found_spans(found, [labels(True, False)]) == found.spans == [(5, 10)]


def test_a_labeler_marks_spans_or_else_whole_sentences() -> None:
    truth = true_spans(interaction(), ragtruth())
    assert truth is not None
    assert found_spans(truth, [labels(True, False)]) == [SECOND]
    assert found_spans(truth, [labels(True, False, ("b", 3, 5))]) == [(15, 17)]
    assert found_spans(truth, [labels(True, False, ("b", 3, 999))]) == [(15, 23)]
    probabilities = SentenceProbabilities(relevant=(0.5,), utilized=(0.5,), supported=(0.49, 0.5))
    assert found_spans(truth, [probabilities]) == [FIRST]
    undecided = labels(True, True).model_copy(update={"support": {"a": ()}, "fully_supported": {"a": True}})
    assert found_spans(truth, [undecided]) is None
    assert found_spans(truth, []) is None


def test_figures_are_those_of_all_characters() -> None:
    rows: list[tuple[dict[str, Any], Labels]] = [(ragtruth((3, 9)), labels(False, True)) for _ in range(10)]
    rows += [(ragtruth(), labels(True, True)) for _ in range(10)]
    rows += [(ragtruth((0, 23)), labels(True, True)) for _ in range(10)]
    found = figures(rows)
    # White space between sentences is of no sentence: 21 characters of 23 count.
    both, ours, theirs, characters = 60, 100, 60 + 210, 30 * 21
    assert found["precision"] == pytest.approx(both / ours)
    assert found["recall"] == pytest.approx(both / theirs)
    assert found["F1"] == pytest.approx(2 * both / (ours + theirs))
    assert found["F1 of marking everything"] == pytest.approx(2 * theirs / (characters + theirs))


SPAN = st.tuples(st.integers(0, 23), st.integers(0, 23)).map(lambda pair: (min(pair), max(pair)))
MARKED = st.lists(SPAN, max_size=3)


@given(st.lists(MARKED, min_size=20, max_size=24))
def test_a_labeler_that_marks_what_the_data_mark_has_f1_of_1(responses: list[list[tuple[int, int]]]) -> None:
    rows: list[tuple[dict[str, Any], Labels]] = []
    for spans in responses:
        parts = []
        for key, (begin, stop) in (("a", FIRST), ("b", SECOND)):
            parts += [(key, max(s, begin) - begin, min(e, stop) - begin) for s, e in spans if s < stop and e > begin]
        parts = [(key, start, end) for key, start, end in parts if start < end]
        bad = {key for key, _, _ in parts}
        rows.append((ragtruth(*spans), labels("a" not in bad, "b" not in bad, *parts)))
    found = figures(rows)
    if found:
        assert found["F1"] == found["precision"] == found["recall"] == 1
    else:
        assert not any(labels.unsupported_spans for _, labels in rows if isinstance(labels, SentenceLabels))


@pytest.mark.parametrize(
    "fields",
    [
        {"response_sentences": [["a", "It is old."]], "unsupported_response_sentence_keys": ["q"]},
        {"response_sentences": [7], "unsupported_response_sentence_keys": ["a"]},
        {"response_sentences": [["a", "A."], ["b", "B."]], "unsupported_response_sentence_keys": 7},
        {"claims": [7], "contexts": ["A."]},
        ragtruth((3, 99)),
        ragtruth((None, 3)),
    ],
)
def test_spans_of_another_form_leave_the_row_out(fields: dict[str, Any]) -> None:
    found = ComparedSpans()
    found.take("a", interaction(response_sentences=["It is old."]), fields, [labels(True, True)])
    assert (found.unusable, found.undecided) == (1, 0)


def test_without_a_true_span_there_are_no_figures() -> None:
    assert figures([(ragtruth(), labels(False, True)) for _ in range(30)]) == {}


def command(*arguments: str) -> Any:
    done = CliRunner().invoke(cli, ["trust", "figures", *arguments])
    assert done.exit_code == 0, done.output
    return done


def test_the_command_compares_spans_of_ragtruth(tmp_path: Path) -> None:
    passage = "The tower was built in 1889 by Gustave Eiffel. It stands in Paris."
    good, bad = "The tower was built in 1889 by Gustave Eiffel.", "Penguins swim near Antarctic glaciers."
    sources = [
        {"source_id": str(n), "task_type": "QA", "source_info": {"question": f"When {n}?", "passages": passage}}
        for n in range(40)
    ]
    rows = []
    for n in range(40):
        response = good if n % 2 else f"{good} {bad}"
        spans = [] if n % 2 else [{"start": len(good) + 1, "end": len(response)}]
        rows.append({"id": str(n), "source_id": str(n), "response": response, "labels": spans})
    rows.append({**rows[0], "labels": [{"start": 0, "end": 9999}]})
    for name, lines in (("source_info.jsonl", sources), ("response.jsonl", rows)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = str(tmp_path / "response.jsonl")
    found = json.loads(command(path, "--labeler", "local", "--json").stdout)
    assert (found["rows"], found["problems"]) == (40, 1)
    spans = found["unsupported_spans"]
    assert (spans["n"], spans["n_marked"]) == (40, 20)
    f1 = next(figure for figure in spans["figures"] if figure["name"] == "F1")
    assert f1["mean"]["value"] == 1
    assert f1["subsets"] == {"QA": 1}
    shown = command(path, "--labeler", "local").output
    assert "unsupported spans · n 40 · 20 with spans" in shown
    assert "labels" in shown, "the row whose span is not in its response is named"
