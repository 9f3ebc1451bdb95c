"""Known ids on a real server: which entry an id has, for how long, and what it takes."""

import random
import struct
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.conditions import wait_until

from ragtide_roles.doctor.server import STORED_BYTES
from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import copy_ids, find_id, remember_id
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts_blocking

STREAMS = Streams("ragtide", 0)
DAY_MS = 86_400_000


CHANGE = Lua("change_id")
CHANGE.text = Lua("find_id").text.replace(
    "return (known_id(declared_keys(1), ARGV[1])) or false",
    "change_id(declared_keys(1), ARGV[1], ARGV[2], ARGV[3]) return 1",
)
"""Of the function that `retry_dead_letter` uses, alone."""


class Ids:
    """Known ids of one pipeline; `owner_keys` and `event_keys` differ in name only."""

    def __init__(self, redis: Any) -> None:
        self.redis = redis

    def put(self, name: str, entry: str, window_ms: int = DAY_MS) -> None:
        self.put_all({name: entry}, window_ms)

    def put_all(self, entries: dict[str, str], window_ms: int = DAY_MS) -> None:
        identities = {name: ("shop", name) for name in entries}
        calls = [
            remember_id(STREAMS.owner_keys(*identity), known_digest(*identity), entries[name], window_ms)
            for name, identity in identities.items()
        ]
        run_scripts_blocking(self.redis, calls)

    def get(self, name: str) -> str | None:
        return self.get_all([name])[name]

    def get_all(self, names: Iterable[str]) -> dict[str, str | None]:
        names = list(names)
        calls = [find_id(STREAMS.owner_keys("shop", name), known_digest("shop", name)) for name in names]
        return dict(zip(names, run_scripts_blocking(self.redis, calls), strict=True))

    def change(self, name: str, before: str, after: str) -> None:
        arguments = (known_digest("shop", name), before, after)
        run_scripts_blocking(self.redis, [ScriptCall(CHANGE, STREAMS.owner_keys("shop", name), arguments, int)])

    def buckets(self) -> list[bytes]:
        return list(self.redis.scan_iter(match=STREAMS.owners("*")))


@pytest.fixture
def ids(redis: Any) -> Ids:
    return Ids(redis)


def test_what_was_remembered_is_known_and_nothing_else(ids: Ids) -> None:
    entries = {f"id-{n}": f"{1_700_000_000_000 + n}-{n % 7}" for n in range(5000)}
    ids.put_all(entries)
    assert ids.get_all(entries) == entries
    assert set(ids.get_all(f"other-{n}" for n in range(5000)).values()) == {None}


