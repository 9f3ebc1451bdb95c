"""Sentence encoders: models that give each sentence a vector, so that the cosine of two vectors is their similarity.

Source: Reimers and Gurevych (2019), Sentence-BERT (arXiv:1908.10084).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from ragtide_runtime.settings.models import ModelsSettings

from .batching import Batcher
from .calibration import Floats
from .pair_classifier import TooLongForModelError
from .session import ModelSession, finite
from .tokens import Ints, windows_apart

DECIMALS: Final = 6
"""Decimals of a similarity: the next ones of a model of 32 bits depend on the machine."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """The similarities of one interaction with its closest document sentences, each in [0, 1]."""

    support: float | None
    """Mean over the sentences of the response; None without any."""
    match: float
    """That of the question."""


class SentenceEncoder:
    """Compares sentences by the cosines of their vectors.

    Args:
        session: of the model.
        settings: of batches and limits.
    """

    def __init__(self, session: ModelSession, settings: ModelsSettings) -> None:
        self.session = session
        self._batcher = Batcher(session, settings)
        self.aclose = self._batcher.aclose
        self._settings = settings

    async def similarities(
        self, question: str, response: Sequence[str], documents: Sequence[str]
    ) -> Similarities | None:
        """Return the similarities of a question and of the sentences of a response; None without document sentences.

        A negative cosine counts as 0. A sentence that is longer than an input of the model is read in parts: one of a
        response is as similar as its least similar part, and of one of a document the best part counts. Of a longer
        question only the beginning counts. Equal sentences are computed once.

        Raises:
            TooLongForModelError: more different sentences than `max_inputs`.
        """
        if not documents:
            return None
        parts = await asyncio.to_thread(self._parts, question, response, documents)
        places: dict[bytes, int] = {}
        indexes = [[places.setdefault(part.tobytes(), len(places)) for part in text] for text in parts]
        if len(places) > self._settings.max_inputs:
            raise TooLongForModelError(f"the interaction needs {len(places)} inputs of the model")
        single = self.session.tokenizer.single
        vectors = await self._batcher.run([single(np.frombuffer(part, dtype=np.int64)) for part in places])
        return await asyncio.to_thread(
            _similarities, _unit(finite(np.stack(vectors)).astype(np.float64)), indexes, len(response)
        )

    def _parts(self, question: str, response: Sequence[str], documents: Sequence[str]) -> list[list[Ints]]:
        """Return the parts of the question, of each sentence of the response and of each document sentence."""
        tokenizer = self.session.tokenizer
        room = tokenizer.room_of_one

        def parts(text: str) -> list[Ints]:
            tokens = tokenizer.tokens(text).ids
            # A text without tokens is an input of special tokens alone, as with Sentence Transformers.
            return [tokens[start:end] for start, end in windows_apart(len(tokens), room)] or [tokens]

        return [[tokenizer.tokens(question).ids[:room]], *map(parts, response), *map(parts, documents)]


def _similarities(vectors: Floats, indexes: Sequence[Sequence[int]], n_response: int) -> Similarities:
    question, response, documents = indexes[0], indexes[1 : n_response + 1], indexes[n_response + 1 :]
    closest = vectors[sorted({part for sentence in documents for part in sentence})]
    asked = sorted({part for sentence in (question, *response) for part in sentence})
    best = dict(zip(asked, np.clip((vectors[asked] @ closest.T).max(axis=1), 0, 1).tolist(), strict=True))
    support = [min(best[part] for part in sentence) for sentence in response]
    return Similarities(round(fmean(support), DECIMALS) if support else None, round(best[question[0]], DECIMALS))


def _unit(vectors: Floats) -> Floats:
    """Return vectors of length 1; a vector of zeros stays, and has the cosine 0 with all."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1.0, lengths))
