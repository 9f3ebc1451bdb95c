"""Asking until an answer can be used: what is wrong with one is told to the judge, and the best one is taken."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ..metrics.scores import AbsentReason
from .answers import Answer, parse
from .client import JudgeClient, Usage
from .dialect import Message
from .errors import NoLabels
from .prompts import Language, Prompt

T = TypeVar("T")

SHOWN_CHARS: Final = 4000
"""Characters of an unusable answer that the judge is shown again."""

COMPLAINTS_SHOWN: Final = 10
"""Complaints that it is told."""

_AGAIN: Final = {
    "en": "That answer cannot be used: {complaints}. Answer again, completely, in the form that was asked for.",
    "ru": "Этот ответ нельзя использовать: {complaints}. Ответь снова, полностью, в требуемой форме.",
}


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was read from one answer."""

    labels: T
    complaints: tuple[str, ...] = ()
    """What is wrong with it, in words for the judge; empty if nothing is."""


Reader = Callable[[dict[str, object], Usage], Reading[T]]
"""Makes labels of the fields of an answer, and counts what it mended."""


async def ask_until_usable(client: JudgeClient, prompt: Prompt, reader: Reader[T], usage: Usage) -> T:
    """Return the labels of the first answer without fault, or of the one with the fewest after all repairs.

    Raises:
        NoLabels: the judge refused, or no answer held any labels.
        JudgeError: the judge could not be asked.
    """
    best: tuple[int, Reading[T], Answer, Usage] | None = None
    corrections: list[Message] = []
    for asked in range(client.settings.repairs + 1):
        if asked:
            usage.counters["judge_repairs"] += 1
        answer = await client.ask(prompt, usage, corrections)
        if answer.refusal is not None or answer.finish == "content_filter":
            raise NoLabels(AbsentReason.JUDGE_REFUSED, f"the judge refused: {(answer.refusal or answer.finish)[:200]}")
        mended = Usage()
        reading, complaints = _read(answer, reader, mended)
        if reading is not None and (best is None or len(complaints) < best[0]):
            best = len(complaints), reading, answer, mended
        if not complaints:
            break
        corrections = _corrections(answer, complaints, prompt.language)
    if best is None:
        raise NoLabels(
            AbsentReason.JUDGE_UNUSABLE,
            f"the judge gave no usable answer in {client.settings.repairs + 1}: {complaints[0]}",
        )
    _, reading, answer, mended = best
    usage.counters.update(mended.counters)
    await client.keep(prompt, answer)
    return reading.labels


def _read(answer: Answer, reader: Reader[T], mended: Usage) -> tuple[Reading[T] | None, tuple[str, ...]]:
    parsed = parse(answer.text)
    if parsed is None:
        return None, ("it is not a JSON object",)
    reading = reader(parsed.fields, mended)
    if parsed.complete and answer.finish != "length":
        return reading, reading.complaints
    mended.counters["judge_truncated"] += 1
    return reading, ("it was cut off before its end: keep explanations to a few words", *reading.complaints)


def _corrections(answer: Answer, complaints: tuple[str, ...], language: Language) -> list[Message]:
    told = "; ".join(complaints[:COMPLAINTS_SHOWN])
    return [
        {"role": "assistant", "content": answer.text[:SHOWN_CHARS] or "(empty)"},
        {"role": "user", "content": _AGAIN[language].format(complaints=told)},
    ]
