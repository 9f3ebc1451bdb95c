"""The screen of the system: owners, workers, streams, Redis, checks, notifications, and orders with pages."""

from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_service import http_service
from tests.support.metric_events import START, adherence
from tests.support.owners import owners
from tests.web.page.test_page import SCRIPT, page
from tests.web.page.test_pipeline import SETTINGS, commit, traffic

from ragtide_consumers.notify.destination_state import DestinationState, failing_alert
from ragtide_consumers.notify.grouping import NotificationGroup
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, Streams
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_runtime.settings.watch import SettingsWatch
from ragtide_web.guard.orders import PageOrder, read_orders
from ragtide_web.page.system.reading import destination_statuses, read_system, redis_server
from ragtide_web.page.system.screen import stream_fills

STREAMS = Streams("ragtide", 0)
NOTIFY = NotifySettings(
    allow_private=True,
    destinations=(DestinationSettings(name="hook", kind="webhook", url="http://127.0.0.1:9/x"),),
)
TOKENS = [
    {"name": "viewer", "token": "viewer-0123456789", "access": ["read"]},
    {"name": "shop", "token": "shop-0123456789", "access": ["read", "operate"], "pipelines": ["shop*"]},
]


async def order(redis: Any, number: int, **fields: Any) -> None:
    one = PageOrder(at=START, user="ann", action="retry", subject=f"dead letter {number}", **fields)
    await redis.xadd(STREAMS.orders, {DATA_FIELD: one.encode()})


async def test_owners_workers_and_streams_are_those_of_redis(async_redis: Any) -> None:
    settings = Settings(partitions=2, interactions_cap=10, lease_s=600)
    first, _ = owners(async_redis, settings)
    await first.commit(*adherence([0.5] * 5))
    for _ in range(9):
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    await async_redis.xreadgroup(LABEL_GROUP, "host-1", {STREAMS.interactions: ">"}, count=4)
    await async_redis.hset(STREAMS.dropped, mapping={"full": 3, "old": 5})
    now_ms = int((await async_redis.time())[0]) * 1000
    running = {"here": f"{now_ms + 60_000} 1", "gone": f"{now_ms - 60_000} 9", "foreign": "no number"}
    await async_redis.hset(STREAMS.aggregators, mapping=running)
    facts = await read_system(async_redis, settings)
    assert [(worker.name, worker.pending, worker.partitions) for worker in facts.workers] == [("host-1", 4, 1)]
    assert facts.present == 1
    assert facts.aggregators == {"here": 1}
    owner, other = facts.partitions
    assert owner.aggregator is not None
    name, renewed_s = owner.aggregator
    assert ":test:" in name
    assert renewed_s is not None
    assert -0.5 <= renewed_s < 600
    assert (other.aggregator, other.recorder, other.notifier) == (None, None, None)
    assert (facts.owned, facts.waiting, facts.oldest_s >= 0) == (1, 9, True)
    fill = {one.name: one for one in stream_fills(facts, settings)}["interactions"]
    assert (fill.entries, fill.largest, fill.cap, fill.share, fill.is_full) == (9, 9, 10, 0.9, True)
    assert facts.dropped == [("old", 5), ("full", 3)]
    (server,) = facts.servers
    assert server.version.count(".") == 2
    assert server.used_bytes > 0


def test_facts_that_a_service_leaves_out_are_unknown() -> None:
    server = redis_server("", {})
    assert (server.version, server.snapshot_s, server.max_bytes, server.append_works) == ("?", None, 0, True)


def test_destinations_are_shown_as_the_outbox_has_them() -> None:
    failing = failing_alert("hook", 0, "it answers 500", 1_000)
    stored = {
        b"group:hook:a": NotificationGroup(
            destination="hook", key="a", pipeline="shop", due_ms=5, tries=3, answer="it answers 500", last_sent_ms=7_000
        )
        .model_dump_json()
        .encode(),
        b"destination:hook": DestinationState(name="hook", sent_ms=(9_000,)).model_dump_json().encode(),
        b"alert:notify-hook": failing.encode(),
        b"group:gone:b": b"no group",
    }
    (found,) = destination_statuses([stored], Settings(notify=NOTIFY))
    assert found.sent_at is not None
    assert found.sent_at.timestamp() == 9
    assert (found.retried, found.answer, found.failing) == (1, "it answers 500", failing.message)
    (unknown,) = destination_statuses([], Settings(notify=NOTIFY))
    assert (unknown.sent_at, unknown.waiting, unknown.failing) == (None, 0, "")


