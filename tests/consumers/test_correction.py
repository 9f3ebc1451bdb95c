"""The correction of the local labeler: scores, bits, and the file that workers load."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local.adjustment import Term, predicted_score, temper
from ragtide_consumers.labelers.local.correction import (
    ADHERENCE,
    CORRECTED,
    RELEVANCE,
    SHIPPED_INPUTS,
    Correction,
    scores_of,
)
from ragtide_consumers.labelers.local.correction_file import FILE_MAX_BYTES, load_correction, shipped_sha256
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import JudgeSettings, LocalSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import SentenceProbabilities

pytestmark = pytest.mark.pure

TOWER = "The tower was built in 1889 by Gustave Eiffel. It stands in Paris and is made of iron."
RUSSIAN = "Башня была построена в 1889 году. Она стоит в Париже."

LOSSES = {
    "interactions": 100,
    "questions": 90,
    "shipped": 0.04,
    "fitted": 0.03,
    "difference": -0.01,
    "lower": -0.02,
    "upper": -0.001,
}


def content(**changes: Any) -> dict[str, Any]:
    """Return the content of a file that moves relevance up and adherence down."""

    def score(level: float) -> dict[str, Any]:
        inputs = {
            "constant": {"coefficient": level, "lowest": 1, "highest": 1},
            "log odds": {"coefficient": 0.9, "lowest": -1e6, "highest": 1e6},
            "mean document question": {"coefficient": -0.5, "lowest": 0.0, "highest": 0.4},
        }
        return {"inputs": inputs, "cross_validated": LOSSES}

    return {
        "file_version": 1,
        "labeler_version": SHIPPED_VERSION,
        "model_sha256": shipped_sha256(),
        "fitted_at": "2026-11-01T00:00:00Z",
        "source": "recording",
        "reference": "judge 1 (ragbench)",
        "interactions": 100,
        "questions": 90,
        "first_occurred_at": "2026-10-01T00:00:00Z",
        "last_occurred_at": "2026-10-31T00:00:00Z",
        "confidence": 0.95,
        "scores": {"context_relevance": score(1.0), "adherence": score(-1.0)},
        **changes,
    }


def file_with(folder: Path, **changes: Any) -> Path:
    path = folder / "local-model.json"
    path.write_text(json.dumps(content(**changes)), encoding="utf-8")
    return path


def interaction(response: str, document: str, question: str = "When was the tower built?") -> RagInteraction:
    return RagInteraction(pipeline="p", question=question, documents=[document], response=response)


ENGLISH_ANSWER = interaction("It was built in 1889. It is red.", TOWER)
RUSSIAN_ANSWER = interaction("Башню построили в 1889 году. Она красная.", RUSSIAN, "Когда построили башню?")


@pytest.mark.parametrize("answer", [ENGLISH_ANSWER, RUSSIAN_ANSWER], ids=["en", "ru"])
def test_a_loaded_file_changes_the_scores_that_it_corrects_and_no_others(
    answer: RagInteraction, tmp_path: Path
) -> None:
    loaded = load_correction(file_with(tmp_path), SHIPPED_VERSION)
    before, after = LocalLabeler().label_now(answer), LocalLabeler(loaded).label_now(answer)
    assert after.scores["trace.context_relevance"] > before.scores["trace.context_relevance"]
    assert after.scores["trace.adherence"] < before.scores["trace.adherence"]
    assert after.scores["trace.supported_fraction"] < before.scores["trace.supported_fraction"]
    assert after.scores["trace.context_utilization"] == before.scores["trace.context_utilization"]
    assert after.absent == before.absent


def test_the_scores_are_exactly_what_the_formulas_make_of_the_corrected_probabilities(tmp_path: Path) -> None:
    loaded = load_correction(file_with(tmp_path), SHIPPED_VERSION)
    labeling = LocalLabeler(loaded).label_now(ENGLISH_ANSWER)
    (labels,) = labeling.labels
    assert isinstance(labels, SentenceProbabilities)
    own = scores_of(labels)
    assert {f"trace.{name}" for name in own} <= labeling.scores.keys()
    for name, value in own.items():
        assert labeling.scores[f"trace.{name}"] == pytest.approx(value, abs=1e-12)


def test_the_digest_of_the_file_is_part_of_the_labeler_id(tmp_path: Path) -> None:
    path = file_with(tmp_path)
    first = LocalLabeler(load_correction(path, SHIPPED_VERSION))
    assert first.version.startswith(f"{SHIPPED_VERSION}-fit-")
    assert LocalLabeler(load_correction(path, SHIPPED_VERSION)).version == first.version
    again = LocalLabeler(load_correction(file_with(tmp_path, source="another"), SHIPPED_VERSION))
    assert again.version != first.version
    assert LocalLabeler.version == LocalLabeler().version == SHIPPED_VERSION


async def test_the_setting_loads_the_file_for_the_labeler_and_for_the_proxy_of_a_cascade(tmp_path: Path) -> None:
    local = LocalSettings(model=file_with(tmp_path))
    version = LocalLabeler(load_correction(file_with(tmp_path), SHIPPED_VERSION)).version
    judge = JudgeSettings(model="m", base_url="http://127.0.0.1:9/v1")
    for name in ("local", "cascade"):
        async with labeler_of(Settings(labeler=name, local=local, judge=judge), None) as labeler:
            assert labeler.version == version


def test_the_order_of_inputs_in_the_file_does_not_matter_to_the_bit(tmp_path: Path) -> None:
    first = load_correction(file_with(tmp_path), SHIPPED_VERSION).correction
    scores = {
        name: {**score, "inputs": dict(reversed(score["inputs"].items()))}
        for name, score in content()["scores"].items()
    }
    assert load_correction(file_with(tmp_path, scores=scores), SHIPPED_VERSION).correction == first


def test_an_input_beyond_the_fitted_range_counts_as_its_end() -> None:
    terms = [Term(0, 2.0, 0.2, 0.6)]
    ends = [predicted_score(terms, [value]) for value in (-9.0, 0.2, 0.6, 1e12)]
    assert ends[0] == ends[1] < ends[2] == ends[3]


@given(
    st.lists(st.floats(1e-9, 1 - 1e-9), min_size=1, max_size=30),
    st.floats(1e-6, 1 - 1e-6),
)
def test_tempered_probabilities_have_the_wanted_adherence_and_the_same_order(ps: list[float], wanted: float) -> None:
    found = temper(ps, wanted)
    assert all(0 <= p <= 1 for p in found)
    own = scores_of(SentenceProbabilities(relevant=(), utilized=(), supported=found))[ADHERENCE]
    assert own == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    order = sorted(range(len(ps)), key=ps.__getitem__)
    assert all(found[a] <= found[b] for a, b in itertools.pairwise(order))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(CORRECTED), st.integers(0, len(SHIPPED_INPUTS) - 1), st.floats(-1e15, 1e15), st.text(max_size=60)
)
def test_no_coefficient_and_no_text_leads_to_a_score_outside_of_its_range(
    score: str, place: int, coefficient: float, response: str
) -> None:
    correction = Correction({score: (Term(place, coefficient, -1e15, 1e15),)})
    labeler = LocalLabeler()
    labeler._correction = correction
    for value in labeler.label_now(interaction(response or "x", TOWER)).scores.values():
        assert 0 <= value <= 1


def test_without_document_sentences_the_probabilities_stay_as_they_are(tmp_path: Path) -> None:
    empty = RagInteraction(
        pipeline="p",
        question="q?",
        documents=[{"text": TOWER, "sentences": []}],
        response="It was built in 1889 by Gustave Eiffel.",
    )
    loaded = load_correction(file_with(tmp_path), SHIPPED_VERSION)
    assert LocalLabeler(loaded).label_now(empty).scores == LocalLabeler().label_now(empty).scores


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "does not exist: correct the path, or make the file with ragtide fit"),
    "folder": (_as_folder, "cannot be read (Is a directory)"),
    "not JSON": (lambda path: path.write_text("{"), "is damaged or no model of ragtide fit"),
    "not an object": (lambda path: path.write_text("[]"), "is a JSON array"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not valid JSON"),
    "too large": (lambda path: path.write_bytes(b" " * (FILE_MAX_BYTES + 1)), "has more than 1,048,576 bytes"),
    "deep": (lambda path: path.write_text("[" * 100_000), "is not valid JSON"),
    "NaN": (
        lambda path: path.write_text(path.read_text("utf-8").replace("-0.5", "NaN", 1)),
        "must be a finite number",
    ),
    "huge": (
        lambda path: path.write_text(path.read_text("utf-8").replace("-0.5", "1e300", 1)),
        "less than or equal",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_bad_file_is_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    path = file_with(tmp_path)
    break_it, said = BROKEN[kind]
    break_it(path)
    with pytest.raises(ConfigurationError) as error:
        load_correction(path, SHIPPED_VERSION)
    told = str(error.value)
    assert said in told
    assert "local.model" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file_version": 2}, "file_version"),
        ({"labeler_version": "2-sentencex"}, "corrects version 2-sentencex of the local labeler"),
        ({"model_sha256": "0" * 64}, "corrects the shipped model 0000000000000000, and this release has"),
        ({"model_sha256": "x"}, "model_sha256"),
        ({"scores": {}}, "scores"),
        ({"scores": {"completeness": {"inputs": {}, "cross_validated": LOSSES}}}, "completeness"),
        (
            {
                "scores": {
                    RELEVANCE: {
                        "inputs": {"moon": {"coefficient": 1, "lowest": 0, "highest": 1}},
                        "cross_validated": LOSSES,
                    }
                }
            },
            "'moon', which this release does not compute",
        ),
        (
            {
                "scores": {
                    RELEVANCE: {
                        "inputs": {"constant": {"coefficient": 1, "lowest": 2, "highest": 1}},
                        "cross_validated": LOSSES,
                    }
                }
            },
            "lowest is 2 and highest is 1",
        ),
        ({"code": "import os"}, "code"),
    ],
)
def test_a_file_for_another_release_or_with_other_fields_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as error:
        load_correction(file_with(tmp_path, **changes), SHIPPED_VERSION)
    assert said in str(error.value)
    assert str(error.value).endswith("fit the labeler again (ragtide fit)")
