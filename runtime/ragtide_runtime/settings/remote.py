"""Settings of labelers that call a remote endpoint: limits of any endpoint, and the tables `[services.NAME]`."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

Dollars = Annotated[float, Field(ge=0)]


def _not_judge(name: str) -> str:
    if name == "judge":
        raise ValueError("the judge has a table of its own: write [judge]")
    return name


ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$"), AfterValidator(_not_judge)]
"""Name of a service; the names of its keys in Redis and of its counters begin with it."""


class RemoteSettings(BaseModel):
    """The limits of calls to an endpoint: time, attempts, rate and cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())

    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that one call may take."""
    attempts: Annotated[int, Field(ge=1)] = 6
    """Most failed calls for one answer before the endpoint counts as unavailable."""
    max_in_flight: Annotated[int, Field(ge=1)] = 64
    """Most concurrent calls of one worker; fewer while the endpoint answers 429 or slows down."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Most calls of one worker a minute."""
    breaker_failures: Annotated[int, Field(ge=1)] = 10
    """Failures in a row after which calls to the endpoint are paused."""
    breaker_pause_s: Annotated[float, Field(gt=0)] = 15.0
    """Seconds of the pause, after which a single call tries; the pause doubles while calls fail, up to 5 minutes."""
    spend_per_hour_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars that the whole deployment may spend in a clock hour (UTC)."""
    spend_per_day_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars that the whole deployment may spend in a day (UTC)."""
    cache_ttl_s: Annotated[float, Field(ge=0)] = 2_592_000.0
    """Seconds for which usable answers stay in the cache, so that a replay does not pay again; 0 switches it off."""

    @property
    def spend_is_limited(self) -> bool:
        """Whether there is a spend limit."""
        return self.spend_per_hour_usd is not None or self.spend_per_day_usd is not None

    @property
    def over_budget_effect(self) -> str:
        """The effect of a reached spend limit, in words."""
        return "labeling waits for the next period"


class ServiceSettings(RemoteSettings):
    """An HTTP service that a labeler calls."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)]
    """Address of the service, such as `http://nli:8080`; a labeler may add a path."""
    api_key: SecretStr | None = None
    """Key that is sent as a bearer token; None sends no token."""
    model: Annotated[str, StringConstraints(max_length=100)] = ""
    """Model that the service runs. It is part of the labeler's version, so change it when the model changes."""
    batch: Annotated[int, Field(ge=1)] = 32
    """Most texts, or pairs of texts, in one call."""
    call_usd: Dollars = 0.0
    """Price of one answered call in US dollars."""

    @model_validator(mode="after")
    def _a_limit_needs_a_price(self) -> Self:
        if self.spend_is_limited and not self.call_usd:
            raise ValueError("there is a spend limit without a price: set call_usd, the price of a call in dollars")
        return self
