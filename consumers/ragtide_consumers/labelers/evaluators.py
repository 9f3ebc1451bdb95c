"""Several evaluators: each labels a part of the traffic, and an interaction has the scores of all that it is drawn for.

A draw is a hash of evaluator and interaction, independent of the draws of a producer, of a cascade and of the other
evaluators. So each evaluator's probability is known exactly, and holds for it alone.

The first evaluator of a pipeline that scores all of its interactions gives the scores of the event itself, with the
outcomes that need no labeler; the others are beside it. A pipeline without one has events of the labeler `none`, which
has no scores of its own: so every interaction has an event, whoever scores it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import monotonic
from typing import Final

import structlog

from ragtide_runtime.draws import draw_number
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.user_code import error_text
from ragtide_runtime.processes.waiting import Backoff, end, sleep_or_stop
from ragtide_runtime.settings.evaluators import EvaluatorSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import CheckResult
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_event import NO_LABELER

from .cascade import CascadeLabeler
from .event import labeler_id
from .outage import LabelerOutage
from .protocol import (
    EvaluatorLabeling,
    Labeler,
    LabelerId,
    LabelerUnavailable,
    Labeling,
    OfAnother,
    SampleUnavailable,
    criteria_of,
    scores_of,
    take_criteria,
)
from .remote.errors import OverBudget

_PURPOSE: Final = b"ragtide evaluate"
"""Makes these draws independent of those for a producer's sample, a specimen and a cascade."""

FIRST_RETRY_S: Final = 1.0
"""Seconds after which evaluators that cannot start are tried again."""

LONGEST_RETRY_S: Final = 60.0
"""Most seconds between two tries."""

MOST_PIPELINES: Final = 10_000
"""Pipelines whose evaluators are remembered."""

log = structlog.get_logger("ragtide.worker")


class EvaluatorFailedError(RagtideError):
    """The labeler of an evaluator raised an error."""


