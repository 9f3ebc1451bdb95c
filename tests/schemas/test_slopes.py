"""The slopes of the shipped labelers: which failures their numbers follow, and what a steady number says."""

import pytest

from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_offline.corruptions.interactions import CORRUPTIONS
from ragtide_schemas import METRICS
from ragtide_schemas.measured_slopes import SLOPES, VERSIONS
from ragtide_schemas.slopes import (
    NEAR_ZERO,
    OF_CLAIMS,
    UNSUPPORTED,
    Slope,
    is_blind,
    misses_claims,
    shipped_slopes,
    slopes_of,
    steady_for,
)

pytestmark = pytest.mark.pure


def test_the_slopes_are_of_the_shipped_version_and_of_known_metrics_and_failures() -> None:
    assert VERSIONS["local"] == SHIPPED_VERSION, "the labeler changed: run make corruptions with rows of RAGBench"
    harmful = {name for name, corruption in CORRUPTIONS.items() if not corruption.harmless}
    by_labels = {"unsupported claims", "irrelevant documents", "unused documents"}
    for metric, failures in SLOPES["local"].items():
        assert metric in METRICS
        assert {*failures} <= harmful | by_labels
        for slope in slopes_of("local", metric):
            assert slope.lower <= slope.slope <= slope.upper
            assert slope.rows > 0


def test_a_failure_is_seen_if_its_slope_is_steep_and_above_zero_in_every_data_set() -> None:
    assert Slope("negation", NEAR_ZERO, 0.01, 0.3, 90).is_seen
    assert not Slope("negation", NEAR_ZERO - 0.001, 0.05, 0.3, 90).is_seen, "near zero"
    assert not Slope("negation", 0.4, 0.0, 0.9, 90).is_seen, "its interval includes 0"


def test_the_local_labeler_follows_wrong_documents_and_no_unsupported_claims() -> None:
    (unsupported,) = (slope for slope in slopes_of("local", "trace.adherence") if slope.failure == UNSUPPORTED)
    assert unsupported.rows > 2_000
    assert not unsupported.is_seen
    assert misses_claims(shipped_slopes("local"), "trace.adherence")
    assert not is_blind(slopes_of("local", "trace.adherence"), "wrong documents")
    said = steady_for(shipped_slopes("local"), "trace.adherence") or ""
    assert "wrong documents" in said
    assert "unsupported" not in said


@pytest.mark.parametrize("labeler", ["judge", "gold", "nli", "model", "mine", "none"])
def test_nothing_is_claimed_about_a_labeler_that_was_not_measured(labeler: str) -> None:
    for metric in METRICS:
        assert slopes_of(labeler, metric) == ()
        assert steady_for(shipped_slopes(labeler), metric) is None
        assert not is_blind(slopes_of(labeler, metric), UNSUPPORTED)


def test_a_steady_number_is_limited_only_for_metrics_about_claims() -> None:
    limited = {metric for metric in METRICS if steady_for(shipped_slopes("local"), metric) is not None}
    assert limited == OF_CLAIMS
