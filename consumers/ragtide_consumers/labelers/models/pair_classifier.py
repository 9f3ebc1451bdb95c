"""Pair classifiers: models that look at two texts, such as a passage and a sentence.

A sentence is as supported as by its best passage, and by the best window of it. Sources for the maximum over passages:
Laban et al., SummaC (arXiv:2111.09525); Zha et al., AlignScore (arXiv:2305.16739).
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from ragtide_runtime.settings.labelers import ModelsSettings

from .batching import Batcher
from .calibration import log_odds
from .session import ModelSession, finite
from .tokens import MAX_INPUTS, OVERLAP, Ints, ModelInput, windows, windows_apart


class TooLongForModelError(ValueError):
    """An interaction needs more inputs of a model than allowed, or its question leaves no room."""


class PairClassifier:
    """Gives probabilities of a positive label for pairs of texts.

    Args:
        positive: indexes of the positive labels.
    """

    def __init__(self, session: ModelSession, settings: ModelsSettings, positive: Sequence[int]) -> None:
        self.session = session
        self.aclose = (batcher := Batcher(session, settings)).aclose
        self._batcher = batcher
        self._settings = settings
        self._positive = positive

    @property
    def batches(self) -> int:
        """Number of batches so far."""
        return self._batcher.batches

    async def support(self, passages: Sequence[str], sentences: Sequence[str]) -> list[float]:
        """Return for each sentence the probability that a passage supports it; 0 without passages.

        A sentence of more than half a window is read in parts, and is as supported as its least supported part.

        Raises:
            TooLongForModelError: too many inputs.
        """
        inputs, n_parts = await asyncio.to_thread(self._support_inputs, passages, sentences)
        parts = iter(await self._best_probabilities(inputs))
        return [min([next(parts) for _ in range(n)], default=0.0) for n in n_parts]

    async def relevance(self, question: str, sentences: Sequence[str]) -> list[float]:
        """Return for each sentence the probability that it is relevant to a question.

        Of a question of more than half a window only the beginning counts.

        Raises:
            TooLongForModelError: too many inputs.
        """
        inputs = await asyncio.to_thread(self._question_inputs, question, sentences)
        return await self._best_probabilities(inputs)

    async def _best_probabilities(self, inputs: Sequence[Sequence[ModelInput]]) -> list[float]:
        logits = await self._batcher.run([model_input for row in inputs for model_input in row])
        if not logits:
            return [0.0] * len(inputs)
        odds = log_odds(finite(np.stack(logits)), self._positive)
        probabilities = iter(self.session.files.calibration.probabilities(odds).tolist())
        return [max([next(probabilities) for _ in row], default=0.0) for row in inputs]

    def _support_inputs(
        self, passages: Sequence[str], sentences: Sequence[str]
    ) -> tuple[list[list[ModelInput]], list[int]]:
        tokenizer = self.session.tokenizer
        parts = [
            [tokens[start:end] for start, end in windows_apart(len(tokens), tokenizer.room // 2)]
            for tokens in (tokenizer.tokens(sentence).ids for sentence in sentences)
        ]
        seconds = [part for sentence in parts for part in sentence]
        room = tokenizer.room - max(map(len, seconds), default=0)
        firsts = [part for passage in passages for part in self._windows(tokenizer.tokens(passage).ids, room)]
        self._check(len(firsts) * len(seconds))
        return [[tokenizer.pair(first, second) for first in firsts] for second in seconds], list(map(len, parts))

    def _question_inputs(self, question: str, sentences: Sequence[str]) -> list[list[ModelInput]]:
        tokenizer = self.session.tokenizer
        first = tokenizer.tokens(question).ids[: tokenizer.room // 2]
        room = tokenizer.room - len(first)
        rows = [self._windows(tokenizer.tokens(sentence).ids, room) for sentence in sentences]
        self._check(sum(map(len, rows)))
        return [[tokenizer.pair(first, second) for second in row] for row in rows]

    def _windows(self, tokens: Ints, size: int) -> list[Ints]:
        overlap = min(OVERLAP, size // 4)
        return [tokens[start:end] for start, end in windows(len(tokens), size, overlap)]

    def _check(self, inputs: int) -> None:
        if inputs > MAX_INPUTS:
            raise TooLongForModelError(f"the interaction needs {inputs} inputs of the model")
