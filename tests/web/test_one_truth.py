"""Every number on two surfaces is equal: command line, page, HTTP, Prometheus, gates, for random deployments."""

import asyncio
import json
import re
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from tests.support.alerts import alert
from tests.support.http_service import http_service
from tests.support.in_process import run_command
from tests.support.metric_events import START, event
from tests.support.owners import owners
from tests.web.page.test_page import page

from ragtide import Deployment, MetricEvent
from ragtide.cli.printing.estimates import number_text
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings
from ragtide_schemas import Headline, JudgedScores, utc_now

METRICS = ("trace.adherence", "trace.context_relevance", "retrieval.match", "retrieval.empty", "average.of_mine")
RANGES = ((), ("--last", "6h"), ("--last", "7d"), ("--all-time",))


class RandomDeployment(NamedTuple):
    """A deployment that a seed decides: its settings, events and alerts."""

    settings: Settings
    events: list[MetricEvent]
    alerts: tuple[Any, ...]


def random_deployment(seed: int) -> RandomDeployment:
    """Pipelines with labelers, a cascade, segments, sessions, versions; some silent, some firing; history on or off."""
    random, now = Random(seed), utc_now().replace(microsecond=0)
    events: list[MetricEvent] = []
    alerts = []
    for name in [f"p{number}" for number in range(random.randint(1, 4))]:
        hours = random.choice([(30, 5), (5,), (90,), (0.5,), (200, 30, 2)])
        labelers = random.sample(["local", "nli", "own"], random.randint(1, 2))
        metrics = random.sample(METRICS, random.randint(1, 4))
        judged, sessions, segments = random.random() < 0.5, random.random() < 0.3, random.random() < 0.6
        for hours_ago in hours:
            level, version = random.uniform(0.1, 0.9), str(random.randint(1, 2))
            for number in range(random.choice([2, 40, 150])):
                scores = {metric: min(max(random.gauss(level, 0.2), 0.0), 1.0) for metric in metrics}
                more: dict[str, Any] = {"segments": {"lang": random.choice(["de", "en"]), "version": version}}
                if not segments:
                    more = {}
                if sessions:
                    more["session_id"] = f"{name}-{hours_ago}-{number // 3}"
                second = int((now - START - timedelta(hours=hours_ago)).total_seconds()) + number
                if judged and number % 2 == 0:
                    more["judged"] = JudgedScores(
                        labeler="judge",
                        labeler_version="m/1",
                        profile="ragbench",
                        scores={
                            metric: min(max(value + random.gauss(0, 0.1), 0), 1) for metric, value in scores.items()
                        },
                        inclusion_probability=0.5,
                        uniform=True,
                    )
                labeler = "local" if judged else random.choice(labelers)
                events.append(
                    event(
                        second, scores, interaction_id=f"{name}-{hours_ago}-{number}", pipeline=name, labeler=labeler,
                        labeled_at=now, **more,
                    )
                )  # fmt: skip
        if random.random() < 0.4:
            fields = {"metric": metrics[0], "began_at": now - timedelta(hours=1)}
            alerts.append(alert(f"A-{name}", pipeline=name, **fields))
    events.sort(key=lambda each: each.occurred_at)
    history = HistorySettings(enabled=random.random() < 0.8, segments=("lang", "version"))
    return RandomDeployment(Settings(history=history), events, tuple(alerts))


