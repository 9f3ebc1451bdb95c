"""The headlines of `ragtide estimates`: their range, the gate on them, and their JSON."""

from dataclasses import dataclass
from typing import Any

import typer
from redis.asyncio import Redis

from ragtide_aggregator.estimates.headline import HeadlineRange, headline_range
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.means.strategies import AUTO
from ragtide_offline.gates.measurements import of_headlines
from ragtide_offline.replay.selection import selection
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, utc_now

from .console import print_json, warn
from .gates import GateOptions, exit_for, with_gate
from .groups import unmet_option
from .screen import print_headlines
from .with_redis import with_redis


@dataclass(frozen=True, slots=True)
class HeadlineRequest:
    """The headlines that the options choose."""

    span: HeadlineRange | None = None
    pipeline: str | None = None
    segment: str | None = None
    segments: bool = False
    metric: str | None = None
    labeler: str | None = None
    confidence: float | None = None

    @property
    def is_explicit(self) -> bool:
        """Whether an option asks for headlines, so that `--json` prints them, too."""
        return self.span is not None or self.labeler is not None

    def without(self, **options: object) -> bool:
        """Return whether one of the options that show the estimates of every labeler is given.

        Raises:
            typer.BadParameter: headlines were asked for, too.
        """
        given = [name for name, value in options.items() if value not in (None, False)]
        if given and self.is_explicit:
            raise typer.BadParameter(
                "--last, --since, --all-time and --labeler choose one number for each metric, and "
                f"--{given[0]} shows the estimates of every labeler: give one of them"
            )
        return bool(given)


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


def headline_fields(headline: Headline) -> dict[str, Any]:
    """Return a headline as JSON fields, with the names that an estimate has for its range and intervals, too."""
    return {**headline.model_dump(mode="json"), "window": headline.range, "strategy": AUTO, "run": None}


def show_headlines(
    settings: Settings, wanted: HeadlineRequest, gate: GateOptions | None, *, small: bool, as_json: bool
) -> bool:
    """Print headlines, decide the gate on them, and return True; False without live traffic.

    Conditions on absences are about estimates of all time, because ranges do not count absences: False, too.

    Raises:
        typer.Exit: with the exit code of the gate, or 1 if an option names something that is not there.
        typer.BadParameter: such a condition is given with an option that chooses headlines.
    """
    if gate is not None and gate.asks_for_absences:
        if wanted.is_explicit:
            raise typer.BadParameter(
                "absences are counted over all time: leave --last, --since, --all-time and --labeler out",
                param_hint="--fail-if",
            )
        return False
    level = settings.confidence if wanted.confidence is None else wanted.confidence
    leveled = settings.model_copy(update={"confidence": level})

    async def read(redis: Redis, _: RedisHandle) -> tuple[list[Headline], list[Headline]]:
        deployment = Deployment(redis, leveled)
        found = await deployment.headlines(
            wanted.span or "default",
            pipeline=wanted.pipeline,
            segment=wanted.segment,
            segments=wanted.segments,
            labeler=wanted.labeler,
        )
        kept = [headline for headline in found if wanted.metric in (None, headline.metric)]
        # A name that nothing matches is compared with all names.
        return kept, [] if kept else await deployment.headlines("all", segments=True)

    headlines, others = with_redis(settings, read)
    if not headlines and not others and not wanted.is_explicit:
        return False
    unmet = None
    if not headlines:
        unmet = unmet_option(
            others,
            pipeline=wanted.pipeline,
            segment=wanted.segment,
            metric=wanted.metric,
            labeler=wanted.labeler,
        )
    elif not as_json:
        print_headlines(headlines, small=small or wanted.metric is not None, clusters=settings.clusters)
    result = None if gate is None else gate.decide(of_headlines(headlines, wanted.segment), as_json=as_json)
    if as_json:
        listed = [headline_fields(headline) for headline in headlines]
        print_json(listed if result is None else with_gate({"estimates": listed}, result))
    if unmet is not None:
        warn(unmet)
    exit_for(result, otherwise=int(unmet is not None))
    return True
