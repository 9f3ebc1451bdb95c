"""Specimens in Redis: lists keep the worst or the latest, caps hold, and all of a specimen goes at once."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.conditions import wait_until
from tests.support.metric_events import event

from ragtide_aggregator.reading.specimens import drop_missing_specimens, forget_specimen
from ragtide_aggregator.service.pins import Pinned, pin_specimens, release_specimens
from ragtide_consumers.specimens import keeping
from ragtide_consumers.specimens.keeping import ProposedSpecimen
from ragtide_consumers.specimens.lists import ListPlace
from ragtide_consumers.worker.results import CommitOutcome, LabeledEntry, deliver_events
from ragtide_runtime.redis.keys import LABEL_GROUP, SPECIMEN_TOTAL, Streams, interaction_digest, pipeline_digest
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.settings.retention import SpecimenSettings

STREAMS = Streams("ragtide", 0)
OVERHEAD = 300
"""Bytes that a specimen counts besides its payload."""


def limits(**changes: Any) -> SpecimenSettings:
    return SpecimenSettings().model_copy(update=changes)


def deliver(
    redis: Any,
    number: int,
    *places: ListPlace,
    pipeline: str = "shop",
    size: int = 100,
    within: SpecimenSettings | None = None,
) -> str | None:
    """Deliver an interaction with a specimen and return the specimen's outcome."""
    entry_id = redis.xadd(STREAMS.interactions, {"data": "{}"}).decode()
    redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0") if not redis.exists(STREAMS.metrics) else None
    redis.xreadgroup(LABEL_GROUP, "w", {STREAMS.interactions: ">"})
    outcomes: list[str] = []
    proposed = ProposedSpecimen(b"x" * size, places, within or limits())
    one = LabeledEntry(entry_id, event(number, {}, pipeline=pipeline), specimen=proposed)
    call = deliver_events(STREAMS, [one], dedupe_ms=1, feedback_ms=1, specimen_outcome=outcomes.append)
    assert run_scripts_blocking(redis, [call]) == [[CommitOutcome.EMITTED]]
    (outcome,) = outcomes
    return outcome


def worst(value: float, most: int = 2, name: str = "worst:a.b:test") -> ListPlace:
    return ListPlace(name, most, value)


def wait_a_millisecond(redis: Any) -> None:
    """Wait until the clock of Redis shows the next millisecond, which orders the list of the latest."""
    before = redis.time()[1] // 1000
    wait_until(lambda: redis.time()[1] // 1000 != before)


def deliver_in_turn(redis: Any, number: int, *places: ListPlace, within: SpecimenSettings | None = None) -> None:
    """Deliver an interaction in a millisecond of its own, because milliseconds tell which specimen is the latest."""
    deliver(redis, number, *places, within=within)
    wait_a_millisecond(redis)


def latest(most: int = 2, name: str = "sample") -> ListPlace:
    return ListPlace(name, most)


def specimen_key(number: int, pipeline: str = "shop") -> str:
    return STREAMS.specimen(interaction_digest(pipeline, f"i-{number}"))


def kept(redis: Any, most: int = 20, pipeline: str = "shop") -> list[int]:
    return [number for number in range(most) if redis.exists(specimen_key(number, pipeline))]


def sizes(redis: Any, pipeline: str = "shop") -> dict[str, str]:
    found = redis.hgetall(STREAMS.specimen_sizes(pipeline_digest(pipeline)))
    return {name.decode(): value.decode() for name, value in found.items()}


def usage(redis: Any) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in redis.hgetall(STREAMS.specimen_usage).items()}


def test_the_worst_stay_and_the_least_bad_goes_with_everything_of_it(redis: Any) -> None:
    assert [deliver(redis, number, worst(value)) for number, value in enumerate((0.5, 0.1, 0.3, 0.2))] == [
        "kept", "kept", "kept", "unneeded"
    ]  # fmt: skip
    assert kept(redis) == [0, 2]
    both = 2 * (100 + OVERHEAD)
    assert sizes(redis) == {
        SPECIMEN_TOTAL: str(both),
        interaction_digest("shop", "i-0"): "400 1",
        interaction_digest("shop", "i-2"): "400 1",
    }
    assert usage(redis) == {SPECIMEN_TOTAL: both, "shop": both}
    assert redis.zcard(STREAMS.specimen_order(pipeline_digest("shop"))) == 2


def test_of_equal_values_the_latest_stay(redis: Any) -> None:
    for number in range(4):
        deliver_in_turn(redis, number, worst(0.5))
    assert kept(redis) == [2, 3]


def test_the_latest_of_a_sample_stay(redis: Any) -> None:
    for number in range(4):
        deliver_in_turn(redis, number, latest())
    assert kept(redis) == [2, 3]


