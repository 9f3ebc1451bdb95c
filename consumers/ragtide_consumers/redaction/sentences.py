"""Redacts an interaction together with its sentences, so that labels of sentences and redacted sentences agree. Pure.

The texts are redacted as a whole and sentence by sentence. If the redacted sentences do not stand in the redacted text,
in their order, a place that two sentences share was taken out. Then they could show a part of it, so they are left out.
"""

from collections.abc import Sequence
from typing import Any

from ragtide_runtime.recordings import EntryKind
from ragtide_schemas import RagInteraction

from ..text.sentences import CutInteraction
from .redaction import Redaction


def redacted_with_sentences(
    redaction: Redaction, interaction: RagInteraction, sentences: CutInteraction
) -> RagInteraction:
    """Return an interaction with redacted texts and sentences; a text without sentences has lost them.

    Args:
        redaction: of the texts.
        interaction: the interaction.
        sentences: into which it was cut.

    Raises:
        RedactionError, NotRedactedError, RedactionAbortedError: the texts could not be redacted.
    """
    whole = _with_sentences(interaction, sentences)
    redacted = redaction.model(EntryKind.INTERACTIONS, interaction.interaction_id, whole)
    if not isinstance(redacted, RagInteraction):  # never: the redaction of a model returns its type
        raise TypeError(f"redaction made {type(redacted).__name__} of an interaction")
    return _without_shared_places(whole, redacted)


def _with_sentences(interaction: RagInteraction, sentences: CutInteraction) -> RagInteraction:
    documents = tuple(
        document.model_copy(update={"sentences": tuple(texts)})
        for document, texts in zip(interaction.documents, sentences.documents, strict=True)
    )
    return interaction.model_copy(update={"documents": documents, "response_sentences": tuple(sentences.response)})


def _without_shared_places(before: RagInteraction, after: RagInteraction) -> RagInteraction:
    """Return a redacted interaction without the sentences of a text in which they share a redacted place."""
    documents = tuple(
        new.model_copy(update={"sentences": None}) if _share(old.text, old.sentences, new.text, new.sentences) else new
        for old, new in zip(before.documents, after.documents, strict=True)
    )
    changed: dict[str, Any] = {"documents": documents}
    if _share(before.response, before.response_sentences, after.response, after.response_sentences):
        changed["response_sentences"] = None
    return after.model_copy(update=changed)


def _share(text: str, sentences: Sequence[str] | None, redacted: str, parts: Sequence[str] | None) -> bool:
    """Return whether a text and its sentences differ after redaction; a producer's own sentences may differ before."""
    if text == redacted and sentences == parts:  # most texts
        return False
    return _stand_in(text, sentences or ()) and not _stand_in(redacted, parts or ())


def _stand_in(text: str, sentences: Sequence[str]) -> bool:
    """Return whether sentences stand in a text in their order, white space apart."""
    letters, at = "".join(text.split()), 0
    for sentence in sentences:
        wanted = "".join(sentence.split())
        found = letters.find(wanted, at)
        if found < 0:
            return False
        at = found + len(wanted)
    return True