class NoLabeler:
    """Scores nothing: its events have the outcomes of an interaction, and metrics that need no labels."""

    name: Final = NO_LABELER
    version: Final = "1"
    profile: Final = NO_LABELER

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return no scores."""
        del interaction
        return Labeling({})


@dataclass(frozen=True, slots=True)
class Evaluator:
    """An evaluator with its labeler."""

    settings: EvaluatorSettings
    labeler: Labeler
    ids: frozenset[LabelerId]
    """Ids under which its scores count: of its labeler, or of every labeler of its cascade."""
    outage: LabelerOutage

    @property
    def is_whole(self) -> bool:
        """Whether it scores all interactions of its pipelines."""
        return self.settings.rate == 1.0 and not self.settings.segments

    def draws(self, pipeline: str, interaction_id: str) -> bool:
        """Return whether it scores an interaction that it takes."""
        rate = self.settings.rate
        return (
            rate == 1.0 or draw_number(f"{self.settings.name}\0{pipeline}\0{interaction_id}", purpose=_PURPOSE) < rate
        )


def evaluator_of(settings: EvaluatorSettings, labeler: Labeler, bare: Labeler) -> Evaluator:
    """Return an evaluator.

    Args:
        labeler: that is called, with custom metrics.
        bare: the same labeler without them.
    """
    labelers = bare.labelers if isinstance(bare, CascadeLabeler) else (bare,)
    outage = LabelerOutage(
        f"{settings.name} ({labeler.name})", "only interactions that it scores wait, and none is lost"
    )
    return Evaluator(settings, labeler, frozenset(map(labeler_id, labelers)), outage)


@dataclass(frozen=True, slots=True)
class PipelineEvaluators:
    """The evaluators of a pipeline."""

    first: Evaluator | None
    """The one that gives the scores of the event itself; None for the labeler `none`."""
    all: Sequence[Evaluator]
    """In the order of the settings."""

    def is_of_all(self, evaluator: Evaluator) -> bool:
        """Return whether each interaction of the pipeline has a chance of scores by an evaluator's labeler.

        It has if an evaluator with this labeler takes every interaction, and none before it takes some away for a
        cascade or part of one with the same labeler.
        """

        def loses_some(other: Evaluator) -> bool:
            before = self.all[: self.all.index(other)]
            return any(earlier.ids & other.ids and earlier.ids != other.ids for earlier in before)

        same = [other for other in self.all if other.ids == evaluator.ids]
        return not any(map(loses_some, same)) and any(not other.settings.segments for other in same)


class EvaluatorSet:
    """The evaluators of the settings, as one labeler.

    Args:
        none: labeler of events without a whole evaluator.
        wait: whether an interaction waits for an unavailable labeler without holding up others, as in a worker.
    """

    name: Final = "evaluators"
    version: Final = "1"
    profile: Final = NO_LABELER
    scores_sessions: Final = True

    def __init__(self, evaluators: Sequence[Evaluator], none: Labeler, *, wait: bool) -> None:
        self._evaluators = tuple(evaluators)
        self._none = none
        self._wait = wait
        self._of_pipeline = lru_cache(maxsize=MOST_PIPELINES)(self._pipeline)

    @property
    def outages(self) -> tuple[LabelerOutage, ...]:
        """The outage of each evaluator."""
        return tuple(evaluator.outage for evaluator in self._evaluators)

    def _pipeline(self, pipeline: str) -> PipelineEvaluators:
        taking = [evaluator for evaluator in self._evaluators if evaluator.settings.takes_pipeline(pipeline)]
        before: set[LabelerId] = set()
        for evaluator in taking:
            # An earlier evaluator with the same labeler may take interactions from it, so it is not whole.
            if evaluator.is_whole and not evaluator.ids & before:
                return PipelineEvaluators(evaluator, taking)
            before |= evaluator.ids
        return PipelineEvaluators(None, taking)

    def chosen(self, interaction: RagInteraction) -> tuple[Evaluator | None, list[Evaluator]]:
        """Return the evaluator of the event itself, None for the labeler `none`, and those beside it.

        Of several evaluators with the same labeler and version, the first that takes the interaction decides: their
        scores count under one key, and none may count twice.
        """
        pipeline = self._of_pipeline(interaction.pipeline)
        decided: set[LabelerId] = set()
        beside = []
        for evaluator in pipeline.all:
            if not evaluator.settings.takes(interaction.pipeline, interaction.segments) or evaluator.ids & decided:
                continue
            decided |= evaluator.ids
            if evaluator is not pipeline.first and evaluator.draws(interaction.pipeline, interaction.interaction_id):
                beside.append(evaluator)
        return pipeline.first, beside

    @property
    def hidden(self) -> Mapping[str, str]:
        """The evaluators that never score, each with an earlier one that decides all of its interactions, by name.

        Their labelers have the same name, version and formulas. Of a cascade the other labelers are not called either.
        """
        hidden_by: dict[str, str] = {}
        for place, evaluator in enumerate(self._evaluators):
            for earlier in self._evaluators[:place]:
                if evaluator.ids & earlier.ids and earlier.settings.takes_all_of(evaluator.settings):
                    hidden_by.setdefault(evaluator.settings.name, earlier.settings.name)
        return hidden_by

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The criteria that all evaluators ask."""
        return [criterion for evaluator in self._evaluators for criterion in criteria_of(evaluator.labeler)]

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Replace the criteria that are asked, except where an evaluator has criteria of its own."""
        for evaluator in self._evaluators:
            if not evaluator.settings.has_own_criteria:
                take_criteria(evaluator.labeler, criteria)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the scores of all evaluators that are to score an interaction.

        Raises:
            SampleUnavailable: a labeler is unavailable; the interaction waits for it, and is then labeled anew by all.
            LabelerUnavailable: the same, where nothing waits.
            Exception: of a labeler, in preference to its being unavailable.
        """
        first, beside = self.chosen(interaction)
        asked_at = monotonic()
        calls: list[Awaitable[Labeling]] = [scores_of(self._none if first is None else first.labeler, interaction)]
        calls += [scores_of(evaluator.labeler, interaction) for evaluator in beside]
        if len(calls) == 1:
            try:
                labeling = await calls[0]
            except LabelerUnavailable as error:
                raise self._unavailable(first, error) from error
            except Exception as error:
                raise _failed(first, error) from error
            if first is not None:
                first.outage.available(asked_at, labeling.counters)
            return replace(labeling, by=labeling.by or labeler_id(self._none if first is None else first.labeler))
        results = await asyncio.gather(*calls, return_exceptions=True)
        return self._join_labelings(interaction.pipeline, [first, *beside], results, asked_at)

    def _unavailable(self, evaluator: Evaluator | None, error: LabelerUnavailable) -> LabelerUnavailable:
        if evaluator is not None and not isinstance(error, SampleUnavailable):  # a cascade reports its own outages
            evaluator.outage.unavailable(error)
        if not self._wait:
            return error
        name = NO_LABELER if evaluator is None else evaluator.settings.name
        over = isinstance(error, OverBudget)
        if isinstance(error, SampleUnavailable):  # a cascade has two samples
            name, over = f"{name}/{error.labeler}", error.is_over_budget
        return SampleUnavailable(error.resume_in_s, str(error), name, is_over_budget=over)

    def _join_labelings(
        self,
        pipeline: str,
        evaluators: Sequence[Evaluator | None],
        results: Sequence[Labeling | BaseException],
        asked_at: float,
    ) -> Labeling:
        waits: list[LabelerUnavailable] = []
        labelings: list[tuple[Evaluator | None, Labeling]] = []
        for evaluator, result in zip(evaluators, results, strict=True):
            if isinstance(result, LabelerUnavailable):
                waits.append(self._unavailable(evaluator, result))
            elif isinstance(result, Exception):
                raise _failed(evaluator, result) from result
            elif isinstance(result, BaseException):
                raise result
            else:
                labelings.append((evaluator, result))
                if evaluator is not None:
                    evaluator.outage.available(asked_at, result.counters)
        if waits:
            raise max(waits, key=lambda error: error.resume_in_s)
        (first, whole), *others = labelings
        own = self._none if first is None else first.labeler
        beside = [
            EvaluatorLabeling(
                labeling,
                labeling.by or labeler_id(evaluator.labeler),
                evaluator.settings.rate,
                self._of_pipeline(pipeline).is_of_all(evaluator),
            )
            for evaluator, labeling in others
            if evaluator is not None
        ]
        return replace(
            whole,
            by=whole.by or labeler_id(own),
            prompt_tokens=sum(labeling.prompt_tokens for _, labeling in labelings),
            completion_tokens=sum(labeling.completion_tokens for _, labeling in labelings),
            cost_usd=sum(labeling.cost_usd for _, labeling in labelings),
            cost_sources=frozenset().union(*(labeling.cost_sources for _, labeling in labelings)),
            counters=sum((Counter(labeling.counters) for _, labeling in labelings), Counter()),
            beside=tuple(beside),
        )


