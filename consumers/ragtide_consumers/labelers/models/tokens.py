"""Texts as tokens of a model, and the windows of long texts.

Each text is cut into tokens once. An input of the model is put together from two texts' tokens and the special tokens
that the tokenizer puts around a pair. So a long document beside many sentences takes time for its length only once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragtide_runtime.errors import ConfigurationError

from .files import JSON_BYTES, ModelFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ints = npt.NDArray[np.int64]

DEFAULT_TOKENS: Final = 512
"""Most tokens of an input of a model that names no limit."""

OVERLAP: Final = 64
"""Tokens that two neighbouring windows of a long document share: a sentence or two, so that each is whole in one."""

MAX_INPUTS: Final = 2000
"""Most inputs of a model for one interaction; with more, its metrics are absent as `too_long`."""

MOST_TOKENS: Final = 4096
"""Most tokens of an input unless the setting allows more: the work grows with their square."""

SHIFTED: Final = frozenset({"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer"})
"""Types of models whose positions begin after the padding token's number."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text."""

    ids: Ints
    starts: Ints
    """For each token the place of its first character in the text."""
    ends: Ints
    """For each token the place after its last character."""

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One input of a model: two texts, or one, with special tokens around them."""

    ids: tuple[Ints, ...]
    """Runs of tokens, which are put together when the batch is made."""
    types: tuple[int, ...]
    """For each run the type of its tokens: for most models the number of its text, 0 or 1."""
    n_tokens: int
    second: int
    """Number of tokens before the second text."""
    n_second: int
    """Number of tokens of the second text."""


class ModelTokenizer:
    """Cuts texts into tokens, and puts one or two of them together as the model wants them.

    Raises:
        ConfigurationError: `tokenizer.json` cannot be read or used.
    """

    def __init__(self, files: ModelFiles, max_tokens: int | None) -> None:
        self._tokenizer = _tokenizer(files)
        pad = files.config.pad_token_id
        self.pad = pad if pad is not None else 0
        self._types = (0, 1)
        self._type = 0
        self._before, self._between, self._after = self._special_tokens(files.name)
        encoded = self._tokenizer.encode("a")
        places = [place for place, number in enumerate(encoded.sequence_ids) if number is not None]
        self._type = encoded.type_ids[places[0]]
        runs = [
            (np.array([token], dtype=np.int64), kind) for token, kind in zip(encoded.ids, encoded.type_ids, strict=True)
        ]
        self._begin, self._end = runs[: places[0]], runs[places[-1] + 1 :]
        self.max_tokens = token_limit(files) if max_tokens is None else max_tokens
        self.room = self.max_tokens - sum(len(run) for run, _ in (*self._before, *self._between, *self._after))
        """Most tokens of the two texts together."""
        self.room_of_one = self.max_tokens - len(self._begin) - len(self._end)
        """Most tokens of a text that is an input by itself."""

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of a text. A character that UTF-8 cannot write counts as a question mark."""
        encoded = self._tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        return Tokens(np.array(encoded.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1])

    def pair(self, first: Ints, second: Ints) -> ModelInput:
        """Return the input of two texts, given their tokens."""
        runs = (*self._before, (first, self._types[0]), *self._between, (second, self._types[1]), *self._after)
        start = sum(len(run) for run, _ in (*self._before, *self._between)) + len(first)
        n_tokens = sum(len(run) for run, _ in runs)
        return ModelInput(tuple(run for run, _ in runs), tuple(kind for _, kind in runs), n_tokens, start, len(second))

    def single(self, text: Ints) -> ModelInput:
        """Return the input of one text, given its tokens."""
        runs = (*self._begin, (text, self._type), *self._end)
        n_tokens = len(text) + len(self._begin) + len(self._end)
        return ModelInput(tuple(run for run, _ in runs), tuple(kind for _, kind in runs), n_tokens, n_tokens, 0)

    def _special_tokens(self, name: str) -> list[list[tuple[Ints, int]]]:
        encoded = self._tokenizer.encode("a", "a")
        numbers = [-1 if number is None else number for number in encoded.sequence_ids]
        places = [place for place, number in enumerate(numbers) if number >= 0]
        if not places or [number for number in numbers if number >= 0] != sorted(numbers[place] for place in places):
            raise ConfigurationError(
                f"{name}: tokenizer.json puts the second text before the first: use a tokenizer of this model's kind"
            )
        if 1 not in numbers or 0 not in numbers:
            raise ConfigurationError(
                f"{name}: tokenizer.json makes no tokens of the letter a: use the tokenizer of this model"
            )
        first = [place for place in places if numbers[place] == 0]
        second = [place for place in places if numbers[place] == 1]
        self._types = encoded.type_ids[first[0]], encoded.type_ids[second[0]]
        parts = ((0, first[0]), (first[-1] + 1, second[0]), (second[-1] + 1, len(numbers)))
        ids, types = encoded.ids, encoded.type_ids
        # Runs of one token each: there are at most a handful.
        return [[(np.array([ids[place]], dtype=np.int64), types[place]) for place in range(*part)] for part in parts]


