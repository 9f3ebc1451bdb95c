"""The executor of an experiment: calls configs on items, and writes the result of each call once.

All its state is in Redis, so another executor can replace a killed one. It repeats the calls without a written result.
All configs run on an item before the next item, in the order of the plan, so no worker waits for the end of a shard.
Calls run only some items ahead of the last comparison point, because the answers of a config that then loses are
wasted.
"""

import asyncio
from collections import Counter
from functools import partial
from time import perf_counter
from typing import Final

import structlog
from redis import RedisError

from ragtide_producers.files.items import Item
from ragtide_runtime.processes.user_code import error_text, run_limited
from ragtide_runtime.processes.waiting import Backoff, end
from ragtide_schemas import RagInteraction
from ragtide_schemas.experiments import Execution, Plan
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, TOKENS_MAX
from ragtide_schemas.printable import printable

from .answers import Answer, context_chars, interaction_id_of, interaction_of
from .decisions import driver_decision
from .errors import AnswerError, MeasureError
from .execution_log import ExecutionLog
from .state import ConfigStatus, ExperimentState
from .targets import MeasureFunction, Target, measure_answer

FIRST_PAUSE_S = 0.2
"""Most seconds before the second try of a call; doubled for each further try."""

LONGEST_PAUSE_S = 10.0
"""Most seconds between two tries."""

FAILURE_CHARS: Final = 300
"""Most characters stored of a failure."""

log = structlog.get_logger("ragtide.experiment")


