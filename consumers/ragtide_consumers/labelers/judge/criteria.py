"""Criteria: which of them are asked about an interaction, the reading of their answers, and a call of their own."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_schemas import MetricDeclaration, RagInteraction
from ragtide_schemas.criterion import CANNOT_TELL, Criterion, Need, folded
from ragtide_schemas.specimen import REASON_CHARS

from ...metrics.scores import AbsentReason, has_no_answer
from ...text.reasoning import answer_of
from ...text.splitting import KEY_TOKENS, estimated_tokens
from ..asked_criteria import asked_about
from ..remote.errors import ContextTooLong, NoLabels
from ..remote.usage import Usage
from .client import JudgeClient
from .costs import PlannedCalls
from .prompts import CALLS, Language, Prompt, criteria_prompt, key_of, possible_answers, session_prompt
from .repairing import AnswerReading, ask_until_usable
from .texts import KeyedCalls, calls_of, conversation_of, earlier_turns
from .values import grade_of_five, key_in, stated, takes_back, truth

ANSWER_CHARS: Final = 200
"""Most characters of an answer that are compared with the possible answers."""


@dataclass(frozen=True, slots=True)
class ChosenCriteria:
    """The criteria that are asked about one interaction."""

    asked: tuple[Criterion, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """The reason for each metric whose criterion needs a text that the interaction does not have."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Declaration of each of these metrics, asked or absent."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Share of the interactions that are asked, for metrics with a share below 1."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the interaction, asked or absent."""
        return tuple(self.declared)


_MISSING: Final[Mapping[Need, AbsentReason]] = {
    "documents": AbsentReason.NOTHING_RETRIEVED,
    "response": AbsentReason.NO_RESPONSE,
    "reference": AbsentReason.NO_REFERENCE_ANSWER,
    "history": AbsentReason.NO_HISTORY,
    "calls": AbsentReason.NO_CALLS,
}
"""Reason why a criterion is not asked, by the text that is missing; every interaction has a question."""


def choose(criteria: Iterable[Criterion], interaction: RagInteraction) -> ChosenCriteria:
    """Return the criteria that are asked about an interaction: the same in every process, worker and replay.

    A criterion applies by pipeline and segments, and is drawn by a hash of the interaction and its own metric. So its
    draw does not depend on other draws, and its probability, given that the judge labels the interaction, is its rate.
    """
    chosen = asked_about(criteria, interaction)
    if not chosen:
        return ChosenCriteria()
    available = _available_texts(interaction)
    absent: dict[str, str] = {}
    for criterion in chosen:
        missing = next((need for need in criterion.needs or ("response",) if need not in available), None)
        if missing is not None:
            absent[criterion.metric] = str(_MISSING[missing])
    return ChosenCriteria(
        asked=tuple(criterion for criterion in chosen if criterion.metric not in absent),
        absent=absent,
        declared={criterion.metric: criterion.declaration() for criterion in chosen},
        rates={criterion.metric: criterion.rate for criterion in chosen if criterion.rate < 1},
    )


def _available_texts(interaction: RagInteraction) -> frozenset[Need]:
    is_available: dict[Need, bool] = {
        "question": True,
        "documents": not interaction.nothing_retrieved,
        "response": not has_no_answer(interaction)
        or (interaction.is_session and any(answer_of(turn.response).strip() for turn in interaction.history or ())),
        "reference": interaction.reference_answer is not None,
        "history": bool(interaction.history),
        "calls": bool(interaction.calls),
    }
    return frozenset(need for need, is_there in is_available.items() if is_there)


def reads(criterion: Criterion, need: Need) -> bool:
    """Return whether a criterion may be answered by a text; by calls only if it names them."""
    return need in criterion.needs or (not criterion.needs and need != "calls")


def reference_of(criteria: Iterable[Criterion], interaction: RagInteraction) -> str | None:
    """Return the reference answer if a criterion reads it; None without one."""
    return interaction.reference_answer if any(reads(criterion, "reference") for criterion in criteria) else None


def calls_to_read(criteria: Iterable[Criterion], interaction: RagInteraction) -> KeyedCalls:
    """Return the calls of an interaction if a criterion reads them; empty without one."""
    return calls_of(interaction) if any(reads(criterion, "calls") for criterion in criteria) else ()


