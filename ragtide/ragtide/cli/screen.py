"""The screens of numbers: once, and redrawn with alerts for `ragtide watch` and the demo."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.estimates.estimates import RECOMMENDED, chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_consumers.notify.silences import MutedAlerts
from ragtide_offline.score.summary import diagnoses, headline_diagnoses
from ragtide_runtime.redis.backlog import COUNT_CAP, Backlog
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.open_sessions import waiting_sentence
from ragtide_schemas import Alert, Estimate, Headline
from ragtide_schemas.suggestions import unknown

from .alert_reading import text_of_alert
from .alert_views import alerts_view
from .console import err, out
from .headline_tables import headlines_note, headlines_table
from .tables import estimates_note, estimates_table, labeling_table

ALERTS_SHOWN = 4
"""Most alerts drawn below the table."""


class Screen:
    """The numbers of a deployment, and its alerts, as they are now.

    Args:
        deployment: the deployment on the screen.
        pipeline: name of the only shown pipeline; all pipelines if it is None.
        segments: whether numbers of segment values are shown.
        live: whether they are of live traffic, not of a workspace, whose numbers are of all its interactions.
        read_muted: reads silences and acknowledgements; without it no alert has any.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        pipeline: str | None = None,
        segments: bool = True,
        live: bool = True,
        read_muted: Callable[[], Awaitable[MutedAlerts]] | None = None,
    ) -> None:
        self._deployment = deployment
        self._pipeline = pipeline
        self.segments = segments
        """Whether the next `refresh` reads segment values, too."""
        self._live = live
        self.headlines: Sequence[Headline] = ()
        self.alerts: Sequence[Alert] = ()
        self.muted = MutedAlerts()
        self._read_muted = read_muted or _nothing_muted
        self.counts = Text()
        self.warnings: list[str] = []

    async def refresh(self) -> None:
        """Read headlines, alerts and backlog."""
        deployment, wanted = self._deployment, self._pipeline
        everything, self.alerts, backlogs, self.muted = await asyncio.gather(
            deployment.headlines(segments=self.segments) if self._live else self._of_workspace(),
            deployment.alerts(),
            deployment.backlog(),
            self._read_muted(),
        )
        if self._live and not everything:
            everything = await self._of_workspace()  # without live traffic there may be runs
        self.headlines = [headline for headline in everything if wanted in (None, headline.pipeline)]
        known = {headline.pipeline for headline in everything}
        missing = unknown("pipeline", wanted, known) if wanted is not None and known and wanted not in known else None
        self.warnings = [*([] if missing is None else [missing]), *deployment.warnings()]
        self.counts = _counts(backlogs)

    async def _of_workspace(self) -> list[Headline]:
        found = chosen(await self._deployment.estimates(windows=False), estimator=RECOMMENDED)
        return [headline_of(each) for each in found if self.segments or each.segment is None]

    def render(self, width: int) -> RenderableType:
        """Return the screen for a terminal of `width` columns."""
        warnings = [Text(sentence, style="yellow") for sentence in self.warnings]
        if not self.headlines:
            waiting = Text("Waiting for the first estimates ...", style="bright_black")
            return Group(self.counts, *warnings, waiting)
        return Group(
            self.counts,
            *warnings,
            Text(headlines_note(self.headlines, options=False), style="bright_black"),
            Text(),
            headlines_table(self.headlines, width),
            Text(),
            newest_alerts(self.alerts, self.muted),
        )


def headline_of(estimate: Estimate) -> Headline:
    """Return an estimate over all interactions of a run or a workspace, which nothing watches, as a headline."""
    lowest, highest = estimate.value_range
    return Headline(
        pipeline=estimate.pipeline if estimate.run is None else f"{estimate.pipeline} ({estimate.run})",
        segment=estimate.segment,
        metric=estimate.metric,
        metric_version=estimate.metric_version,
        lowest=lowest,
        highest=highest,
        direction=estimate.direction,
        profile=estimate.profile,
        labeler=estimate.labeler,
        labeler_version=estimate.labeler_version,
        estimator=estimate.estimator,
        proxy=estimate.proxy,
        range="all",
        n=estimate.n,
        n_waiting=estimate.n_waiting,
        estimate=estimate.estimate,
        lower=estimate.lower,
        upper=estimate.upper,
        confidence=estimate.confidence,
        band=estimate.band,
        state="unwatched",
        updated_at=estimate.updated_at,
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


def waiting_lines(shown: Sequence[Estimate] | Sequence[Headline], clusters: ClusterSettings) -> list[str]:
    """Return a line for each pipeline with answers in open sessions, on which no interval rests yet."""
    waiting: defaultdict[str, int] = defaultdict(int)
    for estimate in shown:
        waiting[estimate.pipeline] = max(waiting[estimate.pipeline], estimate.n_waiting)
    return [
        f"{f'{pipeline}: ' if len(waiting) > 1 else ''}{waiting_sentence(n, clusters)}"
        for pipeline, n in sorted(waiting.items())
        if n
    ]


def print_headlines(shown: Sequence[Headline], *, small: bool, clusters: ClusterSettings) -> None:
    """Print headlines as a table with diagnoses.

    Args:
        shown: headlines.
        small: whether small metrics have rows.
        clusters: settings by which the answers of a session count.
    """
    out.print(headlines_note(shown), style="bright_black", markup=False, highlight=False)
    out.print(headlines_table(shown, out.width, small=small))
    for line in waiting_lines(shown, clusters):
        out.print(line, style="bright_black", markup=False, highlight=False)
    for where, diagnosis in headline_diagnoses(shown):
        out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)


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
        # Of live traffic the headlines have one, where something changed.
        for where, diagnosis in diagnoses([estimate for estimate in shown if estimate.run is not None]):
            out.print(f"{where}: {diagnosis.sentence()}", markup=False, highlight=False)
    if hidden := found - len(shown):
        err.print(f"{hidden:,} estimates of segment values are not shown: --segments shows them.", highlight=False)
