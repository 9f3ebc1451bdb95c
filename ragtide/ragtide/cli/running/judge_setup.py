"""Sets a judge up for a command: reads the traffic of now, asks the test item, and writes the settings."""

import asyncio

import typer

from ragtide_aggregator.errors import CheckpointError, DamagedFieldError
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_roles.judge_setup.endpoints import find_endpoint
from ragtide_roles.judge_setup.own_traffic import OwnTraffic, read_own_traffic
from ragtide_roles.judge_setup.setting_up import JudgeSetup, plan_setup, write_setup
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.labelers import Price
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging

from ..printing import err
from ..printing.laboratory import setup_sentence, show_setup
from .redis import with_redis


def planned_setup(
    settings: Settings,
    *,
    model: str | None = None,
    rate: float | None = None,
    kappa: float | None = None,
    spend_per_day_usd: float | None = None,
    price: str | None = None,
) -> JudgeSetup:
    """Find an endpoint, ask the test item, and return the setup (`plan_setup`).

    Args:
        price: dollars per million tokens, as `INPUT/OUTPUT`.

    Raises:
        ConfigurationError: there is no endpoint, or it cannot be used.
    """
    own_price = None if price is None else _price(price)
    traffic = _traffic(settings)

    async def plan() -> JudgeSetup:
        endpoint = await find_endpoint(settings.judge)
        return await plan_setup(
            settings,
            endpoint,
            traffic,
            model=model,
            rate=rate,
            kappa=kappa,
            spend_per_day_usd=spend_per_day_usd,
            price=own_price,
        )

    return asyncio.run(plan())


def set_up_judge(settings: Settings) -> None:
    """Set a judge up without a question, and print it; nothing is done if a judge scores already.

    Raises:
        ConfigurationError: there is no endpoint, it cannot be used, or the settings cannot be written.
    """
    if "judge" in settings.labelers:
        return
    configure_logging("error")
    setup = planned_setup(settings)
    show_setup(setup)
    err.print(setup_sentence(write_setup(setup)), markup=False, highlight=False, soft_wrap=True)


def _price(text: str) -> Price:
    sent, _, answered = text.partition("/")
    try:
        return Price(input=float(sent), output=float(answered))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no price: give dollars per million tokens sent and answered, such as 0.25/2",
            param_hint="--price",
        ) from None


def _traffic(settings: Settings) -> OwnTraffic:
    """Return the traffic of now; none if no Redis is set or runs, or it cannot be read: it starts no Redis."""
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        return OwnTraffic()
    try:
        return with_redis(settings, lambda redis, _: read_own_traffic(redis, Deployment(redis, settings)))
    except (RedisUnavailable, CheckpointError, DamagedFieldError):
        return OwnTraffic()
