"""Settings of the LLM judge: the table `[judge]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from .recorder import Pattern
from .remote import Dollars, RemoteSettings

PromptVariant = Literal["full", "short", "keys"]
"""Variant of the prompts: `short` and `keys` are for small models."""


class Price(BaseModel):
    """Prices of a model, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    input: Dollars
    """Tokens sent."""
    output: Dollars
    """Tokens answered."""
    cached_input: Dollars | None = None
    """Tokens sent that the endpoint had cached; None for the price of `input`."""


class JudgeSettings(RemoteSettings):
    """The judge: any endpoint with OpenAI's chat completions protocol."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Name of the model; required by the labelers `judge` and `cascade`."""
    base_url: str | None = None
    """Address of the endpoint; by default `OPENAI_BASE_URL`, or else OpenAI's endpoint."""
    api_key: SecretStr | None = None
    """Key of the endpoint; by default `OPENAI_API_KEY`. A local endpoint may need none."""
    families: Annotated[tuple[Literal["trace", "ragchecker"], ...], Field(min_length=1)] = ("trace",)
    """Families of metrics: `trace` (one call), `ragchecker` (two calls)."""
    language: Literal["auto", "en", "ru"] = "auto"
    """Language of the prompts; `auto` is Russian for Russian content and English for all other content."""
    prompt: PromptVariant = "full"
    """Variant of the prompts: `full`; for small models `short`, with fewer words and no explanations, and `keys`, which
    is short and answered in lines of keys instead of JSON."""
    grammar: Literal["vllm", "llama.cpp"] | None = None
    """Server whose own field takes a grammar, with which the answer to the variant `keys` has no other form; None sends
    no grammar. A JSON answer has the form of `structured`, which both servers enforce."""
    window_tokens: Annotated[int, Field(ge=1024)] | None = None
    """Tokens that the model takes in all, with rules, texts and answer; None leaves it to the endpoint to refuse. With
    it, documents have the room that the rest leaves."""
    structured: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """Way to request the form of the answer; `auto` starts with a JSON schema and adapts to refusals."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """Sampling temperature; None sends no temperature."""
    answer_tokens: Annotated[int, Field(ge=64)] = 8192
    """Most tokens of one answer; with `window_tokens` at most a quarter of the window."""
    context_tokens: Annotated[int, Field(ge=200)] = 24_000
    """Tokens of documents in one call, by estimate; longer contexts are split over several calls and merged."""
    redact: tuple[Pattern, ...] = ()
    """Patterns that are removed from texts before the judge reads them: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`, in a process of its own."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that this function may take for one interaction; the judge does not read one that takes longer."""
    repairs: Annotated[int, Field(ge=0)] = 2
    """Most further prompts after an unusable answer; each names the faults of the answer."""
    repeat_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the interactions about which the judge is asked a second time, past the cache, for the metric
    `judge.self_consistency`; a hash of the id chooses them. It needs the family `trace`."""
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Most tokens a minute that one worker sends and requests, by estimate."""
    batch_price_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Price of a request in a batch (`ragtide batch`), as a share of the ordinary price."""
    over_budget: Literal["pause", "local"] = "pause"
    """If a spend limit is reached: `pause` waits for the next hour or day, `local` lets the local labeler score."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of each model. A model without one has its list price of the package `genai-prices`, if the address is that
    of a provider. A spend limit needs a price."""

    @model_validator(mode="after")
    def _a_repeat_needs_verdicts(self) -> Self:
        if self.repeat_share and "trace" not in self.families:
            raise ValueError(
                f"repeat_share is {self.repeat_share:g}, and self-consistency compares verdicts of the family trace: "
                "add trace to families, or set repeat_share to 0"
            )
        return self

    @model_validator(mode="after")
    def _a_grammar_is_of_lines(self) -> Self:
        if self.grammar is not None and self.prompt != "keys":
            raise ValueError(
                f'grammar is {self.grammar}, and prompt is {self.prompt}: set prompt to "keys", or leave grammar out, '
                "because structured already constrains JSON answers"
            )
        return self

    @property
    def most_answer_tokens(self) -> int:
        """Most tokens of one answer, within the window."""
        return self.answer_tokens if self.window_tokens is None else min(self.answer_tokens, self.window_tokens // 4)

    @property
    def over_budget_effect(self) -> str:
        """The effect of a reached spend limit, in words."""
        local = self.over_budget == "local"
        return "the local labeler scores until the next period" if local else super().over_budget_effect
