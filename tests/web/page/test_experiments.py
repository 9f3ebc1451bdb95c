"""Experiments on the page: the list, the leaderboard, and orders that meet."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from math import inf
from typing import Any

import pytest
from tests.offline.experiments.scores import event as scored_event
from tests.offline.experiments.scores import executed
from tests.ragtide.judged_runs import Run, plan_of, write_experiment
from tests.support.experiment_plans import EVIDENCE, plan
from tests.support.http_service import http_service
from tests.web.page.test_page import SCRIPT, form, orders, page

from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.reader import ExperimentReader
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.experiments.verdict import verdict_of
from ragtide_offline.pages.experiments import reading
from ragtide_offline.pages.experiments.route import FormError, changes_of, command_of, value_of
from ragtide_offline.pages.experiments.screen import (
    STATES,
    experiment_view,
    grid_values,
    projected_end,
    run_row,
    shown_reason,
)
from ragtide_offline.report.findings import as_in_pairs, pairs_of
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import last_id
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import register_workspace, settings_of_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import (
    DRIVER,
    RACE,
    Begun,
    Command,
    Completed,
    Config,
    Execution,
    LogEntry,
    Look,
    Paused,
    RaceOptions,
    decode_entry,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
STREAMS: Streams = settings_of_workspace(Settings(), "may").layout.all()[0]
TOKENS = [
    {"name": "ann", "token": "ann-0123456789", "access": ["read", "operate"]},
    {"name": "viewer", "token": "viewer-0123456789", "access": ["read"]},
    {"name": "shop", "token": "shop-0123456789", "access": ["read", "operate"], "pipelines": ["shop*"]},
]


async def begin(redis: Any, *entries: LogEntry, **fields: Any) -> str:
    """Begin an experiment `may` with the configs c0, c1 and c2, and return the id of its last entry."""
    begun = plan(**{"run": "may", **fields})
    info = Workspace(run="may", kind="experiment", source="questions.jsonl", population_size=begun.population_size)
    await register_workspace(redis, Settings(), info)
    for entry in (Begun(plan=begun), *entries):
        await redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
    return await last_id(redis, STREAMS.experiment)


async def commands(redis: Any) -> list[Command]:
    found = [decode_entry(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.experiment)]
    return [one for one in found if isinstance(one, Command)]


def order(op: str, config: str, seen: str, **fields: str) -> dict[str, str]:
    return {"order": op, "config": config, "seen": seen, "reason": "too slow", **fields}


@pytest.mark.pure
@pytest.mark.parametrize(
    ("newest", "driven", "expected"),
    [
        ([Completed(), Look(item=20)], False, ("complete", 20)),
        ([Command(op="stop", config="c1"), Completed(), Look(item=20)], False, ("complete", 20)),
        ([Command(op="resume", config="c1"), Completed()], True, ("running", None)),
        ([Paused(reason="too dear"), Look(item=5)], True, ("paused", 5)),
        ([Look(item=10), Look(item=5)], True, ("running", 10)),
        ([Look(item=10), Completed()], False, ("not running", 10)),
        ([], False, ("not running", None)),
    ],
)
def test_the_end_of_the_log_tells_the_state(
    newest: list[LogEntry], driven: bool, expected: tuple[str, int | None]
) -> None:
    info = Workspace(run="may", kind="experiment", source="x")
    row = run_row(info, newest, driven=driven)
    assert (row.state, row.compared) == expected
    assert row.state in STATES
    assert run_row(info.model_copy(update={"kind": "replay"}), newest, driven=driven).state == ""


@pytest.mark.pure
def test_the_projected_end_is_at_the_pace_of_the_newest_calls() -> None:
    state = ExperimentState(plan(2, size=20), races=False)
    assert projected_end(state, NOW) is None
    for item in range(5):
        for config in ("c0", "c1"):
            at = NOW - timedelta(seconds=2 * (9 - (2 * item + (config == "c1"))))
            state.results.add_execution(Execution(config=config, item=item, item_id=f"q{item}", failure="503", at=at))
    # A call every 2 seconds, and 30 are left.
    assert projected_end(state, NOW) == NOW + timedelta(seconds=60)
    state.apply(Command(op="stop", config="c1"))
    assert projected_end(state, NOW) == NOW + timedelta(seconds=30)
    assert projected_end(state, NOW + timedelta(minutes=5)) is None


@pytest.mark.pure
def test_a_form_means_the_values_of_the_grid() -> None:
    state = ExperimentState(
        plan().model_copy(
            update={
                "configs": (
                    Config(name="a", parameters={"k": 1, "style": "short", "on": True}),
                    Config(name="b", parameters={"k": 1.0, "style": "4", "on": False}),
                )
            }
        ),
        races=False,
    )
    grid = grid_values(state)
    assert grid == {"k": [1, 1.0], "style": ["short", "4"], "on": [True, False]}
    own = state.configs["a"].config.parameters
    form_fields = {"parameter.k": "5", "parameter.style": "4", "parameter.on": "true"}
    assert changes_of(form_fields, own, grid) == {"k": 5, "style": "4"}
    assert value_of("k", "1.0", [1, 1.0]) == 1.0
    for fields, sentence in (
        ({"parameter.k": "five"}, "k is not JSON"),
        ({"parameter.k": "NaN"}, "k is not JSON"),
        ({"parameter.k": "1"}, "no parameter is changed"),
        ({"parameter.other": "1"}, "there is no parameter 'other'"),
    ):
        with pytest.raises(FormError, match=sentence):
            changes_of(fields, own, grid)
    made = command_of(
        {"order": "clone", "config": "a", "parameter.k": "5"}, by="race", reason="", parameters=own, grid=grid
    )
    assert (made.clone, made.parameters) == ("k=5,style=short,on=true", {"k": 5})
    assert made.by not in (RACE, DRIVER)
    with pytest.raises(FormError, match="there is no order"):
        command_of({"order": "limits"}, by="ann", reason="", parameters={}, grid={})


@pytest.mark.pure
def test_the_message_of_a_failed_call_is_a_text() -> None:
    failed = Command(op="stop", config="a", by=DRIVER, reason="10 calls in a row failed: no answer to 'my secret'")
    assert "secret" in shown_reason(failed, sees_texts=True)
    assert shown_reason(failed, sees_texts=False) == "10 calls in a row failed"


async def test_the_list_says_how_to_begin_and_links_experiments(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A list that takes long on a busy machine would be shared with the next viewer.
    monkeypatch.setattr(reading, "QUICK_S", inf)
    async with http_service(redis_url) as service:
        assert "There are no experiments or replays yet." in (await page(service, "/x"))[1]
        await begin(async_redis, Look(item=5))
        replay = Workspace(run="june", kind="replay", source="recording/")
        await register_workspace(async_redis, Settings(), replay)
        status, text = await page(service, "/x")
        assert status == 200
        assert 'href="/x/may"' in text
        assert 'href="/x/june"' not in text
        assert 'data-state="not running"' in text
        for path in ("/x/june", "/x/nothing", "/x/a%20b"):
            assert (await page(service, path))[0] == 404


@pytest.mark.heavy
async def test_the_leaderboard_has_the_numbers_of_the_report(async_redis: Any, redis_url: str) -> None:
    names = ("a", "b", "c")
    means = dict(zip(names, (0.9, 0.5, 0.88), strict=True))
    await asyncio.to_thread(
        write_experiment, redis_url, Run(plan_of("may", names), means, cost={"a": 0.001, "b": 0.002})
    )
    async with http_service(redis_url) as service:
        status, found = await page(service, "/x/may?config=0")
    text = unescape(found)
    assert status == 200
    assert '<h1>a <span class="number">#0</span> wins; ' in text
    assert "of these 119 questions, exactly" in text
    assert text.count('<svg class="chart"') == 2
    assert "e-value" in text
    assert "Orders to a (#0)" in text
    assert ' style="' not in found


async def test_the_leaderboard_has_the_quality_per_dollar_where_answers_have_costs(
    async_redis: Any, redis_url: str
) -> None:
    names = ("a", "b")
    means = dict(zip(names, (0.9, 0.5), strict=True))
    # A dollar buys twice the score, so the ratio of the means is 2 but for the failed call of a.
    for run, own in (("dear", {"answer.cost_usd": 0.5}), ("free", {})):
        await asyncio.to_thread(write_experiment, redis_url, Run(plan_of(run, names), means, own=own))
    async with http_service(redis_url) as service:
        dear, free = [(await page(service, f"/x/{run}"))[1] for run in ("dear", "free")]
    assert "per dollar" not in free
    cells = re.findall(r'data-label="per dollar">(2\.[0-9]{3})<span class="ends">([0-9.]+) – ([0-9.]+)<', dear)
    assert len(cells) == 2, dear
    assert all(float(lower) <= float(at) <= float(upper) for at, lower, upper in cells)


@pytest.mark.parametrize(
    ("enabled", "items"), [(True, 30), *(pytest.param(False, n, marks=pytest.mark.heavy) for n in (30, 20))]
)
async def test_differences_are_those_of_the_report(async_redis: Any, redis_url: str, enabled: bool, items: int) -> None:
    race = RaceOptions(enabled=enabled, look_every=10)
    run = Run(
        plan_of("may", ("a", "b", "c"), race=race, population_size=30), {"a": 0.9, "b": 0.5, "c": 0.88}, items=items
    )
    await asyncio.to_thread(write_experiment, redis_url, run)
    reader = ExperimentReader(async_redis, STREAMS)
    await reader.read()
    info = Workspace(run="may", kind="experiment", source="x", population_size=30)
    view = experiment_view(info, reader.state, seen=reader.last_entry, driven=False, now=NOW)
    whole = board(reader.state)
    expected = as_in_pairs(whole, pairs_of(reader.state, whole)).rows
    assert [row.config.behind for row in view.rows] == [row.behind for row in expected]
    if items < 30:
        assert verdict_of(view.board).outcome == "leads so far"
        return
    # The race stopped b. The first call of a failed, so the others have 29 questions in common with it.
    closed = [row for row in view.rows if row.n_behind is not None]
    assert {row.n_behind for row in closed} <= {29}
    assert len(closed) == (1 if enabled else 2)
    assert (verdict_of(view.board).outcome, verdict_of(view.board).exactly) == ("wins", 29)


async def test_the_page_warns_where_the_metric_of_the_race_cannot_decide(async_redis: Any, redis_url: str) -> None:
    metric = "trace.context_utilization"
    await begin(async_redis, Look(item=5), metric=metric, race=RaceOptions(enabled=False))
    for number in range(3):
        for item in range(5):
            scores = {metric: 0.5, "retrieval.match": number / 3}
            event = scored_event(f"c{number}", item, 0.5).model_copy(update={"labeler": "local", "scores": scores})
            call = executed(f"c{number}", item)
            await async_redis.xadd(STREAMS.executions, {DATA_FIELD: call.encode()})
            await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: event.model_copy(update={"run": "may"}).encode()})
    async with http_service(redis_url) as service:
        status, found = await page(service, "/x/may")
    assert status == 200
    (warning,) = [line for line in unescape(found).splitlines() if 'id="warning"' in line]
    assert f"for 5 of 5 items, and {metric}" in warning


async def test_foreign_names_are_text(async_redis: Any, redis_url: str) -> None:
    named = Config(name=f"c {SCRIPT}", parameters={SCRIPT: SCRIPT})
    await begin(
        async_redis,
        Command(op="stop", config=named.name, by=SCRIPT, reason=SCRIPT),
        Paused(reason=SCRIPT),
        configs=[named],
        target=SCRIPT,
    )
    async with http_service(redis_url) as service:
        for path in ("/x", "/x/may", "/x/may?config=0"):
            assert SCRIPT not in (await page(service, path))[1]


async def test_two_viewers_who_press_stop_at_once_stop_once(async_redis: Any, redis_url: str) -> None:
    seen = await begin(async_redis)
    async with http_service(redis_url) as service:
        both = await asyncio.gather(*(form(service, "/x/may/orders", order("stop", "c1", seen)) for _ in range(4)))
    assert sorted(status for status, *_ in both) == [303, 409, 409, 409]
    assert [(command.op, command.config, command.reason) for command in await commands(async_redis)] == [
        ("stop", "c1", "too slow")
    ]
    refused = next(text for status, text, _ in both if status == 409)
    assert "gave the command stop to config 'c1' after you looked" in unescape(refused)
    assert f'name="seen" value="{await last_id(async_redis, STREAMS.experiment)}"' in refused
    given = [one for one in await orders(async_redis) if one.action == "stop"]
    assert given[0].subject == "config c1 of experiment may"
    assert given[0].reason == "too slow"


async def test_a_form_is_followed_unless_the_log_changed_its_meaning(async_redis: Any, redis_url: str) -> None:
    seen = await begin(async_redis)
    async with http_service(redis_url) as service:
        for entry in (Look(item=5), Command(op="stop", config="c2", by="race", evidence=EVIDENCE)):
            await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
        status, place, _ = await form(service, "/x/may/orders", order("stop", "c1", seen))
        assert (status, place.startswith("/x/may?done=")) == (303, True)
        # The race stopped c2 after the page was shown, so resume means another thing now.
        assert (await form(service, "/x/may/orders", order("resume", "c2", seen, keep="yes")))[0] == 409
        seen = await last_id(async_redis, STREAMS.experiment)
        assert (await form(service, "/x/may/orders", order("resume", "c2", seen, keep="yes")))[0] == 303
        cloned = order("clone", "c0", seen, **{"parameter.k": "7", "clone": "seven"})
        assert (await form(service, "/x/may/orders", cloned))[0] == 303
        assert (await form(service, "/x/may/orders", order("delete", "c1", seen)))[0] == 303
        text = (await page(service, "/x/may"))[1]
    last = (await commands(async_redis))[-4:]
    assert [(one.op, one.config, one.keep, one.parameters) for one in last] == [
        ("stop", "c1", False, {}),
        ("resume", "c2", True, {}),
        ("clone", "c0", False, {"k": 7}),
        ("delete", "c1", False, {}),
    ]
    assert {one.by for one in last} == {"local user"}
    assert "Orders to seven (#3)" in text
    assert 'id="orders-1"' not in text
    assert [one.action for one in await orders(async_redis)] == ["stop", "resume", "clone", "delete"]


async def test_a_wrong_form_is_answered_with_a_sentence_and_writes_nothing(async_redis: Any, redis_url: str) -> None:
    seen = await begin(async_redis)
    async with http_service(redis_url) as service:
        for fields, sentence in (
            (order("stop", "c1", seen, reason=""), "the order has no reason"),
            (order("stop", "nobody", seen), "there is no config 'nobody'"),
            (order("stop", "c1", "now"), "load the page again"),
            (order("clone", "c1", seen, **{"parameter.k": "x"}), "k is not JSON"),
            (order("clone", "c1", seen, **{"parameter.k": "9", "clone": "c2"}), "give the clone another name"),
            (order("resume", "c1", seen), "is running"),
            (order("limits", "c1", seen), "there is no order 'limits'"),
        ):
            status, text, _ = await form(service, "/x/may/orders", fields)
            assert (status, sentence in unescape(text)) == (422, True), sentence
        assert (await form(service, "/x/may/orders", order("stop", "c1", seen), Sec_Fetch_Site="cross-site"))[0] == 403
    assert await commands(async_redis) == []
    assert await orders(async_redis) == []


async def test_who_may_look_and_who_may_order(async_redis: Any, redis_url: str) -> None:
    seen = await begin(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for token, look, give in (("ann", 200, 303), ("viewer", 200, 403), ("shop", 403, 403)):
            head = {"Authorization": f"Bearer {token}-0123456789"}
            assert (await page(service, "/x", **head))[0] == look
            status, text = await page(service, "/x/may?config=1", **head)
            assert status == look
            assert ("/x/may/orders" in text) == (token == "ann")
            assert (await form(service, "/x/may/orders", order("stop", "c1", seen), **head))[0] == give
    assert [command.by for command in await commands(async_redis)] == ["ann"]


@pytest.mark.heavy
async def test_a_log_that_redis_lost_is_read_again(async_redis: Any, redis_url: str) -> None:
    await begin(async_redis, Command(op="stop", config="c1", by="ann", reason="before the loss"))
    async with http_service(redis_url) as service:
        assert "before the loss" in (await page(service, "/x/may"))[1]
        await async_redis.delete(STREAMS.experiment)
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: Begun(plan=plan(run="may")).encode()}, id="1-1")
        status, text, _ = await form(service, "/x/may/orders", order("stop", "c1", "1-1", reason="again"))
        assert status == 303, unescape(text)
        assert "before the loss" not in (await page(service, "/x/may"))[1]
