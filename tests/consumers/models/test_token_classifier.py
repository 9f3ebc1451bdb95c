"""Token classifiers: unsupported tokens become spans and sentence labels, over windows of long documents."""

from math import exp
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.models.small_models import SCALE, write
from tests.consumers.models.test_model_labeler import TRACE_METRICS, labeler, scores, tower
from tests.support.metric_events import event

from ragtide import RagInteraction
from ragtide_consumers.labelers.models.tokens import windows_apart
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_consumers.specimens.keeping import specimen
from ragtide_consumers.specimens.marks import marked
from ragtide_consumers.text.sentences import place_sentences
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings
from ragtide_schemas import SentenceLabels, Specimen

LABELS = ("supported", "hallucinated")
BAD = 1 / (1 + exp(-SCALE / 2))
"""Probability of a token that no document has: that it is unsupported."""

PLAIN = "{documents}"
"""A prompt without words of its own, which would support words of the response."""

TWO = tower("The tower was built in 1889. It has iron lifts.", "The tower was built in 1889 .", "It has stone .")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens", "token", labels=LABELS)


async def labels_of(folder: Path, interaction: RagInteraction, **models: Any) -> SentenceLabels:
    async with labeler(folder, support_prompt=PLAIN, **models) as one:
        (labels,) = (await one.label(interaction)).labels
    assert isinstance(labels, SentenceLabels)
    return labels


def texts(labels: SentenceLabels, *sentences: str) -> list[str]:
    """Return the unsupported parts, given the sentences of the response."""
    by_key = dict(zip("abcdefghij", sentences, strict=False))
    return [by_key[span.sentence][span.start : span.end] for span in labels.unsupported_spans]


async def test_unsupported_tokens_become_spans_and_a_sentence_with_one_is_unsupported(folder: Path) -> None:
    labels = await labels_of(folder, TWO)
    assert labels.fully_supported == {"a": True, "b": False}
    # Neighbouring tokens are one span.
    assert texts(labels, "The tower was built in 1889.", "It has iron lifts.") == ["iron lifts"]
    assert labels.unsupported_spans[0].probability == pytest.approx(BAD)
    assert await scores(folder, TWO, support_prompt=PLAIN) == {"trace.adherence": 0.0, "trace.supported_fraction": 0.5}


async def test_the_probability_of_a_sentence_is_that_of_its_worst_token(folder: Path) -> None:
    found = await scores(folder, TWO, support_prompt=PLAIN, publish="probabilities")
    assert found == pytest.approx({"trace.adherence": BAD * (1 - BAD), "trace.supported_fraction": 0.5})


async def test_the_prompt_holds_the_question(folder: Path) -> None:
    asked = tower("When?", "It has lifts .")
    assert (await scores(folder, asked, support_prompt="{question} {documents}"))["trace.adherence"] == 1.0
    assert (await scores(folder, asked, support_prompt=PLAIN))["trace.adherence"] == 0.0
    # The prompt of RAGTruth has the question too, and the number of documents.
    assert (await scores(folder, asked))["trace.adherence"] == 1.0
    braces = asked.model_copy(update={"question": "{documents} {n} {question} when?"})
    assert (await scores(folder, braces, support_prompt="{question} {documents}"))["trace.adherence"] == 1.0


async def test_a_token_is_unsupported_only_if_no_window_supports_it(folder: Path) -> None:
    filler = "a b c d e f g h i j " * 10
    spread = tower("The tower has lifts.", f"{filler} the tower {filler} has lifts . {filler}")
    labels = await labels_of(folder, spread, max_tokens=40)
    assert labels.fully_supported == {"a": True}
    missing = tower("The tower has stone.", f"{filler} the tower {filler} has lifts . {filler}")
    assert texts(await labels_of(folder, missing, max_tokens=40), "The tower has stone.") == ["stone"]


async def test_a_long_response_is_marked_in_parts(folder: Path) -> None:
    long = " ".join(["The tower has lifts."] * 20 + ["It has stone."] + ["The tower has lifts."] * 20)
    labels = await labels_of(folder, tower(long, "the tower has lifts . it"), max_tokens=40)
    assert [key for key, yes in labels.fully_supported.items() if not yes] == ["u"]
    assert [(span.sentence, span.start, span.end) for span in labels.unsupported_spans] == [("u", 7, 12)]


