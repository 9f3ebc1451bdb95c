"""A watched release: its verdict, its numbers from the raw answers, and its bytes."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from ragtide_aggregator.alerts.watched_release import ReleaseOptions, WatchedRelease, is_compared
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_schemas.release import SLOTS, MetricVerdict

START_MS = 1_790_000_000_000
ADHERENCE = "trace.adherence"


def key(metric: str = ADHERENCE, labeler: str = "judge") -> EstimateKey:
    return EstimateKey("", None, None, metric, "ragbench", labeler, "1")


class Scored(NamedTuple):
    second: bool
    stratum: int
    value: float


def traffic(
    n: int, *, fall: float = 0.0, share: float = 0.1, mix: bool = False, seed: int = 5, mean: float = 0.88
) -> Iterator[Scored]:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        second = bool(rng.random() < share)
        other = mix and bool(rng.random() < (0.6 if second else 0.2))
        value = float(rng.random() < mean - fall * second - 0.2 * other)
        yield Scored(second, 1 + other, value)


def watch(scored: Iterator[Scored], metric: str = ADHERENCE, scale: float = 1.0) -> WatchedRelease:
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    for place, answer in enumerate(scored):
        time_ms = START_MS + 1_000 * place
        release.count(second=answer.second, time_ms=time_ms)
        values = [(key(metric), answer.value * scale)]
        release.take(second=answer.second, stratum=answer.stratum, values=values, time_ms=time_ms)
        release.decide(time_ms)
    return release


def known(number: float | None) -> float:
    assert number is not None
    return number


def row(release: WatchedRelease) -> MetricVerdict:
    (metric,) = release.record().metrics
    return metric


def test_a_fall_is_worse_and_an_equal_version_is_not() -> None:
    worse, fine = watch(traffic(6_000, fall=0.15)), watch(traffic(8_000))
    assert (worse.verdict, worse.decided_by, fine.verdict, fine.decided_by) == ("worse", ADHERENCE, "not_worse", None)
    assert worse.n[1] < 700
    for release in (worse, fine):
        record = release.record()
        assert record.verdict == release.verdict
        metric = record.metrics[0]
        assert known(metric.lower) < known(metric.difference) < known(metric.upper)


def test_the_means_and_counts_are_those_of_the_raw_answers() -> None:
    answers = list(traffic(3_000, fall=0.1))
    record = watch(iter(answers)).record()
    (metric,) = record.metrics
    assert metric.before is not None
    assert metric.after is not None
    for shown, second in ((metric.before, False), (metric.after, True)):
        values = [answer.value for answer in answers if answer.second is second]
        assert shown.n == len(values) == record.n[second]
        assert shown.estimate == pytest.approx(np.mean(values))
    assert metric.plain_difference == pytest.approx(known(metric.after.estimate) - known(metric.before.estimate))
    assert metric.n_compared[1] >= 0.9 * record.n[1]


def test_another_mix_is_compared_at_the_same_shares() -> None:
    metric = row(watch(traffic(12_000, mix=True)))
    assert metric.verdict == "not_worse"
    # The plain means differ because of the mix: 0.4 more of a segment value that is worse by 0.2.
    assert metric.plain_difference == pytest.approx(-0.08, abs=0.03)
    assert metric.difference == pytest.approx(0.0, abs=0.03)


def test_a_rise_of_latency_is_worse_and_the_longest_answers_hide_nothing() -> None:
    rng = np.random.default_rng(2)
    seconds = rng.lognormal(0.7, 0.6, 6_000)
    of_second = rng.random(6_000) < 0.1

    def scored(factor: float) -> Iterator[Scored]:
        for second, value in zip(of_second.tolist(), seconds.tolist(), strict=True):
            yield Scored(second, 1, min(value * (factor if second else 1.0), 300.0))

    slower, same = (watch(scored(factor), "answer.latency_s", 1 / 300) for factor in (1.4, 1.0))
    assert (slower.verdict, same.verdict) == ("worse", "not_worse")
    metric = row(slower)
    assert metric.before is not None
    capped = np.minimum(seconds[~of_second], metric.highest_counted or 0)
    assert metric.before.estimate == pytest.approx(capped.mean(), rel=0.01)
    assert metric.margin == pytest.approx(0.2 * capped.mean(), rel=0.35)


def test_margin_alpha_and_metric_can_be_asked_for() -> None:
    release = watch(traffic(8_000))
    assert release.record(margin=0.2).metrics[0].margin == pytest.approx(0.2)
    assert release.record(margin=0.001).verdict == "undecided"
    assert release.record(metrics=["adherence"]).metrics[0].alpha == pytest.approx(0.05)
    assert release.record(alpha=0.01).alpha == pytest.approx(0.01)
    with pytest.raises(ValueError, match="adherence"):
        release.record(metrics=["adherance"])


def test_versions_of_different_labelers_are_not_comparable() -> None:
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    for place, answer in enumerate(traffic(2_000, share=0.3)):
        time_ms = START_MS + 1_000 * place
        release.count(second=answer.second, time_ms=time_ms)
        values = [(key(labeler="judge" if answer.second else "local"), answer.value)]
        release.take(second=answer.second, stratum=0, values=values, time_ms=time_ms)
        assert not release.decide(time_ms)
    record = release.record()
    assert record.verdict == "not_comparable"
    assert record.reason is not None
    assert "another labeler scored v1: local 1" in record.reason


def test_a_score_that_one_version_lacks_is_never_not_worse() -> None:
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    for place, answer in enumerate(traffic(8_000, share=0.2)):
        time_ms = START_MS + 1_000 * place
        release.count(second=answer.second, time_ms=time_ms)
        values = [(key(), answer.value), *([] if answer.second else [(key("trace.completeness"), 0.7)])]
        release.take(second=answer.second, stratum=0, values=values, time_ms=time_ms)
        release.decide(time_ms)
    assert release.record().verdict == "undecided"
    assert {metric.metric: metric.verdict for metric in release.record().metrics} == {
        ADHERENCE: "not_worse",
        "trace.completeness": "not_comparable",
    }


@pytest.mark.parametrize("metric", [ADHERENCE, "answer.latency_s"])
@pytest.mark.parametrize("cut", [0, 1, 17, 700, 1_999])
def test_a_release_continues_from_its_bytes_to_the_bit(cut: int, metric: str) -> None:
    answers = list(traffic(2_000, fall=0.1, mix=True))
    whole = watch(iter(answers), metric, 0.01)
    release = watch(iter(answers[:cut]), metric, 0.01)
    again = WatchedRelease.from_bytes(release.to_bytes(), ReleaseOptions())
    for place, answer in enumerate(answers[cut:], cut):
        time_ms = START_MS + 1_000 * place
        again.count(second=answer.second, time_ms=time_ms)
        values = [(key(metric), answer.value * 0.01)]
        again.take(second=answer.second, stratum=answer.stratum, values=values, time_ms=time_ms)
        again.decide(time_ms)
    assert again.to_bytes() == whole.to_bytes()
    assert again.record() == whole.record()


def test_a_flood_of_metrics_and_strata_is_bounded() -> None:
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    sizes = []
    for place in range(3_000):
        values = [(key(labeler=f"labeler-{place % 40}"), 0.5)]
        release.take(second=bool(place % 2), stratum=place, values=values, time_ms=START_MS + place)
        sizes.append(len(release.to_bytes()) if place % 1_000 == 999 else 0)
    assert len(release.record().metrics) == len(SLOTS)
    assert sizes[2_999] < 1.5 * sizes[1_999]


def test_what_is_compared() -> None:
    assert all(map(is_compared, [key(), key("answer.latency_s"), key("answer.cost_usd"), key("response.empty")]))
    assert not any(map(is_compared, [key("trace.average"), key("retrieval.documents"), key("labeling.latency_s")]))


def test_the_traffic_of_now_is_that_of_the_last_hours() -> None:
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    for place in range(4_000):  # one answer of the new version in five, one in five seconds
        release.count(second=place % 5 == 0, time_ms=START_MS + 1_000 * place)
    record = release.record()
    assert record.share == pytest.approx(0.2, abs=0.01)
    assert record.an_hour == pytest.approx(720, rel=0.05)
    assert release.record(at_ms=START_MS + 10**9).an_hour == pytest.approx(0.0, abs=0.1)


def test_a_release_is_read_in_the_other_order_too() -> None:
    answers = list(traffic(4_000, fall=0.2, mix=True))
    release = watch(iter(answers))
    other = watch(Scored(not answer.second, answer.stratum, answer.value) for answer in answers)
    straight, turned = row(other), row(release.turned())
    assert release.turned().record().verdict == "not_worse" == other.record().verdict
    assert (turned.before, turned.after, turned.n_compared) == (straight.before, straight.after, straight.n_compared)
    # The centers of the bets are those of the old version, so the ends differ a little.
    for name in ("difference", "lower", "upper"):
        assert getattr(turned, name) == pytest.approx(getattr(straight, name), abs=0.02)
    assert row(release.turned().turned()).model_dump() == row(release).model_dump()