# --- Reading ---


@dataclass(frozen=True, slots=True)
class CriteriaReading:
    """The answers to criteria in one answer of the judge."""

    answers: Mapping[str, str] = field(default_factory=dict)
    """Possible answer by metric, `cannot_tell` among them."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason by metric."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Fault of the answer by metric, in words for the judge: metrics without a usable answer."""
    missing: Collection[str] = ()
    """Metrics of the criteria that have no answer at all, as those at the end of an answer that was cut off."""

    def joined(self, later: "CriteriaReading") -> "CriteriaReading":
        """Return the reading with a later one, of criteria that were asked again."""
        faults = {metric: fault for metric, fault in self.faults.items() if metric not in later.answers}
        return CriteriaReading(
            {**self.answers, **later.answers},
            {**self.reasons, **later.reasons},
            {**faults, **later.faults},
            later.missing,
        )


def read_criteria(fields: Mapping[str, Any], asked: Sequence[Criterion], repairs: Usage) -> CriteriaReading:
    """Return the answers to criteria in the fields of a judge's answer.

    Every entry is found by its key, never by its place. An answer counts if it needs no guess: it is one of the
    possible answers, apart from case, white space and punctuation around it, or the same as a truth value or a number.
    Entries with other keys are dropped and counted; two entries of one key that differ are a fault.

    Args:
        fields: with the entries in `criteria`, or beside each other.
        asked: criteria in the order of their keys.
        repairs: counts dropped and double keys.
    """
    keys = {key_of(place).casefold(): criterion for place, criterion in enumerate(asked)}
    entries: dict[str, list[Any]] = {}
    for key, entry in _entries(fields.get("criteria", fields), keys, beside="criteria" not in fields):
        if key is not None:
            entries.setdefault(key, []).append(entry)
        else:
            repairs.counters["dropped_keys"] += 1
    answers: dict[str, str] = {}
    reasons: dict[str, str] = {}
    faults: dict[str, str] = {}
    for place, criterion in enumerate(asked):
        key = key_of(place)
        own_entries = entries.get(key.casefold(), [])
        read = [_answer(criterion, entry) for entry in own_entries]
        if not own_entries:
            faults[criterion.metric] = f"criterion {key} has no answer"
        elif None in read:
            possible = ", ".join(map(repr, possible_answers(criterion)))
            faults[criterion.metric] = f"the answer to criterion {key} is none of {possible}"
        elif len(set(read)) > 1:
            faults[criterion.metric] = f"criterion {key} has two answers that differ"
        else:
            answers[criterion.metric] = str(read[0])
            repairs.counters["duplicate_keys"] += len(own_entries) - 1
            if reason := bounded(_field(own_entries[0], "reason")):
                reasons[criterion.metric] = reason
    missing = [criterion.metric for place, criterion in enumerate(asked) if key_of(place).casefold() not in entries]
    return CriteriaReading(answers, reasons, faults, missing)


_KEY_NAMES: Final = frozenset({"key", "criterion", "id"})


def _entries(value: Any, keys: Collection[str], *, beside: bool) -> Iterable[tuple[str | None, Any]]:
    if isinstance(value, dict):
        for name, entry in value.items():
            key = _key(name, keys)
            # Beside the entries stand other fields of the answer.
            if not beside or key is not None:
                yield key, entry
    elif isinstance(value, list):
        for entry in value:
            named = [name for name in entry if str(name).casefold() in _KEY_NAMES] if isinstance(entry, dict) else []
            yield (_key(entry[named[0]], keys) if len(named) == 1 else None), entry


def _key(name: object, keys: Collection[str]) -> str | None:
    return key_in(name, keys) or key_in(str(name).replace(" ", "").replace("_", ""), keys)


def _field(entry: Any, name: str) -> Any:
    if not isinstance(entry, dict):
        return entry if name == "answer" else None
    return next((value for field, value in entry.items() if str(field).casefold().strip() == name), None)


def bounded(reason: object) -> str:
    """Return a reason, bounded; empty if it is no text.

    It is longer than what is kept of it, because it is redacted first: an address that is cut off is not recognized.
    """
    return reason.strip()[:REASON_READ_CHARS] if isinstance(reason, str) else ""


