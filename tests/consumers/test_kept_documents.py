"""Documents that are retrieved again: cut once, with the same bits, in bounded memory."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local import words
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.text import kept_documents, sentences
from ragtide_consumers.text.kept_documents import CutDocument, KeptDocuments, KeptSentences
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.telemetry.health import ProcessTelemetry

LABELER = LocalLabeler()
PARTS = st.sampled_from(
    (
        "The tower was built in 1889. ", "It is not tall. ", "Два этажа. ", "Der Turm steht in Paris. ", "- an item\n",
        "東京タワーの高さは三百三十三メートルです。", "No. 5 ", "42", "\x01", "<b>iron</b> ", "Ünïque ", "two",
    )
)  # fmt: skip
DOCUMENT = st.lists(PARTS, max_size=6).map("".join).filter(str.strip)


def interaction(question: str, documents: list[str], response: str) -> RagInteraction:
    return RagInteraction(pipeline="p", question=question, documents=documents, response=response)


def bits(labeling: Labeling) -> tuple[object, ...]:
    scores = {name: score.hex() for name, score in labeling.scores.items()}
    return scores, labeling.absent, labeling.labels, labeling.splitter


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptDocuments:
    documents = KeptDocuments()
    monkeypatch.setattr(sentences, "KEPT", documents)
    return documents


@given(st.lists(DOCUMENT, min_size=1, max_size=3), st.lists(st.tuples(DOCUMENT, DOCUMENT), min_size=1, max_size=4))
def test_a_kept_document_changes_no_bit(documents: list[str], asked: list[tuple[str, str]]) -> None:
    """Whatever was asked before, in whatever language, the labels are those of a process that keeps nothing."""
    rows = [interaction(question, documents, response) for question, response in [*asked, *asked]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "KEPT", KeptDocuments())
        found = [bits(LABELER.label_now(row)) for row in rows]
        patch.setattr(sentences, "KEPT", KeptDocuments(most=0))
        assert [bits(LABELER.label_now(row)) for row in rows] == found


def test_a_document_is_cut_and_numbered_once(kept: KeptDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = demo_interactions()[:20]
    first = [bits(LABELER.label_now(row)) for row in rows]
    different = {document.text for row in rows for document in row.documents}
    assert kept.n_cut == len(kept) == len(different)
    numbered: list[str] = []
    number = words.number_words

    def count(texts: list[str], known: words.Vocabulary) -> words.NumberedWords:
        numbered.extend(texts)
        return number(texts, known)

    monkeypatch.setattr(words, "number_words", count)
    assert [bits(LABELER.label_now(row)) for row in rows] == first
    assert kept.n_cut == len(different)
    assert numbered == [text for row in rows for text in (row.question, *sentences.cut(row).plain_response)]


def test_words_of_a_replaced_vocabulary_are_numbered_again(
    kept: KeptDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = demo_interactions()[:10]
    first = [bits(LABELER.label_now(row)) for row in rows]
    monkeypatch.setattr(words, "_known", {})
    words.number_words(["words that change every number"], words.vocabulary())
    assert [bits(LABELER.label_now(row)) for row in rows] == first
    assert kept.n_cut == len(kept)


def test_a_document_whose_language_the_question_decided_is_not_kept(kept: KeptDocuments) -> None:
    document = "№ 42 – «Ö»"
    LABELER.label_now(interaction("Wie alt war die Stadt, als sie abgebrannt ist?", [document], "Sie war alt."))
    LABELER.label_now(interaction("How old was the city when it burnt?", [document], "It was old."))
    assert kept.n_cut == 2
    assert len(kept) == 0


def unchanged(text: str) -> tuple[CutDocument, bool]:
    return CutDocument([text], KeptSentences([text])), True


@given(st.lists(st.integers(0, 30), max_size=60))
def test_documents_are_bounded_by_number_and_bytes_and_the_last_used_ones_stay(asked: list[int]) -> None:
    most_bytes = 7 * (kept_documents.DOCUMENT_BYTES + 20 * kept_documents.CHAR_BYTES)
    kept = KeptDocuments(most=8, most_bytes=most_bytes)
    for number in asked:
        text = f"{number}" * 10
        assert kept.document(text, partial(unchanged, text)).verbatim == [text]
        assert len(kept) <= 8
        assert 0 <= kept.n_bytes <= most_bytes
        cut = kept.n_cut
        kept.document(text, partial(pytest.fail, "the document that was used last is kept"))
        assert kept.n_cut == cut
    assert kept.n_found + kept.n_cut == 2 * len(asked)


def test_a_document_that_would_replace_many_others_is_not_kept() -> None:
    kept = KeptDocuments()
    text = "x" * (kept_documents.LARGEST_BYTES // kept_documents.CHAR_BYTES)
    kept.document(text, partial(unchanged, text))
    assert len(kept) == kept.n_bytes == 0


def test_a_scrape_has_the_documents_that_were_kept_and_cut() -> None:
    registry = CollectorRegistry()
    WorkerTelemetry(ProcessTelemetry(registry=registry))
    before = _documents(registry)
    row = interaction("How long is it?", ["A document that no other test has: 17 spans."], "It has 17 spans.")
    LABELER.label_now(row)
    LABELER.label_now(row)
    after = _documents(registry)
    assert {name: after[name] - before[name] for name in after} == {"kept": 1, "cut": 1}


def _documents(registry: CollectorRegistry) -> dict[str, float]:
    lines = [line for line in generate_latest(registry).decode().splitlines() if line.startswith("ragtide_documents")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}
