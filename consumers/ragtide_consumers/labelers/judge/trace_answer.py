"""Reads a judge's answer to the TRACe prompt: its labels and its faults. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import SentenceLabels

from ...metrics.trace import SPECIAL_KEYS
from ...text.keys import normalize_key
from ..remote.usage import Usage
from .answers import texts
from .repairing import AnswerReading

INVENTED_SHARE: Final = 0.2
"""Share of keys that name no sentence above which an answer is not trusted."""

KEY_CHARS: Final = 64
"""Most characters of a key; a longer key names no sentence."""


def read_trace(
    fields: Mapping[str, object], document_keys: Sequence[str], response_keys: Sequence[str], repairs: Usage
) -> AnswerReading[SentenceLabels]:
    """Return the labels in a judge's answer, and its faults.

    Keys are normalized and checked against the real keys. A few keys that name no sentence are dropped and counted;
    many such keys, or a missing part, are faults. Verdicts that contradict each other are faults too, because Friel et
    al. (arXiv:2407.11005, appendix 7.4) annotate such rows again. In the labels, a missing or malformed list is None,
    and a response sentence without a complete verdict has no entry.
    """
    keys = _Keys(document_keys, repairs)
    complaints: list[str] = []
    lists: list[tuple[str, ...] | None] = []
    for name in ("all_relevant_sentence_keys", "all_utilized_sentence_keys"):
        found = keys.clean(fields.get(name))
        if found is None:
            complaints.append(f"{name} is missing or not a list of keys that exist")
        lists.append(found)
    relevant, utilized = lists
    support, fully, faults = _verdicts(fields.get("sentence_support_information"), response_keys, keys, repairs)
    complaints += faults
    missing = [key for key in response_keys if key not in support]
    if missing:
        complaints.append(f"response sentences {', '.join(missing[:20])} have no entry")
    elif isinstance(overall := fields.get("overall_supported"), bool) and overall is not all(fully.values()):
        complaints.append("overall_supported contradicts the entries of the response sentences")
    if len(keys.invented) > INVENTED_SHARE * keys.named:
        complaints.append(f"keys that no document sentence has: {', '.join(keys.invented[:5])}")
    if relevant is None and utilized is None and not support:
        return AnswerReading(None, tuple(complaints))
    labels = SentenceLabels(
        relevant=relevant,
        utilized=utilized,
        support=support,
        fully_supported=fully,
        n_document_sentences=len(document_keys),
        document_keys=tuple(document_keys),
        response_keys=tuple(response_keys),
    )
    return AnswerReading(labels, tuple(complaints))


def _verdicts(
    entries: object, response_keys: Sequence[str], keys: "_Keys", repairs: Usage
) -> tuple[dict[str, tuple[str, ...]], dict[str, bool | None], list[str]]:
    """Return the support and the verdict of each response sentence that has both, and the faults of the others."""
    if not isinstance(entries, list):
        return {}, {}, ["sentence_support_information is missing or not a list"]
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    complaints: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        sentence = normalize_key(str(entry.get("response_sentence_key", ""))[:KEY_CHARS])
        if sentence not in response_keys:
            repairs.counters["dropped_keys"] += 1
            continue
        supporting = keys.clean(entry.get("supporting_sentence_keys"), SPECIAL_KEYS)
        verdict = entry.get("fully_supported")
        if supporting is None:
            complaints.append(f"supporting_sentence_keys of response sentence {sentence} is not a list of keys")
        elif not isinstance(verdict, bool):
            complaints.append(f"fully_supported of response sentence {sentence} is not true or false")
        elif sentence in support:
            repairs.counters["duplicate_keys"] += 1
            if verdict is not fully[sentence]:
                complaints.append(f"response sentence {sentence} has two entries that differ")
        else:
            if verdict and not supporting:
                complaints.append(f"response sentence {sentence} is fully supported without a supporting key")
            support[sentence], fully[sentence] = supporting, verdict
    return support, fully, complaints


class _Keys:
    """Normalizes keys, checks that they exist, and counts dropped keys."""

    def __init__(self, documents: Sequence[str], repairs: Usage) -> None:
        self._known = frozenset(documents)
        self._repairs = repairs
        self.named = 0
        self.invented: list[str] = []

    def clean(self, value: object, also: frozenset[str] = frozenset()) -> tuple[str, ...] | None:
        """Return the keys in a list; None if it is no list of keys, or if none of its keys exists."""
        listed = texts(value)
        if listed is None:
            return None
        found: dict[str, None] = {}
        invented = 0
        for text in listed:
            key = normalize_key(text[:KEY_CHARS])
            self.named += 1
            if key in self._known or key in also:
                if key in found:
                    self._repairs.counters["duplicate_keys"] += 1
                found[key] = None
            elif key not in SPECIAL_KEYS:
                self._repairs.counters["dropped_keys"] += 1
                self.invented.append(text[:20])
                invented += 1
        return None if invented and not found else tuple(found)