def windows(n_tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return the windows of a text as start and end, so that every token is in one and neighbours share some.

    The last window is as long as the others if the text is.

    Args:
        size: most tokens of a window, more than `overlap`.
        overlap: tokens that neighbours share at least.

    >>> windows(10, 4, 1)
    [(0, 4), (3, 7), (6, 10)]
    >>> windows(3, 4, 1), windows(0, 4, 1)
    ([(0, 3)], [])
    """
    if n_tokens <= size:
        return [(0, n_tokens)] if n_tokens else []
    starts = [*range(0, n_tokens - size, size - overlap), n_tokens - size]
    return [(start, start + size) for start in starts]


def windows_apart(n_tokens: int, size: int) -> list[tuple[int, int]]:
    """Return the parts of a text as start and end, without overlap, about equally long.

    >>> windows_apart(10, 4)
    [(0, 3), (3, 7), (7, 10)]
    """
    edges = np.linspace(0, n_tokens, -(-n_tokens // size) + 1).round().astype(int).tolist()
    return list(pairwise(edges))


def together(inputs: Sequence[ModelInput], pad: int, most: int, multiple: int = 8) -> tuple[Ints, Ints, Ints]:
    """Return tokens, mask and types of a batch, each as rows of one length.

    Args:
        pad: token that fills a row.
        most: most tokens of a row, unless an input has more.
        multiple: the length is a multiple of it, so that a model meets few different lengths.
    """
    longest = max(model_input.n_tokens for model_input in inputs)
    shape = (len(inputs), max(longest, min(-(-longest // multiple) * multiple, most)))
    ids, mask, types = np.full(shape, pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, model_input in enumerate(inputs):
        at = 0
        for run, kind in zip(model_input.ids, model_input.types, strict=True):
            ids[row, at : at + len(run)] = run
            types[row, at : at + len(run)] = kind
            at += len(run)
        mask[row, :at] = 1
    return ids, mask, types


def _tokenizer(files: ModelFiles) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415 - of the extra `models`

    if files.tokenizer.stat().st_size > JSON_BYTES:
        raise ConfigurationError(f"{files.name}: tokenizer.json has more than {JSON_BYTES} bytes: correct the file")
    try:
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # A text with "[SEP]" in it must not end there: such words of a text are no special tokens.
        tokenizer.encode_special_tokens = True
        tokenizer.encode("a", "b")
    except Exception as error:  # noqa: BLE001 - the library raises plain exceptions
        line = " ".join(str(error).split())[:200]
        raise ConfigurationError(f"{files.name}: tokenizer.json cannot be used ({line}): copy it again") from None
    return tokenizer


def token_limit(files: ModelFiles) -> int:
    """Return the most tokens of an input by `config.json`, `MOST_TOKENS` at most."""
    most = files.config.max_position_embeddings
    if most is None or most < 16:
        return DEFAULT_TOKENS
    if files.config.model_type in SHIFTED:
        most -= (1 if files.config.pad_token_id is None else files.config.pad_token_id) + 1
    return min(most, MOST_TOKENS)
