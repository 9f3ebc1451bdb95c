"""A judge is set up: one item is asked, each rate gets a price and what it would see, and the settings are written."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import SecretStr

from ragtide_aggregator.statistics.drift.sights import Sight, sight
from ragtide_consumers.labelers.judge.costs import price_of
from ragtide_consumers.labelers.protocol import Labeler, LabelerUnavailable, Labeling, scores_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import JudgeSettings, Price
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.toml_file import settings_file
from ragtide_runtime.settings.writing import variable_of, write_settings
from ragtide_schemas import AlertRule, RagInteraction, RetrievedDocument
from ragtide_schemas.slopes import UNSUPPORTED, Slope

from .endpoints import PREFERRED, JudgeEndpoint, choose_model
from .own_traffic import OwnTraffic

if TYPE_CHECKING:
    from ragtide_consumers.labelers.judge.labeler import JudgeLabeler

RATES: Final = (0.01, 0.05, 0.1)
"""Rates that are compared."""
FALLS: Final = (0.2, 0.4)
"""True falls of the share of good answers whose waiting times are shown."""
USUAL_MEAN: Final = 0.9
"""Mean before the fall, if no number of the deployment is known."""
USUAL_KAPPA: Final = 0.6
"""Agreement of a judge with people that is assumed until it is measured: the mean moves by so much for each unit."""
OWN_MACHINE: Final = "own machine"
"""Source of the price of a model that runs on this machine: 0."""
USUAL_LIMIT_USD: Final = 5.0
"""Spend limit of a day while the traffic is not known."""
ATTEMPTS: Final = 2
"""Attempts to ask the test item, where a running worker makes more."""

ITEM: Final = RagInteraction(
    interaction_id="judge-setup",
    pipeline="judge-setup",
    question="When was the lighthouse built, and is it open to visitors?",
    documents=(
        RetrievedDocument(
            id="lighthouse",
            text="The lighthouse on the cape was built in 1857 and is 31 metres high. It replaced a wooden tower that "
            "burned down. Its lamp was electrified in 1912. Since 1998 it has run without a keeper.",
        ),
        RetrievedDocument(
            id="visits",
            text="Visitors may climb the tower from May to September, every day from 10 to 17 o'clock. A ticket "
            "costs 4 euros, and children enter free of charge. Dogs must stay outside.",
        ),
    ),
    response="It was built in 1857. You can climb it from May to September. The view is the best of the country.",
)
"""The test item: two sentences that the documents support, and one that they do not."""


_ALONE: Final[Mapping[str, object]] = {
    "criteria": (), "families": ("trace",), "cache_ttl_s": 0.0, "repeat_share": 0.0,
    "spend_per_hour_usd": None, "spend_per_day_usd": None, "over_budget": "pause",
}  # fmt: skip
"""Settings with which a judge is asked about the test item and nothing else, outside of the accounts."""


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """A judge that answered its test item, and the settings that make it score a sample."""

    source: str
    """How the endpoint was found: a variable, a setting, or a server of this machine."""
    address: str
    """Of the endpoint, without secrets."""
    key_variable: str | None
    """The environment variable with the key; it is never written. None if the endpoint needs none."""
    model: str
    scores: Mapping[str, float]
    """Scores of the test item."""
    seconds: float
    """Time that its answer took."""
    prompt_tokens: int
    completion_tokens: int
    usd_per_answer: float | None
    """Dollars of a judged answer; None if no price is known."""
    priced_items: int
    """Kept answers whose texts this price is of; 0 if it is that of the test item."""
    price_source: str | None
    """`settings`, a price table, or `own machine`, where an answer costs nothing; None if no price is known."""
    answers_per_day: float | None
    """Answers of all pipelines at the traffic of now; None if it is not known."""
    kappa: float
    """Agreement with people: how far the judge's mean moves per unit of a fall of the truth."""
    measured_rows: int
    """Rows with labels by which it was measured here; 0 if it is assumed."""
    mean: float
    """Mean before the falls."""
    rates: tuple[Sight, ...]
    rate: float
    """The chosen rate."""
    spend_per_day_usd: float | None
    """The spend limit; None without a price, or where an answer costs nothing."""
    rules: tuple[str, ...]
    """Names of the drift rules that watch the judge's numbers afterwards."""
    file: str
    """The settings file."""
    settings: Mapping[str, object]
    """The settings that are added to it."""
    added_rules: tuple[Mapping[str, object], ...]
    """The rules that are added to it."""
    written: bool = False
    """Whether they are."""

    def as_dict(self) -> dict[str, Any]:
        """Return the setup, for programs."""
        return asdict(self)


