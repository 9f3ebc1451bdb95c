"""`ragtide plan`: what is known about a judge's answers, and the samples that a wanted width takes, as a screen."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import typer
from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.tables.windows import ALL_TIME
from ragtide_consumers.labelers.published import all_criteria
from ragtide_offline.capacity.judged_sample import JudgedScale, PlannedSample, SamplePlan, scale_of, scale_of_mean
from ragtide_roles.rule_checks import known_metrics
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, MetricDefinition
from ragtide_schemas.base import describe
from ragtide_schemas.criterion import built_in_criteria
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES, CRITERIA_FAMILY
from ragtide_schemas.suggestions import unknown

from .console import warn
from .criteria_views import check_is_of_answers
from .fitting import Column, fitted, heading
from .with_redis import with_redis

_ESTIMATES: Final = TypeAdapter(list[Estimate])


def planned_definition(settings: Settings, metric: str, unread: str | None) -> MetricDefinition | None:
    """Return the definition of a metric; None for one that only workers elsewhere may declare.

    Args:
        settings: with the stored criteria, as far as they were read.
        metric: that a judge scores.
        unread: why stored criteria were not read; None if they were.

    Raises:
        ConfigurationError: the metric is a criterion about whole sessions.
        typer.BadParameter: there is no such metric.
    """
    criteria = {criterion.metric: criterion for criterion in (*built_in_criteria(), *all_criteria(settings))}
    if metric in criteria:
        check_is_of_answers(
            criteria[metric],
            "a plan counts single answers: each session is one call of the judge, and its rate chooses among sessions",
        )
        return criteria[metric].definition()
    known = known_metrics(settings)
    family, dot, _ = metric.partition(".")
    closed = not dot or family in CLOSED_FAMILIES or (family == CRITERIA_FAMILY and unread is None)
    if metric not in known and closed:
        raise typer.BadParameter(unknown("metric", metric, [*known, *criteria]))
    return known.get(metric)


def given_scale(
    metric: str, definition: MetricDefinition | None, mean: float, deviation: float | None, correlation: float
) -> JudgedScale:
    """Return what options say about a judge's answers; a metric without a definition is between 0 and 1.

    Raises:
        typer.BadParameter: the mean is not inside the metric's range, or the deviation is too large for it.
    """
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    if definition is None:
        warn(f"{metric} is not known here: it is taken to be between 0 and 1")
    if not lowest < mean < highest:
        raise typer.BadParameter(f"--mean is {mean:g}, and {metric} is between {lowest:g} and {highest:g}")
    largest = ((mean - lowest) * (highest - mean)) ** 0.5
    if deviation is not None and deviation > largest * (1 + 1e-9):
        raise typer.BadParameter(
            f"--deviation is {deviation:g}, and with the mean {mean:g} at most {largest:.4g} is possible"
        )
    return JudgedScale(mean, lowest, highest, largest if deviation is None else deviation, correlation)


def live_estimates(settings: Settings, confidence: float) -> list[Estimate]:
    """Return the estimates of the deployment over all time."""

    async def body(redis: Redis, _: RedisHandle) -> list[Estimate]:
        return await Deployment(redis, settings).estimates(confidence=confidence, windows=False)

    return with_redis(settings, body)


def estimates_of_file(file: Path) -> list[Estimate]:
    """Return the estimates in a file: the output of `ragtide estimates --json --estimator all`.

    Raises:
        typer.BadParameter: the file cannot be read, or has no estimates.
    """
    try:
        return _ESTIMATES.validate_json(file.read_bytes())
    except OSError as error:
        reason = str(error.strerror)
    except ValidationError as error:
        reason = describe(error)
    remedy = "give the output of ragtide estimates --json --estimator all"
    raise typer.BadParameter(f"{file} cannot be read ({reason}): {remedy}", param_hint="--estimates")


def scale_of_estimates(estimates: Iterable[Estimate], metric: str, pipeline: str | None) -> JudgedScale:
    """Return what estimates show about a judge's answers.

    A prediction-powered estimate shows mean, variance, the correlation of the proxy and, in clusters, the design
    effect. Without one, the mean of the judge shows the same but for the correlation.

    Args:
        estimates: over all time.
        metric: that the judge scores.
        pipeline: of the judged interactions; None if only one has any.

    Raises:
        ConfigurationError: there is no judged sample with an interval, or there are samples of several pipelines.
    """
    mine = [
        each
        for each in estimates
        if (each.metric, each.run, each.segment, each.window) == (metric, None, None, ALL_TIME)
        and pipeline in {None, each.pipeline}
    ]
    powered = [each for each in mine if each.estimator == "prediction_powered"]
    judged = powered or [each for each in mine if each.estimator == "mean" and each.labeler == "judge" and each.n]
    pipelines = sorted({each.pipeline for each in judged})
    if len(pipelines) > 1:
        raise ConfigurationError(f"{metric} is judged in {', '.join(pipelines)}: choose one with --pipeline")
    hint = "give --mean and --correlation to plan without it"
    if not judged:
        where = "" if pipeline is None else f" of {pipeline}"
        raise ConfigurationError(f"no sample{where} with scores of {metric} by a judge: {hint}")
    newest = max(judged, key=lambda each: (each.updated_at is not None, each.updated_at))
    if powered:
        same = (newest.labeler, newest.labeler_version, newest.metric_version, newest.proxy)
        weighted = [
            each
            for each in mine
            if each.estimator == "weighted"
            and (each.labeler, each.labeler_version, each.metric_version, each.proxy) == same
        ]
        proxied = [each.n + each.n_absent for each in mine if each.estimator == "mean" and each.labeler == newest.proxy]
        found = scale_of(newest, max(proxied, default=newest.n), next(iter(weighted), None))
    else:
        found = scale_of_mean(newest)
    if found is None:
        raise ConfigurationError(f"too few judged scores of {metric} for an interval ({newest.n:,}): {hint}")
    return found


def plan_view(plan: SamplePlan, width: int) -> RenderableType:
    """Return the samples as a table, with the assumptions."""
    names = ["judged alone"] if plan.with_proxy is None else ["with the proxy", "judged alone"]
    samples = [plan.judged_alone] if plan.with_proxy is None else [plan.with_proxy, plan.judged_alone]
    rows = [_cells(sample, plan.days) for sample in samples]
    titles = ("judged items", "share", "a day", "dollars")
    columns = [
        Column("", names),
        *(Column(title, [row[place] for row in rows], right=True) for place, title in enumerate(titles)),
    ]
    title = [
        plan.metric,
        f"± {plan.half_width:g}",
        f"{plan.confidence:.0%}",
        f"{plan.interactions:,} interactions in {plan.days:g} days",
    ]
    return Group(
        heading(title, width), fitted(columns, width), *(Text(line, style="bright_black") for line in _lines(plan))
    )


def _cells(sample: PlannedSample | None, days: float) -> tuple[str, str, str, str]:
    if sample is None:
        return "not reached", "", "", ""
    dollars = "unknown" if sample.usd is None else f"{sample.usd:,.2f}"
    return f"{sample.judged:,}", f"{sample.rate:.1%}", f"{sample.judged / days:,.0f}", dollars


def _about_clusters(plan: SamplePlan) -> Iterator[str]:
    scale = plan.scale
    if not scale.dependence and not scale.dependence_alone:
        yield "Sessions and other clusters: none, or no measured effect."
        return
    sample, proxy = plan.with_proxy or plan.judged_alone, plan.with_proxy is not None
    found = "" if sample is None else f" of {scale.design_effect(sample.judged, plan.interactions, proxy=proxy):.2f}"
    yield (
        f"Interactions of one session or cluster (about {scale.cluster_items:.1f} each) are alike: a design "
        f"effect{found}. More judged items do not make that part of the width smaller; more days do."
    )


def _lines(plan: SamplePlan) -> Iterator[str]:
    scale = plan.scale
    yield (
        f"Assumed: mean {scale.mean:.3g}, standard deviation {scale.deviation:.3g}, correlation of the proxy with the "
        f"judge {scale.correlation:.2f}, and that they stay; items drawn one by one, at one rate."
    )
    yield from _about_clusters(plan)
    yield f"An interval needs {scale.least_judged:,.0f} judged items, worth 30 at each end of the scale."
    if plan.judged_alone is None:
        yield "The width is not reached although everything is judged: take more --days, or a wider interval."
    if plan.usd_each is None:
        yield "No price is known: set judge.model, and judge.prices if it is not on the list."
    else:
        yield f"The judge's call costs about ${plan.usd_each:.5f} with texts of the given size."