def numbers(headlines: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the numbers of headlines in JSON by what they are about."""
    fields = ("labeler", "estimator", "range", "n", "estimate", "lower", "upper", "state", "band")
    return {
        (each["pipeline"], each["segment"], each["metric"]): tuple(each[field] for field in fields)
        for each in headlines
    }


def dumped(headlines: list[Headline]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return numbers([each.model_dump(mode="json") for each in headlines])


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 30))])
async def test_every_surface_shows_the_same_numbers(
    seed: int,
    async_redis: Any,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings, events, alerts = random_deployment(seed)
    (owner,) = owners(async_redis, settings)
    for start in range(0, len(events), 100):
        await owner.commit(*events[start : start + 100], alerts=alerts if start == 0 else ())
    enabled = str(settings.history.enabled).lower()
    monkeypatch.setenv("RAGTIDE_HISTORY", f'{{"enabled": {enabled}, "segments": ["lang", "version"]}}')
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")

    async def printed(*arguments: str) -> str:
        done = await asyncio.to_thread(run_command, capsys, *arguments)
        assert done.code in (0, 4, 5), done
        return done.stdout

    deployment = Deployment(async_redis, settings)
    async with http_service(redis_url, history=settings.history) as service:
        for options in RANGES:
            name = {"--last": options[-1], "--all-time": "all"}[options[0]] if options else "default"
            found = await deployment.headlines(name, segments=True)
            shown = [each for each in found if each.segment is None]
            assert shown
            _, over_http = await service.get(f"/v1/headlines?last={name}&segments=true")
            assert numbers(over_http) == dumped(found)
            asked = options or ("--last", "24h")
            in_json = json.loads(await printed("estimates", *asked, "--segments", "--json"))
            explicit = found if options else await deployment.headlines("24h", segments=True)
            assert numbers(in_json) == dumped(explicit)
            assert {each["window"] for each in in_json} == {each.range for each in explicit}
            _in_table(await printed("estimates", *options, "--all"), shown)
            gated = json.loads(await printed("estimates", *options, "--json", "--fail-if", f"{shown[0].metric}.n < 0"))
            assert numbers(gated["estimates"]) == dumped(shown)
        for name in ("", "1h", "7d", "all"):
            found = await deployment.headlines(name or "default", segments=True)
            chosen = "&".join(f"metric={metric}" for metric in METRICS)
            _, fleet = await page(service, f"/?range={name}&{chosen}")
            _on_page(fleet, [each for each in found if each.segment is None])
            for pipeline in {each.pipeline for each in found}:
                _, text = await page(service, f"/p/{pipeline}?range={name}")
                mine = [each for each in found if each.pipeline == pipeline and each.segment is None]
                # A metric without a curve in the range, and without bands, has no panel.
                panels = {metric for _, metric in cells_of(text)}
                _on_page(text, [each for each in mine if each.metric in panels])
                assert "trace.adherence" in panels or not any(each.metric == "trace.adherence" for each in mine)
        now = [each for each in await deployment.headlines() if each.estimate is not None]
        _in_table(await printed("watch", "--once"), [each for each in now if not each.is_small])
        at_role_port, _ = await service.endpoints.metrics("")
        _, at_service = await service.get("/metrics")
        for scraped in (at_role_port, at_service):
            _in_prometheus(scraped.decode(), now)


class ShownNumber(NamedTuple):
    """A number as a screen shows it."""

    state: str
    estimate: str
    ends: tuple[str, ...]
    """Ends of the interval; none if it says nothing."""


def cells_of(text: str) -> dict[tuple[str, str], ShownNumber]:
    """Return the number of each cell of a page by pipeline and metric."""
    cells = re.findall(
        r'<div class="[^"]*cell" data-state="([^"]*)" data-key="([^"\n]*)\n([^"]*)"[^>]*>'
        r'<span class="value">([^<]*)</span>((?:(?!<div class="[^"]*cell").)*?)<span class="ends"[^>]*>([^<]*)</span>',
        text,
        flags=re.DOTALL,
    )
    assert len(cells) == len(re.findall(r'data-kind="cell"', text)), "each cell has its own interval"
    assert len(cells) == len({(pipeline, metric) for _, pipeline, metric, *_ in cells}), "no number stands there twice"
    return {
        (pipeline, metric): ShownNumber(state, value, tuple(re.findall(r"-?\d+\.\d+", ends)))
        for state, pipeline, metric, value, _, ends in cells
    }


def has_interval(headline: Headline) -> bool:
    """Return whether an interval is narrower than the range of its metric, from 0 to 1 for all of these."""
    return headline.lower is not None and headline.upper is not None and (headline.lower, headline.upper) != (0, 1)


def _on_page(text: str, headlines: list[Headline]) -> None:
    """Each headline with a number has it on a page, with its state, and with its interval if this says anything."""
    assert cells_of(text) == {
        (each.pipeline, each.metric): ShownNumber(
            each.state,
            f"{each.estimate:.3f}",
            (f"{each.lower:.3f}", f"{each.upper:.3f}") if has_interval(each) else (),
        )
        for each in headlines
        if each.estimate is not None
    }


def _in_table(screen: str, headlines: list[Headline]) -> None:
    """Each number stands in a row of its pipeline's part of a table, with n, and its interval if it says anything."""
    lines = screen.splitlines()
    for each in headlines:
        if each.estimate is None:
            continue
        begin = next(place for place, line in enumerate(lines) if line.startswith(f"{each.pipeline} · all"))
        rest = lines[begin + 1 :]
        own = rest[: next((place for place, line in enumerate(rest) if " · all · " in line), len(rest))]
        row = next(line for line in own if line.startswith(each.metric.removeprefix("trace.")))
        assert number_text(each.estimate) in row
        ends = [(number_text(each.lower), number_text(each.upper))] if has_interval(each) else []
        assert re.findall(r"(-?[\d.]+) to +(-?[\d.]+)", row) == ends
        assert f"{each.n:,}" in row.split()
        assert each.state in row
        if each.state == "firing":
            assert each.band is None


def _in_prometheus(text: str, headlines: list[Headline]) -> None:
    found = {
        (sample.name, sample.labels["pipeline"], sample.labels["metric"], sample.labels.get("range")): sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name.startswith("ragtide_headline") and sample.name != "ragtide_headline_state"
    }
    expected = {}
    for each in headlines:
        values = {"": each.estimate, "_lower": each.lower, "_upper": each.upper, "_n": float(each.n)}
        for end, value in values.items():
            if value is not None:
                expected[f"ragtide_headline{end}", each.pipeline, each.metric, each.range] = value
    assert {key: value for key, value in found.items() if key in expected} == expected
    states = {
        (sample.labels["pipeline"], sample.labels["metric"]): sample.labels["state"]
        for family in parse(text)
        for sample in family.samples
        if sample.name == "ragtide_headline_state"
    }
    assert {(each.pipeline, each.metric): each.state for each in headlines}.items() <= states.items()
