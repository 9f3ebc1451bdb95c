"""Sentence encoders: models that give each sentence a vector, so that the cosine of two vectors is their similarity.

Source: Reimers and Gurevych (2019), Sentence-BERT (arXiv:1908.10084).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Final

import numpy as np

from ragtide_runtime.settings.labelers import ModelsSettings

from ...text.sentences import CutInteraction
from .batching import Batcher
from .calibration import Floats
from .pair_classifier import TooLongForModelError
from .session import Logits, ModelSession, finite
from .tokens import MAX_INPUTS, Ints, windows_apart

VECTORS_MAX: Final = 10_000
"""Most vectors of sentences that a worker keeps, so that a document that is retrieved again is not encoded again."""

DECIMALS: Final = 6
"""Decimals of a similarity: the next ones of a model of 32 bits depend on the machine."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """The largest similarities of one interaction's texts with a document sentence, each in [0, 1]."""

    question: float
    response: list[float]
    """For each sentence of the response."""


class SentenceEncoder:
    """Compares sentences by the cosines of their vectors."""

    def __init__(self, session: ModelSession, settings: ModelsSettings) -> None:
        self.session = session
        self._batcher = Batcher(session, settings)
        self.aclose = self._batcher.aclose
        self._settings = settings
        self._vectors: dict[bytes, Logits] = {}
        """Vectors by the tokens of their text; the one that was used last is the last."""

    async def similarities(
        self, question: str, response: Sequence[str], documents: Sequence[str]
    ) -> Similarities | None:
        """Return the similarities of a question and of the sentences of a response; None without document sentences.

        A negative cosine counts as 0. A sentence that is longer than an input of the model is read in parts: one of a
        response is as similar as its least similar part, and of one of a document the best part counts. Of a longer
        question only the beginning counts. Equal sentences are computed once.

        Raises:
            TooLongForModelError: more different sentences than `MAX_INPUTS`.
        """
        if not documents:
            return None
        parts = await asyncio.to_thread(self._parts, question, response, documents)
        places: dict[bytes, int] = {}
        indexes = [[places.setdefault(part.tobytes(), len(places)) for part in text] for text in parts]
        if len(places) > MAX_INPUTS:
            raise TooLongForModelError(f"the interaction needs {len(places)} inputs of the model")
        vectors = np.stack(await self._read_vectors(list(places))).astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths == 0, 1.0, lengths)
        return await asyncio.to_thread(_similarities, vectors, indexes, len(response))

    async def inputs(self, sentences: CutInteraction) -> Sequence[float] | None:
        """Return `similarity.support` and `similarity.match` as inputs of a fit; None if the interaction is too long.

        Both are 0 where there is nothing to compare.
        """
        try:
            similarities = await self.of(sentences)
        except TooLongForModelError:
            return None
        if similarities is None:
            return 0.0, 0.0
        return fmean(similarities.response) if similarities.response else 0.0, similarities.question

    async def of(self, sentences: CutInteraction) -> Similarities | None:
        """Return the similarities of an interaction, without marks of form; as `similarities`."""
        documents = [sentence for document in sentences.plain_documents for sentence in document]
        return await self.similarities(sentences.question, sentences.plain_response, documents)

    async def _read_vectors(self, parts: Sequence[bytes]) -> list[Logits]:
        by_part = {part: self._vectors[part] for part in parts if part in self._vectors}
        new = [part for part in parts if part not in by_part]
        single = self.session.tokenizer.single
        vectors = await self._batcher.run([single(np.frombuffer(part, dtype=np.int64)) for part in new])
        by_part |= {part: finite(vector) for part, vector in zip(new, vectors, strict=True)}
        for part in parts:
            self._vectors.pop(part, None)
            self._vectors[part] = by_part[part]
        for part in list(islice(self._vectors, max(len(self._vectors) - VECTORS_MAX, 0))):
            del self._vectors[part]
        return [by_part[part] for part in parts]

    def _parts(self, question: str, response: Sequence[str], documents: Sequence[str]) -> list[list[Ints]]:
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
    least = [min(best[part] for part in sentence) for sentence in response]
    return Similarities(round(best[question[0]], DECIMALS), [round(similarity, DECIMALS) for similarity in least])
