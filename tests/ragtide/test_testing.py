"""`ragtide.testing`, as the tests of an application use it."""

import subprocess
import sys
from typing import Any

import pytest

from ragtide import InteractionProducer, LabelerUnavailable, Labeling, score
from ragtide.testing import FakeLabeler, embedded_redis, interaction, interactions
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams

pytest_plugins = ["pytester"]

METRIC = "trace.adherence"


def test_interactions_are_valid_and_the_same_each_time() -> None:
    first, second = interactions(3, pipeline="search"), interactions(3, pipeline="search")
    assert first == second
    assert [one.interaction_id for one in first] == ["i-0", "i-1", "i-2"]
    assert [one.occurred_at for one in first] == sorted({one.occurred_at for one in first})
    assert interaction(response="").response == ""


def test_a_fake_labeler_follows_its_script_and_then_its_rule() -> None:
    labeler = FakeLabeler(
        lambda one: {METRIC: 1.0 if "1889" in one.response else 0.0},
        script=[
            {METRIC: 0.5},
            Labeling({}, {METRIC: "undefined"}),
            LabelerUnavailable(5, "it loads"),
            ValueError("no"),
        ],
    )
    rows = [*interactions(5), interaction(5, response="I do not know.")]
    found = score(rows, labeler=labeler)
    assert [event.scores.get(METRIC) for event in found.events] == [0.5, None, 1.0, 0.0]
    assert found.events[1].absent[METRIC] == "undefined"
    assert found.problems == ("row 3: it loads", "row 4: labeling failed with ValueError: no")
    assert labeler.labeled == rows
    (mean,) = [one for one in found.estimates if one.metric == METRIC]
    assert (mean.labeler, mean.n, mean.n_absent, mean.estimate) == ("fake", 3, 1, 0.5)


@pytest.mark.processes
def test_an_embedded_redis_is_empty_and_ends_with_its_block() -> None:
    with embedded_redis() as url:
        with InteractionProducer(redis_url=url) as producer:
            producer.publish_many(interactions(3))
        with connect(url) as client:
            stored: Any = client.xlen(Streams("ragtide", 0).interactions)
        assert stored == 3
    with embedded_redis() as url, connect(url) as client:
        assert client.dbsize() == 0


@pytest.mark.processes
def test_the_fixture_is_a_redis_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from ragtide import InteractionProducer
        from ragtide.testing import interactions
        from ragtide_runtime.redis.client import connect

        @pytest.mark.parametrize("number", [1, 2])
        def test_it_is_empty(ragtide_redis, number):
            with connect(ragtide_redis) as client:
                assert client.dbsize() == 0
            with InteractionProducer(redis_url=ragtide_redis) as producer:
                producer.publish_many(interactions(2))
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.processes
def test_nothing_here_needs_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import ragtide.testing"
    subprocess.run([sys.executable, "-c", code], check=True)