def ahead(plan: Plan, running: int) -> int:
    """Return the number of items after the last comparison point that may be run, for a number of running configs.

    The number is large enough that every call has an item while two comparison points are open.
    """
    return 2 * plan.race.look_every + -(-2 * plan.concurrency // max(running, 1))


class Schedule:
    """The calls that this process has begun, and the next one."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, int]] = set()
        self._going: Counter[str] = Counter()

    @property
    def going(self) -> int:
        """Number of calls in flight."""
        return self._going.total()

    def start(self, config: str, item: int) -> None:
        """Count a call that begins."""
        self._begun.add((config, item))
        self._going[config] += 1

    def end(self, config: str) -> None:
        """Count a call that ends."""
        self._going[config] -= 1

    def next(self, state: ExperimentState) -> tuple[str, int] | None:
        """Return the config and the item of the next call, with the lowest item first; None to wait."""
        plan = state.plan
        if state.paused is not None or state.completed or self.going >= plan.concurrency:
            return None
        running = state.running
        best: tuple[int, int, str] | None = None
        for status in running:
            name = status.config.name
            if plan.concurrency_per_config is not None and self._going[name] >= plan.concurrency_per_config:
                continue
            item = self._first_missing(status, state, len(running))
            # For equal items take the config with the fewest calls in flight.
            if item is not None and (best is None or (item, self._going[name]) < best[:2]):
                best = (item, self._going[name], name)
        return None if best is None else (best[2], best[0])

    def _first_missing(self, status: ConfigStatus, state: ExperimentState, running: int) -> int | None:
        name, size = status.config.name, state.plan.population_size
        first, end = state.compared, min(state.compared + ahead(state.plan, running), size)
        if state.all_compared:
            first, end = 0, size
        results = state.results.by_config[name]
        for item in range(first, end):
            result = results.get(item)
            if (name, item) not in self._begun and (result is None or result.execution is None):
                return item
        return None


class Executor:
    """Makes the calls of one experiment, with the concurrency of its plan.

    Args:
        executions: log of the results.
        items: in the order in which they are run.
        target: function or endpoint that answers.
        measure: function for the experiment's own metrics.
    """

    def __init__(
        self, executions: ExecutionLog, items: list[Item], target: Target, measure: MeasureFunction | None = None
    ) -> None:
        self._executions = executions
        self._items = items
        self._target = target
        self._measure = measure
        self._schedule = Schedule()
        self._calls: set[asyncio.Task[None]] = set()
        self._error: Exception | None = None
        self._closed = False

    @property
    def calling(self) -> bool:
        """Whether a call is in flight."""
        return self._schedule.going > 0

    def begin_calls(self, state: ExperimentState) -> None:
        """Begin the calls that the plan allows now; none while a stop or a pause must be written first.

        Raises:
            Exception: the result of a call could not be written, such as a `MeasureError`.
        """
        if self._error is not None:
            raise self._error
        if self._closed or driver_decision(state):
            return
        while (call := self._schedule.next(state)) is not None:
            self._schedule.start(*call)
            task = asyncio.create_task(self._call(state, *call))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def close(self) -> None:
        """Cancel the calls in flight."""
        self._closed = True
        for call in list(self._calls):
            await end(call)

    async def _call(self, state: ExperimentState, name: str, index: int) -> None:
        try:
            execution, interaction = await self._execute(state, state.configs[name], index)
            if await self._executions.write_surely(execution, interaction):
                state.results.add_execution(execution)
        except Exception as error:  # noqa: BLE001 - it is raised by the next `begin_calls`, and ends the experiment
            self._error = error
        finally:
            self._schedule.end(name)
        # Begin the next call at once, before the log entry of this one is read.
        if self._error is None:
            self.begin_calls(state)

    async def _execute(
        self, state: ExperimentState, status: ConfigStatus, index: int
    ) -> tuple[Execution, RagInteraction | None]:
        plan, config, item = state.plan, status.config, self._items[index]
        copied = await self._copy_answer(state, status, index)
        if copied is not None:
            return copied
        tries, backoff = 0, Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random_share=1.0)
        started = perf_counter()
        try:
            while True:
                tries += 1
                started = perf_counter()
                try:
                    answer = await run_limited(
                        partial(self._target.answer, item, config.parameters), limit_s=plan.timeout_s
                    )
                    break
                except AnswerError:  # a malformed answer stays malformed
                    raise
                except Exception:
                    if tries >= plan.tries:
                        raise
                await asyncio.sleep(backoff.pause_s())
            latency_s = perf_counter() - started
            scores = await self._scores(plan, item, answer)
            interaction = interaction_of(
                plan, config, index, item=item, answer=answer, scores=scores, latency_s=min(latency_s, LATENCY_MAX_S)
            )
        except MeasureError:
            raise
        except Exception as error:  # noqa: BLE001 - the target's code: any error is a failed call
            # Escaped, because an error may contain lone surrogates, which no entry can hold.
            failure = printable(error_text(error)[:FAILURE_CHARS])
            log.warning("a call failed", config=config.name, item_id=item.item_id, tries=tries, error=failure)
            failed = Execution(
                config=config.name, item=index, item_id=item.item_id, failure=failure, tries=max(tries, 1),
                latency_s=min(perf_counter() - started, LATENCY_MAX_S),
            )  # fmt: skip
            return failed, None
        execution = Execution(
            config=config.name, item=index, item_id=item.item_id, interaction_id=interaction_id_of(index), tries=tries,
            latency_s=min(latency_s, LATENCY_MAX_S), tokens=min(answer.tokens, TOKENS_MAX),
            cost_usd=min(answer.cost_usd, COST_MAX_USD), context_chars=context_chars(interaction),
        )  # fmt: skip
        return execution, interaction

    async def _scores(self, plan: Plan, item: Item, answer: Answer) -> dict[str, float]:
        if self._measure is None:
            return {}
        try:
            return await run_limited(
                partial(measure_answer, self._measure, plan.metrics, item, answer), limit_s=plan.timeout_s
            )
        except MeasureError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code: the answer counts, its own metrics are absent
            log.warning("measuring failed", item_id=item.item_id, error=printable(error_text(error)[:FAILURE_CHARS]))
            return {}

    async def _copy_answer(
        self, state: ExperimentState, status: ConfigStatus, index: int
    ) -> tuple[Execution, RagInteraction] | None:
        twins = [other.config.name for other in state.configs.values() if other.fingerprint == status.fingerprint]
        source = next((name for name in twins if _has_answer(state, name, index)), None)
        if source is None:
            return None
        try:
            answer = await self._executions.answer(source, index)
        except RedisError:
            return None
        if answer is None:
            return None
        execution = Execution(
            config=status.config.name, item=index, item_id=self._items[index].item_id,
            interaction_id=interaction_id_of(index), context_chars=context_chars(answer), copied_from=source,
        )  # fmt: skip
        return execution, answer.model_copy(update={"pipeline": status.config.name})


def _has_answer(state: ExperimentState, name: str, index: int) -> bool:
    result = state.results.by_config[name].get(index)
    execution = None if result is None else result.execution
    return execution is not None and execution.failure is None and execution.copied_from is None
