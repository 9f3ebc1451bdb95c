"""Settings of labelers that ask a remote endpoint: limits that all share, and the tables `[services.NAME]`."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

Dollars = Annotated[float, Field(ge=0)]


def _not_judge(name: str) -> str:
    if name == "judge":
        raise ValueError("the judge has a table of its own: write [judge]")
    return name


ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$"), AfterValidator(_not_judge)]
"""Name of a service, which begins names of its keys in Redis and of its counters."""


class RemoteSettings(BaseModel):
    """How an endpoint is asked: how fast, how often, for how much."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())

    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds one call may take."""
    attempts: Annotated[int, Field(ge=1)] = 6
    """Calls made for one answer when the endpoint fails, before it counts as unavailable."""
    max_in_flight: Annotated[int, Field(ge=1)] = 64
    """Most calls of one worker at once; fewer while the endpoint answers 429 or slows down."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Calls one worker makes a minute."""
    breaker_failures: Annotated[int, Field(ge=1)] = 10
    """Failures in a row after which calls to the endpoint are paused."""
    breaker_pause_s: Annotated[float, Field(gt=0)] = 15.0
    """Seconds of the pause, after which one call tries the endpoint; doubled while it fails, up to 5 minutes."""
    spend_per_hour_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars the whole deployment may spend in a clock hour (UTC)."""
    spend_per_day_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars it may spend in a day (UTC)."""
    cache_ttl_s: Annotated[float, Field(ge=0)] = 2_592_000.0
    """Seconds for which usable answers are kept by content, so that a replay does not pay twice; 0 keeps none."""

    @property
    def spend_is_limited(self) -> bool:
        """Whether there is a spend limit."""
        return self.spend_per_hour_usd is not None or self.spend_per_day_usd is not None

    @property
    def over_budget_effect(self) -> str:
        """The consequence of a spend limit that is reached, in words."""
        return "labeling waits for the next period"


class ServiceSettings(RemoteSettings):
    """An HTTP service that a labeler asks."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)]
    """Address of the service, such as `http://nli:8080`; a labeler may add a path."""
    api_key: SecretStr | None = None
    """Sent as a bearer token; None sends none."""
    model: Annotated[str, StringConstraints(max_length=100)] = ""
    """Model that the service runs. It is part of the labeler's version, so change it when the model changes."""
    batch: Annotated[int, Field(ge=1)] = 32
    """Most texts, or pairs of texts, in one call."""
    call_usd: Dollars = 0.0
    """Price of one answered call in US dollars."""

    @model_validator(mode="after")
    def _a_limit_needs_a_price(self) -> Self:
        if self.spend_is_limited and not self.call_usd:
            raise ValueError("there is a spend limit and no price: set call_usd, the price of one call in dollars")
        return self
