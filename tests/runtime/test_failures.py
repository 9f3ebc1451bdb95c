"""What an error of Redis means: whether it is waited for, what to do, and which connection is left."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import RedisError
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from tests.support.conditions import until, wait_until
from tests.support.one_address import OneAddress
from tests.support.redis_processes import RedisProcess, servers

from ragtide import InteractionProducer, RedisUnavailable
from ragtide.testing import interaction
from ragtide_runtime.redis import client as clients
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.consumer_groups import group_position
from ragtide_runtime.redis.failures import (
    FAILURES,
    code_of,
    explained,
    is_misconfigured,
    is_missing,
    leaves_connection,
)
from ragtide_runtime.redis.log import last_id
from ragtide_runtime.settings.model import load_settings

pytestmark = pytest.mark.processes

WRAPPED = "ERR Error running script (call to f_64d50): @user_script:5: @user_script: 5: "
"""How Redis 6.2 begins the error of a command inside a script."""

REPLIES = {
    "READONLY": (
        "READONLY You can't write against a read only replica.",
        "READONLY You can't write against a read only replica. script: 64d50, on @user_script:5.",
        f"{WRAPPED}-READONLY You can't write against a read only replica.",
        f"{WRAPPED}-READONLY You can't write against a read only slave.",
    ),
    "MISCONF": (
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        f"{WRAPPED}-MISCONF Errors writing to the AOF file: No space left on device",
    ),
    "NOREPLICAS": ("NOREPLICAS Not enough good replicas to write.",),
    "LOADING": ("LOADING Redis is loading the dataset in memory", "LOADING Valkey is loading the dataset in memory"),
    "MASTERDOWN": ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",),
    "CLUSTERDOWN": ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN Hash slot not served"),
    "TRYAGAIN": ("TRYAGAIN Multiple keys request during rehashing of slot",),
    "BUSY": ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",),
    "UNBLOCKED": ("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",),
    "OOM": (
        "OOM command not allowed when used memory > 'maxmemory'.",
        "OOM command not allowed when used memory > 'maxmemory'. script: 64d50, on @user_script:5.",
        f"{WRAPPED}-OOM command not allowed when used memory > 'maxmemory'",
    ),
    "NOAUTH": ("NOAUTH Authentication required.",),
    "WRONGPASS": ("WRONGPASS invalid username-password pair or user is disabled.", "ERR invalid password"),
    "NOPERM": (
        "NOPERM User shop has no permissions to run the 'xadd' command",
        "ERR ACL failure in script: User shop has no permissions to run the 'xadd' command script: on @user_script:1.",
        f"{WRAPPED}The user executing the script can't run this command or subcommand",
    ),
    "MOVED": ("MOVED 3999 127.0.0.1:6381",),
    "UNKNOWN": (
        "ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'local DATA_FIELD' ",
        "ERR unknown command `XINFO`, with args beginning with: `STREAM`, ",
        "ERR Unknown Redis command called from script script: 64d50, on @user_script:13.",
        f"{WRAPPED}Unknown Redis command called from Lua script",
    ),
    "": (
        "ERR syntax error",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "NOGROUP No such key",
    ),
}
"""What servers reply (Redis 6.2 and 7, Valkey), by the code that it means."""


def read(reply: str) -> Any:
    """Return the error that redis-py makes of a reply."""
    return BaseParser.parse_error(reply)  # type: ignore[no-untyped-call]  # so in redis-py


def test_a_reply_means_the_same_in_every_server_and_inside_a_script() -> None:
    for code, replies in REPLIES.items():
        for reply in replies:
            assert code_of(read(reply)) == code, reply
            text = explained(read(reply))
            assert explained(RedisConnectionError(text)) == text, "explained once"
            if code:
                assert code in text.upper()
                assert text.endswith(FAILURES[code].remedy)
                assert code_of(RedisConnectionError(text)) == code


def test_a_full_disk_is_not_taken_for_a_full_memory() -> None:
    for reply in REPLIES["MISCONF"]:
        assert "disk" in explained(read(reply))
        assert "maxmemory does not help" in explained(read(reply))
    assert "raise maxmemory" in explained(read(REPLIES["OOM"][0]))


def test_waiting_does_not_help_against_a_wrong_setting_only() -> None:
    wrong = {"NOAUTH", "WRONGPASS", "NOPERM", "UNKNOWN", "MOVED"}
    for code, replies in REPLIES.items():
        assert [is_misconfigured(read(reply)) for reply in replies] == [code in wrong] * len(replies), code

    def raised(cause: Exception) -> RedisConnectionError:
        error = RedisConnectionError("cannot connect")
        error.__cause__ = cause
        return error

    assert is_misconfigured(raised(socket.gaierror(socket.EAI_NONAME, "Name or service not known")))
    assert is_misconfigured(raised(ssl.SSLCertVerificationError("hostname mismatch")))
    assert is_misconfigured(read("ERR DB index is out of range"))
    assert not is_misconfigured(raised(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")))
    assert not is_misconfigured(raised(ConnectionRefusedError()))
    assert not is_misconfigured(raised(ssl.SSLEOFError()))


def test_only_an_absent_stream_or_group_counts_as_missing() -> None:
    assert is_missing(ResponseError("no such key"))
    assert is_missing(ResponseError("NOGROUP No such key 'a' or consumer group 'b'"))
    assert is_missing(ResponseError("The XGROUP subcommand requires the key to exist."))
    for code, replies in REPLIES.items():
        assert not code or not any(is_missing(read(reply)) for reply in replies)


async def test_a_refused_read_is_not_an_empty_stream(async_redis: Any, redis: Any, redis_url: str) -> None:
    await async_redis.xadd("s", {"a": "b"})
    await async_redis.xgroup_create("s", "g", "0")
    assert await last_id(async_redis, "none") == "0-0"
    assert await group_position(async_redis, "none", "g") is None
    redis.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-xinfo")
    try:
        async with connect_async(redis_url.replace("unix://", "unix://reader:secret@")) as reader:
            for looked_for in (last_id(reader, "s"), group_position(reader, "s", "g")):
                with pytest.raises(RedisError):
                    await looked_for
    finally:
        redis.execute_command("ACL", "DELUSER", "reader")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RedisProcess, RedisProcess, OneAddress]]:
    """Two servers, and one address that leads to the first."""
    with servers(tmp_path, 2, "save ''") as (old, new), OneAddress(old.port) as address:
        yield old, new, address


def demote(old: RedisProcess, new: RedisProcess, address: OneAddress) -> None:
    """Move the address to another server; the old one is a replica now, and its sockets stay open."""
    address.target = new.port
    old.client.replicaof("127.0.0.1", new.port)


def test_blocking_clients_leave_a_demoted_server(pair: tuple[RedisProcess, RedisProcess, OneAddress]) -> None:
    old, new, address = pair
    script = "return redis.call('INCR', KEYS[1])"

    def piped(client: Any) -> None:
        with client.pipeline(transaction=False) as pipe:
            pipe.incr("a")
            pipe.incr("a")
            pipe.execute()

    uses: list[Callable[[Any], object]] = [
        lambda client: client.incr("a"),
        lambda client: client.eval(script, 1, "a"),
        piped,
    ]
    with connect(address.url) as one, connect(address.url) as other, connect(address.url) as third:
        for client in (one, other, third):
            client.incr("a")
        demote(old, new, address)
        for client, use in zip((one, other, third), uses, strict=True):
            use(client)  # redis-py tries again, over a new connection
    assert int(new.client.get("a")) == 4


async def test_asynchronous_clients_leave_a_demoted_server(
    pair: tuple[RedisProcess, RedisProcess, OneAddress],
) -> None:
    old, new, address = pair
    async with connect_async(address.url) as client:
        await asyncio.gather(*(client.incr("a") for _ in range(8)))  # several connections
        demote(old, new, address)

        async def works() -> bool:
            try:
                async with client.pipeline(transaction=False) as pipe:
                    pipe.eval("return redis.call('INCR', KEYS[1])", 1, "a")
                    pipe.incr("a")
                    await pipe.execute()
            except RedisError:
                return False
            return True

        for _ in range(8):
            await until(works)
    assert int(new.client.get("a")) >= 16


def test_a_reader_follows_the_address_although_the_demoted_server_answers(
    pair: tuple[RedisProcess, RedisProcess, OneAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "RENEWED_S", 0.05)
    old, new, address = pair
    new.client.set("who", "new")
    old.client.set("who", "old")
    with connect(address.url) as client:
        assert client.get("who") == b"old"
        address.target = new.port
        wait_until(lambda: client.get("who") == b"new")


def test_a_producer_loses_nothing_in_a_failover_behind_one_address(
    pair: tuple[RedisProcess, RedisProcess, OneAddress],
) -> None:
    old, new, address = pair
    with InteractionProducer(address.url) as producer:
        producer.submit(interaction(interaction_id="s-0"))
        assert producer.flush(60)
        producer.publish(interaction(interaction_id="p-0"))
        demote(old, new, address)
        producer.submit(interaction(interaction_id="s-1"))
        producer.submit_feedback(interaction_id="s-0", pipeline="shop", gold_scores={"trace.adherence": 1.0})

        def published() -> bool:
            try:
                producer.publish(interaction(interaction_id="p-1"))
            except RedisUnavailable:
                return False
            return True

        wait_until(published)
        assert producer.flush(60)
        assert producer.counts.published >= 2
        assert producer.feedback_counts.published == 1
    found = {
        fields["data"].split('"interaction_id":"')[1][:3] for _, fields in new.client.xrange("ragtide:{0}:interactions")
    }
    assert {"s-1", "p-1"} <= found


def test_every_code_that_leaves_a_connection_is_waited_for() -> None:
    leaving = {code for code, replies in REPLIES.items() if leaves_connection(read(replies[0]))}
    assert leaving == {"READONLY", "UNBLOCKED", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS", "BUSY", "NOAUTH"}


def test_settings_never_need_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path as AnyPath

    def homeless(self: AnyPath) -> AnyPath:
        if str(self).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return self

    monkeypatch.setattr(AnyPath, "expanduser", homeless)
    monkeypatch.delenv("RAGTIDE_DATA_DIR")
    assert load_settings(redis_url="redis://127.0.0.1:1").redis_address == "redis://127.0.0.1:1"
    with InteractionProducer("redis://127.0.0.1:1") as producer:
        assert producer.counts.submitted == 0
    with InteractionProducer() as producer, pytest.raises(RedisUnavailable, match="RAGTIDE_DATA_DIR"):
        producer.publish(interaction())
    monkeypatch.setenv("RAGTIDE_DATA_DIR", "~/data")
    with pytest.raises(Exception, match="no home directory is known: write the whole path"):
        load_settings()