async def test_a_question_without_end_leaves_no_room(folder: Path) -> None:
    long = tower("It has lifts.", "It has lifts. " * 20).model_copy(update={"question": "a b c " * 50})
    async with labeler(folder, max_tokens=64) as one:
        assert set((await one.label(long)).absent.values()) == {"too_long"}


async def test_sentences_of_the_interaction_need_not_be_in_the_response(folder: Path) -> None:
    own = TWO.model_copy(update={"response_sentences": ("It has stone.", "The tower was iron.")})
    assert texts(await labels_of(folder, own), "It has stone.", "The tower was iron.") == ["iron"]


@settings(max_examples=50)
@given(st.text("ab. \n", max_size=60), st.lists(st.text("ab.", min_size=1, max_size=8), max_size=8))
def test_a_place_holds_its_sentence(response: str, sentences: list[str]) -> None:
    text, places = place_sentences(response, sentences)
    assert [text[start:end] for start, end in places] == sentences
    assert places == sorted(places)


@given(st.integers(0, 3000), st.integers(1, 200))
def test_parts_hold_every_token_once(n: int, size: int) -> None:
    parts = windows_apart(n, size)
    assert [place for start, end in parts for place in range(start, end)] == list(range(n))
    assert all(0 < end - start <= size for start, end in parts)


@pytest.mark.parametrize("text", ["\u200b", "\x00\x01", "a" * 5000, "\U0001f468\u200d\U0001f469 e\u0301", "a. " * 300])
async def test_no_text_ends_the_labeler(folder: Path, text: str) -> None:
    async with labeler(folder, max_tokens=64) as one:
        for odd in (tower(text, "It has lifts."), tower("It has lifts.", text), tower(text, text)):
            labeling = await one.label(odd)
            assert {*labeling.scores, *labeling.absent} == TRACE_METRICS


async def test_a_single_label_for_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has a single label for each token"):
        async with labeler(write(tmp_path / "one", "token", labels=("bad",))):
            pass


async def test_the_head_must_be_that_of_the_config(tmp_path: Path) -> None:
    folder = write(tmp_path / "pairs", "pair", labels=LABELS, config={"architectures": ["SmallForTokenClassification"]})
    with pytest.raises(
        ConfigurationError, match=r"gives numbers of shape \(2, 2\), not one for each label for each token"
    ):
        async with labeler(folder):
            pass


def test_a_prompt_without_documents_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must have \{documents\} once"):
        ModelsSettings(support_prompt="{question}")


async def test_a_specimen_keeps_spans_but_those_that_redaction_moves(folder: Path) -> None:
    told = tower("It has stone. Write to me@example.org or lifts.", "It has lifts . write to or me @ example org")
    async with labeler(folder, support_prompt=PLAIN) as one:
        labeling: Labeling = await one.label(told)
    made = event(1, {"trace.adherence": 0.0})

    def kept(*patterns: str) -> Specimen:
        return specimen(told, labeling, made, Redaction(patterns), lists=(), sample=None, trace_id=None)

    whole = kept()
    assert Specimen.decode(whole.encode()) == whole
    response = marked(whole, whole.labelings[0]).response
    assert response is not None
    assert [response[0].text[start:end] for start, end in response[0].unsupported] == ["stone"]
    redacted = kept("email")
    (labels,) = redacted.labelings[0].labels
    assert isinstance(labels, SentenceLabels)
    assert {span.sentence for span in labels.unsupported_spans} == {"a"}


def test_a_specimen_without_spans_has_no_field_for_them() -> None:
    made = event(1, {"trace.adherence": 0.0})
    labels = SentenceLabels(relevant=None, utilized=None, n_document_sentences=1)
    one = specimen(
        tower("It has stone.", "It has lifts."),
        Labeling({"trace.adherence": 0.0}, labels=(labels,)),
        made,
        Redaction(()),
        lists=(),
        sample=None,
        trace_id=None,
    )
    assert b"unsupported_spans" not in one.encode()
    assert Specimen.decode(one.encode()) == one
