"""Settings of the LLM judge, and of the cascade that sends it a sample: the tables `[judge]` and `[cascade]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Dollars = Annotated[float, Field(ge=0)]


class Price(BaseModel):
    """What a model costs, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    input: Dollars
    """Tokens sent."""
    output: Dollars
    """Tokens answered."""
    cached_input: Dollars | None = None
    """Tokens sent that the endpoint had cached; None costs what others cost."""


class JudgeSettings(BaseModel):
    """The judge: any endpoint that speaks OpenAI's chat completions protocol."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Model to ask; required by the labelers `judge` and `cascade`."""
    base_url: str | None = None
    """Where the endpoint is; by default `OPENAI_BASE_URL`, or else OpenAI's own."""
    api_key: SecretStr | None = None
    """Key of the endpoint; by default `OPENAI_API_KEY`. A local endpoint may need none."""
    families: Annotated[tuple[Literal["trace", "ragchecker"], ...], Field(min_length=1)] = ("trace",)
    """Which metrics it is asked for: `trace` (one call), `ragchecker` (two calls)."""
    language: Literal["auto", "en", "ru"] = "auto"
    """Language of the prompts; `auto` takes Russian for Russian content and English for all other."""
    structured: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """How the form of the answer is asked for; `auto` starts with a JSON schema and learns what the endpoint takes."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """Sampling temperature; None sends none."""
    answer_tokens: Annotated[int, Field(ge=64)] = 8192
    """Most tokens of one answer."""
    context_tokens: Annotated[int, Field(ge=200)] = 24_000
    """Tokens of documents in one call, by estimate; longer contexts are split over several calls and merged."""
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds one call may take."""
    attempts: Annotated[int, Field(ge=1)] = 6
    """Calls made for one answer when the endpoint fails, before it counts as unavailable."""
    repairs: Annotated[int, Field(ge=0)] = 2
    """How often a judge that gave an unusable answer is told what was wrong and asked again."""
    max_in_flight: Annotated[int, Field(ge=1)] = 64
    """Most calls of one worker at once; fewer while the endpoint answers 429 or slows down."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Calls one worker makes a minute."""
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Tokens one worker sends and asks for a minute, by estimate."""
    breaker_failures: Annotated[int, Field(ge=1)] = 10
    """Failures in a row after which the endpoint is left alone for a while."""
    breaker_pause_s: Annotated[float, Field(gt=0)] = 15.0
    """Seconds it is left alone, before one call tries whether it is back; doubled while it is not, up to 5 minutes."""
    spend_per_hour_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars the whole deployment may spend in a clock hour (UTC)."""
    spend_per_day_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars it may spend in a day (UTC)."""
    over_budget: Literal["pause", "local"] = "pause"
    """When a spend limit is reached: wait for the next hour or day, or let the local labeler score meanwhile."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of each model; a spend limit needs the model's price."""
    cache_ttl_s: Annotated[float, Field(ge=0)] = 2_592_000.0
    """Seconds for which usable answers are kept by content, so that a replay does not pay twice; 0 keeps none."""

    @model_validator(mode="after")
    def _a_limit_needs_a_price(self) -> Self:
        limited = self.spend_per_hour_usd is not None or self.spend_per_day_usd is not None
        if limited and self.model is not None and self.model not in self.prices:
            raise ValueError(
                f"judge has a spend limit and no price for {self.model}: add it under judge.prices, "
                "in dollars per million tokens"
            )
        return self


class CascadeSettings(BaseModel):
    """Which interactions the judge sees when the local labeler scores all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    rate: Share = 0.05
    """Share of the interactions that is sent to the judge."""
    segment_rates: dict[str, Share] = Field(default_factory=dict)
    """Share by segment value, such as `{"lang=ru" = 0.5}`; an interaction in several has the largest."""
    below: dict[str, float] = Field(default_factory=dict)
    """Local scores below which an interaction is always sent, such as `{"trace.adherence" = 0.3}`."""
    salt: str = ""
    """Another text draws another sample; the same text draws the same, in every process and replay."""
    when_unavailable: Literal["skip", "wait"] = "skip"
    """When the judge cannot be asked: publish the local scores alone, its own counted as absent, or wait."""