def judge_sights(
    traffic: Mapping[str, float],
    usd_per_answer: float | None,
    *,
    kappa: float = USUAL_KAPPA,
    mean: float = USUAL_MEAN,
    rates: Sequence[float] = RATES,
) -> tuple[Sight, ...]:
    """Return what each rate costs a day in all pipelines, and how soon it sees a fall in the busiest one.

    Args:
        traffic: answers of a day by pipeline; empty if they are not known.
        usd_per_answer: dollars of a judged answer; None if they are not known.
        kappa: assumed agreement of the judge with people.
        mean: share of good answers before the fall.
        rates: shares of the answers that are judged, above 0.
    """
    busiest = max(traffic.values(), default=None)
    return tuple(
        sight(
            rate,
            FALLS,
            mean=mean,
            slope=kappa,
            usd_per_score=usd_per_answer,
            answers_a_day=busiest,
            priced_a_day=sum(traffic.values()) if traffic else None,
        )
        for rate in rates
    )


async def plan_setup(
    settings: Settings,
    endpoint: JudgeEndpoint,
    traffic: OwnTraffic,
    *,
    model: str | None = None,
    rate: float | None = None,
    kappa: float | None = None,
    spend_per_day_usd: float | None = None,
    price: Price | None = None,
) -> JudgeSetup:
    """Ask the test item, and return the setup. It writes nothing.

    Args:
        settings: of the process.
        endpoint: that is asked.
        traffic: of now.
        model: its name; None for that of the settings, or one that the endpoint lists.
        rate: share of the answers that is judged; None for `cascade.rate`.
        kappa: assumed agreement of the judge with people; None for the slope that was measured here, or the usual one.
        spend_per_day_usd: spend limit; None for that of the settings, or twice the price a day.
        price: of the model; None for that of the settings or of the price table.

    Raises:
        ConfigurationError: the settings score by evaluators or by the judge alone, no model can be chosen, the endpoint
            gives no usable answer, or a public endpoint has no known price.
    """
    _check_labeler(settings)
    name = choose_model(endpoint, model or settings.judge.model)
    prices = settings.judge.prices if price is None else {**settings.judge.prices, name: price}
    judge = settings.judge.model_copy(update={"model": name, "base_url": endpoint.url, "prices": prices})
    source = _price_source(endpoint, judge)
    started = monotonic()
    labeling = await ask_item(settings, judge)
    seconds = monotonic() - started
    usd = await _usd_per_answer(settings, judge, labeling, traffic) if source != OWN_MACHINE else 0.0
    chosen = settings.cascade.rate if rate is None else rate
    measured = await _measured_slope(settings, judge, traffic) if kappa is None else None
    kappa = kappa or USUAL_KAPPA if measured is None else measured.slope
    rates = judge_sights(traffic.per_day, usd, kappa=kappa, rates=sorted({*RATES, chosen}))
    limit = _limit(settings, usd, next(each for each in rates if each.rate == chosen), spend_per_day_usd)
    added = rules_to_add(settings.alerts)
    return JudgeSetup(
        source=endpoint.source,
        address=endpoint.address,
        key_variable=endpoint.key_variable,
        model=name,
        scores=dict(labeling.scores),
        seconds=seconds,
        prompt_tokens=labeling.prompt_tokens,
        completion_tokens=labeling.completion_tokens,
        usd_per_answer=usd,
        priced_items=len(traffic.items) if usd else 0,
        price_source=source,
        answers_per_day=traffic.answers_per_day,
        kappa=kappa,
        measured_rows=0 if measured is None else measured.rows,
        mean=USUAL_MEAN,
        rates=rates,
        rate=chosen,
        spend_per_day_usd=limit,
        rules=tuple(rule.name for rule in (*settings.alerts, *added) if _watches_judge(rule) and rule.metric in JUDGED),
        file=str(settings_file()),
        settings=_settings_to_write(settings, endpoint, name, rate=chosen, limit=limit, prices=prices),
        added_rules=tuple(rule.model_dump(mode="json", exclude_unset=True) for rule in added),
    )


