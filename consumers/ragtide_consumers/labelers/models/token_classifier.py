"""Token classifiers: models that read documents, question and response, and mark unsupported tokens of the response.

Such models are trained on RAGTruth (Niu et al., arXiv:2401.00396), so they want its prompt around the documents. If the
documents do not fit in one input, windows of them are read, and a token is as supported as by its best window: its
evidence stands in some window, and the other windows do not have it. Source of the maximum over parts of a context:
Laban et al., SummaC (arXiv:2111.09525); Zha et al., AlignScore (arXiv:2305.16739).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np

from ragtide_runtime.settings.labelers import ModelsSettings
from ragtide_schemas.labels import UnsupportedSpan

from ...text.keys import letters
from ...text.sentences import place_sentences
from .batching import Batcher
from .calibration import Floats, log_odds
from .pair_classifier import TooLongForModelError
from .session import Logits, ModelSession, finite
from .tokens import MAX_INPUTS, OVERLAP, Ints, ModelInput, Tokens, windows, windows_apart

RAGTRUTH: Final = (
    "Briefly answer the following question:\n{question}\n"
    "Bear in mind that your response should be strictly based on the following {n} passages:\n{documents}\n"
    "In case the passages do not contain the necessary information to answer the question, please reply with: "
    '"Unable to answer based on given passages."\noutput:'
)
"""The prompt of RAGTruth's questions, on which such models are trained."""

MOST_SPANS: Final = 100
"""Most unsupported spans of a response that are kept."""


class TokenClassifier:
    """Marks unsupported tokens.

    Args:
        positive: indexes of the labels that mean supported.
    """

    def __init__(self, session: ModelSession, settings: ModelsSettings, positive: Sequence[int]) -> None:
        self.session = session
        self._batcher = Batcher(session, settings)
        self.aclose = self._batcher.aclose
        self._settings = settings
        self._positive = positive

    async def mark(
        self, question: str, documents: Sequence[str], response: str, sentences: Sequence[str]
    ) -> tuple[list[float], tuple[UnsupportedSpan, ...]]:
        """Return for each sentence the probability that it is supported, and the unsupported parts, in order.

        A sentence is as supported as its least supported token, and a part as unsupported as its least supported one.

        Raises:
            TooLongForModelError: too many inputs, or a question that leaves no room for documents.
        """
        text, places = place_sentences(response, sentences)
        answer, inputs = await asyncio.to_thread(self._inputs, question, documents, text)
        logits = await self._batcher.run([model_input for row in inputs for model_input in row])
        return self._mark_sentences(answer, self._probabilities(inputs, logits), places)

    def _inputs(self, question: str, documents: Sequence[str], text: str) -> tuple[Tokens, list[list[ModelInput]]]:
        tokenizer = self.session.tokenizer
        answer = tokenizer.tokens(text)
        # A response may be longer than half an input: then its parts are marked one after another.
        parts = [answer.ids[start:end] for start, end in windows_apart(len(answer), tokenizer.room // 2)]
        room = tokenizer.room - max(map(len, parts), default=0)
        contexts = self._contexts(question, documents, room)
        if len(parts) * len(contexts) > MAX_INPUTS:
            raise TooLongForModelError(f"the interaction needs {len(parts) * len(contexts)} inputs of the model")
        return answer, [[tokenizer.pair(context, part) for context in contexts] for part in parts]

    def _contexts(self, question: str, documents: Sequence[str], room: int) -> list[Ints]:
        tokenizer = self.session.tokenizer
        template = (self._settings.support_prompt or RAGTRUTH).replace("{n}", str(len(documents)))
        head, _, tail = template.partition("{documents}")
        head, tail = head.replace("{question}", question), tail.replace("{question}", question)
        lines = "\n".join(f"passage {number}: {text}" for number, text in enumerate(documents, 1))
        whole = tokenizer.tokens(head + lines + tail).ids
        if len(whole) <= room:
            return [whole]
        before, middle, after = (tokenizer.tokens(text).ids for text in (head, lines, tail))
        left = room - len(before) - len(after)
        if left < room // 4:
            raise TooLongForModelError("the question leaves no room for documents in the model's input")
        parts = windows(len(middle), left, min(OVERLAP, left // 4))
        return [np.concatenate([before, middle[start:end], after]) for start, end in parts]

    def _probabilities(self, inputs: Sequence[Sequence[ModelInput]], logits: Sequence[Logits]) -> Floats:
        remaining = iter(logits)
        parts = []
        for row in inputs:
            marked = [
                next(remaining)[model_input.second : model_input.second + model_input.n_second] for model_input in row
            ]
            odds = log_odds(finite(np.stack(marked)), self._positive)
            parts.append(self.session.files.calibration.probabilities(odds).max(axis=0))
        return np.concatenate(parts) if parts else np.zeros(0)

    def _mark_sentences(
        self, answer: Tokens, supported: Floats, places: Sequence[tuple[int, int]]
    ) -> tuple[list[float], tuple[UnsupportedSpan, ...]]:
        sentences = [1.0] * len(places)
        spans: list[UnsupportedSpan] = []
        limit = self._settings.support_threshold
        number, goes_on = 0, False
        for token_start, token_end, good in zip(
            answer.starts.tolist(), answer.ends.tolist(), supported.tolist(), strict=True
        ):
            # A token may begin with the space before its word, so its last character determines its sentence.
            while number < len(places) and places[number][1] < token_end:
                number, goes_on = number + 1, False
            if number == len(places):
                break
            start = places[number][0]
            if token_end <= max(start, token_start):
                continue
            sentences[number] = min(sentences[number], good)
            if good >= limit:
                goes_on = False
                continue
            first, bad = max(token_start, start) - start, 1 - good
            if goes_on:
                last = spans.pop()
                first, bad = last.start, max(bad, last.probability)
            sentence, end = letters(number), token_end - start
            spans.append(UnsupportedSpan(sentence=sentence, start=first, end=end, probability=bad))
            goes_on = True
        return sentences, tuple(spans[:MOST_SPANS])
