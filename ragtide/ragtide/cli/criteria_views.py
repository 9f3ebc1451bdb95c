"""Criteria on the command line: from options, from a file, from the store; their list, checks and prices as tables."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_offline.criteria.checks import CriterionFinding
from ragtide_offline.criteria.files import read_criteria
from ragtide_offline.criteria.numbers import CriterionRow, criterion_rows
from ragtide_offline.criteria.pricing import PER, TYPICAL, CriteriaPrices, CriterionPrice, bundled_interactions
from ragtide_producers.files.interactions import FileOptions, read_rows
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.labelers import check_sessions
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import (
    StoredCriteria,
    StoredCriterion,
    read_stored_criteria,
    remove_criterion,
    store_criterion,
)
from ragtide_schemas import RagInteraction, utc_now
from ragtide_schemas.base import describe
from ragtide_schemas.criterion import BUILT_IN, Criterion
from ragtide_schemas.metric_definitions import CRITERIA_FAMILY
from ragtide_schemas.suggestions import unknown

from .console import err, out
from .fitting import Column, fitted
from .with_redis import with_redis


def criterion_of_options(name: str, fields: Mapping[str, Any], file: Path | None) -> Criterion:
    """Return the criterion that options make, from a file or alone.

    Args:
        name: of the criterion.
        fields: its fields as options have them; None for an option that is not given.
        file: TOML file that has it; None for a criterion of the options alone.

    Raises:
        typer.BadParameter: a field is wrong, or the file has no such criterion.
    """
    given = {field: value for field, value in fields.items() if value is not None and value != []}
    if "values" in given:
        given["values"] = _values(given["values"])
    if "segments" in given:
        given["segments"] = _segments(given["segments"])
    if file is not None:
        found = _of_file(file, name)
        if not given:
            return found
        given = {**found.model_dump(exclude_defaults=True), **given}
    elif "question" not in given and name not in BUILT_IN:
        raise typer.BadParameter(f"{name} has no question: give --question and --scale, or --criteria FILE")
    try:
        return Criterion.model_validate({"name": name, **given})
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None


def _of_file(file: Path, name: str) -> Criterion:
    read = read_criteria(file)
    for criterion in read.criteria:
        if criterion.name == name:
            return criterion
    for finding in read.findings:
        if finding.criterion == name:
            raise typer.BadParameter(f"{file}: {name}: {finding.message}")
    raise typer.BadParameter(unknown("criterion", name, [criterion.name for criterion in read.criteria]))


def _values(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        answer, _, value = part.rpartition("=")
        answer = answer.strip()
        if answer in found:
            raise typer.BadParameter(
                f"the answer {answer} has two values: give each answer once", param_hint="--values"
            )
        try:
            found[answer] = float(value)
        except ValueError:
            message = f"{part.strip()!r} is no answer with a value: write 'good=1, bad=0'"
            raise typer.BadParameter(message, param_hint="--values") from None
    return found


def _segments(parts: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in parts:
        name, sign, value = part.partition("=")
        if not (name and sign and value):
            raise typer.BadParameter(f"{part!r} is no segment value: write lang=de", param_hint="--segment")
        found.setdefault(name, []).append(value)
    return found


def find_criterion(settings: Settings, name: str, remedy: str = "add it: ragtide criteria add") -> Criterion:
    """Return a criterion of the settings, a built-in one, or one of the store, by its name or its metric.

    Redis is read only if it is none of the first two.

    Args:
        settings: of the deployment.
        name: name or metric of the criterion.
        remedy: what to do if there is none.

    Raises:
        typer.BadParameter: there is none of this name, as far as Redis can be read.
    """
    name = name.removeprefix(f"{CRITERIA_FAMILY}.")
    for criterion in settings.judge.criteria:
        if criterion.name == name:
            return criterion
    if name in BUILT_IN:
        return Criterion.model_validate({"name": name})
    stored, unread = StoredCriteria(), ""
    try:
        stored = with_redis(settings, lambda redis, _: read_stored_criteria(redis, settings.prefix))
    except RedisUnavailable as error:
        unread = f". Stored criteria were not read: {error}"
    found = stored.find(name)
    if found is not None:
        return found.criterion
    names = [*(each.name for each in settings.judge.criteria), *(each.criterion.name for each in stored.criteria)]
    raise typer.BadParameter(f"{unknown('criterion', name, [*names, *BUILT_IN])}; or {remedy}{unread}")


def check_is_of_answers(criterion: Criterion, why: str) -> None:
    """Refuse a criterion about whole sessions.

    Args:
        criterion: that a command was given.
        why: why the command takes criteria about single answers only, and the remedy.

    Raises:
        ConfigurationError: the criterion is about whole sessions.
    """
    if criterion.is_of_session:
        raise ConfigurationError(f"{criterion.metric} is a criterion about whole sessions, and {why}")


def store(settings: Settings, criterion: Criterion, by: str, *, replace: bool) -> str:
    """Store a criterion, and return a sentence about what that did.

    Raises:
        typer.BadParameter: a criterion of this name is stored or in the settings, or there are too many.
    """

    async def body(redis: Redis, _: RedisHandle) -> StoredCriterion | None:
        before = (await read_stored_criteria(redis, settings.prefix)).find(criterion.name)
        if before is not None and not replace:
            raise typer.BadParameter(f"a criterion {criterion.name} is stored already: give --replace to change it")
        paused = before is not None and before.paused
        stored = StoredCriterion(criterion=criterion, by=by, at=utc_now(), paused=paused)
        return await store_criterion(redis, settings.prefix, stored, settings.judge.criteria)

    try:
        check_sessions([criterion], settings.splits, settings.producer)
        before = with_redis(settings, body)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if before is None:
        return f"version {criterion.version}; workers ask it within seconds"
    if before.criterion.version == criterion.version:
        return f"version {criterion.version} as before; its numbers continue"
    return f"version {before.criterion.version} becomes {criterion.version}, which has numbers of its own"


def remove(settings: Settings, names: Sequence[str]) -> None:
    """Remove stored criteria.

    Raises:
        typer.BadParameter: one is not stored; the others are removed.
    """

    async def body(redis: Redis, _: RedisHandle) -> list[str]:
        return [name for name in names if not await remove_criterion(redis, settings.prefix, name)]

    missing = with_redis(settings, body)
    in_settings = {criterion.name for criterion in settings.judge.criteria}
    for name in missing:
        if name in in_settings:
            raise typer.BadParameter(f"the criterion {name} is in the settings: remove it there")
    if missing:
        raise typer.BadParameter(f"no criterion {', '.join(missing)} is stored: ragtide criteria list shows them")


def criteria_of_deployment(settings: Settings) -> tuple[list[CriterionRow], Sequence[str]]:
    """Return the criteria of a deployment with their numbers, and the names of those that cannot be read."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[CriterionRow], Sequence[str]]:
        stored = await read_stored_criteria(redis, settings.prefix)
        estimates = await Deployment(redis, settings).overview()
        return criterion_rows(settings.judge.criteria, stored, estimates, lambda _: True), stored.unreadable

    return with_redis(settings, body)


