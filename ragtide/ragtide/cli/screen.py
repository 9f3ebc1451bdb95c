"""The screens of estimates: once, and redrawn with trends and alerts for `ragtide watch` and the demo."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.estimates.estimates import RECOMMENDED, chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_consumers.notify.silences import MutedAlerts
from ragtide_offline.score.summary import diagnoses
from ragtide_runtime.redis.backlog import COUNT_CAP, Backlog
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.open_sessions import waiting_sentence
from ragtide_schemas import Alert, Estimate
from ragtide_schemas.suggestions import unknown

from .alert_reading import text_of_alert
from .alert_views import alerts_view
from .console import err, out
from .groups import whole_pipelines
from .tables import TrendKey, estimate_key, estimates_note, estimates_table, labeling_table

TREND_POINTS = 16
"""Most recent means drawn for each row."""


ALERTS_SHOWN = 4
"""Most alerts drawn below the table."""


class Screen:
    """The screen, which stores recent means to draw trends.

    Args:
        deployment: the deployment on the screen.
        pipeline: name of the only shown pipeline; all pipelines if it is None.
        segments: whether estimates of segment values are shown.
        hint: how to show them, if they are not shown.
        read_muted: reads silences and acknowledgements; without it no alert has any.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        pipeline: str | None = None,
        segments: bool = True,
        hint: str = "",
        read_muted: Callable[[], Awaitable[MutedAlerts]] | None = None,
    ) -> None:
        self._deployment = deployment
        self._pipeline = pipeline
        self._segments = segments
        self._hint = hint
        self._hidden = 0
        self.trends: dict[TrendKey, deque[float]] = defaultdict(lambda: deque(maxlen=TREND_POINTS))
        self.estimates: Sequence[Estimate] = ()
        self.alerts: Sequence[Alert] = ()
        self.muted = MutedAlerts()
        self._read_muted = read_muted or _nothing_muted
        self.counts = Text()
        self.warnings: list[str] = []

    async def refresh(self) -> None:
        """Read estimates, alerts and backlog; if nothing is new, this takes one round trip."""
        deployment = self._deployment
        everything, self.alerts, backlogs, self.muted = await asyncio.gather(
            deployment.estimates(windows=False), deployment.alerts(), deployment.backlog(), self._read_muted()
        )
        wanted = self._pipeline
        found = [
            estimate for estimate in chosen(everything, estimator=RECOMMENDED) if wanted in (None, estimate.pipeline)
        ]
        self.estimates = found if self._segments else whole_pipelines(found)
        self._hidden = len(found) - len(self.estimates)
        known = {estimate.pipeline for estimate in everything}
        missing = unknown("pipeline", wanted, known) if wanted is not None and known and wanted not in known else None
        self.warnings = [*([] if missing is None else [missing]), *deployment.warnings()]
        for estimate in self.estimates:
            if estimate.recent is not None:
                self.trends[estimate_key(estimate)].append(estimate.recent)
        self.counts = _counts(backlogs)

    def render(self, width: int) -> RenderableType:
        """Return the screen for a terminal of `width` columns."""
        warnings = [Text(sentence, style="yellow") for sentence in self.warnings]
        if not self.estimates:
            waiting = Text("Waiting for the first scored interaction ...", style="bright_black")
            return Group(self.counts, *warnings, waiting)
        note = f"{estimates_note(self.estimates)}; recent: mean of about the last 64"
        hidden = f"{self._hidden:,} estimates of segment values are not shown: {self._hint}"
        return Group(
            self.counts,
            *warnings,
            Text(note, style="bright_black"),
            Text(),
            estimates_table(self.estimates, width, self.trends),
            Text(),
            newest_alerts(self.alerts, self.muted),
            *([Text(hidden, style="bright_black")] if self._hidden and self._hint else []),
        )


async def _nothing_muted() -> MutedAlerts:
    return MutedAlerts()


def newest_alerts(alerts: Sequence[Alert], muted: MutedAlerts) -> RenderableType:
    """Return the newest alerts in brief."""
    newest = sorted(alerts, key=lambda alert: alert.fired_at)[-ALERTS_SHOWN:]
    return alerts_view([text_of_alert(alert, muted) for alert in newest], brief=True)


def _counts(backlogs: Sequence[Backlog]) -> Text:
    scored = sum(backlog.lengths["metrics"] for backlog in backlogs)
    dead = sum(backlog.lengths["dead_letters"] for backlog in backlogs)
    waiting = sum(backlog.waiting for backlog in backlogs)
    more = "+" if waiting >= COUNT_CAP else ""
    text = Text.assemble(("ragtide", "bold cyan"), f"   scored {scored:,}   waiting {waiting:,}{more}   dead letters ")
    text.append(f"{dead:,}", style="red" if dead else "")
    return text


def waiting_lines(shown: Sequence[Estimate], clusters: ClusterSettings) -> list[str]:
    """Return a line for each pipeline with answers in open sessions, on which no interval rests yet."""
    waiting: defaultdict[str, int] = defaultdict(int)
    for estimate in shown:
        waiting[estimate.pipeline] = max(waiting[estimate.pipeline], estimate.n_waiting)
    return [
        f"{f'{pipeline}: ' if len(waiting) > 1 else ''}{waiting_sentence(n, clusters)}"
        for pipeline, n in sorted(waiting.items())
        if n
    ]


def print_estimates(shown: Sequence[Estimate], found: int, *, labeling: bool, clusters: ClusterSettings) -> None:
    """Print estimates as a table with diagnoses, and the number of estimates that are not shown.

    Args:
        shown: estimates.
        found: number of estimates that were found.
        labeling: whether they are of time and cost of labeling.
        clusters: settings by which the answers of a session count.
    """
    if shown and labeling:
        out.print(labeling_table(shown, out.width))
    elif shown:
        out.print(estimates_note(shown), style="bright_black", markup=False, highlight=False)
        out.print(estimates_table(shown, out.width))
        for line in waiting_lines(shown, clusters):
            out.print(line, style="bright_black", markup=False, highlight=False)
        for where, diagnosis in diagnoses(shown):
            out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)
    if hidden := found - len(shown):
        err.print(f"{hidden:,} estimates of segment values are not shown: --segments shows them.", highlight=False)
