"""A draw gives each answer a known probability: laws of the draw, and simulations that fail if it does not."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragtide_offline.datasets.drawing import (
    LEAST_ROWS,
    DrawnSample,
    DrawSource,
    TooFewAnswersError,
    allocation,
    draw,
    inclusion,
    systematic,
)
from ragtide_offline.datasets.near_duplicates import duplicate_groups

METRIC = "trace.adherence"

T = TypeVar("T")


@st.composite
def answers(some: st.DrawFn) -> DrawSource:
    """Answers with duplicates, owners, segments, scores of which some are absent, and different weights."""
    count = some(st.integers(1, 60))

    def listed(each: st.SearchStrategy[T]) -> list[T]:
        return some(st.lists(each, min_size=count, max_size=count))

    scores = listed(st.one_of(st.none(), st.floats(0, 1)))
    return DrawSource(
        weights=1 / np.array(listed(st.sampled_from([1.0, 0.5, 0.01]))),
        duplicates=listed(st.integers(0, 20)),
        owners=listed(st.sampled_from([None, "a", "b", "c"])),
        values={"lang": listed(st.sampled_from(["de", "en", "fr", "it", "x|y"]))},
        band=METRIC,
        scores={METRIC: np.array([np.nan if score is None else score for score in scores])},
        spread_by=METRIC,
    )


def drawn(given_answers: DrawSource, rows: int, seed: int, most: int | None) -> DrawnSample:
    try:
        return draw(given_answers, rows, seed=seed, most_per_owner=most)
    except TooFewAnswersError as error:
        assume(error.left)
        return draw(given_answers, min(rows, error.left), seed=seed, most_per_owner=most)


@given(answers(), st.integers(1, 40), st.integers(0, 5), st.sampled_from([None, 1, 3]))
@settings(deadline=None)
def test_every_draw_stands_for_all_answers(one: DrawSource, rows: int, seed: int, most: int | None) -> None:
    """Horvitz and Thompson's estimate of the number of answers is exact, whatever was drawn."""
    draws = drawn(one, rows, seed, most)
    assert all(0 < row.probability <= 1 + 1e-9 for row in draws.rows)
    assert sum(1 / row.probability for row in draws.rows) == pytest.approx(len(one))
    assert sum(stratum.of for stratum in draws.strata) == pytest.approx(len(one))
    assert sum(stratum.rows for stratum in draws.strata) == len(draws.rows) == len({row.place for row in draws.rows})
    assert sum(stratum.answers for stratum in draws.strata) == len(one) - draws.near_duplicates - draws.of_owners
    assert drawn(one, rows, seed, most) == draws, "a seed repeats the draw"


@given(answers(), st.integers(1, 40), st.integers(0, 5), st.sampled_from([None, 1, 3]))
@settings(deadline=None)
def test_no_duplicates_and_no_owner_beyond_its_limit(one: DrawSource, rows: int, seed: int, most: int | None) -> None:
    places = [row.place for row in drawn(one, rows, seed, most).rows]
    assert len({one.duplicates[place] for place in places}) == len(places)
    owners = Counter(one.owners[place] for place in places if one.owners[place] is not None)
    assert most is None or max(owners.values(), default=0) <= most


@given(answers(), st.integers(1, 40), st.integers(0, 5))
@settings(deadline=None)
def test_a_stratum_has_two_rows_if_it_has_the_answers(one: DrawSource, rows: int, seed: int) -> None:
    strata = drawn(one, rows, seed, None).strata
    assert all(stratum.rows >= 1 for stratum in strata), "an answer of a stratum without rows could not be drawn"
    if rows >= LEAST_ROWS * len(strata):
        assert all(stratum.rows >= min(LEAST_ROWS, stratum.answers) for stratum in strata)
    assert all(set(stratum.means) <= {METRIC} for stratum in strata)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.data())
def test_probabilities_sum_to_the_draws(masses: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(masses)))
    each = inclusion(np.array(masses), count)
    assert each.sum() == pytest.approx(count)
    assert ((each > 0) & (each <= 1)).all()
    places = systematic(each, np.random.default_rng(data.draw(st.integers(0, 9))))
    assert len(set(places.tolist())) == count
    assert set(np.flatnonzero(each == 1)) <= set(places.tolist())


def test_a_systematic_draw_hits_each_place_with_its_probability() -> None:
    each, rng = inclusion(np.array([1.0, 1, 1, 2, 3, 9]), 3), np.random.default_rng(5)
    runs = 4_000
    hits = np.zeros(6)
    for _ in range(runs):
        hits[systematic(each, rng)] += 1
    assert np.abs(hits / runs - each).max() < 4 * np.sqrt(0.25 / runs)


