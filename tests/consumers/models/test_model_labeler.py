"""The labeler `model` with small real ONNX models, whose outputs are computed by hand."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from math import exp
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.models.small_models import SCALE, write
from tests.support.conditions import until

from ragtide import Labeler, RagInteraction, RetrievedDocument
from ragtide_consumers.labelers.models import batching
from ragtide_consumers.labelers.models.calibration import Calibration, log_odds
from ragtide_consumers.labelers.models.files import model_files
from ragtide_consumers.labelers.models.labeler import ModelLabeler
from ragtide_consumers.labelers.models.loading import load_models
from ragtide_consumers.labelers.models.pair_classifier import PairClassifier
from ragtide_consumers.labelers.models.session import ModelSession
from ragtide_consumers.labelers.models.tokens import ModelInput, together, windows
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import SentenceLabels
from ragtide_schemas.metric_definitions import TRACE

TRACE_METRICS = {metric.name for metric in TRACE}


def tower(response: str, *documents: str, **changes: Any) -> RagInteraction:
    return RagInteraction(
        pipeline="shop",
        interaction_id=changes.pop("interaction_id", "1"),
        question="When was the tower built?",
        documents=[RetrievedDocument(text=text) for text in documents],
        response=response,
        **changes,
    )


TWO = tower("The tower was built in 1889. It was built of stone.", "The tower was built in 1889.", "It has lifts.")


BATCHING = "ragtide_consumers.labelers.models.batching"


@asynccontextmanager
async def labeler(folder: Path | None = None, **models: Any) -> AsyncIterator[Labeler]:
    given = {"support": str(folder), **models} if folder is not None else models
    async with labeler_of(Settings.model_validate({"labeler": "model", "models": given}), None) as one:
        yield one


async def scores(folder: Path | None, interaction: RagInteraction, **models: Any) -> dict[str, float]:
    async with labeler(folder, **models) as one:
        return dict((await one.label(interaction)).scores)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "small")


def probability(covered: int, tokens: int) -> float:
    """Return the model's probability for a sentence: its tokens and the separator, which is always covered."""
    return 1 / (1 + exp(-SCALE * ((covered + 1) / (tokens + 1) - 0.5)))


async def test_a_sentence_is_supported_if_one_document_supports_it(folder: Path) -> None:
    async with labeler(folder) as one:
        labeling = await one.label(TWO)
    # "It was built of stone.": "was", "built" and "." of six tokens are in the first document.
    assert labeling.scores == {"trace.adherence": 1.0, "trace.supported_fraction": 1.0}
    assert labeling.absent == {
        "trace.context_relevance": "not_labeled",
        "trace.context_utilization": "not_labeled",
        "trace.completeness": "not_labeled",
        "trace.average": "part_absent",
        "trace.rmse_aggregation": "part_absent",
    }
    limit = 0.9
    assert probability(3, 6) < limit < probability(7, 7)
    assert await scores(folder, TWO, support_threshold=limit) == {
        "trace.adherence": 0.0,
        "trace.supported_fraction": 0.5,
    }


async def test_probabilities_are_published_as_expected_values(folder: Path) -> None:
    first, second = probability(7, 7), probability(3, 6)
    assert await scores(folder, TWO, publish="probabilities") == pytest.approx(
        {"trace.adherence": first * second, "trace.supported_fraction": (first + second) / 2}
    )


@pytest.mark.parametrize(
    ("calibration", "slope", "intercept"),
    [({"temperature": 2.0}, 0.5, 0.0), ({"slope": 0.25, "intercept": -1.0}, 0.25, -1.0)],
)
async def test_a_calibration_beside_the_model_scales_the_log_odds(
    tmp_path: Path, calibration: dict[str, float], slope: float, intercept: float
) -> None:
    folder = write(tmp_path / "calibrated", calibration=calibration)
    found = await scores(folder, tower("It has stone.", "It has lifts."), publish="probabilities")
    odds = slope * SCALE * (4 / 5 - 0.5) + intercept
    assert found["trace.supported_fraction"] == pytest.approx(1 / (1 + exp(-odds)))
    plain = write(tmp_path / "plain", calibration={"slope": 7.0})
    asked = tower("It has stone.", "It has lifts.")
    assert await scores(plain, asked, publish="probabilities", support_calibration=calibration) == found


async def test_several_labels_are_united_by_their_meaning(tmp_path: Path) -> None:
    folder = write(tmp_path / "nli", labels=("neutral", "entailment", "contradiction"))
    found = await scores(folder, TWO, publish="probabilities")
    assert found["trace.supported_fraction"] == pytest.approx((probability(7, 7) + probability(3, 6)) / 2)


