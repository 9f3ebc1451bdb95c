"""The labeler `quoting`: a response adheres to the documents as far as it quotes them."""

from typing import Final

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction

from ..metrics.scores import AbsentReason, nothing_to_label
from ..text.sentences import SPLITTER_ID, cut
from .protocol import Labeling


class QuotingLabeler:
    """Scores support by quotation."""

    name: Final = "quoting"
    metrics: Final = ("trace.adherence", "trace.supported_fraction")

    def __init__(self, settings: Settings) -> None:
        self.profile = settings.profile
        self.version = f"1/{SPLITTER_ID}"

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the share of the response's sentences that a document has, and whether it is all."""
        sentences = cut(interaction)
        nothing = nothing_to_label(interaction)
        if nothing is None and not sentences.response:
            nothing = AbsentReason.NO_RESPONSE_SENTENCES
        if nothing is not None:
            return Labeling({}, dict.fromkeys(self.metrics, str(nothing)))
        quoted = [any(text in document.text for document in interaction.documents) for text in sentences.response]
        scores = {"trace.adherence": float(all(quoted)), "trace.supported_fraction": sum(quoted) / len(quoted)}
        return Labeling(scores, splitter=sentences.splitter)
