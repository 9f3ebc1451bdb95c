"""A loaded model: batches of tokens in, numbers of the labels or vectors of sentences out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import ModelsSettings

from .files import ModelFiles
from .pooling import SentenceForm, pool
from .tokens import Ints, ModelInput, ModelTokenizer, together, token_limit

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Logits = npt.NDArray[np.float32]
"""A model's numbers for inputs: of the labels, or the vector of a sentence."""

INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs that a model may have."""

ENCODER_THREADS: Final = 1
"""Threads of the sentence encoder; with one, a sentence has the same vector in every run on a machine."""

PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""Provider of onnxruntime by the setting."""

OUTPUTS: Final = ("sentence_embedding", "last_hidden_state", "token_embeddings")
"""Outputs of an encoder: the first of them that it has is read, or else its first output."""

SAME: Final = 1e-3
"""Largest difference of a number of a sentence's vector, which has length 1, between a batch and the sentence alone."""

_TYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class ModelNumberError(ValueError):
    """A model gave a number that is not finite."""


class ModelSession:
    """A model in onnxruntime with its tokenizer. `run` may be called in any thread, by one caller at a time.

    Args:
        settings: threads and processor.
        per_token: whether the model labels tokens; otherwise it labels whole inputs.
        form: of the sentences of an encoder, which gives vectors; None for a model that labels.

    Raises:
        ConfigurationError: the model cannot be loaded, or takes or gives something else.
    """

    def __init__(
        self, files: ModelFiles, settings: ModelsSettings, *, per_token: bool = False, form: SentenceForm | None = None
    ) -> None:
        onnxruntime = _onnxruntime()
        self.files = files
        self.per_token = per_token
        """Whether the model labels tokens."""
        self._form = form
        most = settings.max_tokens
        if form is not None and form.max_tokens is not None:
            most = min(form.max_tokens, most or token_limit(files))
        self.tokenizer = ModelTokenizer(files, most)
        threads = settings.threads if form is None else ENCODER_THREADS
        self._session = _load_session(onnxruntime, files, settings, threads)
        self._inputs = {model_input.name: _TYPES.get(model_input.type) for model_input in self._session.get_inputs()}
        strange = [name for name, kind in self._inputs.items() if name not in INPUTS or kind is None]
        if strange or "input_ids" not in self._inputs:
            raise ConfigurationError(
                f"{files.name} wants the input {strange[0] if strange else 'input_ids'} in another form: export an "
                f"encoder with the inputs {', '.join(INPUTS)} of whole numbers"
            )
        # A pooler's output was trained for another task, and is no sentence's vector.
        names = [output.name for output in self._session.get_outputs() if form is None or "pooler" not in output.name]
        wanted = ("logits",) if form is None else OUTPUTS
        self._output = next((name for name in (*wanted, *names) if name in names), "")
        self.labels = self._labels(per_token=per_token) if form is None else ()
        """Names of the labels; empty for an encoder."""
        self.pooling = None if form is None else self._check_pooling(form, alone=settings.batch == 1)
        """The pooling of an encoder, or `model` if the model itself pools; None for a model that labels."""

    def run(self, inputs: Sequence[ModelInput]) -> Logits:
        """Return the numbers of a batch: for each input (and token, if it labels tokens) one for each label.

        An encoder gives the vector of each input.
        """
        numbers, mask = self._numbers(inputs)
        return numbers if self._form is None or numbers.ndim == 2 else pool(numbers, mask, self._form.pooling)

    def _numbers(self, inputs: Sequence[ModelInput]) -> tuple[Logits, Ints]:
        ids, mask, types = together(inputs, self.tokenizer.pad, self.tokenizer.max_tokens)
        arrays = dict(zip(INPUTS, (ids, mask, types), strict=True))
        fed = {name: arrays[name].astype(kind) for name, kind in self._inputs.items()}
        return np.asarray(self._session.run([self._output], fed)[0], dtype=np.float32), mask

    def _check_pooling(self, form: SentenceForm, *, alone: bool) -> str:
        name = self.files.name
        if not self._output:
            raise ConfigurationError(
                f"{name} gives a pooler's output alone, which is no vector of a sentence: export it with the output "
                "last_hidden_state or sentence_embedding"
            )
        # Different words, so that the two inputs have numbers of different sizes.
        texts = ("a", "When was the tower built, and who built it? In 1889, of iron.")
        probes = [self.tokenizer.single(self.tokenizer.tokens(text).ids) for text in texts]
        try:
            numbers, mask = self._numbers(probes)
            common, single = self.run(probes), np.concatenate([self.run([probe]) for probe in probes])
        except Exception as error:  # noqa: BLE001 - the library raises exceptions of its own
            raise ConfigurationError(
                f"{name} fails on two short texts ({_error_line(error)}): export a sentence encoder with a free batch "
                "size and length"
            ) from None
        shape = numbers.shape[:2] if numbers.ndim == 3 else numbers.shape[:1]
        if numbers.ndim not in {2, 3} or shape != mask.shape[: len(shape)] or not np.isfinite(common).all():
            raise ConfigurationError(
                f"{name} gives numbers of shape {numbers.shape}, not finite numbers for each token or for each "
                "sentence: export a sentence encoder"
            )
        if form.other_module and numbers.ndim == 3:
            raise ConfigurationError(
                f"{name} has the step {form.other_module[:80]} in modules.json, which {self.files.onnx.name} does not "
                "contain: export it with the output sentence_embedding"
            )
        length = np.linalg.norm(single, axis=1, keepdims=True)
        difference = float((abs(common - single) / np.where(length == 0, 1.0, length)).max())
        if difference > SAME and not alone:
            raise ConfigurationError(
                f"{name} gives a sentence another vector in another batch (by {difference:.3f}), as dynamic "
                "quantization does: use the model of 32 bits or weight-only quantization, or set models.batch = 1"
            )
        return str(form.pooling) if numbers.ndim == 3 else "model"

    def _labels(self, *, per_token: bool) -> tuple[str, ...]:
        text = self.tokenizer.tokens("a").ids
        probes = [self.tokenizer.pair(text, np.repeat(text, n)) for n in (1, 9)]
        name = self.files.name
        try:
            dimensions = self.run(probes).shape
        except Exception as error:  # noqa: BLE001 - the library raises exceptions of its own
            raise ConfigurationError(
                f"{name} fails on two short texts ({_error_line(error)}): export it with a free batch size and length"
            ) from None
        width = together(probes, 0, self.tokenizer.max_tokens)[0].shape[1]
        if len(dimensions) != 2 + per_token or dimensions[0] != len(probes) or (per_token and dimensions[1] != width):
            shape = "for each token" if per_token else "for each input"
            raise ConfigurationError(
                f"{name} gives numbers of shape {dimensions}, not one for each label {shape}: config.json must be of "
                "this model"
            )
        names = self.files.config.id2label
        n_labels = dimensions[-1]
        labels = {number: f"LABEL_{number}" for number in range(n_labels)} if names is None else names
        if sorted(labels) != list(range(n_labels)):
            raise ConfigurationError(
                f"{name} gives {n_labels} numbers, and id2label in config.json has {len(labels)} labels: config.json "
                "must be of this model"
            )
        return tuple(labels[number] for number in range(n_labels))


