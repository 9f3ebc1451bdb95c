"""Leases and heartbeats, script by script."""

from typing import Any

from ragtide_runtime.ownership.owner import heartbeat
from ragtide_runtime.ownership.ownership import acquire_lease, release_lease, renew_lease
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import run_scripts_blocking

STREAMS = Streams("ragtide", 0)
LEASE = STREAMS.lease, STREAMS.fencing_tokens


def run(redis: Any, call: Any) -> Any:
    (reply,) = run_scripts_blocking(redis, [call])
    return reply


def test_a_free_lease_is_acquired_with_a_rising_token(redis: Any) -> None:
    first = run(redis, acquire_lease(*LEASE, "a", 60_000))
    assert (first.token, first.held_for_s) == ("1:a", 0.0)
    assert run(redis, release_lease(STREAMS.lease, "1:a"))
    assert run(redis, acquire_lease(*LEASE, "b", 60_000)).token == "2:b"


def test_a_held_lease_is_refused_with_the_seconds_that_it_is_held_for(redis: Any) -> None:
    run(redis, acquire_lease(*LEASE, "a", 60_000))
    refused = run(redis, acquire_lease(*LEASE, "b", 60_000))
    assert refused.token is None
    assert 50 < refused.held_for_s <= 60


def test_a_holder_takes_its_own_lease_again_with_a_new_token(redis: Any) -> None:
    run(redis, acquire_lease(*LEASE, "a", 60_000))
    assert run(redis, acquire_lease(*LEASE, "a", 60_000)).token == "2:a"


def test_only_its_own_token_renews_or_releases_a_lease(redis: Any) -> None:
    run(redis, acquire_lease(*LEASE, "a", 1000))
    assert not run(redis, renew_lease(*LEASE, "1:b", 60_000))
    assert not run(redis, release_lease(STREAMS.lease, "1:b"))
    assert run(redis, renew_lease(*LEASE, "1:a", 60_000))
    assert redis.pttl(STREAMS.lease) > 50_000
    assert run(redis, release_lease(STREAMS.lease, "1:a"))
    assert not run(redis, release_lease(STREAMS.lease, "1:a"))


def test_a_lease_that_ran_out_is_taken_back_unless_another_process_had_it_since(redis: Any) -> None:
    run(redis, acquire_lease(*LEASE, "a", 60_000))
    redis.delete(STREAMS.lease)
    assert run(redis, renew_lease(*LEASE, "1:a", 60_000))
    redis.delete(STREAMS.lease)
    run(redis, acquire_lease(*LEASE, "b", 60_000))
    redis.delete(STREAMS.lease)
    assert not run(redis, renew_lease(*LEASE, "1:a", 60_000))


def test_a_heartbeat_lists_the_members_that_count_and_drops_the_silent_ones(redis: Any) -> None:
    assert run(redis, heartbeat(STREAMS.aggregators, "a", 60_000, 2)) == {"a": 2}
    assert run(redis, heartbeat(STREAMS.aggregators, "b", 60_000, 1)) == {"a": 2, "b": 1}
    redis.hset(STREAMS.aggregators, "silent", "1000 5")
    assert run(redis, heartbeat(STREAMS.aggregators, "a", 60_000, 3)) == {"a": 3, "b": 1}
    assert set(redis.hkeys(STREAMS.aggregators)) == {b"a", b"b"}
