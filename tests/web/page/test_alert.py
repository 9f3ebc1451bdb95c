"""Alerts: lists with pages, one alert with everything that is known of it, and its orders."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.http_service import http_service
from tests.support.metric_events import START
from tests.support.owners import owners
from tests.web.page.test_item import keep, specimen
from tests.web.page.test_page import SCRIPT, TOKENS, form, orders, page
from tests.web.page.test_pipeline import SETTINGS, commit, traffic

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_consumers.notify.silences import (
    Acknowledgement,
    Silence,
    acknowledge,
    add_silence,
    read_acknowledged,
    read_silences,
)
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.alert import ChangeCause, SegmentShare
from ragtide_web.page.alerts.screen import PAGE, alert_list, chart_range, timeline

STREAMS = Streams("ragtide", 0)


def drift(alert_id: str = "A-1", **fields: Any) -> Alert:
    """Return an alert with all its statistics."""
    now = utc_now()
    share = SegmentShare(
        value="lang=de", before=0.1, before_lower=0.05, before_upper=0.15, since=0.4, since_lower=0.3, since_upper=0.5
    )
    cause = ChangeCause(
        verdict="mix",
        segment="lang",
        n_before=200,
        n_since=100,
        mix=-0.2,
        mix_lower=-0.3,
        mix_upper=-0.1,
        within=-0.01,
        within_lower=-0.05,
        within_upper=0.03,
        confidence=0.95,
        shares=(share,),
        text="mostly mix: more lang=de",
    )
    given: dict[str, Any] = {
        "rule": "adherence-drift",
        "kind": "drift",
        "profile": "ragbench",
        "labeler": "test",
        "labeler_version": "1",
        "fired_at": now - timedelta(hours=1),
        "began_at": now - timedelta(hours=2),
        "baseline": 0.8,
        "baseline_source": "learned",
        "observed": 0.3,
        "observed_n": 40,
        "observed_lower": 0.2,
        "observed_upper": 0.4,
        "log_evidence": 9.5,
        "run_length": 10_000,
        "n": 300,
        "cause": cause,
        "worst_interaction_ids": ("i-1",),
        "diagnosis": ("The retriever finds less.",),
    }
    return alert(alert_id, **given | fields)


async def add(redis: Any, *alerts: Alert) -> None:
    for one in alerts:
        await redis.xadd(STREAMS.alerts, {DATA_FIELD: one.encode()})


def test_alerts_that_fire_come_first_and_pages_hold_all() -> None:
    old = [alert(f"R-{n}", status="resolved", fired_at=START, resolved_at=START) for n in range(3 * PAGE)]
    new = [alert(f"F-{n}", fired_at=START + timedelta(seconds=n)) for n in range(3)]
    first = alert_list([*new, *old])
    assert [one.alert_id for one in first.rows[:4]] == ["F-2", "F-1", "F-0", "R-0"]
    assert (first.total, first.pages) == (3 * PAGE + 3, 4)
    seen = [one.alert_id for number in range(1, 5) for one in alert_list([*new, *old], page=number).rows]
    assert sorted(seen) == sorted(one.alert_id for one in [*new, *old])
    assert alert_list([*new, *old], state="firing").total == 3
    assert alert_list([], page=7).page == 1
    assert alert_list([*new, *old], page=1_000_000).page == 4


def test_the_timeline_is_in_order() -> None:
    one = drift(
        fired_at=START, began_at=START - timedelta(hours=1), status="resolved", resolved_at=START + timedelta(3)
    )
    found = timeline(
        one,
        acknowledged=Acknowledgement(alert_id="A-1", by="ann", at=START + timedelta(1)),
        silences=[Silence(id="s", until=START + timedelta(9), by="bob", created_at=START + timedelta(2))],
        sent={"pager": START + timedelta(minutes=1)},
    )
    assert [(entry.kind, entry.by) for entry in found] == [
        ("began", ""),
        ("fired", ""),
        ("sent", "pager"),
        ("acknowledged", "ann"),
        ("silenced", "bob"),
        ("resolved", ""),
    ]


@pytest.mark.parametrize("age", [timedelta(seconds=40), timedelta(minutes=20), timedelta(hours=5), timedelta(days=30)])
@pytest.mark.parametrize("resolved", [False, True])
def test_the_chart_shows_the_time_before_and_after_the_change_and_no_future(age: timedelta, *, resolved: bool) -> None:
    now = START + age
    end: dict[str, Any] = {"status": "resolved", "resolved_at": START + age / 2} if resolved else {}
    one = drift(fired_at=START + timedelta(seconds=30), began_at=START, **end)
    first, last = chart_range(one, now)
    assert one.fired_at <= last <= now
    assert START - first >= timedelta(minutes=2)
    assert (last - START) * 2 >= min(age / 2, START - first)


async def test_an_alert_shows_everything_that_is_known(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic(lang="de"), alerts=(drift(message=f"Adherence fell {SCRIPT}."),))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, listed = await page(service, "/a")
        assert 'href="/a/A-1"' in listed
        status, text = await page(service, "/a/A-1")
        assert status == 200
        for words in (
            "trace.adherence of shop fell from 0.800 to 0.300", "0.200 to 0.400", "40 answers", "10,000 answers",
            "9.500", "mostly mix: more lang=de", "40.0%", "The retriever finds less.",
            "answers that are no longer kept",
            "adherence-drift", 'class="chart"', 'class="level since"', "change began", "Acknowledge or silence",
            "No message was sent",
        ):  # fmt: skip
            assert words in text, words
        assert "<script>alert" not in text
        assert (await page(service, "/a/none"))[0] == 404
        assert (await page(service, "/a?state=resolved"))[1].count("/a/A-1") == 0


async def test_the_page_begins_with_what_to_do_and_ends_with_the_statistics(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, specimen("i-1"), specimen("i-2", question="How long?"))
    found = drift(worst_interaction_ids=("i-2", "gone", "i-1"), segment="lang=de")
    await commit(async_redis, *traffic(lang="de"), alerts=(found,))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/a/A-1")
    places = [
        text.index(words)
        for words in (
            "fell from 0.800 to 0.300", 'name="reason"', "The mean is 0.300", "Worst answers since the change",
            "How long?", "May I cancel?", "Likely cause", "Timeline", 'id="statistics"', "9.500",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    worst = text.partition('id="worst"')[2].partition("</section>")[0]
    assert worst.count('data-support="supported"') == 2
    assert 'href="/i/shop/i-2?alert=A-1" title="i-2"' in worst
    assert "gone" not in worst


async def test_the_worst_answers_of_a_criterion_have_the_reasons_of_the_judge_and_no_marks_of_other_metrics(
    async_redis: Any, redis_url: str
) -> None:
    kept = specimen("i-1")
    labelings = [
        labeling.model_copy(
            update={
                "scores": {**labeling.scores, "criteria.asks_back": 0.0},
                "reasons": {"criteria.asks_back": f"{labeling.labeler}: it asks <b>nothing</b>."},
            }
        )
        for labeling in kept.labelings
    ]
    await keep(async_redis, kept.model_copy(update={"labelings": tuple(labelings)}))
    found = drift(worst_interaction_ids=("i-1",), metric="criteria.asks_back", labeler="judge", labeler_version="1")
    await commit(async_redis, *traffic(), alerts=(found,))
    async with http_service(redis_url) as service:
        _, text = await page(service, "/a/A-1")
    worst = text.partition('id="worst"')[2].partition("</section>")[0]
    assert "judge: it asks &lt;b&gt;nothing&lt;/b&gt;." in worst
    assert "local: it asks" not in worst
    assert "data-support" not in worst
    assert "Yes. Free. Refunded." in worst


async def test_a_list_and_a_card_show_what_people_did(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic(), alerts=(drift(), drift("A-2", status="resolved", resolved_at=utc_now())))
    await acknowledge(async_redis, "ragtide", "A-1", "ann")
    now = utc_now()
    silence = Silence(id="s", pipeline="shop", until=now + timedelta(hours=1), by="bob", created_at=now)
    await add_silence(async_redis, "ragtide", silence)
    async with http_service(redis_url) as service:
        for path in ("/", "/p/shop", "/a"):
            _, text = await page(service, path)
            assert text.count("acknowledged by ann") == 1, path
            assert text.count("silenced until") == 1, path


async def test_how_it_is_now_is_the_headline_since_the_change(async_redis: Any, redis_url: str) -> None:
    now = utc_now()
    await commit(async_redis, *traffic(), alerts=(drift(began_at=now - timedelta(minutes=40)),))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/a/A-1")
        assert "Now it is" in text
        await add(async_redis, drift(quantity="spread"))
        assert "Now it is" not in (await page(service, "/a/A-1"))[1]


async def test_an_alert_without_statistics_and_an_empty_list(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert "No alert has fired." in (await page(service, "/a"))[1]
        await add(async_redis, alert("S-1", pipeline="*", message="Labeling is behind."))
        status, text = await page(service, "/a/S-1")
        assert status == 200
        assert "Labeling is behind." in text


async def test_orders_need_a_reason_and_are_written_down_first(async_redis: Any, redis_url: str) -> None:
    await add(async_redis, drift(pipeline="shop [1]*"))
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        ann = {"Authorization": "Bearer ann-0123456789"}
        status, text, _ = await form(service, "/a/A-1/acknowledge", {"reason": " "}, **ann)
        assert (status, "the order has no reason" in text) == (422, True)
        assert await read_acknowledged(async_redis, "ragtide") == {}
        status, place, _ = await form(service, "/a/A-1/acknowledge", {"reason": "I look"}, **ann)
        assert (status, place) == (303, "/a/A-1?done=The%20alert%20is%20acknowledged.")
        assert (await read_acknowledged(async_redis, "ragtide"))["A-1"].by == "ann"
        status, text, _ = await form(service, "/a/A-1/silence", {"reason": "deploy", "for": "9y"}, **ann)
        assert (status, "take one of" in text) == (422, True)
        assert (await form(service, "/a/A-1/silence", {"reason": "deploy", "for": "4h"}, **ann))[0] == 303
        (silence,) = await read_silences(async_redis, "ragtide")
        assert silence.silences(drift(pipeline="shop [1]*"), utc_now())
        assert not silence.silences(drift(pipeline="shop 1 and all"), utc_now())
        _, text = await page(service, "/a/A-1", **ann)
        assert "acknowledged by" in text
        assert "silenced by" in text
        found = await orders(async_redis)
        assert [(one.user, one.action, one.subject, one.reason) for one in found] == [
            ("ann", "acknowledge", "alert A-1", "I look"),
            ("ann", "silence", "alert A-1", "deploy"),
        ]


async def test_a_viewer_gives_no_orders_and_sees_only_its_pipelines(async_redis: Any, redis_url: str) -> None:
    await add(async_redis, drift(), drift("B-1", pipeline="bank"))
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        viewer = {"Authorization": "Bearer viewer-0123456789"}
        _, text = await page(service, "/a/A-1", **viewer)
        assert "<form" not in text.partition("<main")[2]
        assert (await form(service, "/a/A-1/silence", {"reason": "x", "for": "1h"}, **viewer))[0] == 403
        assert (await page(service, "/a/B-1", **viewer))[0] == 404
        assert "bank" not in (await page(service, "/a", **viewer))[1]
        assert (await page(service, "/a/A-1/dataset", **viewer))[0] == 403
        status, found = await page(service, "/a/A-1/dataset", Authorization="Bearer ann-0123456789")
        assert (status, found) == (200, "")
        assert (
            await form(
                service,
                "/a/A-1/silence",
                {"reason": "x", "for": "1h"},
                Sec_Fetch_Site="cross-site",
                Authorization="Bearer ann-0123456789",
            )
        )[0] == 403
    assert await orders(async_redis) == []


@pytest.mark.parametrize(("segment", "kept"), [("lang", True), (None, False)])
async def test_the_alert_of_a_segment_that_a_rule_watches_has_a_chart(
    async_redis: Any, redis_url: str, segment: str | None, *, kept: bool
) -> None:
    rule = {"name": "r", "kind": "threshold", "metric": "trace.adherence", "target": 0.7, "segment": segment}
    settings = Settings.model_validate({"alerts": [rule], "lease_s": 600})
    (owner,) = owners(async_redis, settings)
    owner.state = AggregatorState(state_options(settings))
    await owner.commit(*traffic(lang="de"), alerts=(drift(segment="lang=de"),))
    async with http_service(redis_url) as service:
        _, text = await page(service, "/a/A-1")
    assert ('class="chart"' in text) == kept