def finite(logits: Logits) -> Logits:
    """Return a model's numbers.

    Raises:
        ModelNumberError: a number is not finite.
    """
    if not np.isfinite(logits).all():
        raise ModelNumberError("the model gave a number that is not finite: use a model of higher precision")
    return logits


def _load_session(ort: Any, files: ModelFiles, settings: ModelsSettings, threads: int) -> "InferenceSession":
    provider = PROVIDERS[settings.provider]
    if provider not in ort.get_available_providers():
        raise ConfigurationError(
            f"models.provider is {settings.provider}, which this onnxruntime does not have: install onnxruntime-gpu, "
            "or set cpu"
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # Plans of memory for each length of a batch would stay forever.
    options.enable_mem_pattern = False
    options.use_deterministic_compute = True
    # Idle threads must leave the processor to the other roles.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(str(files.onnx), options, providers=[provider])
    except Exception as error:  # noqa: BLE001 - the library raises exceptions of its own
        line = _error_line(error)
        if "is not a registered function/op" in line or "No opset import for domain" in line:
            raise ConfigurationError(
                f"{files.name} has operators of its own ({line}), which ragtide never loads: export it with standard "
                "operators"
            ) from None
        raise ConfigurationError(f"{files.name} cannot be loaded ({line}): export it again") from None
    if session.get_providers()[0] != provider:
        raise ConfigurationError(
            f"models.provider is {settings.provider}, which onnxruntime could not start: look at its driver, or set cpu"
        )
    return session


def _onnxruntime() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - of the extra `models`
        import tokenizers  # noqa: F401, PLC0415 - both belong to the extra
    except ImportError as error:
        raise ConfigurationError(
            f"the labeler model needs {error.name}: install ragtide[models] (pip install 'ragtide[models]')"
        ) from None
    return onnxruntime


def _error_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
