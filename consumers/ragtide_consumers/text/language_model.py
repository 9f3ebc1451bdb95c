"""A naive Bayes model of the language of a text, over its sequences of one to six bytes.

The numbers are those of py3langid 0.4 (Barbaresi; after Lui and Baldwin, 2012, "langid.py"), and so are the answers, to
the bit. `tools/language_arrays.py` writes them to `language_arrays/` as plain arrays, which are mapped into memory:
processes share them, and only the parts that texts need are read. `language_arrays/LICENSE` is their licence.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.bundled_data import bundled

from . import ARRAYS

LONGEST: Final = 6
"""Bytes of the longest sequence."""

Shares = NDArray[np.float32]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The arrays of the model. A feature has a log probability in each language; a few sequences share one."""

    firsts: NDArray[np.int64]
    """First number of each range of `endings`, in order: those of a range have the same longest known sequence."""
    features: NDArray[np.int32]
    """By range: number of the feature of that sequence; -1 without one."""
    lengths: Places
    """By feature: number of languages in which it was seen."""
    starts: Places
    """By feature: position of its first language."""
    columns: NDArray[np.uint8]
    """The languages of each feature, one feature after the other."""
    logs: NDArray[np.float16]
    """Log probability of the feature in each of these languages."""
    unseen: Shares
    """By language: log probability of a feature that was not seen."""
    prior: Shares
    """By language: its own log probability."""
    languages: Sequence[str]
    """ISO 639 code of each language; one that is written in two scripts stands here twice."""
    twins: Sequence[tuple[int, int]]
    """Places of the languages that stand there twice."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the model in a folder."""
        stored = json.loads((folder / "languages.json").read_text(encoding="utf-8"))
        names: list[str] = stored["codes"]
        firsts, features, lengths, columns, logs = (
            np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)
            for name in ("firsts", "features", "lengths", "columns", "logs")
        )
        counts = lengths.astype(np.intp)
        return cls(
            firsts=firsts,
            features=features,
            lengths=counts,
            starts=np.cumsum(counts) - counts,
            columns=columns,
            logs=logs,
            unseen=np.array(stored["unseen"], np.float32),
            prior=np.array(stored["prior"], np.float32),
            languages=names,
            twins=[(names.index(name), place) for place, name in enumerate(names) if names.index(name) != place],
        )

    def most_probable(self, text: str) -> tuple[str, float]:
        """Return the most probable language of a text, and its probability."""
        shares = self._shares(text)
        place = int(shares.argmax())
        return self.languages[place], float(shares[place])

    def shares(self, text: str) -> dict[str, float]:
        """Return the probability of each language."""
        by_language: dict[str, float] = {}
        for language, share in zip(self.languages, self._shares(text).tolist(), strict=True):
            by_language.setdefault(language, share)
        return by_language

    def _shares(self, text: str) -> Shares:
        encoded = normalize("NFC", text.lower() if text.isupper() else text).encode(errors="surrogatepass")
        scores = self._scores(encoded)
        scores *= 1.0 / math.sqrt(len(encoded) or 1)
        np.exp(scores - scores.max(), out=scores)
        scores /= scores.sum()
        for first, second in self.twins:
            scores[first] += scores[second]
            scores[second] = 0.0
        return scores

    def _scores(self, text: bytes) -> Shares:
        counts: Counter[int] = Counter()
        if text:
            numbers = self.features.take(self.firsts.searchsorted(endings(text), "right") - 1)
            counts.update(numbers[numbers >= 0].tolist())
        if not counts:
            return np.zeros(len(self.languages), np.float32)
        logs = self._logs_of_features(np.fromiter(counts, np.intp, len(counts)))
        scores: Shares = np.log1p(np.fromiter(counts.values(), np.float32, len(counts))) @ logs + self.prior
        return scores

    def _logs_of_features(self, features: Places) -> Shares:
        n, width = len(features), len(self.languages)
        logs = np.empty((n, width), np.float32)
        logs[:] = self.unseen
        lengths = self.lengths[features]
        ends = np.cumsum(lengths)
        # A feature's languages are neighbors in the columns: each place there follows from its place here.
        stored = np.arange(ends[-1]) + (self.starts[features] - ends + lengths).repeat(lengths)
        cells = np.arange(0, n * width, width).repeat(lengths)
        cells += self.columns.take(stored)
        logs.ravel()[cells] = self.logs.take(stored)
        return logs


def endings(text: bytes) -> NDArray[np.int64]:
    """Return, for each byte of a text, a number of the bytes that end there, at most six.

    The last byte comes first, and before the text stands a smaller digit than any byte. So the endings with a common
    sequence at their end are a range of numbers.
    """
    letters = np.frombuffer(text, np.uint8).astype(np.int64)
    return np.convolve(letters + 1, DIGITS)[: len(text)]


DIGITS: Final = np.array([2 ** (9 * place) for place in reversed(range(LONGEST))], np.int64)
"""Values of the digits of an ending: nine bits for each byte."""


@cache
def shipped_model() -> LanguageModel:
    """Return the model that comes with ragtide.

    Raises:
        ConfigurationError: it is not installed.
    """
    return LanguageModel.read(bundled(ARRAYS))