def show_criteria(rows: Sequence[CriterionRow]) -> None:
    """Print the criteria with their numbers."""
    if not rows:
        err.print("No criteria: ragtide criteria add stores one; the settings may have [[judge.criteria]].")
        return
    lines = [(row, number) for row in rows for number in (row.numbers or (None,))]
    shown = [row is not lines[place - 1][0] or not place for place, (row, _) in enumerate(lines)]
    first = list(zip(lines, shown, strict=True))
    names = [row.criterion.name if is_first else "" for (row, _), is_first in first]
    columns = [
        Column("criterion", names, yields=3, shortest=20),
        Column("state", [_state(row) if is_first else "" for (row, _), is_first in first], yields=2, stacks=True),
        Column("pipeline", [number.pipeline if number else "" for _, number in lines], yields=6, shortest=8),
        Column("version", [_version(number) for _, number in lines], yields=5, stacks=True),
        Column("mean", [_mean(number) for _, number in lines], right=True),
        Column("interval", [_interval(number) for _, number in lines], right=True),
        Column("asked", [_count(number, "asked") for _, number in lines], right=True),
        Column("cannot tell", [_count(number, "cannot_tell") for _, number in lines], True, yields=4, stacks=True),
        Column("", [row.criterion.question if is_first else "" for (row, _), is_first in first], yields=1, stacks=True),
    ]  # fmt: skip
    out.print(fitted(columns, out.width))