def test_a_specimen_stays_while_any_list_has_it(redis: Any) -> None:
    deliver_in_turn(redis, 0, latest(), worst(0.9))
    deliver_in_turn(redis, 1, latest())
    deliver_in_turn(redis, 2, latest())
    assert kept(redis) == [0, 1, 2]
    assert sizes(redis)[interaction_digest("shop", "i-0")] == "400 1"
    deliver_in_turn(redis, 3, worst(0.95))
    deliver_in_turn(redis, 4, worst(0.96))
    assert kept(redis) == [1, 2, 3, 4]


def test_the_oldest_make_room_within_the_caps_of_a_pipeline(redis: Any) -> None:
    for number in range(4):
        deliver_in_turn(redis, number, latest(10), within=limits(count=3))
    assert kept(redis) == [1, 2, 3]
    deliver_in_turn(redis, 4, latest(10), within=limits(bytes=1_024))
    assert kept(redis) == [3, 4], "two of 400 bytes are at most 1,024"


def test_a_full_partition_keeps_no_more_and_other_pipelines_do_not_give_way(
    redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "PARTITION_BYTES", 1_024)
    assert [deliver(redis, 0, latest(), pipeline=name) for name in ("a", "b", "c")] == [
        "kept", "kept", "full"
    ]  # fmt: skip
    assert usage(redis) == {SPECIMEN_TOTAL: 800, "a": 400, "b": 400}
    assert deliver(redis, 1, latest(1), pipeline="a") == "full", "nothing has gone before it is admitted"


def test_an_expired_specimen_no_longer_counts_and_no_longer_is_the_worst(redis: Any) -> None:
    deliver(redis, 0, worst(0.9, 1))
    order = STREAMS.specimen_order(pipeline_digest("shop"))
    redis.zadd(order, {interaction_digest("shop", "i-0"): 1})
    redis.delete(specimen_key(0))
    assert deliver(redis, 1, worst(0.1, 1)) == "kept"
    assert usage(redis)["shop"] == 400
    assert redis.zrange(STREAMS.specimens_of("shop", "worst:a.b:test"), 0, -1) == [
        interaction_digest("shop", "i-1").encode()
    ]


def test_a_pipeline_that_has_expired_is_taken_off_the_usage(redis: Any) -> None:
    deliver(redis, 0, latest(), pipeline="old")
    redis.zadd(STREAMS.specimen_pipelines, {"old": 1})
    redis.delete(*redis.keys(f"*{pipeline_digest('old')}*"))
    deliver(redis, 0, latest())
    assert usage(redis) == {SPECIMEN_TOTAL: 400, "shop": 400}


def test_everything_of_specimens_expires(redis: Any) -> None:
    deliver(redis, 0, latest(), worst(0.5), within=limits(keep_s=50))
    assert 49_000 < redis.pttl(specimen_key(0)) <= 50_000
    own = [key for key in redis.keys("*specimen*") if pipeline_digest("shop").encode() in key]
    assert len(own) == 5
    assert all(50_000 < redis.pttl(key) <= 110_000 for key in own)


def test_the_same_id_again_replaces_its_specimen(redis: Any) -> None:
    deliver(redis, 0, latest())
    redis.delete(*(redis.keys("*owner*") or ["none"]))
    deliver(redis, 0, latest(), size=200)
    assert usage(redis) == {SPECIMEN_TOTAL: 500, "shop": 500}


def test_a_specimen_is_forgotten_with_its_place_in_lists_and_its_bytes(redis: Any) -> None:
    deliver(redis, 0, latest(), worst(0.5))
    deliver(redis, 1, latest())
    call = forget_specimen(STREAMS, "shop", "i-0", ["sample", "worst:a.b:test"])
    assert run_scripts_blocking(redis, [call, call]) == [1, 0]
    assert kept(redis) == [1]
    assert usage(redis) == {SPECIMEN_TOTAL: 400, "shop": 400}
    assert redis.zrange(STREAMS.specimens_of("shop", "sample"), 0, -1) == [interaction_digest("shop", "i-1").encode()]
    assert not redis.exists(STREAMS.specimens_of("shop", "worst:a.b:test"))


def test_only_specimens_that_are_gone_leave_a_list(redis: Any) -> None:
    deliver(redis, 0, latest())
    deliver(redis, 1, latest())
    redis.delete(specimen_key(0))
    digests = [interaction_digest("shop", f"i-{number}") for number in (0, 1, 2)]
    call = drop_missing_specimens(STREAMS, STREAMS.specimens_of("shop", "sample"), digests)
    assert run_scripts_blocking(redis, [call, call]) == [1, 0]
    assert redis.zrange(STREAMS.specimens_of("shop", "sample"), 0, -1) == [digests[1].encode()]


def pin(redis: Any, alert: str, *numbers: int, most: int = 10) -> list[int]:
    digests = [interaction_digest("shop", f"i-{number}") for number in numbers]
    (found,) = run_scripts_blocking(redis, [pin_specimens(STREAMS, alert, "shop", digests, most=most)])
    return found


