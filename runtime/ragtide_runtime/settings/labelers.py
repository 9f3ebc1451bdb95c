"""Settings of the labelers: the tables `[judge]`, `[services.NAME]`, `[local]`, `[models]` and `[cascade]`.

`RemoteSettings` has the limits of a labeler that calls an endpoint.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from ragtide_schemas.criterion import CRITERIA_MAX, Criterion

from .paths import whole_path
from .producers import ProducerSettings
from .retention import Pattern

Dollars = Annotated[float, Field(ge=0)]

AZURE_KEY: Final = "AZURE_OPENAI_API_KEY"
"""Variable with the key of an endpoint of Azure OpenAI."""


def _not_judge(name: str) -> str:
    if name == "judge":
        raise ValueError("the judge has a table of its own: write [judge]")
    return name


ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$"), AfterValidator(_not_judge)]
"""Name of a service; the names of its keys in Redis and of its counters begin with it."""


class RemoteSettings(BaseModel):
    """The limits of calls to an endpoint: time, attempts, rate and cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that one call may take."""
    attempts: Annotated[int, Field(ge=1)] = 6
    """Number of failed calls for one answer after which the endpoint counts as unavailable."""
    max_in_flight: Annotated[int, Field(ge=1)] = 64
    """Maximum number of concurrent calls of one worker, all its processes together; ragtide makes fewer while the
    endpoint answers 429 or slows down."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of calls of one worker a minute, all its processes together."""
    breaker_failures: Annotated[int, Field(ge=1)] = 10
    """Failures in a row after which calls to the endpoint are paused."""
    breaker_pause_s: Annotated[float, Field(gt=0)] = 15.0
    """Seconds of the pause. One call follows as a trial; while it fails, the pause doubles, up to 5 minutes."""
    spend_per_hour_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars that the whole deployment may spend in a clock hour (UTC)."""
    spend_per_day_usd: Annotated[float, Field(gt=0)] | None = None
    """Dollars that the whole deployment may spend in a day (UTC)."""
    cache_ttl_s: Annotated[float, Field(ge=0)] = 2_592_000.0
    """Seconds for which usable answers are cached, so that a replay does not pay again; 0 turns the cache off."""

    def share(self, number: int, processes: int) -> Self:
        """Return the limits of one process of a worker.

        Args:
            number: of the process, from 0.
        """
        more = number < self.max_in_flight % processes
        rates = {"requests_per_minute": self.requests_per_minute, **self._token_rates}
        shares = {name: rate / processes for name, rate in rates.items() if rate is not None}
        return self.model_copy(update={"max_in_flight": max(1, self.max_in_flight // processes + more), **shares})

    @property
    def _token_rates(self) -> dict[str, float | None]:
        return {}

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
    """Name of the model that the service runs. It is part of the labeler's version: change it when the model
    changes."""
    batch: Annotated[int, Field(ge=1)] = 32
    """Maximum number of texts, or pairs of texts, in one call."""
    call_usd: Dollars = 0.0
    """Price of one answered call in US dollars."""

    @model_validator(mode="after")
    def _a_limit_needs_a_price(self) -> Self:
        if self.spend_is_limited and not self.call_usd:
            raise ValueError("there is a spend limit without a price: set call_usd, the price of a call in dollars")
        return self


PromptVariant = Literal["full", "short", "keys"]
"""Variant of the prompts: `short` and `keys` are for small models."""


class Price(BaseModel):
    """Prices of a model, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Key of the endpoint; by default `OPENAI_API_KEY`, at Azure `AZURE_OPENAI_API_KEY`. A local endpoint may need
    none."""
    families: tuple[Literal["trace", "ragchecker"], ...] = ("trace",)
    """Families of metrics: `trace` (one call), `ragchecker` (two calls); empty if the judge answers criteria only."""
    criteria: Annotated[tuple[Criterion, ...], Field(max_length=CRITERIA_MAX)] = ()
    """Questions of your own that the judge answers about each answer, and built-in criteria; each is a metric."""
    criteria_call: Literal["shared", "own"] = "shared"
    """Call in which criteria are asked: `shared` is the call of the family `trace`, so an interaction still takes one
    call; `own` is one more call for all criteria together, and the prompt of `trace` is the same as without criteria.
    """
    reasons: Literal["kept", "all", "none"] = "kept"
    """Reasons that the judge gives before its answers: `kept` stores them with the items that are kept; `all` also
    gives them to exports of results, redacted as specimens are (`specimens.redact`); `none` requests no reasons,
    explanations of `trace` included, and saves their tokens. The prompts `short` and `keys` never request reasons."""
    language: Literal["auto", "en", "ru"] = "auto"
    """Language of the prompts; `auto` is Russian for Russian content and English for all other content."""
    prompt: PromptVariant = "full"
    """Variant of the prompts: `full`; for small models `short`, with fewer words and no explanations, and `keys`, which
    is short and answered in lines of keys instead of JSON."""
    grammar: Literal["vllm", "llama.cpp"] | None = None
    """Kind of the judge's server, if it can restrict answers to a grammar: every answer to the prompts `keys` then has
    the right form. Without it no grammar is sent. The other prompts get answers in JSON, whose form `structured`
    sets."""
    window_tokens: Annotated[int, Field(ge=1024)] | None = None
    """Context window of the model in tokens, for rules, texts and answer together; documents get the space that the
    rest leaves. None sends prompts of any length, and the endpoint refuses those that are too long."""
    structured: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """Way to request the form of the answer; `auto` starts with a JSON schema and adapts to refusals."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """Sampling temperature; None sends no temperature."""
    answer_tokens: Annotated[int, Field(ge=64)] = 8192
    """Maximum number of tokens of one answer, thoughts included; with `window_tokens` at most a quarter of the window.
    An answer that is cut off is asked for once more with four times as many, within the window."""
    context_tokens: Annotated[int, Field(ge=200)] = 24_000
    """Tokens of documents in one call, by estimate; longer contexts are split over several calls and merged."""
    redact: tuple[Pattern, ...] = ()
    """Patterns that are removed from texts before the judge reads them: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`, in a process of its own."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that this function may take for one interaction; if it takes longer, the judge does not label it."""
    repairs: Annotated[int, Field(ge=0)] = 2
    """Maximum number of further prompts after an unusable answer; each names the faults of the answer."""
    repeat_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the interactions that the judge labels a second time, without the cache, for the metric
    `judge.self_consistency`; a hash of the id selects them. It needs the family `trace`."""
    sentinels: Annotated[Path, AfterValidator(whole_path)] | None = None
    """File of sentinels: interactions in any format that `ragtide score` reads. The judge is asked about them again and
    again, without the cache, so that a rule of kind `sentinel` finds a judge that changed. None asks no sentinels."""
    sentinels_every_s: Annotated[float, Field(ge=0.01, le=604_800)] = 600.0
    """Seconds between two answers to sentinels, which take turns; one worker of the deployment asks them. The first
    nine answers to each are learned: with 40 sentinels and 600 s no change is seen in the first 60 hours."""
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of tokens a minute that one worker sends and requests, all its processes together, by estimate."""
    over_budget: Literal["pause", "local"] = "pause"
    """What happens when a spend limit is reached: `pause` waits for the next hour or day, `local` scores with the local
    labeler."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of each model. A model without a price here has the list price of the package `genai-prices`, if the
    address is that of a provider. A spend limit needs a price."""

    @model_validator(mode="after")
    def _a_repeat_needs_verdicts(self) -> Self:
        if self.repeat_share and "trace" not in self.families:
            raise ValueError(
                f"repeat_share is {self.repeat_share:g}, and self-consistency compares verdicts of the family trace: "
                "add trace to families, or set repeat_share to 0"
            )
        return self

    @model_validator(mode="after")
    def _has_something_to_judge(self) -> Self:
        if not self.families and not self.criteria:
            raise ValueError(
                "families is empty and there are no criteria, so the judge has nothing to answer: add trace to "
                "families, or add a [[judge.criteria]]"
            )
        check_criteria(self.criteria)
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
    def _token_rates(self) -> dict[str, float | None]:
        return {"tokens_per_minute": self.tokens_per_minute}

    @property
    def url(self) -> str | None:
        """Address of the endpoint, of the settings or of `OPENAI_BASE_URL`; None for OpenAI's."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or None

    @property
    def key_variable(self) -> str | None:
        """The environment variable with the key; None if `api_key` has it, or no variable is set."""
        host = urlsplit(self.url or "").hostname or ""
        names = (AZURE_KEY, "OPENAI_API_KEY") if host.endswith(".azure.com") else ("OPENAI_API_KEY",)
        return None if self.api_key is not None else next(filter(os.environ.get, names), None)

    @property
    def key(self) -> str | None:
        """The key that is sent; None if there is none."""
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        return None if self.key_variable is None else os.environ[self.key_variable]

    @property
    def most_answer_tokens(self) -> int:
        """Maximum number of tokens of one answer, within the window."""
        return self.answer_tokens if self.window_tokens is None else min(self.answer_tokens, self.window_tokens // 4)

    @property
    def over_budget_effect(self) -> str:
        """The effect of a reached spend limit, in words."""
        local = self.over_budget == "local"
        return "the local labeler scores until the next period" if local else super().over_budget_effect


def check_criteria(criteria: Sequence[Criterion]) -> None:
    """Check that criteria can be asked together.

    Raises:
        ValueError: two criteria have one metric, or there are too many.
    """
    if len(criteria) > CRITERIA_MAX:
        raise ValueError(f"there are {len(criteria)} criteria, and at most {CRITERIA_MAX} are possible: remove some")
    metrics = [criterion.metric for criterion in criteria]
    for criterion in criteria:
        if metrics.count(criterion.metric) > 1:
            raise ValueError(f"two criteria have the name {criterion.name}: give each a name of its own")


def check_sessions(criteria: Sequence[Criterion], splits: Iterable[str], producer: ProducerSettings) -> None:
    """Check that the sessions that criteria are about are found as a whole.

    Args:
        criteria: those about an answer are not checked.
        splits: pipelines that are split over several partitions.
        producer: settings of the producers.

    Raises:
        ValueError: the turns of a session are in several partitions, or a producer leaves out some of them.
    """
    for criterion in criteria:
        if not criterion.is_of_session:
            continue
        if producer.sample < 1 and producer.sample_by == "interaction":
            raise ValueError(
                f'unit of the criterion {criterion.name} is "session", and producer.sample = {producer.sample:g} '
                'leaves out some turns of a session: set producer.sample_by to "session"'
            )
        for pipeline in splits:
            if criterion.applies_to_pipeline(pipeline):
                raise ValueError(
                    f'unit of the criterion {criterion.name} is "session", and splits divides the turns of a session '
                    f"of {pipeline} over partitions: name other pipelines in the criterion, or remove {pipeline} from "
                    "splits"
                )


class LocalSettings(BaseModel):
    """The local labeler."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[Path, AfterValidator(whole_path)] | None = None
    """File from `ragtide fit` that corrects the shipped model for your interactions; its digest is part of the
    labeler's version. None uses the shipped model alone."""


Digest = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16,64})?$")]
Probability = Annotated[float, Field(gt=0, lt=1)]


def _prompt(text: str) -> str:
    if text and text.count("{documents}") != 1:
        raise ValueError("must have {documents} once, at the place of the documents")
    return text


class ModelsSettings(BaseModel):
    """The models of the labeler `model`: ONNX files in folders of this machine, or of the Hugging Face Hub."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    support: str = ""
    """Model that decides which response sentences are supported, a classifier of pairs or of tokens: its folder, or
    `owner/name@COMMIT` of the Hugging Face Hub with all 40 digits of the commit."""
    support_file: str = "model.onnx"
    """ONNX file in that folder or repository, such as `onnx/model_quantized.onnx`."""
    support_digest: Digest = ""
    """First 16 or more hexadecimal digits of the model's digest; a model with another digest is refused."""
    support_labels: dict[str, Literal["supported", "unsupported"]] = Field(default_factory=dict)
    """Meaning of each label of the model, if its name does not say so: `{"LABEL_0" = "unsupported", ...}`."""
    support_threshold: Probability = 0.5
    """Probability of support from which a sentence counts as supported."""
    support_prompt: Annotated[str, AfterValidator(_prompt)] = ""
    """Text around the documents for a classifier of tokens, with `{documents}`, and optionally `{question}` and `{n}`
    (the number of documents); empty means the prompt of RAGTruth."""
    support_calibration: dict[str, float] = Field(default_factory=dict)
    """Calibration in place of the model's `calibration.json`: `{"temperature" = 1.8}`, or `slope` and `intercept`."""
    relevance: str = ""
    """Model that decides which document sentences are relevant, a cross-encoder (reranker): as for `support`."""
    relevance_file: str = "model.onnx"
    """ONNX file in that folder or repository."""
    relevance_digest: Digest = ""
    """First digits of the digest, as for `support_digest`."""
    relevance_labels: dict[str, Literal["relevant", "irrelevant"]] = Field(default_factory=dict)
    """Meaning of each label of the model, if it has several labels and their names do not say so."""
    relevance_threshold: Probability = 0.5
    """Probability of relevance from which a sentence counts as relevant."""
    relevance_calibration: dict[str, float] = Field(default_factory=dict)
    """Calibration, as for `support_calibration`."""
    similarity: str = ""
    """Model that gives each sentence a vector, a sentence encoder; the metrics are `similarity.support` and
    `similarity.match`: as for `support`."""
    similarity_file: str = "model.onnx"
    """ONNX file in that folder or repository."""
    similarity_digest: Digest = ""
    """First digits of the digest, as for `support_digest`."""
    publish: Literal["labels", "probabilities"] = "labels"
    """`labels` scores the sentences by the thresholds; `probabilities` publishes expected values: calibrate first."""
    languages: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")], ...] = ()
    """Languages that the models know, such as `en`: responses in others have no scores; empty allows all."""
    max_tokens: Annotated[int, Field(ge=16, le=131_072)] | None = None
    """Maximum number of tokens of one input of a model; None takes the limit in its `config.json`, 4,096 at most."""
    batch: Annotated[int, Field(ge=1, le=4096)] = 32
    """Maximum number of inputs in one batch."""
    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 1024
    """Maximum number of tokens in one batch, padding included; a longer input is a batch of its own. With `cuda` set
    more, such as 32,768."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 2
    """Threads of each model, except the sentence encoder."""
    provider: Literal["cpu", "cuda"] = "cpu"
    """Processor of the models: `cpu`, or `cuda` with onnxruntime-gpu."""
    cache_dir: Path | None = None
    """Folder for downloaded models; None means `models` in `data_dir`. A downloaded model needs no network."""
    hub_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)] = "https://huggingface.co"
    """Address of the Hub, or of a mirror."""
    hub_token: SecretStr | None = None
    """Token for the Hub, for models that need one."""


Share = Annotated[float, Field(ge=0, le=1)]


class CascadeSettings(BaseModel):
    """The two or three labelers of a cascade, and the samples for those after the first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    proxy: str = "local"
    """Name of the labeler of all interactions, usually a cheap labeler."""
    reference: str = "judge"
    """Name of the labeler of the sample, usually a better labeler."""
    rate: Share = 0.05
    """Share of the interactions that the reference labels."""
    segment_rates: dict[str, Share] = Field(default_factory=dict)
    """Share by segment value, such as `{"lang=ru" = 0.5}`; of several values the largest share counts."""
    below: dict[str, float] = Field(default_factory=dict)
    """Scores of the proxy below which the reference always labels, such as `{"trace.adherence" = 0.3}`."""
    boost: Annotated[float, Field(ge=1, le=1000)] = 8.0
    """Factor of `rate` and `segment_rates` for a pipeline while its alert rules have evidence of a change that is not
    enough for an alert; 1 leaves the rates as they are."""
    boost_s: Annotated[float, Field(gt=0, le=31_536_000)] = 86_400.0
    """Seconds for which one suspicion raises the rates at most."""
    middle: str = ""
    """Name of a third labeler, between the two, such as `model`; it labels a sample of its own."""
    middle_rate: Share = 0.2
    """Share of the interactions that the middle labels."""
    middle_below: dict[str, float] = Field(default_factory=dict)
    """Scores of the proxy below which the middle labels every interaction that the reference does not label."""
    salt: str = ""
    """Text that determines the sample; the same text selects the same sample in every process and replay."""
    when_unavailable: Literal["skip", "wait"] = "wait"
    """What happens when the reference or the middle is unavailable: `wait` keeps the interactions of its sample until
    it answers, and publishes all others; `skip` publishes them at once, and its metrics stay absent."""

    @property
    def labelers(self) -> tuple[str, ...]:
        """Names of the labelers: the proxy, the middle if there is one, the reference."""
        return (self.proxy, self.middle, self.reference) if self.middle else (self.proxy, self.reference)

    @model_validator(mode="after")
    def _the_samples_are_apart(self) -> Self:
        if self.middle and (self.middle in (self.proxy, self.reference) or self.middle == "cascade"):
            raise ValueError(
                f"the middle of a cascade is a third labeler, such as model, and is {self.middle}: set cascade.middle"
            )
        most = max(self.rate, *self.segment_rates.values()) if self.segment_rates else self.rate
        if self.middle and most + self.middle_rate > 1:
            raise ValueError(
                f"middle_rate is {self.middle_rate:g}, and the reference labels up to {most:g}: together at most 1, "
                "because no interaction is in both samples; lower one of them"
            )
        if self.middle_below and not self.middle:
            raise ValueError("middle_below is given without a middle: set cascade.middle, or remove it")
        return self

    @model_validator(mode="after")
    def _two_labelers(self) -> Self:
        if self.proxy == self.reference or "cascade" in (self.proxy, self.reference):
            raise ValueError(
                f"a cascade needs two different labelers, such as local and judge, and has {self.proxy} and "
                f"{self.reference}: set cascade.proxy and cascade.reference"
            )
        return self