async def test_a_setting_says_what_labels_without_names_mean(tmp_path: Path) -> None:
    folder = write(tmp_path / "unnamed", labels=("LABEL_0", "LABEL_1"))
    labels = {"LABEL_0": "unsupported", "LABEL_1": "supported"}
    one = tower("The tower was built in 1889.", "The tower was built in 1889.")
    assert (await scores(folder, one, support_labels=labels))["trace.adherence"] == 1.0
    swapped = {"LABEL_0": "supported", "LABEL_1": "unsupported"}
    assert (await scores(folder, one, support_labels=swapped))["trace.adherence"] == 0.0


async def test_a_reranker_with_a_single_number_gives_relevance(tmp_path: Path) -> None:
    reranker = write(tmp_path / "reranker", labels=("LABEL_0",))
    one = tower("In 1889.", "When was the tower built? In 1889. It has lifts.", "The tower was built in 1889.")
    found = await scores(None, one, relevance=str(reranker))
    # Of the question's words "In 1889." has none (1 of 4), "It has lifts." none, the last sentence 4 of 7.
    assert found == {"trace.context_relevance": 2 / 4}
    both = await scores(write(tmp_path / "small"), one, relevance=str(reranker))
    assert both.keys() == {"trace.context_relevance", "trace.adherence", "trace.supported_fraction"}


async def test_the_labels_say_which_sentences_they_are_about(tmp_path: Path) -> None:
    folder, reranker = write(tmp_path / "small"), write(tmp_path / "reranker", labels=("LABEL_0",))
    async with labeler(folder, relevance=str(reranker), support_threshold=0.9) as one:
        (labels,) = (await one.label(TWO)).labels
    assert isinstance(labels, SentenceLabels)
    assert labels.relevant == ("0a",)
    assert labels.utilized is None
    assert labels.support == {"a": ("supported_without_sentence",), "b": ()}
    assert labels.fully_supported == {"a": True, "b": False}


