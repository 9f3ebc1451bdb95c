"""Redacts the texts that a judge reads, sentence by sentence, so that labels name the sentences of the interaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ragtide_schemas import RagInteraction

from ...redaction.redaction import Redaction
from ...redaction.sentences import redacted_with_sentences
from ...text.sentences import CutInteraction, cut

HEAVY_CHARS: Final = 50_000
"""Characters above which texts are redacted in a thread, because it would block the worker's event loop."""


class PromptRedaction:
    """Prepares interactions for a judge.

    Args:
        redaction: of the texts; without patterns and function nothing is redacted.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction

    @property
    def names(self) -> Sequence[str]:
        """Names of the patterns and of the function in use."""
        return self._redaction.names

    async def prepared(self, interaction: RagInteraction) -> tuple[RagInteraction, CutInteraction]:
        """Return an interaction and its sentences as the judge may read them.

        Raises:
            RedactionError, NotRedactedError: the texts could not be redacted.
            RedactionAbortedError: the labeler is closed.
        """
        sentences = cut(interaction)
        if not self._redaction.names:
            return interaction, sentences
        documents = sum([len(document.text) for document in interaction.documents])
        if self._redaction.waits or len(interaction.response) + documents > HEAVY_CHARS:
            return await asyncio.to_thread(self._redacted, interaction, sentences)
        return self._redacted(interaction, sentences)

    def _redacted(
        self, interaction: RagInteraction, sentences: CutInteraction
    ) -> tuple[RagInteraction, CutInteraction]:
        redacted = redacted_with_sentences(self._redaction, interaction, sentences)

        again = cut(redacted)
        return redacted, replace(
            sentences,
            question=redacted.question,
            documents=again.documents,
            response=again.response,
            plain_documents=again.plain_documents,
            plain_response=again.plain_response,
        )

    async def aclose(self) -> None:
        """End the process that redacts, if there is one."""
        await asyncio.to_thread(self._redaction.close)
