"""Runs one replay from its plan: counts the selection, replays it into its workspace, and returns the result."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_roles.criteria.sessions import session_criteria
from ragtide_roles.rule_checks import check_rules, known_metrics
from ragtide_roles.start_check import check_start
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import settings_of_workspace
from ragtide_schemas import Workspace

from .counting import count_selected
from .metrics_replay import MetricsReplay
from .plan import ReplayPlan, begin, check_cost_limit, settings_of_replay
from .publishing import RecordedInteractions
from .relabeling import Relabeling, RelabelProgress
from .result import ReplayResult, by_rule, recorded_alerts, without_values
from .selection import SCOPE_FIELDS, EntryCounts
from .session import ReplayProgress

Show = Callable[[ReplayProgress | RelabelProgress], None]
"""Shows the progress of a replay."""


@dataclass(frozen=True, slots=True)
class WorkspaceReplay:
    """A replay with its workspace.

    Attributes:
        redis: client.
        settings: of the deployment.
        plan: the recording, the selection and the rules.
        workspace: of the replay.
    """

    redis: Redis
    settings: Settings
    plan: ReplayPlan
    workspace: Workspace

    async def aggregate(
        self, counted: EntryCounts, speed: float | None, stop: asyncio.Event, show: Callable[[ReplayProgress], None]
    ) -> dict[str, Any]:
        """Replay the metric events of the plan's recording into the workspace, and return the counts.

        Args:
            counted: numbers of selected metric events.
            speed: pace of the replay.
            stop: set to end.
            show: shows the progress.

        Raises:
            ConfigurationError: another process replays into the workspace.
        """
        settings, plan, workspace = self.settings, self.plan, self.workspace
        # The partitions share the budget of false alarms, as in a live deployment.
        shared = settings.model_copy(update={"alerts": plan.rules, "partitions": workspace.partitions})
        prefix = settings_of_workspace(settings, workspace).prefix
        replaying = MetricsReplay(
            self.redis,
            Layout(prefix, workspace.partitions, workspace.splits),
            plan.recording,
            selection=plan.selection,
            counted=counted,
            # A release that is watched now is of live traffic.
            options=replace(state_options(shared), releases=None),
            split=bool(workspace.splits),
            lease_s=settings.lease_s,
            feedback_window_s=settings.feedback_window_s,
            speed=speed,
        )
        await replaying.run(stop, show)
        return replaying.counts()

    async def result(self, counts: dict[str, Any], seconds: float) -> ReplayResult:
        """Return the result, with the estimates and alerts in the workspace.

        Args:
            seconds: since the start.
        """
        plan, deployment = self.plan, Deployment(self.redis, settings_of_replay(self.settings, self.workspace))
        alerts = await deployment.alerts()
        estimates = chosen(await deployment.estimates(windows=False))
        rules = by_rule(plan.rules, alerts, recorded_alerts(plan.recording, plan.selection))
        valued = {estimate.metric for estimate in estimates if estimate.n}
        valued |= {key.metric for key in await deployment.covariate_keys()}
        unfired = list(without_values(plan.rules, valued))
        return ReplayResult(counts, seconds, alerts, rules, unfired, estimates)


class RecordingReplay:
    """Replays a recording into a workspace: its metric events, or its interactions, which are labeled again.

    Args:
        plan: the recording, the selection and the workspace.
        speed: pace of the replay.
        max_cost_usd: cost of the judge at which a replay of interactions stops.

    Raises:
        ConfigurationError: a rule is wrong, the labeler cannot be built, or no entry is selected.
    """

    def __init__(
        self, settings: Settings, plan: ReplayPlan, speed: float | None, *, max_cost_usd: float | None = None
    ) -> None:
        check_rules(plan.rules, known_metrics(settings))
        kind, fields = (EntryKind.INTERACTIONS, ("pipeline",)) if plan.relabel else (EntryKind.METRICS, SCOPE_FIELDS)
        if plan.relabel:
            check_start(settings_of_replay(settings, plan.info(settings, 0)), ("worker",))
        self._settings = settings
        self._plan = plan
        self._speed = speed
        self._max_cost_usd = max_cost_usd
        self.counted = count_selected(plan.recording, kind, plan.selection, fields)
        """Number of selected entries, in all and by scope."""

    async def run(self, redis: Redis, url: str, stop: asyncio.Event, show: Show) -> ReplayResult:
        """Begin or continue the replay, until the end, until `stop` is set, or until the cost limit.

        Raises:
            ConfigurationError: the name of the workspace is not valid, another replay has it, or the price of the
                judge's model is not set.
        """
        workspace = await begin(redis, self._settings, self._plan.info(self._settings, self.counted.total))
        replay, started = WorkspaceReplay(redis, self._settings, self._plan, workspace), time.monotonic()
        if self._plan.relabel:
            counts = await self._relabel(url, workspace, stop, show)
        else:
            counts = await replay.aggregate(self.counted, self._speed, stop, show)
        return await replay.result(counts, time.monotonic() - started)

    async def _relabel(self, url: str, workspace: Workspace, stop: asyncio.Event, show: Show) -> dict[str, Any]:
        settings, plan = settings_of_replay(self._settings, workspace), self._plan
        check_cost_limit(settings, self._max_cost_usd)
        items = RecordedInteractions(
            plan.recording, plan.selection, session_criteria(settings), settings.clusters.quiet_s
        )
        relabeling = Relabeling(
            settings, url, items, self.counted, run=plan.run, speed=self._speed, max_cost_usd=self._max_cost_usd
        )
        progress = await relabeling.run(stop, show)
        labeling = progress.labeling
        return {
            "n": labeling.labeled - labeling.sessions,
            "sessions": labeling.sessions,
            "population_size": progress.total,
            "complete": progress.complete,
            "over_cost": progress.over_cost,
            "published": progress.published.published,
            "duplicates": progress.published.duplicates,
            "dead_letters": dict(labeling.reasons),
            "prompt_tokens": labeling.prompt_tokens,
            "completion_tokens": labeling.completion_tokens,
            "cost_usd": labeling.cost_usd,
            "projected_cost_usd": progress.projected_usd,
            "cache_hits": labeling.cache_hits,
        }
