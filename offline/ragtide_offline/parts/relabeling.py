"""Labels the interactions of a recording again in several processes, then replays their metric events in order.

The processes write parts, as `ragtide score --processes` does. The replay reads the parts as a recording of metric
events in which each event has the entry id of its interaction: no number depends on the processes or on the clock.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_aggregator.service.trimming import DEAD_LETTERS_CAP
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_roles.criteria.sessions import refuse_sessions, session_criteria
from ragtide_roles.rule_checks import check_rules, known_metrics
from ragtide_roles.start_check import check_start
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.user_ids import UserIds
from ragtide_runtime.workspaces import parts_folder

from ..replay.counting import count_selected
from ..replay.plan import ReplayPlan, begin, check_cost_limit, settings_of_replay
from ..replay.replay import WorkspaceReplay
from ..replay.result import ReplayResult
from ..replay.session import ReplayProgress
from ..score.scoring import CostLimitReached
from .part_files import ScoringPlan, missing_parts, shards_of
from .processes import write_parts_together
from .recorded_input import RecordedInput
from .relabeled import Relabeled, relabeled

ShowLabeled = Callable[[int, float], None]
"""Shows the number of finished interactions, and the dollars that were spent on those of this process."""


class PartsRelabeling:
    """Labels the interactions of a recording again, in processes, and aggregates them in a workspace.

    Args:
        plan: of the replay, with `in_parts`.
        processes: number of processes.
        max_cost_usd: dollars at which all processes together stop; None for no limit.

    Raises:
        ConfigurationError: a rule is wrong, the labeler cannot be built, nothing is selected, or only one process can
            do what is asked.
        UnreadableRecordingError: a file of the recording is missing or damaged.
    """

    def __init__(
        self, settings: Settings, plan: ReplayPlan, processes: int, *, max_cost_usd: float | None = None
    ) -> None:
        check_rules(plan.rules, known_metrics(settings))
        info = plan.info(settings, 0)
        own = settings_of_replay(settings, info)
        _check(own, max_cost_usd)
        check_start(own, ("worker",))
        self._settings = settings
        self._plan = plan
        self._processes = processes
        counted = count_selected(plan.recording, EntryKind.INTERACTIONS, plan.selection, ("pipeline",))
        self.total = counted.total
        """Number of selected interactions."""
        sizes = Counter({scope.fields[0] or "": n for scope, n in counted.scopes.items() if scope.segment is None})
        options = {**info.options, "covariates": own.computed_covariates}
        of = RecordedInput.of(plan.recording, plan.selection, plan.run, options, sizes=sizes)
        self._input = of
        self._scoring = ScoringPlan(of, own, shards_of(self.total), as_worker=True, max_cost_usd=max_cost_usd)
        self._folder = parts_folder(settings, plan.run)

    async def run(
        self, redis: Redis, stop: asyncio.Event, show_labeled: ShowLabeled, show: Callable[[ReplayProgress], None]
    ) -> ReplayResult:
        """Begin or continue the replay, until the end, until `stop` is set, or until the limit of cost.

        1. The processes write the parts that are missing.
        2. When no part is missing, the interactions that could not be labeled become dead letters.
        3. The metric events of the parts are replayed.

        Args:
            redis: client.
            stop: set to end; the parts of processes that are killed then are labeled again by the next call.
            show_labeled: shows the progress of labeling.
            show: shows the progress of the replay of the metric events.

        Raises:
            ConfigurationError: another replay has the name of the workspace.
            UnusablePartsError: the recording has grown since the beginning, or another process labels these parts.
            RagtideError: the problem of a process.
        """
        workspace = await begin(redis, self._settings, self._plan.info(self._settings, self.total))
        replay, started = WorkspaceReplay(redis, self._settings, self._plan, workspace), time.monotonic()
        over_cost = False
        try:
            await self._label(stop, show_labeled)
        except CostLimitReached:
            over_cost = True
        done = self._done()
        counts: dict[str, Any] = {"n": 0, "population_size": self.total, "complete": False}
        cost_usd = 0.0
        if done == self.total:
            labeled = await asyncio.to_thread(relabeled, self._folder, self._plan.recording)
            layout = Layout(self._scoring.settings.prefix, workspace.partitions, workspace.splits)
            await self._write_dead_letters(redis, labeled, {of.partition: of for of in layout.all()})
            of_parts = replace(self._plan, recording=labeled.recording)
            counts = await replace(replay, plan=of_parts).aggregate(labeled.counted, None, stop, show)
            cost_usd, (prompt_tokens, completion_tokens) = labeled.cost_usd, labeled.tokens
            counts |= {
                "population_size": self.total - labeled.duplicates,
                "duplicates": labeled.duplicates,
                "dead_letters": dict(labeled.dead_letters),
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "cache_hits": labeled.cache_hits,
            }
        counts |= {"labeled": done, "over_cost": over_cost, "cost_usd": self._cost_usd(cost_usd)}
        return await replay.result(counts, time.monotonic() - started)

    async def _label(self, stop: asyncio.Event, show: ShowLabeled) -> None:
        folder, plan = self._folder, self._scoring
        waiting = missing_parts(folder, plan, plan.numbers)
        done, spent = self._done(), 0.0
        ended = Event()
        for made in (self._settings.data_dir, folder.parent, folder):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)

        def add(rows: int, cost_usd: float) -> None:
            nonlocal done, spent
            done, spent = done + rows, spent + cost_usd
            show(done, spent)

        def label() -> None:
            write_parts_together(folder, plan, waiting, self._processes, add, stop=ended)

        labeling = asyncio.create_task(asyncio.to_thread(label))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([labeling, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.set()
            stopping.cancel()
            await labeling

    def _done(self) -> int:
        plan = self._scoring
        return self.total - sum(self._rows(number) for number in missing_parts(self._folder, plan, plan.numbers))

    def _rows(self, number: int) -> int:
        start, stop = self._input.shard(number, self._scoring.shards)
        return stop - start

    def _cost_usd(self, of_parts: float) -> float:
        """Return the dollars that were spent.

        Args:
            of_parts: those of the events. A part that was begun again has its first answers from the cache, so that
                its events do not have their cost, and the account has it.
        """
        account = self._scoring.account(self._folder)
        spent = 0.0 if account is None else account.run_usd
        # The account adds in the order of the calls, so that its last digits are not always the same.
        return of_parts if math.isclose(spent, of_parts, rel_tol=1e-9) else max(spent, of_parts)

    async def _write_dead_letters(self, redis: Redis, labeled: Relabeled, layout: dict[int, Streams]) -> None:
        letters = labeled.letters(self._input, UserIds.of(self._scoring.settings), layout)
        while (letter := await asyncio.to_thread(next, letters, None)) is not None:
            streams, entry_id, content = letter
            fields: dict[Any, Any] = {DATA_FIELD: content.encode()}
            try:
                await redis.xadd(streams.dead_letters, fields, id=entry_id, maxlen=DEAD_LETTERS_CAP, approximate=True)
            except ResponseError as error:
                if "equal or smaller" not in str(error):
                    raise


def _check(settings: Settings, max_cost_usd: float | None) -> None:
    """Refuse what parts cannot do, before the workspace begins.

    Raises:
        ConfigurationError: the settings or the limit of cost need one process.
    """
    one_process = "leave --processes out"
    _ = settings.one_labeler  # raises the error
    refuse_sessions(session_criteria(settings), one_process)
    if settings.keeps_specimens:
        raise ConfigurationError(
            f"specimens.offline keeps specimens of replays, and processes keep none: {one_process}, or set it to false"
        )
    if max_cost_usd is None:
        return
    check_cost_limit(settings, max_cost_usd)
    for name in settings.labelers:
        if name not in BUILT_IN:
            raise ConfigurationError(
                f"--max-cost-usd counts the calls of several processes only for labelers of ragtide, and {name} is "
                f"your own: {one_process}"
            )
        remote = settings.judge if name == "judge" else settings.services.get(name)
        if remote is not None and not remote.cache_ttl_s:
            table = "judge" if name == "judge" else f"services.{name}"
            raise ConfigurationError(
                f"{table}.cache_ttl_s is 0, so that a stopped part would pay for its answers again: raise it, or "
                f"{one_process}"
            )
