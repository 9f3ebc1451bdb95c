"""How often metrics are absent, by reason: counted, shown, and an alert when the share jumps."""

from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.service.absent_share import ALPHA, LEAST_MS, AbsenceCounts, AbsentShares, jumped
from ragtide_aggregator.state.row_lookup import MOST_REASONS
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import Alert

pytestmark = pytest.mark.simulation

ADHERENCE = "trace.adherence"
RELEVANCE = "trace.context_relevance"


class Traffic:
    """Events of one pipeline into a state, and looks at it half a minute apart."""

    def __init__(self, least: float | None = 0.2) -> None:
        self.state = AggregatorState(StateOptions())
        self.absences = AbsentShares(least, 0)
        self.number = 0
        self.now_ms = LEAST_MS
        self.stored: dict[str, bytes] = {}

    def add(self, count: int, reason: str | None = None, metrics: tuple[str, ...] = (ADHERENCE,), **more: Any) -> None:
        for _ in range(count):
            self.number += 1
            scores = {} if reason else dict.fromkeys(metrics, 0.5)
            absent = dict.fromkeys(metrics, reason) if reason else {}
            self.state.apply(event(self.number, scores=scores, absent=absent, **more))

    def look(self, *, least: float | None = None, anew: bool = False) -> list[Alert]:
        """Return the alerts of a look; it may be that of a process that takes over, with another limit."""
        if anew:
            self._store()
            self.absences = AbsentShares.from_fields(least, 0, self.stored)
            self.state = AggregatorState.from_fields(StateOptions(), self.stored)
        self.now_ms += LEAST_MS
        self.absences.check(self.now_ms, self.state)
        return self._store()

    def _store(self) -> list[Alert]:
        changes = self.state.take_changes()
        written, gone = self.absences.take_changes()
        self.stored |= dict(changes.rows) | written
        for name in (*gone, *changes.gone):
            self.stored.pop(name, None)
        return list(changes.alerts)


def shown(state: AggregatorState) -> dict[tuple[str, str | None], tuple[int, dict[str, int]]]:
    found = chosen(estimates(state))
    return {(one.metric, one.segment): (one.n_absent, dict(one.absent)) for one in found}


def test_estimates_say_how_often_a_metric_was_absent_and_why() -> None:
    traffic = Traffic()
    traffic.add(5)
    traffic.add(3, "judge_unusable", segments={"lang": "de"})
    traffic.add(7, "judge_refused")
    assert shown(traffic.state)[ADHERENCE, None] == (10, {"judge_refused": 7, "judge_unusable": 3})
    assert shown(traffic.state)[ADHERENCE, "lang=de"] == (3, {})
    again = AggregatorState.from_fields(StateOptions(), dict(traffic.state.take_changes().rows))
    assert shown(again) == shown(traffic.state)


def test_a_metric_that_was_never_there_says_why() -> None:
    traffic = Traffic()
    traffic.add(6, "judge_unusable")
    (found,) = [one for one in chosen(estimates(traffic.state)) if one.metric == ADHERENCE]
    assert (found.n, found.estimate, found.absent) == (0, None, {"judge_unusable": 6})


def test_reasons_without_end_are_counted_as_other() -> None:
    traffic = Traffic()
    for number in range(3 * MOST_REASONS):
        traffic.add(1, f"reason_{number}")
    absent = shown(traffic.state)[ADHERENCE, None][1]
    assert len(absent) == MOST_REASONS + 1
    assert sum(absent.values()) == 3 * MOST_REASONS
    again = AggregatorState.from_fields(StateOptions(), dict(traffic.state.take_changes().rows))
    again.apply(event(1, scores={}, absent={ADHERENCE: "one_more"}))
    assert shown(again)[ADHERENCE, None][1]["other"] == 2 * MOST_REASONS + 1


def test_a_judge_that_gives_no_labels_any_more_is_one_alert_and_resolves() -> None:
    traffic = Traffic()
    metrics = (ADHERENCE, RELEVANCE, "trace.completeness")
    traffic.add(500, metrics=metrics)
    traffic.add(2, "judge_unusable", metrics=metrics)
    assert traffic.look() == []
    traffic.add(100, metrics=metrics)
    assert traffic.look() == []
    traffic.add(40, "judge_unusable", metrics=metrics)
    (alert,) = traffic.look()
    assert (alert.status, alert.kind, alert.rule, alert.pipeline) == ("firing", "stall", "stall-absent", "shop")
    assert "and 2 more of shop absent (judge_unusable) in 40 of the last 40 interactions: 100%" in alert.message
    traffic.add(40, "judge_unusable", metrics=metrics)
    assert traffic.look() == []
    traffic.add(40, metrics=metrics)
    (resolved,) = traffic.look()
    assert (resolved.status, resolved.alert_id) == ("resolved", alert.alert_id)