@given(
    entries=st.dictionaries(
        st.text(max_size=8), st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=40
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_entry_id_comes_back_as_it_was(ids: Ids, entries: dict[str, tuple[int, int]]) -> None:
    ids.redis.flushall()
    for name, (ms, number) in entries.items():
        ids.put(name, f"{ms}-{number}")
    assert {name: ids.get(name) for name in entries} == {
        name: f"{ms}-{number}" for name, (ms, number) in entries.items()
    }


def test_the_later_entry_of_an_id_counts(ids: Ids) -> None:
    ids.put("id", "5-0")
    ids.put("id", "6-0")
    assert ids.get("id") == "6-0"
    ids.put("id", f"{2**60}-0")
    assert ids.get("id") == f"{2**60}-0"
    ids.put("id", "7-0")
    assert ids.get("id") == "7-0"


@pytest.mark.parametrize("before", ["5-0", f"5-{2**40}"])
@pytest.mark.parametrize("after", ["6-0", f"6-{2**40}"])
def test_an_id_is_given_to_another_entry_only_by_its_owner(ids: Ids, before: str, after: str) -> None:
    ids.put("id", before)
    ids.change("id", "4-0", "9-9")
    assert ids.get("id") == before
    ids.change("id", before, after)
    assert ids.get("id") == after
    ids.change("unknown", before, after)
    assert ids.get("unknown") is None


def test_no_id_is_forgotten_before_its_window_and_none_is_kept_for_long(ids: Ids) -> None:
    """Ids come all the time, while every bucket is written twice: no boundary between buckets lets one through."""
    window_s, lasts_s = 0.8, 2.6
    put: dict[str, tuple[float, float]] = {}  # seconds before and after each was put
    chance = random.Random(1)
    early, late = [], []
    started = time.monotonic()
    while (before := time.monotonic()) - started < lasts_s:
        ids.put(name := f"id-{len(put)}", "1-0", int(window_s * 1000))
        put[name] = before, time.monotonic()
        asked = time.monotonic()
        for name, entry in ids.get_all(chance.sample(sorted(put), min(5, len(put)))).items():
            if entry is None and time.monotonic() - put[name][0] < window_s:
                early.append(name)
            if entry is not None and asked - put[name][1] > 1.25 * window_s + 0.05:
                late.append(name)
    assert (early, late) == ([], [])
    wait_until(lambda: ids.buckets() == [])


def test_ids_of_a_longer_window_stay_when_the_window_becomes_shorter(ids: Ids) -> None:
    """Whatever bucket is written then, it must not take the older ids with it."""
    older = {f"long-{number}": f"{number}-0" for number in range(600)}
    ids.put_all(older, DAY_MS)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        ids.put_all({f"short-{number}": f"{number}-0" for number in range(200)}, 40)
    assert ids.get_all(older) == older


def test_a_bucket_is_kept_for_the_window_and_a_quarter_at_most(ids: Ids) -> None:
    ids.put("id", "5-0")
    (bucket,) = ids.buckets()
    assert DAY_MS <= ids.redis.pttl(bucket) <= 1.25 * DAY_MS + 10


def test_a_bucket_grows_by_splitting_its_groups(ids: Ids) -> None:
    ids.put_all({f"id-{number}": f"{number}-0" for number in range(20_000)})
    lengths = [len(group) for bucket in ids.buckets() for group in ids.redis.hvals(bucket)]
    assert sum(lengths) == 20_000 * 18
    assert max(lengths) < 60 * 18, "no group is long"
    assert sum(lengths) / len(lengths) > 6 * 18, "few groups are nearly empty"


def test_ids_that_collide_in_the_hash_of_the_groups_are_told_apart(redis: Any) -> None:
    keys = ["{0}own", *(f"{{0}}b{n}" for n in range(6))]
    names = [struct.pack(">IHI", 7, 0, n) for n in range(200)]
    groups = [name + struct.pack(">IHH", 0, 5, n) for n, name in enumerate(names)]
    run_scripts_blocking(redis, [copy_ids(keys[1], groups, DAY_MS)])
    assert run_scripts_blocking(redis, [find_id(keys, name) for name in names]) == [f"5-{n}" for n in range(200)]


@pytest.mark.heavy
def test_an_id_takes_a_fifth_of_what_two_keys_took(redis: Any, ids: Ids) -> None:
    count = 50_000

    redis.execute_command("FLUSHALL", "SYNC")

    def used() -> int:
        return int(redis.info("memory")["used_memory"])

    with redis.pipeline(transaction=False) as pipe:
        before = used()
        for number in range(count):
            pipe.set(
                STREAMS.owner(interaction_digest("shop", f"id-{number}")), f"{1_700_000_000_000 + number}-0", px=DAY_MS
            )
            pipe.set(
                STREAMS.scored(interaction_digest("shop", f"id-{number}")),
                f"{1_700_000_000_000 + number}-0",
                px=7 * DAY_MS,
            )
        pipe.execute()
    two_keys = (used() - before) / count
    redis.execute_command("FLUSHALL", "SYNC")
    before = used()
    calls = []
    for number in range(count):
        identity, entry = ("shop", f"id-{number}"), f"{1_700_000_000_000 + number}-0"
        calls.append(remember_id(STREAMS.owner_keys(*identity), known_digest(*identity), entry, DAY_MS))
        calls.append(remember_id(STREAMS.event_keys(*identity), known_digest(*identity), entry, 7 * DAY_MS))
    run_scripts_blocking(redis, calls)
    buckets = (used() - before) / count
    assert buckets * 5 < two_keys
    assert buckets / 2 < 1.25 * STORED_BYTES