REASON_READ_CHARS: Final = 4 * REASON_CHARS
"""Most characters of a reason as the judge gives it."""

_AROUND: Final = " \t\r\n.,;:!?\"'`*()[]“”‘’«»。，！"
_NO_WORDS: Final = frozenset({"1", "0", "y", "n", "t", "f"})


def _answer(criterion: Criterion, entry: Any) -> str | None:
    value = _field(entry, "answer")
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):
        value = f"{value:g}" if abs(value) < 1e6 else ""
    if not isinstance(value, str) or len(value) > ANSWER_CHARS:
        return None
    possible = possible_answers(criterion)
    for form in (folded, _bare):
        read = form(value)
        # A text of punctuation alone is no word, and would be every answer of punctuation alone.
        same = [answer for answer in possible if read and form(answer) == read]
        if same:
            return same[0] if len(same) == 1 else None
    word, rest = stated(value)
    read = _bare(word)
    same = [answer for answer in possible if read and _bare(answer) == read]
    if criterion.scale == "1-5" and not same and (grade := grade_of_five(word)) is not None:
        same = [grade]
    elif criterion.scale == "yes_no" and CANNOT_TELL not in same:
        meaning = None if word in _NO_WORDS or word.startswith(_PARTIAL) else truth(value)
        return None if meaning is None else "yes" if meaning else "no"
    others = [answer for answer in possible if answer not in same]
    return same[0] if len(same) == 1 and not takes_back(word, rest, others) else None


_PARTIAL: Final = ("part", "not ", "част", "部分")
"""Begins of words for a partial yes, which is neither yes nor no."""
_FRACTION: Final = re.compile(r"\W*[.,][0-9]")


def _bare(text: str) -> str:
    return folded(text.rstrip(_AROUND) if _FRACTION.match(text) else text.strip(_AROUND))


# --- A call of their own ---


async def judge_criteria(
    client: JudgeClient,
    interaction: RagInteraction,
    criteria: Sequence[Criterion],
    language: Language,
    usage: Usage,
    *,
    asked_before: bool = False,
    counts_failures: bool = True,
) -> tuple[CriteriaReading, dict[str, str]]:
    """Return the answers to criteria, asked in one call without TRACe, and the reason for each metric without one.

    An answer off the scale of a criterion is a fault of the question or of the model, and not of the endpoint: it must
    not pause the calls for all others. A criterion that reads documents is never answered by a part of them: if they do
    not fit into one call, its metric is absent, and the other criteria are asked without documents.

    Args:
        interaction: as the judge may read it.
        asked_before: whether an earlier answer had faults, which counts as one of the prompts that may repair them.
        counts_failures: whether an answer without an entry counts as a failure of the endpoint.

    Raises:
        EndpointUnavailable, OverBudget: the judge could not be called.
    """
    fitting, absent = split_by_room(client, interaction, criteria, language)
    asked_times, answered = int(asked_before), CriteriaReading()
    while fitting:
        prompt = _prompt(client, interaction, fitting, language)
        try:
            reading = await ask_until_usable(
                client,
                prompt,
                _reader_of(fitting),
                usage,
                asked_before=asked_times,
                counts_failures=counts_failures,
            )
        except ContextTooLong:
            # The refusal may have named the window. Without documents the rest may fit.
            rest = tuple(criterion for criterion in fitting if not reads(criterion, "documents"))
            absent |= _all_of(set(fitting) - set(rest), AbsentReason.CONTEXT_TOO_LONG)
            if len(rest) == len(fitting):
                absent |= _all_of(rest, AbsentReason.CONTEXT_TOO_LONG)
                break
            fitting = rest
            continue
        except NoLabels as error:
            absent |= _all_of(fitting, error.reason)
            break
        answered = answered.joined(reading)
        # An answer that was cut off lacks the last of them: they are asked once more, as long as some are answered.
        asked_times = client.settings.repairs
        missing = reading.missing if asked_times and reading.answers else ()
        fitting = tuple(criterion for criterion in fitting if criterion.metric in missing)
    return answered, absent | dict.fromkeys(answered.faults, str(AbsentReason.JUDGE_UNUSABLE))


