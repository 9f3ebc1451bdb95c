"""The demo: runs all roles in this process, with traffic whose answers get worse half way, until an alert fires."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_producers import InteractionProducer
from ragtide_roles.running import in_background
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.bundled_data import bundled
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule, Estimate, RagInteraction, utc_now

PIPELINE: Final = "demo"

HALF: Final = 240
"""Number of interactions before the traffic gets worse, and again after it."""

PACE_PER_S: Final = 16.0
"""Interactions a second at the visible pace."""

STALLED_S: Final = 60.0
"""Seconds without a newly scored interaction after which the demo ends; a slow machine takes longer, and finishes."""

SHIFT: Final = 7
"""After the change each question gets the answer of the question that is this number of rows further on."""

RULES: Final = (
    AlertRule(name="adherence-drift", kind="drift", metric="trace.adherence", learn_n=120),
    AlertRule(
        name="utilization-floor", kind="threshold", metric="trace.context_utilization", target=0.1, min_effect=0.0
    ),
)
"""The demo's own rules: `drift` fires if a mean leaves its learned baseline, `threshold` if it is below a target."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo."""

    published: int
    scored: int
    dead_letters: int
    duration_s: float
    first_alert_s: float | None
    """Seconds from the start until the first alert was in its stream; None if none fired."""
    alerts: list[Alert]
    estimates: list[Estimate]
    """Estimates of the whole pipeline, without segments."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON fields."""
        return {
            "published": self.published,
            "scored": self.scored,
            "dead_letters": self.dead_letters,
            "duration_s": round(self.duration_s, 3),
            "first_alert_s": None if self.first_alert_s is None else round(self.first_alert_s, 3),
            "alerts": [alert.model_dump(mode="json") for alert in self.alerts],
            "estimates": [estimate.model_dump(mode="json") for estimate in self.estimates],
        }


def demo_settings(redis_url: str, data_dir: Path) -> Settings:
    """Return the default settings with the demo's rules, and the default rules of other metrics.

    The environment of this machine is ignored, because the demo must not touch a real deployment.
    """
    defaults = {name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
    watched = {rule.metric for rule in RULES}
    rules = (*RULES, *(rule for rule in DEFAULT_RULES if rule.metric not in watched))
    return Settings.model_construct(**{**defaults, "redis_url": redis_url, "data_dir": data_dir, "alerts": rules})


def demo_interactions() -> list[RagInteraction]:
    """Return the bundled interactions; `data/ATTRIBUTION.md` names their sources."""
    text = bundled(Path(__file__).with_name("data") / "demo_interactions.jsonl").read_text(encoding="utf-8")
    return [RagInteraction.model_validate_json(line) for line in text.splitlines() if line]


def traffic() -> Iterator[RagInteraction]:
    """Yield the demo's traffic: real answers, then every answer swapped with another question's."""
    rows = demo_interactions()
    for number in range(2 * HALF):
        row = rows[number % len(rows)]
        changes: dict[str, Any] = {
            "interaction_id": f"demo-{number:04d}",
            "pipeline": PIPELINE,
            "occurred_at": utc_now(),
        }
        if number >= HALF:
            # Gold scores are about the real answer, so a swapped answer has none.
            changes |= {"response": rows[(number + SHIFT) % len(rows)].response, "gold_scores": {}}
        yield row.model_copy(update=changes)


async def run_demo(
    settings: Settings,
    *,
    paced: bool,
    publishing: Callable[[int], None] = lambda _: None,
    finished: Callable[[DemoResult], Awaitable[None]] | None = None,
) -> DemoResult:
    """Run the demo, and return its result.

    Args:
        settings: of a Redis of its own.
        paced: whether interactions come at a visible pace, instead of as fast as possible.
        publishing: called with the number of each interaction before it is published.
        finished: awaited with the result while the roles still run.
    """
    assert settings.redis_url is not None  # noqa: S101 - for the type checker: `demo_settings` sets it
    started = time.monotonic()
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        redis = connect_async(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        producer = await stack.enter_async_context(InteractionProducer(settings=settings, sample=1.0))
        roles = work(settings, settings.redis_url, stop), aggregate(settings, settings.redis_url, stop)
        await stack.enter_async_context(in_background(*roles, stop=stop))
        published = 0
        for interaction in traffic():
            publishing(published)
            await producer.apublish(interaction)
            published += 1
            if paced:
                await asyncio.sleep(max(started + published / PACE_PER_S - time.monotonic(), 0.0))
        result = await _wait_for_result(redis, settings, published, started)
        if finished is not None:
            await finished(result)
        return result


async def _wait_for_result(redis: Redis, settings: Settings, published: int, started: float) -> DemoResult:
    deployment = Deployment(redis, settings)
    last, moved = -1, time.monotonic()
    while True:
        estimates = chosen(await deployment.estimates(windows=False))
        estimates = [estimate for estimate in estimates if estimate.segment is None]
        dead = sum(backlog.lengths["dead_letters"] for backlog in await deployment.backlog())
        counts = [estimate.n + estimate.n_absent for estimate in estimates if estimate.metric == "trace.adherence"]
        scored = max(counts, default=0)
        now = time.monotonic()
        if scored + dead > last:
            last, moved = scored + dead, now
        if scored + dead >= published or now - moved > STALLED_S:
            first_alert_s = None
            entries: Any = await redis.xrange(Streams(settings.prefix, 0).alerts, count=1)
            if entries:
                at_ms, _ = order(entries[0][0].decode())
                first_alert_s = at_ms / 1000 - (time.time() - (time.monotonic() - started))
            alerts = await deployment.alerts()
            return DemoResult(published, scored, dead, now - started, first_alert_s, alerts, estimates)
        await asyncio.sleep(0.1)
