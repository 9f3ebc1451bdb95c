"""The one number of each metric that `ragtide estimates` shows, and its gate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from redis.asyncio import Redis

from ragtide_aggregator.estimates.ranges import HeadlineRange, headline_range
from ragtide_aggregator.reading.first_commit import has_commits
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_offline.replay.selection import selection
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, utc_now

from ..printing import print_json, warn
from ..printing.estimates import print_headlines, unmet_option
from .gating import GateOptions, exit_for, with_gate
from .redis import with_redis

if TYPE_CHECKING:
    from ragtide_offline.gates.deciding import GateResult


def chosen_range(last: str | None, since: str | None, *, all_time: bool = False) -> HeadlineRange | None:
    """Return the range that the options choose; None without one of them.

    Raises:
        typer.BadParameter: several of the options are given, or the length is none.
        ConfigurationError: the time is malformed.
    """
    if sum((last is not None, since is not None, all_time)) > 1:
        raise typer.BadParameter("--last, --since and --all-time exclude each other: give one")
    if since is not None:
        return HeadlineRange("since", selection(since).since)
    name = "all" if all_time else last
    if name is None:
        return None
    try:
        return headline_range(name, utc_now())
    except ValueError as error:
        raise typer.BadParameter(f"{error}", param_hint="--last") from None


def show_headlines(
    settings: Settings,
    span: HeadlineRange | None,
    gate: GateOptions | None,
    *,
    metric: str | None,
    small: bool,
    as_json: bool,
    confidence: float | None,
    pipeline: str | None,
    segment: str | None,
    segments: bool,
    labeler: str | None,
) -> bool:
    """Print headlines, decide the gate on them, and return True; False without live traffic.

    Conditions on absences are about estimates of all time, because ranges do not count absences: False, too.

    Raises:
        typer.Exit: with the exit code of the gate, or 1 if an option names something that is not there.
        typer.BadParameter: such a condition is given with an option that chooses headlines.
    """
    is_explicit = span is not None or labeler is not None
    if gate is not None and gate.asks_for_absences:
        if is_explicit:
            raise typer.BadParameter(
                "absences are counted over all time: leave --last, --since, --all-time and --labeler out",
                param_hint="--fail-if",
            )
        return False
    leveled = settings.model_copy(update={"confidence": confidence or settings.confidence})

    async def read(redis: Redis, _: RedisHandle) -> tuple[list[Headline], list[Headline]]:
        if not await has_commits(redis, leveled):
            return [], []
        from ragtide_aggregator.reading.deployment import Deployment  # noqa: PLC0415 - imports NumPy

        deployment = Deployment(redis, leveled)
        candidates = await deployment.headlines(
            span or "default", pipeline=pipeline, segment=segment, segments=segments, labeler=labeler
        )
        kept = [headline for headline in candidates if metric in (None, headline.metric)]
        # A name that nothing matches is compared with all names.
        return kept, [] if kept else await deployment.headlines("all", segments=True)

    headlines, others = with_redis(settings, read)
    if not headlines and not others and not is_explicit:
        return False
    unmet = None
    if not headlines:
        unmet = unmet_option(others, pipeline=pipeline, segment=segment, metric=metric, labeler=labeler)
    elif not as_json:
        print_headlines(headlines, small=small or metric is not None, clusters=settings.clusters)
    result = None if gate is None else _decided(gate, headlines, segment, as_json=as_json)
    if as_json:
        # With the names that an estimate has for its range and intervals, too.
        listed = [
            {**headline.model_dump(mode="json"), "window": headline.range, "strategy": AUTO, "run": None}
            for headline in headlines
        ]
        print_json(listed if result is None else with_gate({"estimates": listed}, result))
    if unmet is not None:
        warn(unmet)
    exit_for(result, otherwise=int(unmet is not None))
    return True


def _decided(gate: GateOptions, headlines: Sequence[Headline], segment: str | None, *, as_json: bool) -> "GateResult":
    from ragtide_offline.gates.measurements import measure_headlines  # noqa: PLC0415 - imports NumPy

    return gate.decide(measure_headlines(headlines, segment), as_json=as_json)
