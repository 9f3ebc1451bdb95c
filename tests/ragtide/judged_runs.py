"""Experiments written to a real Redis and judged by the real racer, without calling anything."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ragtide_offline.experiments.driver import RaceRunner
from ragtide_offline.experiments.execution_log import ExecutionLog
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.workspaces import register_workspace, settings_of_workspace
from ragtide_schemas import MetricEvent, RagInteraction, Workspace
from ragtide_schemas.experiments import (
    Begun,
    Command,
    Completed,
    Config,
    Execution,
    Look,
    Plan,
    RaceOptions,
    decode_entry,
)

METRIC = "trace.adherence"
NASTY = '<script>alert("x")</script> | **bold** & `code`'


def plan_of(run: str, configs: Sequence[str], **more: Any) -> Plan:
    """Return a plan of 120 items with configs whose parameter `quality` is their name."""
    fields: dict[str, Any] = {
        "run": run,
        "target": "shop:answer",
        "data": "questions.jsonl",
        "data_digest": "d1",
        "population_size": 120,
        "order_digest": "o1",
        "configs": [
            Config(name=name, parameters={"top_k": 2 + place, "style": ("short", "long")[place % 2]})
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


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment whose configs are all run on the first items.

    The call of the first config to the second item fails; the third item is bad for all, and holds markup.
    """

    plan: Plan
    means: Mapping[str, float]
    """Mean score of each config."""
    orders: Sequence[Command] = ()
    """Given at the beginning."""
    items: int = 120
    """How many items are run."""
    item_ids: Sequence[str] = ()
    """Ids of the items in the order in which they are run; q0, q1, ... unless given."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Dollars of a call by config."""
    own: Mapping[str, float] = field(default_factory=dict)
    """The experiment's own metrics: so many times the score."""
    labeler: str = "test"
    seed: int = 1

    def item_id(self, place: int) -> str:
        """Return the id of an item."""
        return self.item_ids[place] if self.item_ids else f"q{place}"

    @property
    def looked(self) -> int:
        """Items that the racer can look at."""
        whole = self.items >= self.plan.population_size
        return self.items if whole else self.items - self.items % self.plan.race.look_every


_written: dict[str, dict[bytes, tuple[bytes, int]]] = {}
"""The keys of experiments that were written into an empty Redis, each with its value and the rest of its time."""


def write_experiment(redis_url: str, run: Run) -> None:
    """Write an experiment, and let the racer judge it; what was written once is copied into an empty Redis."""
    with connect(redis_url) as redis:
        empty = redis.dbsize() == 0
        if empty and (known := _written.get(repr(run))):
            for key, (value, left_ms) in known.items():
                redis.restore(key, left_ms, value)
            return
        asyncio.run(_write(redis_url, run))
        if empty:
            _written[repr(run)] = {
                key: (redis.dump(key), max(redis.pttl(key), 0)) for key in cast("list[bytes]", redis.keys())
            }


async def _write(redis_url: str, run: Run) -> None:
    settings, plan = settings_for(redis_url), run.plan
    streams = settings_of_workspace(settings, plan.run).layout.all()[0]
    async with connect_async(redis_url) as redis:
        info = Workspace(run=plan.run, kind="experiment", source=plan.data, population_size=plan.population_size)
        await register_workspace(redis, settings, info)
        await redis.xadd(streams.experiment, {DATA_FIELD: Begun(plan=plan).encode()})
        for order in run.orders:
            await redis.xadd(streams.experiment, {DATA_FIELD: order.encode()})
        ledger = ExecutionLog(redis, streams, dedupe_window_s=60)
        rng = np.random.default_rng(run.seed)
        # By item id, so that an item is as hard in another run.
        hardness = {
            run.item_id(place): 0.1 * np.random.default_rng([9, *run.item_id(place).encode()]).normal()
            for place in range(run.items)
        }
        for config, mean in run.means.items():
            for place in range(run.items):
                score = float(np.clip(mean + hardness[run.item_id(place)] + rng.normal(0, 0.05), 0, 1))
                if event := await _answer(ledger, run, config, place, score=0.01 if place == 2 else score):
                    await redis.xadd(streams.metrics, {DATA_FIELD: event.encode()})
        await asyncio.wait_for(_judge(redis, streams, run), 120)


async def _answer(ledger: ExecutionLog, run: Run, config: str, place: int, *, score: float) -> MetricEvent | None:
    failed = place == 1 and config == run.plan.configs[0].name
    interaction = RagInteraction.from_fields(
        {
            "interaction_id": f"item-{place}",
            "pipeline": config,
            "question": f"Question {run.item_id(place)}? {NASTY if place == 2 else ''}",
            "documents": ["A document."],
            "response": f"{config} answers {run.item_id(place)}. {NASTY if place == 2 else ''}",
            "reference_answer": f"Reference {run.item_id(place)}",
            "run": run.plan.run,
            "population_size": run.plan.population_size,
        }
    )
    execution = Execution(
        config=config,
        item=place,
        item_id=run.item_id(place),
        interaction_id=None if failed else interaction.interaction_id,
        failure="503 from the <model>" if failed else None,
        latency_s=0.1 + 0.01 * place,
        cost_usd=run.cost.get(config, 0.0),
        tokens=10,
    )
    await ledger.write(execution, None if failed else interaction)
    if failed:
        return None
    return MetricEvent(
        interaction_id=interaction.interaction_id,
        pipeline=config,
        occurred_at=interaction.occurred_at,
        labeled_at=interaction.occurred_at,
        labeler=run.labeler,
        labeler_version="1",
        profile="ragbench",
        run=run.plan.run,
        scores={
            METRIC: score,
            "trace.context_relevance": score / 2,
            **{name: score * factor for name, factor in run.own.items()},
        },
    )


async def _judge(redis: Any, streams: Streams, run: Run) -> None:
    """Let the racer look at all there is."""
    stop = asyncio.Event()
    racer = RaceRunner(redis, streams)
    judging = asyncio.create_task(racer.run(stop))
    while not judging.done() and not await _is_through(redis, streams, run):  # noqa: ASYNC110 - in Redis, not here
        await asyncio.sleep(0.01)
    stop.set()
    await judging


async def _is_through(redis: Any, streams: Streams, run: Run) -> bool:
    (_, fields), *_ = await redis.xrevrange(streams.experiment, count=1)
    written = decode_entry(fields[DATA_FIELD])
    if run.items >= run.plan.population_size:
        return isinstance(written, Completed)
    looks = [decode_entry(fields[DATA_FIELD]) for _, fields in await redis.xrange(streams.experiment)]
    return not run.looked or any(isinstance(look, Look) and look.item >= run.looked for look in looks)
