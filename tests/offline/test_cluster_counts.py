"""Comparisons and reports state the number of clusters, such as sessions, that their intervals rest on."""

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from tests.aggregator.test_cluster_state import applied, in_sessions
from tests.support.metric_events import event

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.statistics.comparisons.paired import PairedDifference, paired_difference
from ragtide_offline.report.comparing import compare_replays
from ragtide_offline.report.labelings import Compared
from ragtide_offline.report.reports import comparison_page, moments_of, replay_page, replay_report
from ragtide_schemas import Workspace, utc_now

pytestmark = pytest.mark.pure

SESSIONS = in_sessions([[1.0, 0.0, 1.0, 1.0]] * 33)
ALONE = [event(number, {"trace.adherence": number % 2 / 1.0}) for number in range(25)]
MAY, JUNE = (Workspace(run=name, kind="replay", source="recording") for name in ("may", "june"))


def difference_of(clusters: Sequence[Hashable] | None, *, closed: bool = False) -> PairedDifference:
    scores = np.linspace(0, 1, 60)
    return paired_difference(
        scores, scores[::-1], value_range=(0.0, 1.0), confidence=0.95, clusters=clusters, closed=closed
    )


def test_a_paired_difference_states_its_clusters() -> None:
    assert difference_of([number // 3 for number in range(60)]).n_clusters == 20
    assert difference_of(None).n_clusters is None
    assert difference_of([number // 3 for number in range(60)], closed=True).n_clusters is None


def test_the_report_of_a_replay_names_clusters_only_where_there_are_some() -> None:
    for events, expected in ((SESSIONS, True), (ALONE, False)):
        found = estimates(applied(events), strategy="auto")
        page = replay_page(replay_report(MAY, found, []))
        assert ("in 33 clusters" in page) == expected
        assert ("clusters" in page) == expected


def test_a_comparison_of_replays_names_the_clusters_of_each_side() -> None:
    mine, theirs = moments_of([applied(SESSIONS)]), moments_of([applied(ALONE)])
    names = [("shop", "shop")]
    (by,) = mine["shop"]
    pair = difference_of([number // 3 for number in range(60)])
    both = Compared(by, (pair.n, pair.n), pair.means, pair.difference, "paired", n_clusters=(pair.n_clusters,) * 2)
    for pairs, used, shown in (
        ({}, (33, None), "132 in 33 clusters, 25"),
        ({names[0]: [both]}, (20, 20), "60 in 20 clusters"),
    ):
        report = compare_replays((MAY, mine), (JUNE, theirs), names, pairs=pairs, confidence=0.95, made_at=utc_now())
        assert [gap.n_clusters for gap in report.gaps] == [used]
        page = comparison_page(report)
        assert shown in page
        assert page.count("clusters") == 1
