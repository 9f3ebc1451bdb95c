"""`ragtide demo`: every role on a Redis of its own, real questions, and traffic that gets worse half way."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from redis.asyncio import Redis
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_producers import InteractionProducer
from ragtide_roles.running import in_background
from ragtide_roles.serving import aggregate, work
from ragtide_runtime.cancellation import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Alert, AlertRule, Estimate, RagInteraction, utc_now

from .alert_views import alerts_view
from .common import JsonOption, err, out, print_json
from .screen import Screen
from .tables import estimates_table

PIPELINE = "demo"

HALF = 240
"""Interactions before, and again after, the traffic gets worse."""

PACE_PER_S = 16.0
"""Interactions a second at the visible pace."""

TIME_LIMIT_S = 50.0
"""Seconds after which the demo ends, whatever has happened."""

SHIFT = 7
"""After the change each question gets the answer of the question this many rows further on."""

RULES = (
    AlertRule(name="adherence-drift", kind="drift", metric="trace.adherence", learn_n=120),
    AlertRule(
        name="utilization-floor", kind="threshold", metric="trace.context_utilization", target=0.1, min_effect=0.0
    ),
)
"""Two alert rules: `drift` fires if a mean leaves its learned baseline, `threshold` if it is below a fixed floor."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo."""

    published: int
    scored: int
    dead_letters: int
    duration_s: float
    alerts: list[Alert]
    estimates: list[Estimate]
    data_dir: Path | None

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON fields."""
        return {
            "published": self.published,
            "scored": self.scored,
            "dead_letters": self.dead_letters,
            "duration_s": round(self.duration_s, 3),
            "alerts": [alert.model_dump(mode="json") for alert in self.alerts],
            "estimates": [estimate.model_dump(mode="json") for estimate in self.estimates],
            "data_dir": None if self.data_dir is None else str(self.data_dir),
        }


def run(*, fast: bool, keep: bool, live: bool, out: Console, err: Console) -> DemoResult:
    """Run the demo and return how it ended.

    Args:
        fast: publish without a pace, and draw nothing until the end.
        keep: leave Redis's data where they are and say where.
        live: draw for people; otherwise print nothing on `out`.
        out: where the tables go.
        err: where notes go.
    """
    data_dir = Path(tempfile.mkdtemp(prefix="ragtide-demo-"))
    try:
        with EmbeddedRedis.open(data_dir) as server:
            # The defaults, whatever this machine's environment says: a demo must not touch a real deployment.
            settings = Settings.model_construct(
                **{**_defaults(), "redis_url": server.url, "data_dir": data_dir, "alerts": RULES}
            )
            if live:
                out.print(Text.assemble(("ragtide demo", "bold cyan"), f" on {server.binary}"))
            result = asyncio.run(_run(settings, server.url, fast=fast, keep=keep, live=live, out=out))
    finally:
        if not keep:
            shutil.rmtree(data_dir, ignore_errors=True)
    if live:
        _summarize(result, out)
    if keep:
        err.print(
            f"Data kept. Look into them with: ragtide --data-dir {data_dir} estimates", highlight=False, soft_wrap=True
        )
    return result


def _defaults() -> dict[str, Any]:
    fields = Settings.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields}


def demo_interactions() -> list[RagInteraction]:
    """Return the bundled interactions; `data/ATTRIBUTION.md` says whose they are."""
    text = files("ragtide").joinpath("data", "demo_interactions.jsonl").read_text(encoding="utf-8")
    return [RagInteraction.model_validate_json(line) for line in text.splitlines() if line]


def traffic() -> Iterator[RagInteraction]:
    """Yield the demo's traffic: real answers, then every answer swapped with another question's."""
    rows = demo_interactions()
    for number in range(2 * HALF):
        row = rows[number % len(rows)]
        worse = number >= HALF
        changes: dict[str, Any] = {
            "interaction_id": f"demo-{number:04d}",
            "pipeline": PIPELINE,
            "occurred_at": utc_now(),
        }
        if worse:
            # Gold scores are about the real answer, so they do not go with a swapped one.
            changes |= {"response": rows[(number + SHIFT) % len(rows)].response, "gold_scores": {}}
        yield row.model_copy(update=changes)


async def _run(settings: Settings, url: str, *, fast: bool, keep: bool, live: bool, out: Console) -> DemoResult:
    started = time.monotonic()
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        redis = connect_async(url)
        stack.push_async_callback(redis.aclose)
        producer = await stack.enter_async_context(InteractionProducer(settings=settings))
        await stack.enter_async_context(
            in_background(work(settings, url, stop), aggregate(settings, url, stop), stop=stop)
        )
        screen = Screen(Deployment(redis, settings), keep=lambda estimate: estimate.segment is None)
        drawing = live and not fast and out.is_terminal
        async with _drawn(screen, out, wanted=drawing):
            published = 0
            for interaction in traffic():
                if live and not drawing and published in (0, HALF):
                    out.print(_phase(published))
                await producer.apublish(interaction)
                published += 1
                if not fast:
                    await asyncio.sleep(max(started + published / PACE_PER_S - time.monotonic(), 0.0))
            scored, dead = await _all_aggregated(redis, settings, screen, published, started + TIME_LIMIT_S)
        return DemoResult(
            published=published,
            scored=scored,
            dead_letters=dead,
            duration_s=time.monotonic() - started,
            alerts=list(screen.alerts),
            estimates=list(screen.estimates),
            data_dir=settings.data_dir if keep else None,
        )


async def _all_aggregated(
    redis: Redis, settings: Settings, screen: Screen, published: int, deadline: float
) -> tuple[int, int]:
    """Wait until every interaction is in the estimates or a dead letter; return how many are in which."""
    while True:
        await screen.refresh()
        dead = sum([await redis.xlen(streams.dead_letters) for streams in settings.layout.all()])
        counts = [e.n + e.n_absent for e in screen.estimates if e.segment is None and e.metric == "trace.adherence"]
        scored = max(counts, default=0)
        if scored + dead >= published or time.monotonic() > deadline:
            return scored, dead
        await asyncio.sleep(0.1)


@asynccontextmanager
async def _drawn(screen: Screen, out: Console, *, wanted: bool) -> AsyncIterator[None]:
    if not wanted:
        yield
        return
    with Live(console=out, auto_refresh=False) as live:

        async def draw() -> None:
            while True:
                await screen.refresh()
                counts = [e.n for e in screen.estimates if e.segment is None]
                live.update(Group(_phase(max(counts, default=0)), screen.render(out.width)), refresh=True)
                await asyncio.sleep(0.25)

        drawing = asyncio.create_task(draw())
        try:
            yield
        finally:
            await end(drawing)
            live.update(Text(), refresh=True)


def _phase(number: int) -> Text:
    if number < HALF:
        return Text("Real answers to real questions. Half way, answers will be swapped between questions.", "green")
    return Text("Answers are now swapped between questions: watch adherence.", "bold yellow")


def _summarize(result: DemoResult, out: Console) -> None:
    out.print(Rule("result", align="left"))
    out.print(estimates_table([e for e in result.estimates if e.segment is None], out.width))
    out.print()
    out.print(alerts_view(result.alerts))
    out.print(
        f"{result.published:,} interactions published, {result.scored:,} scored and aggregated, "
        f"{result.dead_letters:,} dead letters, in {result.duration_s:.1f} s.",
        highlight=False,
    )
    if not result.alerts:
        out.print(
            "No alert fired: that should not happen. Run it again with --keep and look with ragtide doctor.",
            style="red",
        )


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="As fast as it goes, without the live table.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data, to look into with the other commands.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run everything on a Redis of its own over real questions, until quality falls and an alert fires."""
    configure_logging("error")
    result = run(fast=fast, keep=keep, live=not as_json, out=out, err=err)
    if as_json:
        print_json(result.as_dict())
    if not result.alerts:
        raise typer.Exit(1)
