"""Settings of the LLM judge: the table `[judge]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from .remote import Dollars, RemoteSettings


class Price(BaseModel):
    """Prices of a model, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    input: Dollars
    """Tokens sent."""
    output: Dollars
    """Tokens answered."""
    cached_input: Dollars | None = None
    """Tokens sent that the endpoint had cached; None for the price of other tokens."""


class JudgeSettings(RemoteSettings):
    """The judge: any endpoint that speaks OpenAI's chat completions protocol."""

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
    repairs: Annotated[int, Field(ge=0)] = 2
    """How often a judge that gave an unusable answer is asked again, with the mistake."""
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Tokens one worker sends and asks for a minute, by estimate."""
    over_budget: Literal["pause", "local"] = "pause"
    """When a spend limit is reached: wait for the next hour or day, or let the local labeler score meanwhile."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of each model; a spend limit needs the model's price."""

    @property
    def over_budget_effect(self) -> str:
        """The consequence of a spend limit that is reached, in words."""
        local = self.over_budget == "local"
        return "the local labeler scores until the next period" if local else super().over_budget_effect

    @model_validator(mode="after")
    def _a_limit_needs_a_price(self) -> Self:
        if self.spend_is_limited and self.model is not None and self.model not in self.prices:
            raise ValueError(
                f"judge has a spend limit and no price for {self.model}: add it under judge.prices, "
                "in dollars per million tokens"
            )
        return self
