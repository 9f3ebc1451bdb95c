"""How an encoder's numbers for tokens become the vector of a sentence, by the files of Sentence Transformers.

Source: Reimers and Gurevych (2019), Sentence-BERT (arXiv:1908.10084), section 3: the mean over tokens, or the first.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, RootModel

from ragtide_runtime.errors import ConfigurationError

from .files import ModelFiles, parse_json
from .tokens import Ints

MODULES: Final = "modules.json"
POOLING: Final = "1_Pooling/config.json"
SENTENCES: Final = "sentence_bert_config.json"

SENTENCE_FILES: Final = (MODULES, POOLING, SENTENCES)
"""Files that say how the model's makers make a vector of a sentence."""

_MODE: Final = "pooling_mode_"
_KNOWN_MODULES: Final = ("Transformer", "Pooling", "Normalize")


class Pooling(StrEnum):
    """The way from the numbers of tokens to a vector."""

    MEAN = "mean_tokens"
    """The mean over the tokens of the sentence, special tokens included."""
    FIRST = "cls_token"
    """The numbers of the first token."""


@dataclass(frozen=True, slots=True)
class SentenceForm:
    """The form in which a model takes sentences, and in which it gives vectors."""

    pooling: Pooling
    max_tokens: int | None
    """Most tokens of a sentence that the makers state; None if they state none."""
    other_module: str = ""
    """A step after the encoder that only an ONNX file with `sentence_embedding` contains; empty without one."""


class _Module(BaseModel):
    model_config = ConfigDict(extra="ignore")
    type: str


class _Sentences(BaseModel):
    model_config = ConfigDict(extra="ignore")
    max_seq_length: int | None = Field(default=None, ge=16)


def sentence_form(files: ModelFiles) -> SentenceForm:
    """Return the form of a model's sentences. Without a file that states the pooling it is the mean.

    Raises:
        ConfigurationError: a file cannot be read, or states a pooling that ragtide does not know.
    """
    folder = files.tokenizer.parent
    pooling, other, most = Pooling.MEAN, "", None
    if (folder / POOLING).is_file():
        pooling = _pooling(parse_json(folder, POOLING, RootModel[dict[str, Any]], files.name).root, files.name)
    if (folder / MODULES).is_file():
        modules = parse_json(folder, MODULES, RootModel[list[_Module]], files.name).root
        kinds = [module.type.rpartition(".")[2] for module in modules]
        other = next((kind for kind in kinds if kind not in _KNOWN_MODULES), "")
    if (folder / SENTENCES).is_file():
        most = parse_json(folder, SENTENCES, _Sentences, files.name).max_seq_length
    return SentenceForm(pooling, most, other)


def _pooling(config: dict[str, Any], name: str) -> Pooling:
    chosen = [key.removeprefix(_MODE) for key, value in config.items() if key.startswith(_MODE) and value]
    known = [pooling for pooling in Pooling if chosen == [pooling]]
    if not known:
        raise ConfigurationError(
            f"{name}: {POOLING} has the pooling {' and '.join(chosen)[:200] or 'none'}, and ragtide knows "
            f"{' and '.join(Pooling)}: use another model, or an ONNX file with the output sentence_embedding"
        )
    return known[0]


def pool(numbers: npt.NDArray[np.float32], mask: Ints, pooling: Pooling) -> npt.NDArray[np.float32]:
    """Return the vector of each sentence of a batch.

    Args:
        numbers: of each token, of shape (sentences, tokens, width).
        mask: 1 for a token and 0 for padding, of shape (sentences, tokens).
        pooling: the mean over the tokens, or the first token.

    >>> numbers = np.array([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]], dtype=np.float32)
    >>> pool(numbers, np.array([[1, 1, 0]]), Pooling.MEAN).tolist()
    [[2.0, 3.0]]
    """
    if pooling is Pooling.FIRST:
        return numbers[:, 0]
    total = np.einsum("stw,st->sw", numbers.astype(np.float64), mask.astype(np.float64))
    return np.asarray(total / mask.sum(axis=1, keepdims=True), dtype=np.float32)
