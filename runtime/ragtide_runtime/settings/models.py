"""Settings of the labeler `model`, which runs models in the worker: the table `[models]`."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

Digest = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16,64})?$")]
Probability = Annotated[float, Field(gt=0, lt=1)]


def _prompt(text: str) -> str:
    if text and text.count("{documents}") != 1:
        raise ValueError("must have {documents} once, at the place of the documents")
    return text


class ModelsSettings(BaseModel):
    """The models of the labeler `model`: ONNX files in folders of this machine, or of the Hugging Face Hub."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())

    support: str = ""
    """Model that decides which response sentences are supported, a classifier of pairs or of tokens: its folder, or
    `owner/name@COMMIT` of the Hugging Face Hub with all 40 digits of the commit."""
    support_file: str = "model.onnx"
    """ONNX file in that folder or repository, such as `onnx/model_quantized.onnx`."""
    support_digest: Digest = ""
    """First 16 or more hexadecimal digits of the model's digest; a model with another digest is refused."""
    support_labels: dict[str, Literal["supported", "unsupported"]] = Field(default_factory=dict)
    """Meaning of each label of the model, if its names do not tell: `{"LABEL_0" = "unsupported", ...}`."""
    support_threshold: Probability = 0.5
    """Probability of support from which a sentence counts as supported."""
    support_prompt: Annotated[str, AfterValidator(_prompt)] = ""
    """Text around the documents for a classifier of tokens, with `{documents}`, and perhaps `{question}` and `{n}`
    (how many documents); empty takes the prompt of RAGTruth."""
    support_calibration: dict[str, float] = Field(default_factory=dict)
    """Calibration in place of the model's `calibration.json`: `{"temperature" = 1.8}`, or `slope` and `intercept`."""
    relevance: str = ""
    """Model that decides which document sentences are relevant, a cross-encoder (reranker): as for `support`."""
    relevance_file: str = "model.onnx"
    """ONNX file in that folder or repository."""
    relevance_digest: Digest = ""
    """First digits of the digest, as for `support_digest`."""
    relevance_labels: dict[str, Literal["relevant", "irrelevant"]] = Field(default_factory=dict)
    """Meaning of each label of the model, if it has several labels and their names do not tell."""
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
    similarity_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """Threads of the sentence encoder; with one thread a sentence has the same vector in every run on a machine."""
    similarity_cache: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """Most vectors of sentences that a worker keeps, so that a document that comes again is not read again."""
    publish: Literal["labels", "probabilities"] = "labels"
    """`labels` scores the sentences by the thresholds; `probabilities` publishes expected values: calibrate first."""
    languages: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")], ...] = ()
    """Languages that the models know, such as `en`: responses in others have no scores; empty allows all."""
    max_tokens: Annotated[int, Field(ge=16, le=131_072)] | None = None
    """Most tokens of one input of a model; None takes the limit in its `config.json`, 4,096 at most."""
    overlap: Annotated[int, Field(ge=0, le=4096)] = 64
    """Tokens that two neighbouring windows of a long document share."""
    max_inputs: Annotated[int, Field(ge=1, le=1_000_000)] = 2000
    """Most inputs of a model for one interaction; above that its metrics are absent as `too_long`."""
    batch: Annotated[int, Field(ge=1, le=4096)] = 32
    """Most inputs in one batch."""
    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 1024
    """Most tokens in one batch, padding included; a longer input is a batch of its own. With `cuda` set more, such as
    32,768."""
    batch_wait_ms: Annotated[float, Field(ge=0, le=1000)] = 5.0
    """Milliseconds for which a batch that is not full waits for other interactions."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 2
    """Threads of each model, except the sentence encoder."""
    provider: Literal["cpu", "cuda"] = "cpu"
    """Processor of the models: `cpu`, or `cuda` with onnxruntime-gpu."""
    max_bytes: Annotated[int, Field(ge=1)] = 8_589_934_592
    """Most bytes of the files of one model; a larger model is refused."""
    cache_dir: Path | None = None
    """Folder for models of the Hub; None takes `models` in `data_dir`. A model that is there needs no network."""
    hub_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)] = "https://huggingface.co"
    """Address of the Hub, or of a mirror."""
    hub_token: SecretStr | None = None
    """Token for the Hub, for models that need one."""

    @model_validator(mode="after")
    def _windows_move_on(self) -> Self:
        if self.max_tokens is not None and self.overlap > self.max_tokens // 4:
            raise ValueError(
                f"overlap is {self.overlap} of max_tokens = {self.max_tokens}: set at most a quarter of max_tokens"
            )
        return self