async def test_orders_have_pages_and_unreadable_ones_are_counted(async_redis: Any) -> None:
    for number in range(7):
        await order(async_redis, number)
    await async_redis.xadd(STREAMS.orders, {DATA_FIELD: b"no order"})
    settings, seen, before, unreadable = Settings(), [], None, 0
    while True:
        found = await read_orders(async_redis, settings, before=before, count=3)
        seen += [one.subject for _, one in found.orders]
        unreadable += found.unreadable
        before = found.older
        if before is None:
            break
    assert seen == [f"dead letter {number}" for number in reversed(range(7))]
    assert unreadable == 1


@pytest.mark.heavy
async def test_a_redis_that_forbids_info_leaves_the_rest_of_the_screen(async_redis: Any, redis_url: str) -> None:
    await async_redis.execute_command("ACL", "SETUSER", "page", "on", ">word", "~*", "&*", "+@all", "-info")
    try:
        async with connect_async(f"{redis_url}?username=page&password=word") as limited:
            facts = await read_system(limited, Settings())
    finally:
        await async_redis.execute_command("ACL", "DELUSER", "page")
    assert facts.servers == []
    assert len(facts.partitions) == 1


async def test_the_screen_shows_checks_settings_and_orders(async_redis: Any, redis_url: str) -> None:
    await order(async_redis, 1, reason=f"because {SCRIPT}", details={"count": 4})
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    async with http_service(redis_url, notify=NOTIFY, judge={"api_key": "sk-very-secret", "model": "m"}) as service:
        status, text = await page(service, "/system")
        assert status == 200, text
        assert "no worker and no aggregator is running" in text
        assert "start both: ragtide up" in text
        assert "sk-very-secret" not in text
        assert "judge.api_key" in text
        assert "hook" in text
        assert f"because {SCRIPT}" in unescape(text)
        assert "<script>alert" not in text
        status, text = await page(service, "/system/orders")
        assert (status, "dead letter 1" in text) == (200, True)
        assert "No entry yet" in (await page(service, "/system/orders?before=1-1"))[1]
        assert (await page(service, "/system/orders?before=x"))[0] == 422


async def test_settings_are_for_operators_and_the_screen_for_tokens_of_all_pipelines(
    async_redis: Any, redis_url: str
) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        status, text = await page(service, "/system", Authorization="Bearer viewer-0123456789")
        assert status == 200
        assert "Settings are for operators." in text
        assert "worker_min_idle_s" not in text
        for path in ("/system", "/system/orders"):
            status, text = await page(service, path, Authorization="Bearer shop-0123456789")
            assert (status, "is for some pipelines" in text) == (403, True)


async def test_new_rules_are_shown_when_they_are_in_force(
    async_redis: Any, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = '[[alerts]]\nname = "floor"\nkind = "threshold"\nmetric = "trace.adherence"\ntarget = {}\n'
    file = tmp_path / "ragtide.toml"
    monkeypatch.setenv("RAGTIDE_CONFIG", str(file))
    await commit(async_redis, *traffic())
    file.write_text(rule.format(0.512))
    settings = load_settings()
    watch = SettingsWatch(settings)
    async with http_service(redis_url, alerts=settings.alerts, history=SETTINGS.history, rules=watch) as service:
        for target, other in ((0.512, 0.634), (0.634, 0.512)):
            file.write_text(rule.format(target))
            await watch.read()
            # A mean, an end of an interval or a chart may have the same number by chance.
            for path, words in (("/system", '"target":{}'), ("/p/shop", "target {}")):
                _, text = await page(service, path)
                assert words.format(target) in unescape(text), path
                assert words.format(other) not in unescape(text), path
        file.write_text(rule.format(0.777) + "[[alerts]\n")
        assert await watch.read() == "refused"
        assert "0.634" in (await page(service, "/system"))[1]
