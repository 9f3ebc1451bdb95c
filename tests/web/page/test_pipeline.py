"""The pipeline: bands, marks, segments, another pipeline, and foreign text."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.aggregator.test_cascade_headlines import SETTINGS as SEGMENTS
from tests.aggregator.test_cascade_headlines import commit as judged_commit
from tests.aggregator.test_cascade_headlines import of_cascade, world
from tests.support.alerts import alert
from tests.support.http_service import http_service
from tests.support.metric_events import beta, event
from tests.support.owners import Owner, owners
from tests.web.page.test_page import BROWSER, SCRIPT, TOKENS, page

from ragtide import Deployment
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import MetricEvent, utc_now
from ragtide_schemas.step_metrics import ToolMetric, tool_declaration

SETTINGS = Settings(history=HistorySettings(segments=("version",)), lease_s=600)


def traffic(pipeline: str = "shop", first: int = 0, mean: float = 0.8, **segments: str) -> list[MetricEvent]:
    """Return a value a minute of the last five hours."""
    began = utc_now() - timedelta(hours=5)
    found = []
    for number, value in enumerate(beta(mean, 300, first)):
        at = began + timedelta(minutes=number)
        version = segments.get("version", "1" if number < 150 else "2")
        found.append(
            event(
                first + number,
                {"trace.adherence": float(value), "trace.context_relevance": 0.5},
                interaction_id=f"{pipeline[:20]}-{first + number}",
                pipeline=pipeline,
                occurred_at=at,
                labeled_at=at,
                segments={**segments, "version": version},
            )
        )
    return found


async def commit(redis: Any, *events: MetricEvent, alerts: tuple[Any, ...] = ()) -> Owner:
    """Commit the first step of a deployment that keeps a history, and return its owner."""
    (owner,) = owners(redis, SETTINGS)
    owner.state = AggregatorState(state_options(SETTINGS))
    await owner.commit(*events, alerts=alerts)
    return owner


async def test_bands_marks_segments_and_numbers(async_redis: Any, redis_url: str) -> None:
    fired = alert(
        "A-1",
        metric="trace.adherence",
        fired_at=utc_now() - timedelta(hours=1),
        began_at=utc_now() - timedelta(hours=2),
    )
    await commit(async_redis, *traffic(lang="de"), alerts=(fired,))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        status, text = await page(service, "/p/shop?range=24h")
        assert status == 200
        assert text.count('class="chart"') == 2
        assert text.count("data-point=") > 10
        assert 'class="mark fired"' in text
        assert 'class="mark began"' in text
        assert 'class="mark deploy"' in text
        assert "version=2" in text
        assert "lang=de" in text
        assert "acceptable" in text
        assert "labeling.latency_s" in text
        _, narrow = await page(service, "/p/shop?range=1h")
        assert 0 < narrow.count("data-point=") < text.count("data-point=")
        before = (utc_now() - timedelta(days=3)).isoformat().replace("+00:00", "Z")
        after = (utc_now() - timedelta(days=2)).isoformat().replace("+00:00", "Z")
        _, empty = await page(service, f"/p/shop?start={before}&end={after}")
        assert "There is no value in this range." in empty


def runs(tools: Mapping[str, float]) -> list[MetricEvent]:
    """Return runs of an agent that call each tool twice, of whose calls a share is used; `rare` in every tenth run."""
    events = []
    for place, found in enumerate(traffic()):
        numbers: dict[ToolMetric, float] = {}
        for name, used in tools.items():
            if name != "rare" or place % 10 == 0:
                numbers |= {ToolMetric(name, "calls"): 2.0, ToolMetric(name, "failed"): 0.0}
                numbers |= {ToolMetric(name, "used"): used, ToolMetric(name, "wasted"): 1 - used}
        scores = {**found.scores, "agent.calls": 2.0 * len(tools)}
        scores |= {key.name: value for key, value in numbers.items()}
        declared = {key.name: tool_declaration(key) for key in numbers}
        events.append(found.model_copy(update={"scores": scores, "declared": declared}))
    return events


async def test_tools_have_a_table_and_no_panel_while_they_are_steady(async_redis: Any, redis_url: str) -> None:
    fired = alert("A-1", metric="tool.search.used", fired_at=utc_now() - timedelta(hours=1))
    await commit(
        async_redis, *runs({"search": 0.7, "orders": 0.2, "rare": 0.5}), *traffic("bank", 1000), alerts=(fired,)
    )
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
        _, without = await page(service, "/p/bank")
    table = text.partition('id="tools"')[2].partition("</tbody>")[0]
    rows = {row.partition('class="name">')[2].partition("<")[0]: row for row in table.split("<tr>")[1:]}
    assert list(rows) == ["orders", "search", "rare"], "the most called first"
    calls = {name: re.findall(r'data-label="calls a run">([0-9.]+)<', row) for name, row in rows.items()}
    assert calls == {"orders": ["2.00"], "search": ["2.00"], "rare": ["0.20"]}
    assert 'data-state="firing"' in rows["search"]
    assert 'href="/a/A-1"' in rows["search"]
    assert "/a/A-1" not in rows["orders"]
    assert re.findall(r'<span class="value">([0-9.]+)<', rows["orders"]) == ["0.200", "0.000", "0.800"]
    panels = re.findall(r'<h2 id="m-\d+" title="([^"]+)"', text)
    assert [metric for metric in panels if metric.startswith("tool.")] == ["tool.search.used"]
    assert 'id="tools"' not in without


async def test_thumbs_say_how_many_answers_they_are_of(async_redis: Any, redis_url: str) -> None:
    answers = [
        one.model_copy(
            update={
                "scores": {**one.scores, "response.empty": 0.0},
                "gold_scores": {"feedback.positive": float(number % 20 > 0)} if number % 10 == 0 else {},
            }
        )
        for number, one in enumerate(traffic())
    ]
    await commit(async_redis, *answers)
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop?range=24h")
        assert text.count("30 thumbs of 300 answers (10.0%)") >= 1
        _, headlines = await service.get("/v1/headlines?last=24h")
        (number,) = [one for one in headlines if one["metric"] == "feedback.positive"]
        assert (number["n"], number["n_absent"], number["coverage"]) == (30, 270, 0.1)


async def test_two_pipelines_are_compared(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic(), *traffic("bank", 1000, 0.4))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop?vs=bank")
        assert 'id="compared"' in text
        assert "+0." in text
        assert "higher" in text
        _, unknown = await page(service, "/p/shop?vs=none")
        assert "No metric was measured in the same way in both pipelines." in unknown


async def test_a_pipeline_that_a_viewer_may_not_see_is_unknown(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic("shop-de"), *traffic("bank", 1000))
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        token = {"Authorization": "Bearer viewer-0123456789"}
        assert (await page(service, "/p/shop-de", **token))[0] == 200
        hidden, unknown = await page(service, "/p/bank", **token), await page(service, "/p/none", **token)
        assert (hidden[0], unknown[0]) == (404, 404)
        assert hidden[1].replace("bank", "none") == unknown[1]
        _, text = await page(service, "/p/shop-de?vs=bank", **token)
        assert "+0." not in text
        assert ">bank<" not in text


async def test_names_are_data(async_redis: Any, redis_url: str) -> None:
    names = [f"a/b {SCRIPT}", "what?#&%2F", "точка", "q\"u'o"]
    await commit(
        async_redis, *(one for place, name in enumerate(names) for one in traffic(name, 1000 * place, lang=SCRIPT)[:20])
    )
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, fleet = await page(service)
        assert fleet.count('href="/p/') == len(names)
        for path in [part.partition('"')[0] for part in fleet.split('href="')[1:] if part.startswith("/p/")]:
            async with service.session.get(service.url + path.replace("&amp;", "&"), headers=BROWSER) as reply:
                text = await reply.text()
                assert reply.status == 200, path
                assert "<script>alert" not in text


async def test_without_a_history_the_page_says_so(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic())
    async with http_service(redis_url, history=HistorySettings(enabled=False)) as service:
        _, text = await page(service, "/p/shop")
        assert "The history is off" in text


async def test_quality_per_dollar_and_per_second_by_version(async_redis: Any, redis_url: str) -> None:
    events = []
    for found in traffic():
        cheap = found.segments["version"] == "2"
        scores = {**found.scores, "answer.cost_usd": 0.1 if cheap else 0.4, "answer.latency_s": 2.0}
        events.append(found.model_copy(update={"scores": scores}))
    await commit(async_redis, *events)
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
    table = text.partition('id="uses"')[2].partition("</table>")[0]
    rows = [
        [cell.split("<")[0] for cell in row.split(">") if cell.split("<")[0].strip()] for row in table.split("<tr")[1:]
    ]
    by_version = {row[0]: row for row in rows}
    assert by_version.keys() == {"all", "1", "2"}
    # Adherence is about 0.8: 8 per dollar at 10 cents, 2 at 40 cents; 0.4 per second.
    assert 7 < float(by_version["2"][4]) < 9
    assert 1.7 < float(by_version["1"][4]) < 2.3
    assert "at least 90.0%" in text


async def test_without_cost_and_latency_there_is_no_panel_of_them(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic())
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
    assert "uses-title" not in text


async def test_the_latency_of_answers_has_its_quantiles_and_a_target_of_a_quantile_is_none_of_the_mean(
    async_redis: Any, redis_url: str
) -> None:
    events = [
        found.model_copy(update={"scores": {**found.scores, "answer.latency_s": 1.0 if place % 10 else 9.0}})
        for place, found in enumerate(traffic())
    ]
    await commit(async_redis, *events)
    for quantile, drawn in ((0.95, 0), (None, 1)):
        rule = {"name": "slow", "kind": "threshold", "metric": "answer.latency_s", "target": 2.0, "run_length": 1000}
        rules = [rule if quantile is None else rule | {"quantile": quantile}]
        async with http_service(redis_url, history=SETTINGS.history, alerts=rules) as service:
            _, text = await page(service, "/p/shop")
        panel = text.partition('id="m-')[2].partition('title="answer.latency_s"')[2].partition("</section>")[0]
        shown = re.search(r"p50 ([0-9.]+) · p95 ([0-9.]+)", panel)
        assert shown is not None
        assert [float(value) for value in shown.groups()] == pytest.approx([1.0, 9.0], rel=0.03)
        assert panel.count('class="target"') == drawn, quantile
        assert "p50" not in text.partition('title="trace.adherence"')[2].partition("</section>")[0]


async def test_parts_are_drawn_beside_their_whole_only_by_the_same_labeler(async_redis: Any, redis_url: str) -> None:
    """While the judge has a number of the pipeline and none of its parts, no local number stands in its column."""
    answers = world(0, 1_500)
    judged = [place for place, answer in enumerate(answers) if answer.judged]
    (owner,) = owners(async_redis, SEGMENTS)
    await judged_commit(owner, answers[: judged[65] + 1], of_cascade)
    async with http_service(redis_url, history=SEGMENTS.history) as service:
        for _ in range(2):
            found = await Deployment(async_redis, SEGMENTS).headlines(pipeline="shop", segments=True)
            whole, *parts = found
            assert whole.labeler == "judge"
            _, text = await page(service, "/p/shop")
            rows = re.findall(r'<th scope="row" class="name">(lang=..)</th>(.*?)</tr>', text, flags=re.DOTALL)
            assert {name: 'class="cell"' in row for name, row in rows} == {
                part.segment: part.labeler == "judge" for part in parts
            }
            assert all(part.labeler in row or part.labeler == "judge" for part in parts for _, row in rows)
            await judged_commit(owner, answers[judged[65] + 1 :], of_cascade, first=judged[65] + 1)
        assert {part.labeler for part in parts} == {"judge"}
