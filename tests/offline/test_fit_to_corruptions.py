"""`ragtide fit --corruptions`: spoilt interactions, the gain in AUROC, the level, and the decision score by score."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.offline.test_local_fit import entries, noise
from tests.support.recorded import record

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local.correction_file import load_correction
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil, without_own_sentences
from ragtide_offline.local_fit import examined as pairs_module
from ragtide_offline.local_fit.examined import (
    SENSED,
    ExaminedInteractions,
    ExaminedPair,
    JudgedInteraction,
    TrafficSample,
    examine,
    examine_pairs,
)
from ragtide_offline.local_fit.fitting import LEAST_QUESTIONS, FitResult, fit_correction
from ragtide_offline.local_fit.regression import SpoiltPairs, fit
from ragtide_offline.local_fit.separation import separation
from ragtide_offline.local_fit.sources import gather_recorded, gather_rows
from ragtide_offline.replay.selection import selection
from ragtide_producers.files.interactions import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind

pytestmark = pytest.mark.simulation

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NOBODY = ExaminedInteractions([], {})
RELEVANCE = "context_relevance"
RAGBENCH = Path(__file__).parents[1] / "data/ragbench/ragbench_sample.jsonl"


@cache
def interactions() -> Sequence[RagInteraction]:
    """Return 80 interactions of RAGBench."""
    return [row.interaction for row, _ in read_labeled(RAGBENCH) if row.interaction is not None]


@cache
def pairs() -> Sequence[ExaminedPair]:
    return examine_pairs(interactions())


@cache
def unjudged() -> FitResult:
    return fit_correction(NOBODY, pairs())


def test_only_corruptions_that_a_score_should_follow_are_learned() -> None:
    assert {name for name, scores in SENSED.items() if RELEVANCE in scores} == {
        "broken retriever",
        "wrong documents",
        "half wrong documents",
    }
    assert "negation" not in {name for name, scores in SENSED.items() if "context_utilization" in scores}
    found = {pair.corruption for pair in pairs()}
    assert found <= {name for name, scores in SENSED.items() if scores}
    assert not any(CORRUPTIONS[name].harmless for name in found)
    # The same seed gives the same pairs.
    assert [pair.spoilt.shipped for pair in examine_pairs(interactions()[:5])] == [
        pair.spoilt.shipped for pair in examine_pairs(interactions()[:5])
    ]


def test_without_labels_a_score_follows_corruptions_better_and_keeps_its_mean(tmp_path: Path) -> None:
    result = unjudged()
    found = {score.score: score for score in result.scores}[RELEVANCE]
    assert found.is_fitted
    assert found.cross_validated is None
    assert found.separation is not None
    assert found.separation.lower > 0
    assert found.separation.corruptions == 3
    content = result.file(source="s", reference="corruptions", fitted_at=NOW)
    assert content.scores["context_relevance"].separation is not None
    path = tmp_path / "model.json"
    path.write_bytes(content.encode())
    labelers = LocalLabeler(), LocalLabeler(load_correction(path, SHIPPED_VERSION))
    clean = [without_own_sentences(row) for row in interactions()]
    bad = [after for row in clean if (after := spoil(CORRUPTIONS["wrong documents"], row, interactions())) is not None]
    good, worse = (
        [[labeler.label_now(row).scores["trace.context_relevance"] for row in rows] for labeler in labelers]
        for rows in (clean, bad)
    )
    # Other documents than those of the fit, because the others are drawn from all subsets.
    aurocs = [
        np.mean([(one > two) + 0.5 * (one == two) for one, two in product(*both)])
        for both in zip(good, worse, strict=True)
    ]
    assert aurocs[1] > aurocs[0]
    assert np.mean(good[1]) == pytest.approx(np.mean(good[0]), abs=1e-5)


def test_with_judged_rows_the_level_is_theirs() -> None:
    labeler = LocalLabeler()
    rows = [
        JudgedInteraction(row, {"trace.context_relevance": 0.3 + 0.6 * score})
        for row in map(without_own_sentences, interactions())
        if (score := labeler.label_now(row).scores.get("trace.context_relevance")) is not None
    ]
    result = fit_correction(examine(rows), pairs())
    found = {one.score: one for one in result.scores}
    assert found[RELEVANCE].is_fitted
    loss = found[RELEVANCE].cross_validated
    assert loss is not None
    assert loss.fitted < loss.shipped / 2
    # Nobody judged utilization, so its level stays as shipped.
    assert found["context_utilization"].cross_validated is None


def test_a_score_that_would_be_surely_worse_for_the_judge_stays_as_shipped() -> None:
    labeler = LocalLabeler()
    rows = [JudgedInteraction(row, labeler.label_now(row).scores) for row in map(without_own_sentences, interactions())]
    found = {score.score: score for score in fit_correction(examine(rows), pairs()).scores}[RELEVANCE]
    assert found.separation is not None
    assert found.separation.lower > 0
    assert not found.is_fitted
    assert "squared error" in found.reason


def test_interactions_that_cannot_be_told_apart_are_refused() -> None:
    same = [replace(pair, spoilt=pair.clean) for pair in pairs()]
    result = fit_correction(NOBODY, same)
    assert not result.fitted
    for score in result.scores:
        assert score.separation is not None
        assert (score.separation.shipped, score.separation.fitted) == (0.5, 0.5)
    rng = np.random.default_rng(7)
    clean = {id(pair.clean): pair.clean for pair in pairs()}
    shuffled = [*clean.values()]
    # "Spoilt" ones that are clean ones of other questions, and the other way round.
    swapped = [replace(pair, spoilt=shuffled[rng.integers(len(shuffled))]) for pair in pairs()]
    assert not fit_correction(NOBODY, swapped).fitted


def test_few_questions_are_refused() -> None:
    few = [pair for pair in pairs() if pair.clean.question in {row.question.casefold() for row in interactions()[:15]}]
    with pytest.raises(ConfigurationError, match=f"a fit needs {LEAST_QUESTIONS}"):
        fit_correction(NOBODY, few)


def test_a_corruption_that_few_interactions_allow_is_left_out() -> None:
    rare = [
        pair
        for pair in pairs()
        if pair.corruption != "half wrong documents" or pair.clean.question.startswith(("what", "when"))
    ]
    count = len({pair.clean.question for pair in rare if pair.corruption == "half wrong documents"})
    found = {score.score: score for score in fit_correction(NOBODY, rare).scores}[RELEVANCE].separation
    assert found is not None
    assert found.corruptions == (2 if count < LEAST_QUESTIONS else 3)


SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=8, max_size=8).map(np.array)


@given(SCORES, SCORES, SCORES, SCORES)
def test_the_gain_is_the_difference_of_mean_aurocs(
    clean: np.ndarray, bad: np.ndarray, new_clean: np.ndarray, new_bad: np.ndarray
) -> None:
    names = ["a"] * 5 + ["b"] * 3

    def auroc(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.mean([(one > two) + 0.5 * (one == two) for one, two in product(first, second)]))

    def mean(first: np.ndarray, second: np.ndarray) -> float:
        return (auroc(first[:5], second[:5]) + auroc(first[5:], second[5:])) / 2

    before, after = (clean, bad), (new_clean, new_bad)
    found = separation(names, list("abcdefgh"), before, after, confidence=0.95)
    assert found.shipped == pytest.approx(mean(clean, bad))
    assert found.fitted == pytest.approx(mean(new_clean, new_bad))
    assert found.gain == pytest.approx(found.fitted - found.shipped)
    assert found.lower <= found.gain <= found.upper
    back = separation(names, list("abcdefgh"), after, before, confidence=0.95)
    assert (back.lower, back.upper) == pytest.approx((-found.upper, -found.lower))
    same = separation(names, list("abcdefgh"), before, before, confidence=0.95)
    assert (same.gain, same.lower, same.upper) == (0, 0, 0)


def test_the_interval_covers_a_gain_of_zero_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20261125)
    covered, runs, n = 0, 400, 80
    for _ in range(runs):
        level = rng.normal(size=n)
        one, two = ((level + rng.normal(size=n), level - 0.7 + rng.normal(size=n)) for _ in range(2))
        # Two corruptions of the same interactions, whose scores depend on each other.
        names, questions = ["a"] * n + ["b"] * n, [str(number) for number in range(n)] * 2
        both = [(np.tile(clean, 2), np.tile(spoilt, 2)) for clean, spoilt in (one, two)]
        found = separation(names, questions, both[0], both[1], confidence=0.95)
        covered += found.lower <= 0 <= found.upper
    assert 0.92 <= covered / runs <= 0.98


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_pairs_do_not_move_the_level_and_are_told_apart_better(seed: int) -> None:
    x, _, shipped, weights, questions = noise(40, seed)
    worse = x.copy()
    worse[:, 3] -= 1.0
    some = SpoiltPairs(x, worse, np.full(40, 5.0), questions)
    found = fit(x, shipped, weights, pairs=some, level_penalty=0.0)
    assert found.predict(x).mean() == pytest.approx(shipped.mean(), abs=1e-6)
    assert np.all(found.predict(worse) < found.predict(x))
    assert fit(x, shipped, weights).predict(worse) == pytest.approx(shipped, abs=1e-6)


def test_traffic_is_drawn_by_chance_whatever_the_order_and_needs_no_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [entry for entry in entries() if entry[0] is EntryKind.INTERACTIONS]
    recording = record(plain, tmp_path)
    found = gather_recorded(recording, selection(), run=None, reference=None, traffic=TrafficSample())
    assert (len(found.traffic), found.interactions, found.words) == (40, [], "corruptions")
    later = selection(since=(NOW + timedelta(minutes=25)).isoformat())
    assert len(gather_recorded(recording, later, run=None, reference=None, traffic=TrafficSample()).traffic) == 15
    with pytest.raises(ConfigurationError, match="has scores"):
        gather_recorded(recording, selection(), run=None, reference="judge", traffic=TrafficSample())
    monkeypatch.setattr(pairs_module, "MOST_SPOILT", 10)
    rows = [Row(number, row) for number, row in enumerate(interactions())]
    drawn = [
        {row.interaction_id for row in gather_rows(some, [], None, traffic=TrafficSample()).traffic}
        for some in (rows, rows[::-1])
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 10


def test_a_recording_with_judged_interactions_gives_both(tmp_path: Path) -> None:
    recording = record(entries(), tmp_path)
    found = gather_recorded(recording, selection(), run=None, reference="judge", traffic=TrafficSample())
    assert (len(found.interactions), len(found.traffic)) == (12, 40)
    assert found.words == "judge 2 (ragbench) and corruptions"
