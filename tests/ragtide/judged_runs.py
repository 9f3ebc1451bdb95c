"""Experiments written to a real Redis and judged by the real racer, without calling anything."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragtide_aggregator.experiments.racer import Racer
from ragtide_producers.experiments.ledger import Ledger
from ragtide_runtime.connection import connect_async
from ragtide_runtime.runs import register_run, settings_of_run
from ragtide_runtime.settings import Settings, load_settings
from ragtide_schemas import DATA_FIELD, MetricEvent, RagInteraction, RunInfo, Streams
from ragtide_schemas.experiments import Begun, Config, Execution, Order, Plan, RaceOptions

METRIC = "trace.adherence"
NASTY = '<script>alert("x")</script> | **bold** & `code`'


def plan_of(run: str, configs: Sequence[str], **more: Any) -> Plan:
    """Return a plan of 120 items with configs whose knob `quality` is their name."""
    fields: dict[str, Any] = {
        "run": run,
        "target": "shop:answer",
        "data": "questions.jsonl",
        "data_digest": "d1",
        "population_size": 120,
        "order_digest": "o1",
        "configs": [
            Config(name=name, knobs={"top_k": 2 + place, "style": ("short", "long")[place % 2]})
            for place, name in enumerate(configs)
        ],
        "metric": METRIC,
        "race": RaceOptions(margin=0.02, look_every=10),
        "labeler": "test",
    }
    return Plan.model_validate(fields | more)


def settings_for(redis_url: str) -> Settings:
    """Return settings of a deployment on this Redis."""
    return load_settings(redis_url=redis_url)


def write_experiment(
    redis_url: str,
    plan: Plan,
    means: Mapping[str, float],
    *,
    orders: Sequence[Order] = (),
    items: int | None = None,
    spread: float = 0.05,
    item_ids: Sequence[str] | None = None,
    seed: int = 1,
    cost: Mapping[str, float] | None = None,
    labeler: str = "test",
) -> None:
    """Write an experiment whose configs were all run on the first items, and let the racer judge it.

    The second item of the first config fails; the third item is bad for all; the fourth holds markup.
    """
    asyncio.run(
        _write(
            redis_url, plan, means, list(orders), items or plan.population_size, spread, item_ids, seed, cost, labeler
        )
    )


async def _write(
    redis_url: str,
    plan: Plan,
    means: Mapping[str, float],
    orders: list[Order],
    items: int,
    spread: float,
    item_ids: Sequence[str] | None,
    seed: int,
    cost: Mapping[str, float] | None,
    labeler: str,
) -> None:
    settings = settings_for(redis_url)
    streams: Streams = settings_of_run(settings, plan.run).layout.all()[0]
    async with connect_async(redis_url) as redis:
        info = RunInfo(run=plan.run, kind="experiment", source=plan.data, population_size=plan.population_size)
        await register_run(redis, settings, info)
        await redis.xadd(streams.experiment, {DATA_FIELD: Begun(plan=plan).encode()})
        for order in orders:
            await redis.xadd(streams.experiment, {DATA_FIELD: order.encode()})
        ledger = Ledger(redis, streams, dedupe_window_s=60)
        rng = np.random.default_rng(seed)
        hardness = rng.normal(0, 0.1, plan.population_size)
        for config, mean in means.items():
            for place in range(items):
                price = (cost or {}).get(config, 0.0)
                item_id = item_ids[place] if item_ids is not None else f"q{place}"
                score = float(np.clip(mean + hardness[place] + rng.normal(0, spread), 0, 1))
                await _write_one(redis, streams, ledger, plan, config, place, item_id, score, price, labeler)
        await asyncio.wait_for(_judge(redis, streams, items, plan), 60)


async def _write_one(
    redis: Any, streams: Streams, ledger: Ledger, plan: Plan, config: str, place: int, item_id: str, score: float,
    price: float, labeler: str,
) -> None:  # fmt: skip
    failed = place == 1 and config == plan.configs[0].name
    interaction = RagInteraction(
        interaction_id=f"item-{place}",
        pipeline=config,
        question=f"Question {place}? {NASTY if place == 2 else ''}",
        documents=("A document.",),  # type: ignore[arg-type]
        response=f"{config} answers {item_id}. {NASTY if place == 2 else ''}",
        reference_answer=f"Reference {item_id}",
        run=plan.run,
        population_size=plan.population_size,
    )
    execution = Execution(
        config=config,
        item=place,
        item_id=item_id,
        interaction_id=None if failed else interaction.interaction_id,
        failure="503 from the <model>" if failed else None,
        latency_s=0.1 + 0.01 * place,
        cost_usd=price,
        tokens=10,
    )
    await ledger.write(execution, None if failed else interaction)
    if failed:
        return
    event = MetricEvent(
        interaction_id=interaction.interaction_id,
        pipeline=config,
        occurred_at=interaction.occurred_at,
        labeled_at=interaction.occurred_at,
        labeler=labeler,
        labeler_version="1",
        profile="ragbench",
        run=plan.run,
        scores={METRIC: 0.01 if place == 2 else score, "trace.context_relevance": score / 2},
    )
    await redis.xadd(streams.metrics, {DATA_FIELD: event.encode()})


async def _judge(redis: Any, streams: Streams, items: int, plan: Plan) -> None:
    """Let the racer look at all there is."""
    stop = asyncio.Event()
    racer = Racer(redis, streams)
    running = asyncio.create_task(racer.run(stop))
    whole = items - items % plan.race.look_every if items < plan.population_size else items
    try:
        while not running.done() and not _is_through(racer, whole):
            await asyncio.sleep(0.01)
    finally:
        stop.set()
        await running


def _is_through(racer: Racer, items: int) -> bool:
    try:
        progress = racer.reader.progress
    except Exception:  # noqa: BLE001 - it has not read the beginning
        return False
    return progress.looked >= items and (items < progress.plan.population_size or progress.completed)
