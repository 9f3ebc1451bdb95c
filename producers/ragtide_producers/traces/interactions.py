"""A trace becomes RAG interactions, each with its source, or with the reason why it cannot be used."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.limits import ENTRY_MAX_BYTES
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from ..shapes.literals import BrokenTextError, UnreadableError
from .attributes import first
from .fields import Refusal, RefusedError, fields_of
from .grouping import SpanGroup, groups_of
from .options import MappingOptions
from .span import Span, sampling_probability
from .tree import Node, Tree

TRUNCATED_REMEDY: Final = (
    "the content of a span is not whole: {error}: set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000, and no limit of length"
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """An interaction that a trace holds."""

    interaction_id: str
    interaction: RagInteraction | None
    """None if the interaction cannot be used."""
    refusal: Refusal | None = None
    detail: str = ""
    """The reason with its remedy, if the interaction cannot be used."""
    probability: float | None = None
    """Probability with which the sender kept the trace, if the trace indicates it."""
    payload: bytes = b""
    """The interaction as JSON; empty without one. It is encoded here, and not again on the way into the stream."""


def interactions_of(spans: Iterable[Span], options: MappingOptions) -> list[Mapped]:
    """Return the interactions of one trace, by time; the order of the spans does not matter."""
    return [interaction_of(group, options) for group in groups_of(Tree(spans, options.retrieval_names))]


def interaction_of(group: SpanGroup, options: MappingOptions) -> Mapped:
    """Return the interaction of a group of spans, or the reason why it cannot be used."""
    readings = _spans_in(group)
    mapped = Mapped(
        _interaction_id(group, readings),
        None,
        probability=_probability(readings),
    )
    try:
        fields = fields_of(group, readings, options)
        known = {} if mapped.probability is None else {"sampling_probability": mapped.probability}
        interaction = sent(
            RagInteraction.from_fields, {"interaction_id": mapped.interaction_id, **known, **fields}, utc_now()
        ).with_left_out(sum((reading.left_out for reading in readings), Counter()))
    except RefusedError as refused:
        return replace(mapped, refusal=refused.reason, detail=str(refused))
    except BrokenTextError as error:
        return replace(mapped, refusal=Refusal.TRUNCATED, detail=TRUNCATED_REMEDY.format(error=error))
    except UnreadableError as error:
        return replace(mapped, refusal=Refusal.INVALID, detail=str(error))
    except InvalidEntryError as error:
        return replace(mapped, refusal=Refusal.INVALID, detail=error.detail)
    interaction = options.user_ids.with_pseudonym(interaction)
    payload = interaction.encode()
    if len(payload) > ENTRY_MAX_BYTES and interaction.history:  # an interaction without it is worth more than none
        interaction = interaction.model_copy(update={"history": None})
        payload = interaction.encode()
    if len(payload) > ENTRY_MAX_BYTES:
        detail = f"the interaction has {len(payload):,} bytes: retrieve less, at most {ENTRY_MAX_BYTES:,} are allowed"
        return replace(mapped, refusal=Refusal.INVALID, detail=detail)
    return replace(mapped, interaction=interaction, payload=payload)


def _spans_in(group: SpanGroup) -> list[Node]:
    """Return the anchor, the spans above it from the nearest on, and the used spans below it."""
    return [*group.anchor.upwards(), *group.calls, *group.retrievals]


def _probability(readings: Sequence[Node]) -> float | None:
    found = (sampling_probability(span.span.trace_state) for span in readings)
    return min((probability for probability in found if probability is not None), default=None)


def _interaction_id(group: SpanGroup, readings: Sequence[Node]) -> str:
    given = first(group.anchor.own, ("interaction_id",))
    if isinstance(given, str):
        return given
    turn = "" if group.turn is None else f"-{group.turn}"
    return f"otel-{readings[0].span.trace_id}-{group.anchor.span.span_id or 'trace'}{turn}"
