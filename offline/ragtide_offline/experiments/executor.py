"""The executor of an experiment: calls configs on items as the log says, and writes what became of each, once.

It keeps nothing that is not in Redis: one that was killed is replaced by another that reads log and ledger. What was
being called at that moment is called again; what was written is not.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any, Final

import structlog
from redis import RedisError
from redis.asyncio import Redis
from tenacity import AsyncRetrying, retry_if_not_exception_type, stop_after_attempt, wait_random_exponential

from ragtide_producers.files.items import Item
from ragtide_runtime.cancellation import end
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import START, read_after
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.waiting import Backoff
from ragtide_schemas import InvalidEntryError, MetricEvent, RagInteraction
from ragtide_schemas.experiments import Config, Execution, Halted, Plan, Progress, decode_entry
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, TOKENS_MAX
from ragtide_schemas.printable import printable

from .answers import Answer, interaction_id_of, interaction_of
from .errors import AnswerError, ExperimentError, MeasureError
from .failing import Failing
from .ledger import Ledger, Pair
from .measuring import Measure, measured
from .schedule import Bounds, Schedule
from .spent import Spent
from .targets import Target

FIRST_PAUSE_S = 0.2
"""Most seconds before the second try of a call; doubled each time."""

LONGEST_PAUSE_S = 10.0
"""Most seconds between two tries."""

POLL_MS = 500
"""Milliseconds one read of the log waits."""

AT_ONCE: Final = 1000
"""Entries read at once."""

FAILURE_CHARS: Final = 300
"""Characters of a failure that are kept."""

log = structlog.get_logger("ragtide.experiment")


class Executor:
    """Executes one experiment until it is complete, halted, or told to stop.

    Args:
        redis: where the experiment is.
        streams: keys of its run.
        items: in the order in which they are run.
        target: what answers.
        measure: the experiment's own metrics.
        dedupe_window_s: seconds for which workers know an answer's id.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        items: list[Item],
        target: Target,
        *,
        measure: Measure | None = None,
        dedupe_window_s: float = 86_400.0,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._items = items
        self._target = target
        self._measure = measure
        self._ledger = Ledger(redis, streams, dedupe_window_s=dedupe_window_s)
        self._calls: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Event()
        self._spent = Spent()
        self._answered: dict[tuple[str, int], str] = {}
        self._halting = False
        self._failing = Failing(0)
        self._fault: MeasureError | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Execute until the log says that the experiment is complete or halted, or until told to stop.

        Raises:
            ExperimentError: there is no experiment, its items are others, or its own metrics are not as declared.
            redis.RedisError: Redis failed at the beginning.
        """
        positions = {self._streams.experiment: START, self._streams.metrics: START}
        progress: Progress | None = None
        while (found := await read_after(self._redis, positions, count=AT_ONCE, block_ms=None)) or progress is None:
            progress = self._take(dict(found), positions, progress)
            if progress is None:
                raise ExperimentError("there is no experiment in this run: begin one")
        self._check(progress.plan)
        self._failing = Failing(progress.plan.same_failures)
        executions = await self._ledger.read()
        for execution in executions:
            self._ended(progress, execution)
        plan = progress.plan
        schedule = Schedule(
            {(execution.config, execution.item) for execution in executions},
            Bounds(plan.concurrency, plan.concurrency_per_config),
        )
        following = asyncio.create_task(self._follow(progress, positions))
        stopping = asyncio.create_task(stop.wait())
        try:
            while not (stop.is_set() or progress.completed or (progress.halted and not schedule.going)):
                self._turn.clear()
                await self._mind_failures(progress)
                await self._mind_limits(progress)
                self._begin_calls(progress, schedule)
                turn = asyncio.create_task(self._turn.wait())
                await asyncio.wait({turn, stopping, following}, return_when=asyncio.FIRST_COMPLETED)
                await end(turn)
                if following.done():
                    following.result()
                if self._fault is not None:
                    raise self._fault
        finally:
            await end(following)
            await end(stopping)
            for call in list(self._calls):
                await end(call)

    def _check(self, plan: Plan) -> None:
        if len(self._items) != plan.population_size:
            raise ExperimentError(
                f"the experiment has {plan.population_size} items and {len(self._items)} were given: give the same data"
            )

    def _take(
        self, found: Mapping[str, list[Any]], positions: dict[str, str], progress: Progress | None
    ) -> Progress | None:
        for entry in found.get(self._streams.experiment, []):
            positions[self._streams.experiment] = entry.entry_id
            try:
                written = decode_entry(entry.fields[DATA_FIELD])
                if progress is None:
                    progress = Progress.begin(written)
                    continue
                refusal = progress.apply(written)
            except (InvalidEntryError, ValueError, KeyError) as error:
                refusal = str(error)
            if refusal is not None:
                log.info("an entry of the log changes nothing", entry_id=entry.entry_id, reason=refusal)
        for entry in found.get(self._streams.metrics, []):
            positions[self._streams.metrics] = entry.entry_id
            with suppress(InvalidEntryError, KeyError):  # the aggregator says what is wrong with it
                event = MetricEvent.decode(entry.fields[DATA_FIELD])
                self._spent.add(event.cost_usd, event.prompt_tokens + event.completion_tokens)
        return progress

    async def _follow(self, progress: Progress, positions: dict[str, str]) -> None:
        reading = redis_outage(self._redis).attempt("reading the log of the experiment")
        backoff = Backoff()
        while True:
            try:
                found = dict(await read_after(self._redis, positions, count=AT_ONCE, block_ms=POLL_MS))
            except RedisError as error:
                reading.failed(error)
                await asyncio.sleep(backoff.pause_s())
                continue
            reading.succeeded()
            backoff.succeeded()
            if found:
                halted = progress.halted
                self._take(found, positions, progress)
                if halted and not progress.halted:
                    self._halting = False
                self._turn.set()

    def _begin_calls(self, progress: Progress, schedule: Schedule) -> None:
        if self._halting:
            return
        while (pair := schedule.next(progress)) is not None:
            schedule.start(pair)
            task = asyncio.create_task(self._call(pair, progress, schedule))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, pair: Pair, progress: Progress, schedule: Schedule) -> None:
        done, writing, backoff = False, redis_outage(self._redis).attempt("writing answers"), Backoff()
        try:
            execution, interaction = await self._executed(pair, progress)
            while not done:
                try:
                    await self._ledger.write(execution, interaction)
                except RedisError as error:
                    writing.failed(error)
                    await asyncio.sleep(backoff.pause_s())
                else:
                    done = True
                    writing.succeeded()
                    self._ended(progress, execution)
        except MeasureError as error:
            self._fault = error
        finally:
            schedule.end(pair, done=done)
            self._turn.set()

    async def _executed(self, pair: Pair, progress: Progress) -> tuple[Execution, RagInteraction | None]:
        name, place = pair
        config, item = progress.configs[name].config, self._items[place]
        copied = await self._copied(config, place)
        if copied is not None:
            return copied
        tries = 0
        started = perf_counter()
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(progress.plan.tries),
                wait=wait_random_exponential(FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
                # An answer that is none stays none.
                retry=retry_if_not_exception_type((AnswerError, asyncio.CancelledError)),
                reraise=True,
            ):
                with attempt:
                    tries += 1
                    started = perf_counter()
                    async with asyncio.timeout(progress.plan.timeout_s):
                        answer = await self._target.answer(item, config.knobs)
            latency_s = perf_counter() - started
            scores = await self._scores(progress, item, answer)
            interaction = interaction_of(progress.plan, config, place, item=item, answer=answer, scores=scores)
        except MeasureError:
            raise
        except Exception as error:  # noqa: BLE001 - somebody's code: whatever it raises is a failed call
            shown = "no answer in time" if isinstance(error, TimeoutError) and not str(error) else str(error)
            # Escaped: an error may quote anything, lone surrogates that no entry can hold included.
            failure = printable(f"{type(error).__name__}: {shown}"[:FAILURE_CHARS])
            log.warning("a call failed", config=name, item_id=item.item_id, tries=tries, error=failure)
            failed = Execution(
                config=name, item=place, item_id=item.item_id, failure=failure, tries=max(tries, 1),
                latency_s=min(perf_counter() - started, LATENCY_MAX_S),
            )  # fmt: skip
            return failed, None
        execution = Execution(
            config=name, item=place, item_id=item.item_id, interaction_id=interaction_id_of(place), tries=tries,
            latency_s=min(latency_s, LATENCY_MAX_S), tokens=min(answer.tokens, TOKENS_MAX),
            cost_usd=min(answer.cost_usd, COST_MAX_USD),
        )  # fmt: skip
        return execution, interaction

    async def _scores(self, progress: Progress, item: Item, answer: Answer) -> dict[str, float]:
        if self._measure is None:
            return {}
        try:
            return await measured(self._measure, progress.plan.metrics, item, answer)
        except MeasureError:
            raise
        except Exception as error:  # noqa: BLE001 - somebody's code: the answer is still one, its metrics are absent
            log.warning("measuring failed", item_id=item.item_id, error=f"{type(error).__name__}: {error}")
            return {}

    async def _copied(self, config: Config, place: int) -> tuple[Execution, RagInteraction] | None:
        """Return the answer of another config with the very same knobs to an item; None if there is none."""
        source = self._answered.get((_fingerprint(config), place))
        if source is None:
            return None
        try:
            found = await self._ledger.answer(source, place)
        except RedisError:
            return None
        if found is None:
            return None
        execution = Execution(
            config=config.name, item=place, item_id=self._items[place].item_id,
            interaction_id=interaction_id_of(place), copied_from=source,
        )  # fmt: skip
        return execution, found.model_copy(update={"pipeline": config.name})

    def _ended(self, progress: Progress, execution: Execution) -> None:
        self._spent.add(execution.cost_usd, execution.tokens)
        self._failing.add(execution)
        standing = progress.configs.get(execution.config)
        if standing is not None and execution.interaction_id is not None and execution.copied_from is None:
            self._answered.setdefault((_fingerprint(standing.config), execution.item), execution.config)

    async def _mind_failures(self, progress: Progress) -> None:
        for order in self._failing.stops(progress):
            log.warning("stopping a config whose calls fail", config=order.config, reason=order.reason)
            try:
                await self._redis.xadd(self._streams.experiment, {DATA_FIELD: order.encode()})
            except RedisError:  # the next turn tries again
                return
            self._failing.stopped(order.config or "")

    async def _mind_limits(self, progress: Progress) -> None:
        reason = self._spent.over(progress.limits)
        if not progress.running:
            reason = "every config is stopped: resume or clone one to go on"
        if reason is None or progress.halted or self._halting:
            return
        self._halting = True
        log.warning("halting the experiment", reason=reason)
        try:
            await self._redis.xadd(self._streams.experiment, {DATA_FIELD: Halted(reason=reason).encode()})
        except RedisError:
            self._halting = False


def _fingerprint(config: Config) -> str:
    return json.dumps(config.knobs, sort_keys=True)
