"""The meaning of a model's labels: by their names, or by a setting. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_runtime.errors import ConfigurationError

SUPPORTED: Final[Mapping[str, bool]] = {
    "entailment": True,
    "entailed": True,
    "supported": True,
    "consistent": True,
    "faithful": True,
    "factual": True,
    "neutral": False,
    "contradiction": False,
    "not_entailment": False,
    "not_supported": False,
    "unsupported": False,
    "inconsistent": False,
    "unfaithful": False,
    "hallucinated": False,
    "hallucination": False,
}
"""Whether a label says that a text is supported, by its name in lower case."""

RELEVANT: Final[Mapping[str, bool]] = {
    "relevant": True,
    "irrelevant": False,
    "not_relevant": False,
    "non_relevant": False,
}
"""Whether a label says that a text is relevant, by its name in lower case."""


def positive_labels(
    labels: Sequence[str], given: Mapping[str, str], known: Mapping[str, bool], *, setting: str, model: str
) -> tuple[int, ...]:
    """Return the indexes of the positive labels: supported, or relevant.

    Args:
        labels: names of the model's labels. A single label is positive.
        given: meaning by label, from the setting; it replaces the names' own meaning.
        known: meaning by name.
        setting: its name, for messages.
        model: in words, for messages.

    Raises:
        ConfigurationError: the meaning of a label is unknown, or all have the same meaning.

    >>> positive_labels(["contradiction", "entailment"], {}, SUPPORTED, setting="support_labels", model="m")
    (1,)
    """
    strange = sorted(given.keys() - set(labels))
    if strange:
        raise ConfigurationError(
            f"models.{setting} names the label {strange[0]}, and {model} has {', '.join(labels)}: correct the setting"
        )
    if len(labels) == 1:
        return (0,)
    meanings = {label: known.get(given.get(label, label).lower()) for label in labels}
    unknown = [label for label, meaning in meanings.items() if meaning is None]
    if unknown:
        raise ConfigurationError(
            f"{model} has the label {unknown[0][:80]}, whose meaning is unknown: set models.{setting} for all of "
            f"{', '.join(labels)[:300]}"
        )
    positive = tuple(number for number, label in enumerate(labels) if meanings[label])
    if not 0 < len(positive) < len(labels):
        raise ConfigurationError(
            f"{model} has the labels {', '.join(labels)[:300]}, all of the same meaning: correct models.{setting}"
        )
    return positive