def _all_of(criteria: Iterable[Criterion], reason: AbsentReason) -> dict[str, str]:
    return {criterion.metric: str(reason) for criterion in criteria}


def _reader_of(asked: Sequence[Criterion]) -> Any:
    def read(fields: dict[str, object], repairs: Usage) -> AnswerReading[CriteriaReading]:
        reading = read_criteria(fields, asked, repairs)
        return AnswerReading(reading if len(reading.missing) < len(asked) else None, tuple(reading.faults.values()))

    return read


def split_by_room(
    client: JudgeClient, interaction: RagInteraction, criteria: Sequence[Criterion], language: Language
) -> tuple[tuple[Criterion, ...], dict[str, str]]:
    """Return the criteria that one call has room for, and the reason for each other metric."""
    asked = tuple(criteria)
    reading = [criterion for criterion in asked if reads(criterion, "documents")]
    if not reading or interaction.nothing_retrieved:
        return asked, {}
    documents = [document.text for document in interaction.documents]
    needed = sum(estimated_tokens(text) + KEY_TOKENS for text in documents)
    try:
        fits = needed <= client.document_tokens(lambda: _prompt(client, interaction, asked, language, documents=False))
    except ContextTooLong:
        fits = False
    if fits:
        return asked, {}
    rest = tuple(criterion for criterion in asked if not reads(criterion, "documents"))
    return rest, _all_of(reading, AbsentReason.CONTEXT_TOO_LONG)


def _prompt(
    client: JudgeClient,
    interaction: RagInteraction,
    criteria: Sequence[Criterion],
    language: Language,
    *,
    documents: bool = True,
) -> Prompt:
    if interaction.is_session:
        return session_prompt(conversation_of(interaction), tuple(criteria), language, variant=client.variant)

    def read(need: Need) -> bool:
        return any(reads(criterion, need) for criterion in criteria)

    texts: dict[str, Sequence[tuple[str, object]]] = {}
    if read("question"):
        texts["QUESTION"] = [("Q", interaction.question)]
    if documents and read("documents") and not interaction.nothing_retrieved:
        texts["DOCUMENTS"] = [(f"D{place}", document.text) for place, document in enumerate(interaction.documents)]
    if read("response") and not has_no_answer(interaction):
        texts["RESPONSE"] = [("R", interaction.response)]
    if (reference := reference_of(criteria, interaction)) is not None:
        texts["REFERENCE ANSWER"] = [("A", reference)]
    if calls := calls_to_read(criteria, interaction):
        texts[CALLS] = calls
    return criteria_prompt(texts, tuple(criteria), language, earlier_turns(interaction), variant=client.variant)


async def uncached_criteria_prompts(
    client: JudgeClient, interaction: RagInteraction, criteria: Sequence[Criterion], language: Language
) -> list[Prompt]:
    """Return the prompt of `judge_criteria` if it has no cached answer."""
    fitting, _ = split_by_room(client, interaction, criteria, language)
    if not fitting:
        return []
    prompt = _prompt(client, interaction, fitting, language)
    return [prompt] if await client.cached_answer(prompt) is None else []


async def planned_criteria(
    client: JudgeClient, interaction: RagInteraction, criteria: Sequence[Criterion], language: Language
) -> PlannedCalls:
    """Return the call that `judge_criteria` would make."""
    fitting, _ = split_by_room(client, interaction, criteria, language)
    return await client.planned_calls(_prompt(client, interaction, fitting, language)) if fitting else PlannedCalls()


def scores_of(reading: CriteriaReading, criteria: Iterable[Criterion]) -> tuple[dict[str, float], dict[str, str]]:
    """Return the score of each answer, and the reason for each that the judge could not decide."""
    known = {criterion.metric: criterion for criterion in criteria}
    scores = {
        metric: known[metric].answers[answer] for metric, answer in reading.answers.items() if answer != CANNOT_TELL
    }
    undecided = [metric for metric, answer in reading.answers.items() if answer == CANNOT_TELL]
    return scores, dict.fromkeys(undecided, str(AbsentReason.JUDGE_CANNOT_TELL))