def _judge_of(settings: Settings) -> AbstractAsyncContextManager[Labeler]:
    from ragtide_consumers.labelers.registry import labeler_of  # noqa: PLC0415 - the page builds none to start

    return labeler_of(settings, None, patient=False)


async def _measured_slope(settings: Settings, judge: JudgeSettings, traffic: OwnTraffic) -> Slope | None:
    """Return the slope of this version of the judge that `ragtide trust --store` stored; None without one."""
    if not traffic.slopes:
        return None
    one = settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": judge})
    async with _judge_of(one) as labeler:
        measured = traffic.slopes.get((labeler.name, labeler.version), {}).get("trace.adherence", ())
    return next((slope for slope in measured if slope.failure == UNSUPPORTED), None)


def _price_source(endpoint: JudgeEndpoint, judge: JudgeSettings) -> str | None:
    known = price_of(judge)
    if known is not None:
        return known.source
    if not endpoint.is_free and not endpoint.is_near:
        raise ConfigurationError(
            f"the price of {judge.model} at {endpoint.address} is not known, so no spend limit can be kept: give "
            "--price INPUT/OUTPUT, in dollars per million tokens"
        )
    return OWN_MACHINE if endpoint.is_free else None


async def _usd_per_answer(
    settings: Settings, judge: JudgeSettings, labeling: Labeling, traffic: OwnTraffic
) -> float | None:
    """Return the measured dollars of the test item, or of kept answers in proportion to their planned dollars."""
    known = price_of(judge)
    if known is None:
        return None
    usd = known.cost_usd(prompt_tokens=labeling.prompt_tokens, completion_tokens=labeling.completion_tokens)
    if not usd or not traffic.items:
        return usd
    planned = await _planned_usd(settings, judge, (ITEM,))
    return usd * await _planned_usd(settings, judge, traffic.items) / planned if planned else usd


async def _planned_usd(settings: Settings, judge: JudgeSettings, items: Sequence[RagInteraction]) -> float:
    """Return the mean dollars of judging an item, by estimate and without a call."""
    alone = judge.model_copy(update={"api_key": SecretStr("none"), **_ALONE})
    one = settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": alone})
    async with _judge_of(one) as labeler:
        planned = [await cast("JudgeLabeler", labeler).planned_calls(item) for item in items]
    return sum(calls.cost_usd for calls in planned) / len(planned)


def _limit(settings: Settings, usd: float | None, chosen: Sight, wanted: float | None) -> float | None:
    if not usd:
        return None
    own = wanted or settings.judge.spend_per_day_usd
    if own is not None:
        return own
    return USUAL_LIMIT_USD if chosen.usd_a_day is None else float(max(1, ceil(2 * chosen.usd_a_day)))


def write_setup(setup: JudgeSetup) -> JudgeSetup:
    """Write the settings of a setup into the settings file, and return it as written.

    Raises:
        ConfigurationError: the file cannot be written, or the environment is stronger than a setting in it.
    """
    write_settings(Path(setup.file), setup.settings, {"alerts": setup.added_rules} if setup.added_rules else None)
    return replace(setup, written=True)


