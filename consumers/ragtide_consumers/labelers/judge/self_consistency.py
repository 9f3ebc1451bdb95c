"""Self-consistency of the judge: it is asked a second time about a share of the interactions."""

from typing import Final

import structlog

from ragtide_runtime.draws import draw_number
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import RagInteraction, SentenceLabels
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY

from ...metrics.scores import AbsentReason
from ...metrics.trace import self_consistency, supported_sentences
from ..protocol import LabelerUnavailable
from ..remote.errors import ContextTooLong, NoLabels, OverBudget
from ..remote.usage import Usage
from .client import JudgeClient
from .trace import TraceQuestion, judge_trace

_PURPOSE: Final = b"ragtide repeat"
"""Makes this draw independent of the draws that choose for a sample or for a cascade's reference."""

log = structlog.get_logger("ragtide.judge")
log_limit = LogLimit()


def is_asked_twice(interaction: RagInteraction, share: float) -> bool:
    """Return whether the judge is asked twice about an interaction: the same in every process, worker and replay."""
    return draw_number(f"{interaction.pipeline}\0{interaction.interaction_id}", purpose=_PURPOSE) < share


async def ask_again(
    client: JudgeClient, first: SentenceLabels, question: TraceQuestion, usage: Usage
) -> float | AbsentReason:
    """Return the judge's self-consistency on one interaction: ask it again, past the cache, and compare the verdicts.

    A failure of the second answer makes the metric absent and changes nothing else. Tokens, dollars and counts of the
    second answer are added to `usage`, whatever the outcome. It is the same prompt, criteria included, because another
    prompt may have other answers; the second answers to criteria are not used.

    Args:
        client: that gave the first answer.
        first: labels of the first answer.
        question: that was asked.
    """
    if not supported_sentences(first):
        return AbsentReason.INCOMPLETE_LABELS
    # A usage of its own: unusable first answers must not shorten the second round.
    second_usage = Usage(usage.pipeline)
    try:
        second = await judge_trace(client.without_cache(), question, second_usage)
    except NoLabels as error:
        return error.reason
    except ContextTooLong:
        return AbsentReason.CONTEXT_TOO_LONG
    except OverBudget:
        return AbsentReason.OVER_BUDGET
    except LabelerUnavailable as error:
        log_limit.warning(log, "second", "the judge did not answer a second time", because=str(error))
        return AbsentReason.JUDGE_UNAVAILABLE
    finally:
        usage.add(second_usage)
        usage.counters["asked_again"] += 1
    return self_consistency(first, second.labels)


def score_or_reason(value: float | AbsentReason) -> tuple[dict[str, float], dict[str, str]]:
    """Return the score or the reason under the name of the metric."""
    name = SELF_CONSISTENCY.name
    return ({}, {name: str(value)}) if isinstance(value, AbsentReason) else ({name: value}, {})