def test_a_judge_that_never_gave_a_label_is_an_alert() -> None:
    traffic = Traffic()
    alerts = []
    for _ in range(4):
        traffic.add(25, "judge_unusable")
        alerts += traffic.look()
    assert [alert.status for alert in alerts] == ["firing"]
    assert "at most 10% is usual" in alerts[0].message


def test_what_is_always_absent_and_what_follows_from_another_metric_is_none() -> None:
    traffic = Traffic()
    alerts = []
    traffic.add(100)
    for _ in range(10):
        traffic.add(50, "not_accurate_enough", metrics=("trace.completeness",))
        traffic.add(50, "part_absent", metrics=("trace.average",))
        traffic.add(50, "no_reference_answer", metrics=("ragchecker.precision",))
        alerts += traffic.look()
    assert alerts == []


def test_a_retriever_that_finds_nothing_any_more_is_an_alert() -> None:
    traffic = Traffic()
    traffic.add(300)
    traffic.add(5, "nothing_retrieved")
    traffic.look()
    traffic.add(60, "nothing_retrieved")
    (alert,) = traffic.look()
    assert "The retriever returns nothing" in alert.message


def test_no_limit_never_alerts() -> None:
    traffic = Traffic(None)
    for _ in range(4):
        traffic.add(25, "judge_unusable")
        assert traffic.look() == []


def test_a_restart_neither_repeats_an_alert_nor_forgets_it() -> None:
    traffic = Traffic()
    alerts = []
    for _ in range(3):
        traffic.add(25, "judge_unusable")
        alerts += traffic.look()
    assert [alert.status for alert in alerts] == ["firing"]
    traffic.add(25, "judge_unusable")
    assert traffic.look(least=0.2, anew=True) == []
    traffic.add(100)
    assert [alert.status for alert in traffic.look(least=0.2, anew=True)] == ["resolved"]
    assert not any(name.startswith("alert:") for name in traffic.stored)


def test_a_limit_that_is_removed_ends_its_alert() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.add(25, "judge_unusable")
        traffic.look()
    assert [alert.status for alert in traffic.look(least=None, anew=True)] == ["resolved"]
    assert traffic.look(least=None, anew=True) == []


def test_an_alert_that_cannot_be_read_fires_again_while_its_share_stays_high() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.add(25, "judge_unusable")
        traffic.look()
    (name,) = (name for name in traffic.stored if name.startswith("alert:"))
    traffic.stored[name] = b"junk"
    traffic.add(5, "judge_unusable")
    assert traffic.look(least=0.2, anew=True) == [], "the block is not complete"
    traffic.add(25, "judge_unusable")
    assert [alert.status for alert in traffic.look()] == ["firing"]


@pytest.mark.parametrize("data", [b"junk", b"{}", b'{"key": "x", "reason": "y", "followed": [1]}', b"[" * 9999])
def test_fields_of_another_form_are_dropped_and_end_nothing(data: bytes) -> None:
    fields = {"health:absent:ab": data}
    absences = AbsentShares.from_fields(0.2, 0, fields)
    assert sorted(absences.take_changes()[1]) == sorted(fields)


@pytest.mark.parametrize("failure", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6, 0.95])
def test_a_constant_share_raises_hardly_ever_an_alert(share: float, *, failure: bool) -> None:
    """1,000 runs of 200 blocks of 20 to 400 interactions: at most a thousandth of the runs is expected to alarm."""
    generator = np.random.default_rng(7)
    alarms = 0
    for _ in range(1000):
        sizes = generator.integers(20, 400, 200)
        absent = generator.binomial(sizes, share)
        # As the first block is taken: a share of failures above the usual one counts as no block before.
        n, m = int(sizes[0]), int(absent[0])
        for number, (size, count) in enumerate(zip(sizes[1:].tolist(), absent[1:].tolist(), strict=True), start=1):
            if jumped(AbsenceCounts(n, m), AbsenceCounts(size, count), blocks=number, least=0.02, failure=failure):
                alarms += 1
                break
            n, m = n + size, m + count
    assert alarms <= 1 + 4 * 1000 * ALPHA


def test_a_jump_is_found_in_the_first_block_of_twenty() -> None:
    assert jumped(AbsenceCounts(1000, 10), AbsenceCounts(20, 15), blocks=1000, least=0.2, failure=True)
    assert jumped(AbsenceCounts(0, 0), AbsenceCounts(20, 20), blocks=1, least=0.2, failure=True)
    assert not jumped(AbsenceCounts(0, 0), AbsenceCounts(20, 20), blocks=1, least=0.2, failure=False)
    assert not jumped(AbsenceCounts(1000, 500), AbsenceCounts(20, 12), blocks=1, least=0.2, failure=True)