def release(redis: Any, alert: str, *numbers: int) -> int:
    pinned = Pinned("shop", [interaction_digest("shop", f"i-{number}") for number in numbers])
    (found,) = run_scripts_blocking(redis, [release_specimens(STREAMS, alert, pinned, keep_ms=50_000)])
    return found


def test_a_pinned_specimen_neither_expires_nor_makes_room_until_it_is_released(redis: Any) -> None:
    two = limits(count=2)
    deliver(redis, 0, latest(), within=two)
    deliver(redis, 1, latest(), within=two)
    assert [pin(redis, "a", 0, 7), pin(redis, "a", 0, 7)] == [[1, 0], [1, 0]]
    assert redis.ttl(specimen_key(0)) == -1
    for number in range(2, 5):
        assert deliver(redis, number, latest(), within=two) == "kept"
    assert kept(redis) == [0, 4], "it still counts"
    assert [release(redis, "a", 0), release(redis, "a", 0)] == [1, 0]
    assert 49_000 < redis.pttl(specimen_key(0)) <= 50_000
    deliver(redis, 5, latest(), within=two)
    assert kept(redis) == [4, 5], "it expires first, so it makes room first"
    assert redis.hgetall(STREAMS.specimen_pins) == redis.hgetall(STREAMS.specimen_pinned) == {}


def test_a_specimen_that_two_alerts_name_stays_until_both_are_released(redis: Any) -> None:
    deliver(redis, 0, latest())
    pin(redis, "a", 0)
    pin(redis, "b", 0)
    assert [release(redis, "a", 0), redis.ttl(specimen_key(0))] == [0, -1]
    assert release(redis, "b", 0) == 1


def test_no_more_than_a_number_of_specimens_are_pinned(redis: Any) -> None:
    for number in range(3):
        deliver(redis, number, latest(10))
    assert pin(redis, "a", 0, 1, 2, most=2) == [1, 1, 0]
    assert pin(redis, "b", 1, 2, most=2) == [1, 0], "one that is pinned takes no further room"


def test_a_pinned_specimen_is_not_replaced_and_can_be_forgotten(redis: Any) -> None:
    deliver(redis, 0, latest())
    pin(redis, "a", 0)
    redis.delete(*(redis.keys("*owner*") or ["none"]))
    assert deliver(redis, 0, latest()) == "unneeded"
    assert run_scripts_blocking(redis, [forget_specimen(STREAMS, "shop", "i-0", ["sample"])]) == [1]
    assert kept(redis) == []
    assert release(redis, "a", 0) == 1
    assert redis.hgetall(STREAMS.specimen_pinned) == {}
    assert redis.zcard(STREAMS.specimen_order(pipeline_digest("shop"))) == 0


STEP = st.tuples(
    st.integers(0, 8),
    st.integers(1, 1_024),
    st.lists(st.sampled_from([0.1, 0.2, 0.3]), max_size=1),
    st.booleans(),
    st.sampled_from(["a", "b"]),
    st.booleans(),
)


@given(steps=st.lists(STEP, max_size=25), count=st.integers(1, 4), most_bytes=st.integers(1_024, 3_000))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_sequence_exceeds_the_caps_and_sums_are_those_of_what_is_stored(
    redis: Any, steps: list[Any], count: int, most_bytes: int
) -> None:
    redis.flushall()
    within = limits(count=count, bytes=most_bytes)
    for number, size, values, sampled, pipeline, expires in steps:
        places = [worst(value) for value in values] + [latest()] * sampled
        if not places:
            continue
        with patch.object(keeping, "PARTITION_BYTES", 4_000):
            deliver(redis, number, *places, pipeline=pipeline, size=size, within=within)
        redis.delete(*(redis.keys("*owner*") or ["none"]))
        if expires:  # Redis deletes it before the script notices
            redis.delete(specimen_key(number, pipeline))
            redis.zadd(
                STREAMS.specimen_order(pipeline_digest(pipeline)),
                {interaction_digest(pipeline, f"i-{number}"): 1},
                xx=True,
            )
        check(redis, within)


def check(redis: Any, within: SpecimenSettings) -> None:
    used = usage(redis)
    total = used.pop(SPECIMEN_TOTAL, 0)
    assert total == sum(used.values()) <= 4_000
    for pipeline in ("a", "b"):
        of_pipeline = sizes(redis, pipeline)
        own = int(of_pipeline.pop(SPECIMEN_TOTAL, "0"))
        assert own == sum(int(one.split()[0]) for one in of_pipeline.values()) == used.get(pipeline, 0)
        assert own <= within.bytes
        assert len(of_pipeline) <= within.count
        stored = {interaction_digest(pipeline, f"i-{number}") for number in kept(redis, 9, pipeline)}
        assert stored <= set(of_pipeline), "every stored specimen counts"


def test_a_limit_that_the_largest_specimen_exceeds_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        SpecimenSettings(bytes=keeping.ITEM_BYTES - 1)
