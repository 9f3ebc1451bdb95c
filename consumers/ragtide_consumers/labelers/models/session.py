"""A loaded model: batches of tokens in, numbers of the labels out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.models import ModelsSettings

from .files import ModelFiles
from .tokens import ModelInput, PairTokenizer, together

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Logits = npt.NDArray[np.float32]

INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs that a model may have."""

PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""Provider of onnxruntime by the setting."""

_TYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class ModelNumberError(ValueError):
    """A model gave a number that is not finite."""


class ModelSession:
    """A model in onnxruntime with its tokenizer. `run` may be called in any thread, by one caller at a time.

    Args:
        files: of the model.
        settings: threads and processor.
        per_token: whether the model labels tokens; otherwise it labels whole inputs.

    Raises:
        ConfigurationError: the model cannot be loaded, or takes or gives something else.
    """

    def __init__(self, files: ModelFiles, settings: ModelsSettings, *, per_token: bool) -> None:
        onnxruntime = _onnxruntime()
        self.files = files
        self.per_token = per_token
        """Whether the model labels tokens."""
        self.tokenizer = PairTokenizer(files, settings.max_tokens)
        self._session = _loaded(onnxruntime, files, settings)
        self._inputs = {one.name: _TYPES.get(one.type) for one in self._session.get_inputs()}
        strange = [name for name, kind in self._inputs.items() if name not in INPUTS or kind is None]
        if strange or "input_ids" not in self._inputs:
            raise ConfigurationError(
                f"{files.name} wants the input {strange[0] if strange else 'input_ids'} in another form: export an "
                f"encoder with the inputs {', '.join(INPUTS)} of whole numbers"
            )
        names = [one.name for one in self._session.get_outputs()]
        self._output = "logits" if "logits" in names else names[0]
        self.labels = self._probed(per_token=per_token)
        """Names of the labels."""

    def run(self, inputs: Sequence[ModelInput]) -> Logits:
        """Return the numbers of a batch: for each input (and token, if it labels tokens) one for each label."""
        ids, mask, types = together(inputs, self.tokenizer.pad, self.tokenizer.max_tokens)
        given = dict(zip(INPUTS, (ids, mask, types), strict=True))
        fed = {name: given[name].astype(kind) for name, kind in self._inputs.items()}
        return np.asarray(self._session.run([self._output], fed)[0], dtype=np.float32)

    def _probed(self, *, per_token: bool) -> tuple[str, ...]:
        """Return the labels' names, after a batch of two inputs of different lengths has shown their number."""
        text = self.tokenizer.tokens("a").ids
        probes = [self.tokenizer.pair(text, np.repeat(text, n)) for n in (1, 9)]
        name = self.files.name
        try:
            found = self.run(probes).shape
        except Exception as error:  # noqa: BLE001 - the library raises exceptions of its own
            raise ConfigurationError(
                f"{name} fails on two short texts ({_told(error)}): export it with a free batch size and length"
            ) from None
        width = together(probes, 0, self.tokenizer.max_tokens)[0].shape[1]
        if len(found) != 2 + per_token or found[0] != len(probes) or (per_token and found[1] != width):
            shape = "for each token" if per_token else "for each input"
            raise ConfigurationError(
                f"{name} gives numbers of shape {found}, not one for each label {shape}: config.json must be of this "
                "model"
            )
        names = self.files.config.id2label
        labels = {number: f"LABEL_{number}" for number in range(found[-1])} if names is None else names
        if sorted(labels) != list(range(found[-1])):
            raise ConfigurationError(
                f"{name} gives {found[-1]} numbers, and id2label in config.json has {len(labels)} labels: config.json "
                "must be of this model"
            )
        return tuple(labels[number] for number in range(found[-1]))


def finite(logits: Logits) -> Logits:
    """Return a model's numbers.

    Raises:
        ModelNumberError: a number is not finite.
    """
    if not np.isfinite(logits).all():
        raise ModelNumberError("the model gave a number that is not finite: use a model of higher precision")
    return logits


def _loaded(ort: Any, files: ModelFiles, settings: ModelsSettings) -> "InferenceSession":
    provider = PROVIDERS[settings.provider]
    if provider not in ort.get_available_providers():
        raise ConfigurationError(
            f"models.provider is {settings.provider}, which this onnxruntime does not have: install onnxruntime-gpu, "
            "or set cpu"
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
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
        told = _told(error)
        if "is not a registered function/op" in told or "No opset import for domain" in told:
            raise ConfigurationError(
                f"{files.name} has operators of its own ({told}), which ragtide never loads: export it with standard "
                "operators"
            ) from None
        raise ConfigurationError(f"{files.name} cannot be loaded ({told}): export it again") from None
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


def _told(error: Exception) -> str:
    """Return the library's message in one short line."""
    return " ".join(str(error).split())[:300]