async def test_a_long_document_is_read_in_windows_and_the_best_counts(folder: Path) -> None:
    words = "a b c d e f g h i j"
    long = " ".join([words] * 30 + ["The tower was built in 1889."] + [words] * 30)
    for place in (long, long[: len(long) // 2 + 60], long[len(long) // 2 - 60 :]):
        found = await scores(
            folder, tower("The tower was built in 1889.", place), max_tokens=32, publish="probabilities"
        )
        assert found["trace.supported_fraction"] == pytest.approx(probability(7, 7))
    # Its words are spread so widely that no window has them all.
    far = ("b " * 40).join(["The", "tower", "was", "built", "in", "1889", "."])
    found = await scores(folder, tower("The tower was built in 1889.", far), max_tokens=32)
    assert found["trace.adherence"] == 0.0


@given(st.integers(0, 400), st.integers(1, 60), st.floats(0, 0.99))
def test_windows_hold_every_token_and_neighbours_overlap(n: int, size: int, share: float) -> None:
    overlap = int(size * share)
    found = windows(n, size, overlap)
    assert sorted({place for start, end in found for place in range(start, end)}) == list(range(n))
    assert all(end - start == min(size, n) for start, end in found)
    assert all(after[0] <= before[1] - overlap for before, after in pairwise(found))
    assert found == sorted(set(found))


NUMBERS = st.floats(-30, 30)


@given(st.lists(NUMBERS, min_size=2, max_size=5), st.floats(0.1, 10), st.floats(-3, 3))
def test_calibration_keeps_the_order_and_one_label_is_the_same_as_two(
    logits: list[float], slope: float, intercept: float
) -> None:
    row = np.array([logits], dtype=np.float32)
    share = np.exp(row.astype(float) - row.max())
    odds = log_odds(row, [0])
    plain = Calibration().probabilities(odds)[0]
    assert plain == pytest.approx(float(share[0, 0] / share.sum()), abs=1e-9)
    calibrated = Calibration(slope=slope, intercept=intercept).probabilities
    assert calibrated(odds)[0] <= calibrated(odds + 1)[0]
    assert log_odds(row[:, :1], [0])[0] == row[0, 0]


async def test_batches_give_the_same_as_one_at_a_time(folder: Path) -> None:
    texts = ["The tower was built in 1889.", "It has lifts.", "Paris is tall and the tower is iron, a b c d e f g."]
    asked = [
        tower(f"{one} {other}", *texts[: 1 + number % 3], interaction_id=f"{number}")
        for number, (one, other) in enumerate([(text, other) for text in texts for other in texts] * 5)
    ]
    alone = [await scores(folder, one, publish="probabilities", batch=1) for one in asked[:9]]
    for limits in ({"batch": 7}, {"batch": 64, "batch_tokens": 40}, {"batch": 4096}):
        async with labeler(folder, publish="probabilities", **limits) as one:
            found = [dict(labeling.scores) for labeling in await asyncio.gather(*map(one.label, asked))]
        for number, expected in enumerate(alone):
            assert all(found[number + 9 * repeated] == pytest.approx(expected) for repeated in range(5))


async def test_interactions_in_work_share_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{BATCHING}.BATCH_WAIT_S", 1.0)
    settings = Settings.model_validate({"models": {"support": str(folder), "batch": 16}})
    models = await load_models(settings)
    one = ModelLabeler(settings, models)
    await asyncio.gather(*(one.label(TWO) for _ in range(40)))
    assert isinstance(models.support, PairClassifier)
    assert models.support.batches <= 4 * 40 / 16 + 4
    await one.aclose()


async def test_batches_are_limited_and_have_little_padding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{BATCHING}.BATCH_WAIT_S", 0.02)
    limits = {"batch": 16, "batch_tokens": 400}
    settings = Settings.model_validate({"models": {"support": str(folder), **limits}})
    models = await load_models(settings)
    assert isinstance(models.support, PairClassifier)
    run, seen = models.support.session.run, list[list[int]]()

    def recorded(inputs: Sequence[ModelInput]) -> Any:
        seen.append([one.n_tokens for one in inputs])
        return run(inputs)

    monkeypatch.setattr(models.support.session, "run", recorded)
    one = ModelLabeler(settings, models)
    short, long = tower("It has lifts.", "the tower"), tower("It has stone.", "the tower has lifts " * 12)
    await asyncio.gather(*(one.label(each) for _ in range(40) for each in (short, long)))
    await one.aclose()
    assert all(len(batch) <= 16 and (len(batch) == 1 or len(batch) * max(batch) <= 400) for batch in seen)
    padded = sum(len(batch) * max(batch) for batch in seen)
    assert padded < 1.2 * sum(map(sum, seen))


async def test_a_caller_that_gives_up_does_not_disturb_the_others(folder: Path) -> None:
    async with labeler(folder, batch=4) as one:
        tasks = [asyncio.create_task(one.label(TWO)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        again = await one.label(TWO)
    assert all(isinstance(result, asyncio.CancelledError) for result in done[::2])
    assert all(not isinstance(result, BaseException) and result.scores == again.scores for result in done[1::2])


async def test_nobody_waits_for_a_model_that_is_closed_or_for_a_batch_that_is_not_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.model_validate({"models": {"support": str(folder), "batch": 2}})
    models = await load_models(settings)
    assert isinstance(models.support, PairClassifier)
    one, batcher = ModelLabeler(settings, models), models.support._batcher
    entered, go_on = Event(), Event()
    run = models.support.session.run

    def slow(inputs: Sequence[ModelInput]) -> Any:
        entered.set()
        go_on.wait(60)
        return run(inputs)

    monkeypatch.setattr(models.support.session, "run", slow)
    tasks = [asyncio.create_task(one.label(TWO)) for _ in range(5)]
    # A caller makes its inputs in a thread before it waits for a batch.
    await until(lambda: entered.is_set() and len(batcher._unfinished) == len(tasks))
    await one.aclose()
    go_on.set()
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*tasks, return_exceptions=True)
    )
    # A caller whose inputs come later does not wait either.
    with pytest.raises(RuntimeError, match="the model is closed"):
        await one.label(TWO)

    again = await load_models(settings)
    assert isinstance(again.support, PairClassifier)
    monkeypatch.setattr(batching, "_cut_batches", lambda *_: 1 / 0)
    other = ModelLabeler(settings, again)
    failed = await asyncio.gather(*(other.label(TWO) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, ZeroDivisionError) for each in failed)
    monkeypatch.undo()
    assert (await other.label(TWO)).scores
    await other.aclose()


async def test_a_response_in_another_language_has_no_scores(folder: Path) -> None:
    async with labeler(folder, languages=("ru",)) as one:
        assert set((await one.label(TWO)).absent.values()) == {"language_not_supported"}
    async with labeler(folder, languages=("ru", "en")) as one:
        assert (await one.label(TWO)).scores


@pytest.mark.parametrize(
    ("interaction", "reason"),
    [
        (tower("It has lifts."), "nothing_retrieved"),
        (tower("", "It has lifts."), "no_response"),
    ],
)
async def test_without_documents_or_response_nothing_is_asked(
    folder: Path, interaction: RagInteraction, reason: str
) -> None:
    async with labeler(folder) as one:
        assert set((await one.label(interaction)).absent.values()) == {reason}


async def test_too_many_inputs_are_too_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.models.pair_classifier.MAX_INPUTS", 3)
    async with labeler(folder) as one:
        assert set((await one.label(TWO)).absent.values()) == {"too_long"}


ODD: Sequence[str] = (
    " ",
    "\u200b",
    "a",
    "\x00\x01\x7f",
    "\ufffe\ufdd0",
    "e\u0301" * 50,
    "\U0001f468\u200d\U0001f469" * 20,
)

LONG = ("a" * 1_000_000, "a b. " * 200_000)


@pytest.mark.parametrize(
    "text", [*ODD, *(pytest.param(text, marks=pytest.mark.heavy) for text in LONG)], ids=range(len(ODD) + len(LONG))
)
async def test_no_text_ends_the_labeler(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_consumers.labelers.models.pair_classifier.MAX_INPUTS", 50)
    meaning = {"supported": "relevant", "unsupported": "irrelevant"}
    async with labeler(folder, relevance=str(folder), relevance_labels=meaning) as one:
        response, documents = text[:499_000], (text,) if text.strip() else ()
        for odd in (tower(response, "It has lifts."), tower("It has lifts.", *documents), tower(response, *documents)):
            labeling = await one.label(odd)
            assert {*labeling.scores, *labeling.absent} == TRACE_METRICS
        assert (await one.label(TWO)).scores


async def test_a_long_sentence_is_as_supported_as_its_least_supported_part(folder: Path) -> None:
    good, bad = "the tower has lifts of iron " * 8, "stone " * 20
    for sentence, supported in ((good, 1.0), (good + bad, 0.0), (bad + good, 0.0)):
        asked = tower(sentence.strip(), "the tower has lifts of iron")
        assert (await scores(folder, asked, max_tokens=32))["trace.adherence"] == supported


def session_of(folder: Path) -> ModelSession:
    settings = Settings.model_validate({"models": {}}).models
    files = model_files(str(folder), "model.onnx", setting="models.support")
    return ModelSession(files, settings, per_token=False)


def test_special_tokens_in_a_text_are_words_like_others(folder: Path) -> None:
    tokenizer = session_of(folder).tokenizer
    special = {2, 3, 0}
    assert not special & set(tokenizer.tokens("tower [SEP] [CLS] [PAD] tower").ids.tolist())
    (separators,) = [one.ids for one in [tokenizer.pair(tokenizer.tokens("a").ids, tokenizer.tokens("b").ids)]]
    assert [int(run[0]) for run in separators][::2] == [2, 3, 3]


async def test_an_input_on_which_the_model_fails_fails_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{BATCHING}.BATCH_WAIT_S", 1.0)
    settings = Settings.model_validate({"models": {"support": str(folder), "batch": 16}})
    models = await load_models(settings)
    assert isinstance(models.support, PairClassifier)
    run, too_long = models.support.session.run, 40

    def failing(inputs: Sequence[ModelInput]) -> Any:
        if any(one.n_tokens > too_long for one in inputs):
            raise RuntimeError("out of memory")
        return run(inputs)

    monkeypatch.setattr(models.support.session, "run", failing)
    one = ModelLabeler(settings, models)
    asked = [one.label(TWO) for _ in range(6)] + [one.label(tower("a b c.", "the tower " * 40))]
    *good, bad = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(bad, RuntimeError)
    assert all(not isinstance(each, BaseException) and each.scores for each in good)
    await one.aclose()


def test_a_batch_is_never_wider_than_the_model(folder: Path) -> None:
    one = session_of(folder).tokenizer
    row = one.pair(one.tokens("a b c").ids, one.tokens("d e f g").ids)
    assert [together([row], 0, most)[0].shape[1] for most in (512, 12, 3)] == [16, 12, 10]


def test_a_lone_surrogate_counts_as_a_question_mark(folder: Path) -> None:
    tokenizer = session_of(folder).tokenizer
    assert tokenizer.tokens("tower \ud800").ids.tolist() == tokenizer.tokens("tower ?").ids.tolist()


async def test_every_change_of_scores_is_another_version(tmp_path: Path) -> None:
    versions: list[str] = []
    for changes in ({}, {"calibration": {"temperature": 2.0}}, {"words": ["tower"]}, {"config": {"model_type": "x"}}):
        async with labeler(write(tmp_path / f"{len(versions)}", **changes)) as one:
            versions.append(one.version)
    first = tmp_path / "0"
    reranker = write(tmp_path / "reranker", labels=("LABEL_0",))
    for setting in (
        {"support_threshold": 0.4},
        {"publish": "probabilities"},
        {"relevance": str(reranker)},
    ):
        async with labeler(first, **setting) as one:
            versions.append(one.version)
    assert len(set(versions)) == len(versions)
    for same in ({}, {"batch": 3}, {"threads": 1}):
        async with labeler(first, **same) as one:
            assert one.version == versions[0]
    assert max(map(len, versions)) <= 200