def _state(row: CriterionRow) -> str:
    where = "in the settings" if row.source == "settings" else f"by {row.by}"
    state = {"in the settings": "not asked: the settings have this name"}.get(row.state, row.state)
    return f"{state}, {row.criterion.rate:.0%}, {where}"


def _version(number: Any) -> str:
    if number is None:
        return ""
    return "present" if number.is_present else str(number.version)


def _mean(number: Any) -> str:
    return "" if number is None or number.estimate is None else f"{number.estimate:.3f}"


def _count(number: Any, name: str) -> str:
    return "" if number is None else f"{getattr(number, name):,}"


def _interval(number: Any) -> str:
    if number is None or number.lower is None or number.estimate is None:
        return ""
    return f"{number.lower:.3f} – {number.upper:.3f}"


def typical_interactions(file: str | None) -> list[RagInteraction]:
    """Return the first interactions of a file; of the bundled ones without a file."""
    if file is None:
        return bundled_interactions()
    found = (row.interaction for row in read_rows(file, FileOptions(unnamed="unnamed")))
    interactions = list(islice((interaction for interaction in found if interaction is not None), TYPICAL))
    if not interactions:
        raise typer.BadParameter(f"{file} has no interaction: give a file that has some", param_hint="--file")
    return interactions


def show_checks(
    criteria: Sequence[Criterion], findings: Sequence[CriterionFinding], prices: CriteriaPrices | None, reasons: str
) -> None:
    """Print the findings, and the price of 1,000 answers."""
    for finding in findings:
        style = "red" if finding.level == "error" else "yellow"
        out.print(f"{finding.criterion}: {finding.level}, {finding.kind}: {finding.message}", style=style)
    if not findings:
        out.print(f"{len(criteria)} criteria, and nothing to object.")
    if prices is None:
        out.print("No price, because not all of these criteria can be asked: correct the errors.")
        return
    for unit, together in (("answer", prices.together), ("session", prices.together_of_session)):
        if together is not None:
            _show_prices(prices, [price for price in prices.each if price.unit == unit], together, reasons)


def _show_prices(
    prices: CriteriaPrices, each: Sequence[CriterionPrice], together: CriterionPrice, reasons: str
) -> None:
    rows: list[CriterionPrice] = [*each, *([together] if len(each) > 1 else [])]
    columns = [
        Column(f"per {PER:,} {together.unit}s", [row.name or "all together" for row in rows], shortest=12),
        Column("tokens in", [f"{row.prompt_tokens:,.0f}" for row in rows], right=True),
        Column("tokens out", [f"{row.completion_tokens:,.0f}" for row in rows], right=True),
        Column("US dollars", [_dollars(row.cost_usd) for row in rows], right=True),
        Column("out, no reasons", [f"{row.completion_tokens_bare:,.0f}" for row in rows], right=True, yields=1),
        Column("US dollars, no reasons", [_dollars(row.cost_usd_bare) for row in rows], right=True, yields=2),
    ]
    out.print()
    out.print(fitted(columns, out.width))
    model = prices.model or "no model is set (judge.model), so there are no dollars"
    calls = together.calls / PER
    item, items = ("item", prices.items) if together.unit == "answer" else ("session", prices.sessions)
    extra = (
        f"{calls:g} more calls {'an' if item == 'item' else 'a'} {item}" if calls else "in the call that is made anyway"
    )
    err.print(
        f"{model}; {extra}; estimated from {items} {item}s; judge.reasons is {reasons!r}; "
        "a criterion with a rate below 1 costs that share",
        style="bright_black",
        soft_wrap=True,
    )


def _dollars(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:,.4f}"