def hidden_sentence(earlier: str) -> str:
    """Return why an evaluator never scores, and the remedy.

    Args:
        earlier: name of the evaluator that decides all of its interactions.
    """
    return (
        f"evaluator {earlier}, which stands before it, takes all of its interactions with the same labeler and "
        "version: write it before that one, or give them pipelines that do not meet"
    )


def _failed(evaluator: Evaluator | None, error: Exception) -> EvaluatorFailedError:
    name = NO_LABELER if evaluator is None else evaluator.settings.name
    return EvaluatorFailedError(f"evaluator {name}: {error_text(error)}")


Build = Callable[[Settings, AsyncExitStack], Awaitable[Labeler]]
"""Returns the labeler of settings, which is closed with the stack."""


@dataclass(slots=True)
class _InForce:
    """A labeler that is in force, or that labels its last interactions."""

    labeler: Labeler
    closing: AsyncExitStack
    busy: int = 0
    """Interactions that it labels."""
    retired: bool = field(default=False)


class ReplaceableLabeler(OfAnother):
    """The labeler of the settings, which is replaced while it runs: the new one is built before the old one is retired.

    Args:
        build: builds a labeler.
        count: called with `taken` when it was replaced, and with `refused` when that fails for a new reason.
    """

    def __init__(self, build: Build, count: Callable[[str], None] = lambda _: None) -> None:
        self._build = build
        self._count = count
        self._now: _InForce | None = None
        self._retired: list[_InForce] = []
        self._wanted: Settings | None = None
        self._asked = asyncio.Event()
        self._criteria: Sequence[Criterion] | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, settings: Settings) -> None:
        """Build the first labeler.

        Raises:
            ConfigurationError: it cannot be built.
        """
        self._now = await self._open_labeler(settings)

    async def _open_labeler(self, settings: Settings) -> _InForce:
        async with AsyncExitStack() as stack:
            labeler = await self._build(settings, stack)
            for name, earlier in labeler.hidden.items() if isinstance(labeler, EvaluatorSet) else ():
                log.warning("an evaluator never scores", evaluator=name, detail=hidden_sentence(earlier))
            return _InForce(labeler, stack.pop_all())
        raise AssertionError  # for the type checker: a stack may suppress errors, and this one does not

    @property
    def _labeler(self) -> Labeler:
        assert self._now is not None  # noqa: S101 - for the type checker: it is opened before it is used
        return self._now.labeler

    def ready(self) -> CheckResult:
        """Return whether the labelers of all evaluators are available."""
        outages = self._labeler.outages if isinstance(self._labeler, EvaluatorSet) else ()
        results = [outage.ready() for outage in outages]
        return next((result for result in results if not result.ok), CheckResult("evaluators", True, "available"))

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return a passed check, because a restart would not help."""
        del redis_since
        return CheckResult("evaluators", True, self.ready().detail)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the labels of the labeler in force, with its id, because it may be replaced meanwhile."""
        labeling, by = await self.label_in_force(interaction)
        return labeling if labeling.by is not None else replace(labeling, by=by)

    async def label_in_force(self, interaction: RagInteraction) -> tuple[Labeling, LabelerId]:
        """Return the labels of the labeler in force, and the id of the labeler that gave them."""
        using = self._now
        assert using is not None  # noqa: S101 - as in `_labeler`
        using.busy += 1
        try:
            labeling = await scores_of(using.labeler, interaction)
        finally:
            using.busy -= 1
            self._close_if_done(using)
        return labeling, labeling.by or labeler_id(using.labeler)

    scores_sessions: Final = True

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The criteria that the labeler in force asks."""
        return criteria_of(self._labeler)

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Replace the criteria that are asked, now and by the labelers that come."""
        take_criteria(self._labeler, criteria)
        self._criteria = criteria

    def take(self, settings: Settings) -> None:
        """Replace the labeler by that of other settings, in the background.

        One that cannot be built is refused and tried again, until it can be built or other settings come.
        """
        self._wanted = settings
        self._asked.set()
        if self._replacing is None or self._replacing.done():
            self._replacing = asyncio.create_task(self._replace_labeler())

    async def _replace_labeler(self) -> None:
        backoff, detail = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S), ""
        while self._wanted is not None:
            settings, self._wanted = self._wanted, None
            self._asked.clear()
            try:
                new = await self._open_labeler(settings)
                if self._criteria is not None:
                    take_criteria(new.labeler, self._criteria)
            except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: the old one continues
                # Tries that fail alike are one refusal.
                if error_text(error) != detail:
                    detail = error_text(error)
                    log.warning(
                        "the evaluators stay as they are, because the new ones cannot start: they are tried again",
                        detail=detail,
                    )
                    self._count("refused")
                if await sleep_or_stop(self._asked, backoff.pause_s()):
                    backoff, detail = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S), ""
                else:
                    self._wanted = settings
                continue
            old, self._now = self._now, new
            evaluators = [evaluator.name for evaluator in settings.evaluators]
            log.info("a new labeler is in force", labeler=settings.labeler, evaluators=evaluators)
            self._count("taken")
            if old is not None:
                old.retired = True
                self._retired.append(old)
                self._close_if_done(old)

    def _close_if_done(self, using: _InForce) -> None:
        if using.retired and not using.busy and using in self._retired:
            self._retired.remove(using)
            task = asyncio.create_task(using.closing.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close the labelers."""
        if self._replacing is not None:
            await end(self._replacing)
        for using in (*self._retired, *([] if self._now is None else [self._now])):
            await using.closing.aclose()
        await asyncio.gather(*self._closing)