def traffic() -> tuple[DrawSource, Any]:
    """Answers whose truth depends on all by which a draw could be biased: duplicates, owners, segments, scores."""
    rng, count = np.random.default_rng(11), 400
    duplicates = np.where(np.arange(count) < 120, np.arange(count) % 6, np.arange(count))
    owners = np.where(np.arange(count) % 3 == 0, "talker", np.array([f"u{number % 40}" for number in range(count)]))
    scores = rng.beta(4, 2, count)
    truth = np.clip(0.7 * scores + 0.3 * rng.random(count) - 0.4 * (duplicates < 6) + 0.2 * (owners == "talker"), 0, 1)
    langs = np.where(rng.random(count) < 0.1, "de", "en")
    sampled = np.where(langs == "de", 1.0, 0.25)
    lang = {"lang": langs.tolist()}
    return DrawSource(1 / sampled, duplicates.tolist(), owners.tolist(), lang, METRIC, {METRIC: scores}, METRIC), truth


@pytest.mark.simulation
@pytest.mark.parametrize("most", [None, 4])
def test_weighted_rows_are_unbiased_with_duplicates_owners_and_a_sampled_source(most: int | None) -> None:
    """The estimate of a total over draws, and the plain mean beside it, which is biased: the test can see a bias."""
    one, truth = traffic()
    want, weighted, plain = float(one.weights @ truth), [], []
    for seed in range(800):
        rows = draw(one, 60, seed=seed, most_per_owner=most).rows
        # The probability in the traffic is that of the source times that of the draw.
        weighted.append(sum(one.weights[row.place] * truth[row.place] / row.probability for row in rows))
        plain.append(np.mean([truth[row.place] for row in rows]) * one.weights.sum())
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert abs(np.mean(weighted) - want) < 3.5 * error
    assert abs(np.mean(plain) - want) > 3.5 * error


@pytest.mark.simulation
def test_strata_of_a_good_cheap_score_need_half_the_rows() -> None:
    rng, count = np.random.default_rng(3), 2_000
    scores = rng.beta(2, 2, count)
    truth = (rng.random(count) < np.where(scores > 0.5, 0.98, 0.05)).astype(float)
    alone = DrawSource(np.ones(count), range(count), [None] * count, {})
    by_score = replace(alone, band=METRIC, scores={METRIC: scores}, spread_by=METRIC)
    spread = [
        np.std([sum(truth[r.place] / r.probability for r in draw(a, 100, seed=n).rows) / count for n in range(150)])
        for a in (alone, by_score)
    ]
    assert spread[1] ** 2 < spread[0] ** 2 / 2


def test_rows_go_to_the_uncertain_and_never_more_than_there_are() -> None:
    counts = allocation(np.array([100.0, 100, 3]), np.array([100, 100, 3]), np.array([0.0, 0.5, 0.5]), 60)
    assert counts.sum() == 60
    assert counts[1] > 2 * counts[0]
    assert counts[2] >= LEAST_ROWS
    assert allocation(np.array([5.0, 5]), np.array([5, 5]), np.array([0.0, 9.0]), 10).tolist() == [5, 5]


def test_near_duplicates_have_one_group_in_any_script() -> None:
    texts = [
        "How do I return an item to the shop in Berlin, please?",
        "how do I return an  ITEM to the shop in Berlin, please",
        "What is the capital of France?",
        "返品の方法を教えてください。東京の店舗で。",
        "返品の方法を教えてください。東京の店舗で",
        "",
        "?",
    ]
    groups = duplicate_groups(texts)
    assert groups[0] == groups[1] != groups[2]
    assert groups[3] == groups[4]
    assert len(set(groups)) == 5


def test_many_texts_that_nearly_agree_are_each_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of comparisons is in proportion to the number of texts, for texts that were made to collide."""
    from datasketch import MinHash

    compared = 0
    jaccard = MinHash.jaccard

    def counted(self: MinHash, other: MinHash) -> float:
        nonlocal compared
        compared += 1
        return float(jaccard(self, other))

    monkeypatch.setattr(MinHash, "jaccard", counted)
    rng = np.random.default_rng(1)
    common = "".join(map(chr, rng.integers(97, 123, 300)))
    texts = [common + "".join(map(chr, rng.integers(97, 123, 50))) for _ in range(400)]
    duplicate_groups(texts)
    assert compared <= 20 * len(texts)
    assert len(json.dumps(duplicate_groups(["x" * 10_000_000, "x" * 9_000_000]))) < 10
