"""Calls the judge until its answer is usable: each further prompt names the faults of the answer before it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import structlog

from ragtide_runtime.telemetry.log_limit import LogLimit

from ...metrics.scores import AbsentReason
from ..remote.errors import NoLabels
from ..remote.usage import Usage
from .answers import JudgeAnswer, is_refusal
from .client import JudgeClient
from .dialect import Message
from .prompts import Prompt

T = TypeVar("T")

log = structlog.get_logger("ragtide.judge")
log_limit = LogLimit()

SHOWN_CHARS: Final = 4000
"""Most characters of an unusable answer that a further prompt repeats."""

COMPLAINTS_SHOWN: Final = 10
"""Most faults that a further prompt names."""

_AGAIN: Final = {
    "en": "That answer cannot be used: {complaints}. Answer again, completely, in the form that was asked for.",
    "ru": "Этот ответ нельзя использовать: {complaints}. Ответь снова, полностью, в требуемой форме.",
}


@dataclass(frozen=True, slots=True)
class AnswerReading(Generic[T]):
    """The labels in one answer, and its faults."""

    labels: T | None
    """None if the answer is unusable."""
    complaints: tuple[str, ...] = ()
    """The faults of the answer, in words for the judge."""
    whole: bool = False
    """Whether the labels are complete even if the answer was cut off."""


Reader = Callable[[dict[str, object], Usage], AnswerReading[T]]
"""Makes labels from the fields of an answer, and counts its repairs."""


async def ask_until_usable(
    client: JudgeClient,
    prompt: Prompt,
    reader: Reader[T],
    usage: Usage,
    *,
    asked_before: int = 0,
    counts_failures: bool = True,
) -> T:
    """Return the labels of the first answer without faults or, after all repairs, of the answer with the fewest.

    Unusable answers of earlier tries of the same interaction count too, so that an interaction that the judge cannot
    label does not wait for ever.

    Args:
        prompt: the question.
        asked_before: prompts that asked the same before this one; at most `judge.repairs` of them leave a prompt.
        counts_failures: whether answers without labels count as failures of the endpoint, which pause all calls.

    Raises:
        NoLabels: the judge refused, or no answer held labels.
        EndpointUnavailable, OverBudget: the judge could not be called.
    """
    read = ReadOnce(prompt, reader)
    asked_for = hash((prompt.rules, prompt.data))
    best: tuple[int, T, JudgeAnswer, Usage] | None = None
    corrections: list[Message] = []
    fault = "earlier tries of this interaction had no usable answer"
    cut_off = raised = False
    for attempt in range(max(usage.unusable[asked_for], asked_before), client.settings.repairs + 1):
        if attempt:
            usage.counters["judge_repairs"] += 1
        usable = read.usable if counts_failures else lambda _: True
        answer = await client.ask(prompt, usage, corrections, usable=usable, raised=raised)
        if (refusal := read.refusal(answer)) is not None:
            raise NoLabels(AbsentReason.JUDGE_REFUSED, f"the judge refused: {client.clean(refusal)[:200]}")
        reading, repairs = read.at(answer)
        if reading.labels is None:
            usage.unusable[asked_for] += 1
        elif best is None or len(reading.complaints) < best[0]:
            best = len(reading.complaints), reading.labels, answer, repairs
        if not reading.complaints:
            break
        fault = reading.complaints[0]
        if answer.finish == "length" and not reading.whole:
            limit = answer.limit or client.answer_limit(prompt)
            fault = _fault_of_limit(answer, limit, client.settings.answer_tokens)
            raises = limit is not None and limit < (client.answer_limit(prompt, raised=True) or 0)
            # A limit that thoughts used up is not paid again, and no limit is paid three times.
            if cut_off or attempt == client.settings.repairs or not (raises or answer.text.strip()):
                if log_limit.due():  # an error: only another setting or model helps, and `score` shows errors alone
                    log.error("an answer of the judge was cut off", model=client.settings.model, because=fault)
                break
            cut_off, raised = True, raises
        faults = "; ".join(reading.complaints[:COMPLAINTS_SHOWN])
        corrections = [
            {"role": "assistant", "content": answer.text[:SHOWN_CHARS] or "(empty)"},
            {"role": "user", "content": _AGAIN[prompt.language].format(complaints=faults)},
        ]
        if cut_off and not answer.text.strip():  # there is nothing to correct
            corrections = []
    if best is None:
        raise NoLabels(
            AbsentReason.JUDGE_UNUSABLE,
            f"the judge gave no usable answer in {client.settings.repairs + 1}: {fault}",
        )
    _, labels, answer, repairs = best
    usage.counters.update(repairs.counters)
    await client.keep(prompt, answer)
    return labels


def _fault_of_limit(answer: JudgeAnswer, limit: int | None, setting: int) -> str:
    came = f"it was cut off after {answer.completion_tokens:,} tokens" if answer.completion_tokens else "it was cut off"
    if limit is None:
        return f"{came}, thoughts included, at the endpoint's own limit, because it takes none: raise it there"
    raised = f", raised from judge.answer_tokens = {setting:,}" if limit > setting else " (judge.answer_tokens)"
    return (
        f"{came}, thoughts included; its limit was {limit:,} tokens{raised}: set judge.answer_tokens (and "
        "judge.window_tokens) higher, or let the model think less"
    )


class ReadOnce(Generic[T]):
    """Reads each answer once: the check whether it is usable and the labels share the same reading."""

    def __init__(self, prompt: Prompt, reader: Reader[T]) -> None:
        self._prompt = prompt
        self._reader = reader
        self._last: tuple[JudgeAnswer, AnswerReading[T], Usage] | None = None

    def usable(self, answer: JudgeAnswer) -> bool:
        """Return whether an answer holds labels; a refusal also counts as usable."""
        return self.refusal(answer) is not None or self.at(answer)[0].labels is not None

    def refusal(self, answer: JudgeAnswer) -> str | None:
        """Return the words of a refusal; None if the answer is none."""
        if answer.refusal is not None or answer.finish == "content_filter":
            return answer.refusal or answer.finish
        if self.at(answer)[0].labels is None and is_refusal(answer.text):
            return answer.text.strip()
        return None

    def at(self, answer: JudgeAnswer) -> tuple[AnswerReading[T], Usage]:
        """Return the reading of an answer, and the counts of its repairs."""
        if self._last is None or self._last[0] is not answer:
            repairs = Usage()
            self._last = answer, self._read(answer, repairs), repairs
        return self._last[1], self._last[2]

    def _read(self, answer: JudgeAnswer, repairs: Usage) -> AnswerReading[T]:
        parsed = self._prompt.parsed(answer)
        if parsed is None:
            return AnswerReading(None, (self._prompt.formless,))
        reading = self._reader(parsed.fields, repairs)
        complaints = tuple(self._prompt.fault(complaint) for complaint in reading.complaints)
        reading = replace(reading, complaints=complaints)
        if parsed.complete and answer.finish != "length":
            return reading
        repairs.counters["judge_truncated"] += 1
        if reading.whole:
            return reading
        cut = "it was cut off before its end: keep explanations to a few words"
        return AnswerReading(reading.labels, (cut, *reading.complaints))