async def offered_rates(settings: Settings, traffic: OwnTraffic) -> tuple[str, tuple[Sight, ...]]:
    """Return the model that a setup would choose, and what each rate would cost and see. It makes no call.

    The tokens of the kept answers, or else of the test item, are estimated, and the price is a list price.

    Args:
        settings: of the process.
        traffic: of now.
    """
    judge = settings.judge.model_copy(update={"model": settings.judge.model or PREFERRED[0]})
    known = price_of(judge) is not None
    usd = await _planned_usd(settings, judge, traffic.items or (ITEM,)) if known else None
    return str(judge.model), judge_sights(traffic.per_day, usd)


async def ask_item(settings: Settings, judge: JudgeSettings) -> Labeling:
    """Return the judge's labeling of the test item, without cache, Redis and spend limit.

    Raises:
        ConfigurationError: the endpoint does not answer, or refuses, or its answer cannot be used.
    """
    alone = judge.model_copy(update={"attempts": ATTEMPTS, **_ALONE})
    one = settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": alone})
    try:
        async with _judge_of(one) as labeler:
            labeling = await scores_of(labeler, ITEM)
    except LabelerUnavailable as error:
        raise ConfigurationError(f"{judge.model} does not score the test item: {error}") from None
    if not labeling.scores:
        reason = next(iter(labeling.absent.values()), "no score")
        raise ConfigurationError(
            f"{judge.model} answered the test item with nothing that can be used ({reason}): name a larger model with "
            '--model, or set judge.prompt = "keys" for a small one'
        )
    return labeling


def _check_labeler(settings: Settings) -> None:
    if settings.evaluators:
        raise ConfigurationError(
            "the settings have [[evaluators]], and a judge of a sample is another of them: add one with labeler = "
            '"judge" and a rate'
        )
    if settings.labeler == "judge":
        raise ConfigurationError('labeler is "judge", so the judge scores every answer: remove labeler for a sample')
    if settings.labeler == "cascade" and settings.cascade.reference != "judge":
        raise ConfigurationError(
            f'cascade.reference is "{settings.cascade.reference}", and setup is for a judge: set it to "judge"'
        )


def _settings_to_write(
    settings: Settings,
    endpoint: JudgeEndpoint,
    model: str,
    *,
    rate: float,
    limit: float | None,
    prices: Mapping[str, Price],
) -> dict[str, object]:
    wanted: dict[str, tuple[object, object]] = {
        "labeler": ("cascade", settings.labeler),
        "judge.model": (model, settings.judge.model),
        "judge.base_url": (endpoint.url, settings.judge.base_url),
        "judge.spend_per_day_usd": (limit, settings.judge.spend_per_day_usd),
        "cascade.rate": (rate, settings.cascade.rate),
    }
    if settings.labeler not in ("local", "cascade"):
        wanted["cascade.proxy"] = settings.labeler, settings.cascade.proxy
    if endpoint.has_secret:  # stays in the environment
        del wanted["judge.base_url"]
    written = {
        name: value
        for name, (value, present) in wanted.items()
        if value is not None and not (value == present and variable_of(name) in os.environ)
    }
    if prices != settings.judge.prices:
        written["judge.prices"] = {name: price.model_dump(exclude_none=True) for name, price in prices.items()}
    return written


def rules_to_add(rules: Sequence[AlertRule]) -> tuple[AlertRule, ...]:
    """Return the drift rules on the judge's numbers that are not among rules."""
    watched = {rule.metric for rule in rules if _watches_judge(rule)}
    return tuple(rule for rule in JUDGE_RULES if rule.metric not in watched)


def _watches_judge(rule: AlertRule) -> bool:
    is_whole = (rule.pipeline, rule.segment) == ("*", None)
    return rule.kind == "drift" and is_whole and rule.watches_labeler("judge")


JUDGE_RULES: Final = tuple(
    AlertRule(name=f"judge-{name}-drift", kind="drift", metric=metric, baseline="earlier", labeler="judge")
    for name, metric in (("adherence", "trace.adherence"), ("relevance", "trace.context_relevance"))
)
"""The rules that watch a judge's numbers, where no other rule does."""
JUDGED: Final = frozenset(rule.metric for rule in JUDGE_RULES)
"""Their metrics."""
