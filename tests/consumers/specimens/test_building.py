"""A specimen has the texts after redaction, the sentences that were labeled, and the labels by their keys."""

import zlib
from typing import Any

import pytest

from ragtide import Labeling, LocalLabeler, RagInteraction
from ragtide.testing import interaction
from ragtide_consumers.labelers.event import metric_event
from ragtide_consumers.labelers.protocol import LabelerId, ReferenceLabeling
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_consumers.specimens.keeping import specimen
from ragtide_consumers.text.sentences import cut
from ragtide_schemas import ClaimLabels, InvalidEntryError, Labels, SentenceLabels, Specimen
from ragtide_schemas.specimen import STORED_MAX_BYTES

TEST = LabelerId("test", "1", "ragbench")


def made(one: RagInteraction, labeling: Labeling, redaction: Redaction | None = None, **options: Any) -> Specimen:
    """Return the specimen of a labeled interaction, after its way through Redis."""
    event = metric_event(one, TEST, labeling, labeled_at=one.occurred_at, latency_s=0.5, entry_id="1-0")
    fields: dict[str, Any] = {"lists": ["sample"], "sample": 0.01, "trace_id": None} | options
    stored = specimen(one, labeling, event, redaction or Redaction(), **fields).to_stored()
    return Specimen.from_stored(stored)


def labeled(*labels: Labels, scores: dict[str, float] | None = None) -> Labeling:
    return Labeling({"trace.adherence": 0.5} if scores is None else scores, labels=labels)


def test_the_sentences_are_those_that_the_scores_came_from() -> None:
    one = interaction(documents=["Dr. Smith came. He saw 3.5 cats.\nHe left.", "Paris."], response="It is so. Yes.")
    labeling = LocalLabeler().label_now(one)
    found = made(one, labeling)
    sentences = cut(one)
    assert [document.sentences for document in found.interaction.documents] == [tuple(s) for s in sentences.documents]
    assert found.interaction.response_sentences == tuple(sentences.response)
    assert found.labelings[0].labels == labeling.labels
    assert labeling.scores.items() <= found.labelings[0].scores.items()
    assert found.splitter == labeling.splitter
    again = LocalLabeler().label_now(found.interaction)
    assert again.scores == labeling.scores, "the kept sentences give the same scores"


def test_the_labels_of_proxy_and_judge_are_in_one_specimen() -> None:
    one = interaction()
    by_judge = SentenceLabels(relevant=("0a",), utilized=None, support={"a": ("0a",)}, n_document_sentences=2)
    judge_id = LabelerId("judge", "m", "r")
    judged = ReferenceLabeling(labeled(by_judge, scores={"trace.adherence": 1.0}), judge_id, 1, uniform_probability=1.0)
    labeling = Labeling({"trace.adherence": 0.3}, judged=judged, cost_usd=0.25)
    found = made(one, labeling, trace_id="a" * 32)
    proxy, judge = found.labelings
    assert (proxy.labeler, judge.labeler, found.cost_usd, found.trace_id) == ("test", "judge", 0.25, "a" * 32)
    (labels,) = judge.labels
    assert isinstance(labels, SentenceLabels)
    assert (labels.relevant, labels.utilized, labels.support) == (("0a",), None, {"a": ("0a",)})


def test_the_probability_of_the_sample_is_that_among_the_traffic() -> None:
    assert made(interaction(sampling_probability=0.5), labeled()).sample_probability == pytest.approx(0.005)
    assert made(interaction(), labeled(), sample=None, lists=["worst:a.b:c"]).sample_probability is None


def test_reasons_are_kept_redacted_bounded_and_only_of_sentences_that_there_are() -> None:
    one = interaction(response="It is so. Yes.")
    reasons = {
        "trace.adherence": 'bob@example.com says "so"\nand more',
        "sentence:a": "é" * 2_000,
        "sentence:z": "of no sentence",
        "criteria.kind": "  ",
    }
    labeling = Labeling({"trace.adherence": 1.0}, reasons=reasons)
    (found,) = made(one, labeling, Redaction(["email"])).labelings
    assert found.reasons == {"trace.adherence": '[email] says "so"\nand more', "sentence:a": "é" * 500}


def test_a_specimen_without_reasons_is_stored_as_before_there_were_any() -> None:
    found = made(interaction(), labeled())
    assert b'"reasons"' not in found.encode()
    assert found.labelings[0].reasons == {}


def test_texts_sentences_and_claims_are_redacted() -> None:
    one = interaction(
        question="I am anna@example.com",
        documents=["Write to bob@example.com. Or call +49 30 1234567."],
        response="Write to bob@example.com.",
        metadata={"who": "eve@example.com"},
    )
    claims = ClaimLabels(
        answer2response=None, retrieved2response=(("Entailment",),), response_claims=("bob is bob@example.com",)
    )
    found = made(one, labeled(claims), Redaction(["email", "phone"]))
    assert b"example.com" not in found.encode()
    assert b"1234567" not in found.encode()
    assert found.interaction.documents[0].sentences == ("Write to [email].", "Or call [phone].")
    assert found.redacted_by == ("email", "phone")


def test_sentences_that_share_a_redacted_place_are_left_out() -> None:
    """Each sentence by itself shows a part of the address."""
    one = interaction(documents=["Write to bob (at)\nExample.com today.", "It stands in Paris."], response="Yes.")
    assert len(cut(one).documents[0]) == 2
    found = made(one, labeled(), Redaction(["email"]))
    first, second = found.interaction.documents
    assert (first.text, first.sentences) == ("Write to [email] today.", None)
    assert second.sentences == ("It stands in Paris.",)
    assert b"xample.com" not in found.encode()


def test_a_key_that_is_no_sentence_is_not_kept() -> None:
    """A judge may answer with any text, also with one that redaction has taken out of the documents."""
    labels = SentenceLabels(
        relevant=("[0A]", "anna@example.com"),
        utilized=("0b",),
        support={"a": ("0a", "general", "anna"), "call anna": ()},
        fully_supported={"a": True, "z": False},
        unsupported=("anna",),
        n_document_sentences=2,
    )
    (found,) = made(interaction(), labeled(labels)).labelings[0].labels
    assert isinstance(found, SentenceLabels)
    assert (found.relevant, found.utilized, found.unsupported) == (("0a",), ("0b",), ())
    assert (found.support, found.fully_supported) == ({"a": ("0a", "general")}, {"a": True})


def test_labels_of_other_sentences_are_not_kept() -> None:
    """A judge cuts a text again if a redacted place reaches over the end of a sentence."""
    labels = SentenceLabels(relevant=("0a",), utilized=(), n_document_sentences=1, document_keys=("0a",))
    (labeling,) = made(interaction(), labeled(labels)).labelings
    assert labeling.labels == ()
    assert labeling.scores["trace.adherence"] == 0.5


@pytest.mark.parametrize("payload", [b"", b"{}", zlib.compress(b"{}"), zlib.compress(b" " * (STORED_MAX_BYTES + 1))])
def test_a_damaged_specimen_is_a_clear_error(payload: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        Specimen.from_stored(payload)
