"""Rows that were drawn from known answers: summaries, gates and differences of a drawn set are those of the traffic."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide import Summary, gate, score, score_batches
from ragtide_offline.gates.sources import baseline_gaps
from ragtide_offline.parts.results import summarize_batches
from ragtide_offline.score.summary import summarize
from ragtide_schemas import Estimate, MetricEvent
from ragtide_schemas.drawn import DrawRecord, drawn_of

pytestmark = pytest.mark.pure

METRIC = "trace.adherence"
STRATA = {"lang=de": (900, 60, 0.95), "lang=en": (400, 80, 0.8), "lang=fr": (80, 60, 0.4)}
TRUTH = sum(of * mean for of, _, mean in STRATA.values()) / 1380


def rows(*, by_hand: int = 0, seed: int = 1, fall: float = 0.0) -> list[MetricEvent]:
    random = np.random.default_rng(seed)
    drawn: list[MetricEvent] = []
    for stratum, (of, n, mean) in STRATA.items():
        how = DrawRecord(stratum=stratum, of=of, rows=n, probability=n / of)
        for _ in range(n):
            value = float(random.random() < mean and random.random() >= fall)
            drawn.append(event(len(drawn), {METRIC: value}, drawn=how, sampling_probability=n / of))
    return [*drawn, *(event(1000 + number, {METRIC: 0.0}) for number in range(by_hand))]


def summary(events: list[MetricEvent]) -> Summary:
    return replace(summarize(events, strategy="normal", confidence=0.95), events=tuple(events))


def adherence(of: Summary) -> Estimate:
    return next(estimate for estimate in of.estimates if estimate.metric == METRIC)


def bare(estimate: Estimate) -> Estimate:
    """Without the time of reading, and what depends on the order of the rows."""
    return estimate.model_copy(update=dict.fromkeys(("updated_at", "recent", "n_out_of_order")))


def test_a_summary_of_drawn_rows_is_about_the_traffic() -> None:
    found, plain = summary(rows()), np.mean([row.scores[METRIC] for row in rows()])
    estimate = adherence(found)
    assert estimate.lower is not None
    assert estimate.upper is not None
    assert estimate.lower <= TRUTH <= estimate.upper
    assert not estimate.lower <= plain <= estimate.upper
    assert (estimate.n, estimate.strategy) == (200, "stratified")
    assert estimate.n_traffic == pytest.approx(1380)
    assert found.as_dict()["drawn"] == {"rows": 200, "answers": 1380, "by_hand": 0}


def test_a_row_put_in_by_hand_counts_for_no_estimate_and_is_counted() -> None:
    with_hand, without = summary(rows(by_hand=12)), summary(rows())
    assert with_hand.estimates == without.estimates
    assert with_hand.drawn is not None
    assert with_hand.drawn.by_hand == 12
    assert "12" in with_hand.drawn.sentence
    assert with_hand.drawn.sentence in repr(with_hand)


def test_a_file_without_drawn_rows_means_what_it_meant() -> None:
    plain = [row.model_copy(update={"drawn": None, "sampling_probability": 1.0}) for row in rows(by_hand=3)]
    found = summary(plain)
    assert found.drawn is None
    assert "drawn" not in found.as_dict()
    assert b'"drawn"' not in plain[0].encode()
    assert adherence(found).strategy == "normal"
    assert adherence(found).estimate == np.mean([row.scores[METRIC] for row in plain])


@for_each("probability", (1.0, 0.5, 1 / 3, 0.07))
def test_equal_weights_give_the_unweighted_mean_to_the_bit(probability: float) -> None:
    random = np.random.default_rng(1)
    how = DrawRecord(stratum="", of=97 / probability, rows=97, probability=probability)
    plain = [event(number, {METRIC: float(random.random())}) for number in range(97)]
    drawn = [row.model_copy(update={"drawn": how, "sampling_probability": probability}) for row in plain]
    assert adherence(summary(drawn)).estimate == adherence(summary(plain)).estimate


@for_each("cut", (1, 70, 150))
def test_summaries_of_drawn_rows_are_merged_saved_and_loaded(cut: int, tmp_path: Path) -> None:
    events = rows(by_hand=7)
    whole = summarize(events, strategy="normal", confidence=0.95)
    first, second = (summarize(part, strategy="normal", confidence=0.95) for part in (events[:cut], events[cut:]))
    assert second.merge(first) == whole
    assert second.merge(first).as_dict()["drawn"] == whole.as_dict()["drawn"]
    by_hand = summarize(events[-7:], strategy="normal", confidence=0.95)
    assert by_hand.merge(summarize(events[:-7], strategy="normal", confidence=0.95)) == whole
    whole.save(tmp_path / "summary.json")
    loaded = Summary.load(tmp_path / "summary.json")
    assert loaded == whole
    assert loaded.as_dict()["drawn"] == whole.as_dict()["drawn"]


def test_a_row_of_an_application_that_lost_the_top_level_probability_has_that_of_the_draw() -> None:
    lost = [row.model_copy(update={"sampling_probability": 1.0}) for row in rows()]
    assert summary(lost).estimates == summary(rows()).estimates


def test_the_gate_decides_by_the_traffic() -> None:
    found = summary(rows())
    assert gate(found, f"{METRIC} < 0.8").outcome == "pass"  # the rows alone have a mean of about .72
    assert gate(found, f"{METRIC} < 0.95").outcome == "fail"


def test_a_difference_from_a_baseline_is_that_of_the_traffic() -> None:
    before, after = rows(), rows(fall=0.2)
    [gap] = baseline_gaps(after, before, confidence=0.95).values()
    assert gap.strategy == "stratified"
    changes = [a.scores[METRIC] - b.scores[METRIC] for a, b in zip(after, before, strict=True)]
    weights = [1 / row.sampling_probability for row in before]
    assert gap.difference.estimate == pytest.approx(np.average(changes, weights=weights))
    assert gap.difference.estimate != pytest.approx(np.mean(changes), abs=1e-3)
    # The baseline alone says how the rows were drawn, where an application has lost it.
    lost = [row.model_copy(update={"drawn": None, "sampling_probability": 1.0}) for row in after]
    [same] = baseline_gaps([*lost, *rows(by_hand=5)[-5:]], before, confidence=0.95).values()
    assert same.difference == gap.difference


def test_a_drawn_set_from_a_file_is_weighted(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    for number, row in enumerate(rows(by_hand=2)):
        metadata = {"ragtide": {"drawn": row.drawn.model_dump(mode="json", exclude_none=True)} if row.drawn else {}}
        response = "The cat sat on the mat." if row.scores[METRIC] else "Dogs never bark loudly."
        lines.append(
            {
                "interaction_id": str(number), "pipeline": "shop", "question": "Where sat the cat?",
                "documents": ["The cat sat on the mat."], "response": response, "metadata": metadata,
                "sampling_probability": row.sampling_probability,
            }
        )  # fmt: skip
    path = tmp_path / "golden.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = score(path, labeler="local")
    assert found.as_dict()["drawn"] == {"rows": 200, "answers": 1380, "by_hand": 2}
    batches = score_batches(pa.Table.from_pylist(lines), labeler="local")
    assert [bare(estimate) for estimate in summarize_batches(batches).estimates] == [
        bare(estimate) for estimate in found.estimates
    ]
    weights = {row.interaction_id: 1 / row.sampling_probability for row in found.events if row.drawn}
    values = {row.interaction_id: row.scores[METRIC] for row in found.events if row.drawn}
    expected = np.average([values[name] for name in weights], weights=list(weights.values()))
    assert adherence(found).estimate == pytest.approx(expected)


@for_each(
    "fields",
    (
        {"stratum": "a", "of": 10, "rows": 5},
        {"stratum": "a", "of": 10, "rows": 5, "probability": 0},
        {"stratum": "a", "of": "many", "rows": 5, "probability": 0.5},
        "a",
    ),
)
def test_a_draw_that_is_damaged_is_none(fields: object) -> None:
    assert drawn_of({"ragtide": {"drawn": fields}}) is None
