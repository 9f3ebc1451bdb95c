"""Decides which interactions of a stored trace are complete, and when the trace is read again. No I/O and no clock."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Final, Literal

from ragtide_runtime.settings.producers import IngestSettings
from ragtide_schemas import RagInteraction

from ..traces.grouping import SpanGroup, groups_of
from ..traces.interactions import Mapped, Refusal, interaction_of
from ..traces.options import MappingOptions
from ..traces.tree import Node, Tree
from .stored_spans import DIGEST_BYTES, StoredTrace

NextStep = Literal["again", "keep", "close"]
"""`again`: read the trace at a time, or sooner if spans come. `keep`: only if spans come, and delete it at a time.
`close`: delete its spans now."""

READS_MAX: Final = 5
"""Times that a trace is read without success, before it is given up: it may crash the process."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times at which a trace is read, in milliseconds."""

    settle_ms: int
    quiet_ms: int
    hold_ms: int

    @classmethod
    def of(cls, settings: IngestSettings) -> "Timing":
        """Return the times in the settings."""
        return cls(int(settings.settle_s * 1000), int(settings.quiet_s * 1000), int(settings.hold_s * 1000))


@dataclass(slots=True)
class Assembly:
    """The result of reading a stored trace."""

    trace: StoredTrace
    now_ms: int
    """Time at which the trace was read."""
    next_step: NextStep
    at_ms: int
    """Time of the next step."""
    interactions: list[RagInteraction] = field(default_factory=list)
    """Complete interactions, to be published."""
    payloads: list[bytes] = field(default_factory=list)
    """The same interactions as JSON."""
    refused: list[Mapped] = field(default_factory=list)
    """Complete interactions that cannot be used."""
    used: list[str] = field(default_factory=list)
    """Ids of the spans of both."""
    contents: list[bytes] = field(default_factory=list)
    """Digests of the contents of the interactions, and of those that late spans have changed."""
    changed: int = 0
    """Decided interactions that late spans would have changed."""
    expired: list[str] = field(default_factory=list)
    """Ids of spans that are deleted, because they have been held for long enough."""
    service: str = ""
    """Name of the service that sent the spans."""

    @property
    def decides(self) -> bool:
        """Whether there is something to write down before the next step."""
        return bool(self.used or self.contents)


def assemble(trace: StoredTrace, now_ms: int, timing: Timing, options: MappingOptions) -> Assembly:
    """Return the complete interactions of a trace, and its next step.

    An interaction is complete when the spans above its anchor have come, up to the first span of the process, and no
    span below the anchor has come for the settle time. If a span above is missing, it is complete after the quiet time.
    After the hold time it is complete in any case. A span belongs to one interaction for good: an interaction that late
    spans would change is counted, and not published again.

    Args:
        trace: the trace.
        now_ms: time of the server, in milliseconds since 1970.
        timing: times at which traces are read.
        options: how spans become interactions.
    """
    arrivals = trace.arrivals_ms()
    spans = trace.read_spans()
    tree = Tree(spans, options.retrieval_names)
    found = Assembly(
        trace, now_ms, "close", now_ms, service=str(spans[0].resource.get("service.name", "")) if spans else ""
    )
    due: list[int] = []
    for group in groups_of(tree):
        span_ids = _span_ids(group)
        if not trace.used.isdisjoint(span_ids):
            _count_change(found, group, options)
            continue
        complete_ms = _complete_ms(group, tree, span_ids, arrivals, timing)
        if complete_ms > now_ms:
            due.append(complete_ms)
            continue
        _take(found, span_ids, interaction_of(group, options))
    found.expired.extend(span_id for span_id, at in arrivals.items() if at + timing.hold_ms <= now_ms)
    return _with_next_step(found, tree, due, max(arrivals.values(), default=0), timing)


def _with_next_step(found: Assembly, tree: Tree, due: Sequence[int], newest_ms: int, timing: Timing) -> Assembly:
    next_step: NextStep = "keep"
    if due:
        next_step, at_ms = "again", min(due)
    else:
        at_ms = newest_ms + (timing.quiet_ms if _is_whole(tree) else timing.hold_ms)
    if at_ms <= found.now_ms:
        next_step = "close"
    return replace(found, next_step=next_step, at_ms=at_ms)


def _span_ids(group: SpanGroup) -> list[str]:
    # A span that retrieves and answers is in both.
    found = list(dict.fromkeys(node.span.span_id for node in (*group.retrievals, *group.calls)))
    return [*found, group.anchor.span.span_id] if group.anchor.is_explicit else found


def _complete_ms(
    group: SpanGroup, tree: Tree, span_ids: Sequence[str], arrivals: dict[str, int], timing: Timing
) -> int:
    """Return the time at which a group is complete, unless further spans come."""
    own = [arrivals[span_id] for span_id in span_ids]
    held_ms = min(own) + timing.hold_ms
    if group.turn is not None:
        return min(max(own) + timing.quiet_ms, held_ms)
    below = tree.nodes[group.anchor.first : group.anchor.last + 1]
    newest_ms = max(arrivals[node.span.span_id] for node in below if not node.is_missing)
    return min(newest_ms + (timing.settle_ms if _is_rooted(group.anchor) else timing.quiet_ms), held_ms)


def _is_rooted(anchor: Node) -> bool:
    """Whether every span above the anchor has come, up to the first span of its process."""
    node: Node | None = anchor
    while node is not None:
        if node.is_missing:
            return False
        if _is_top(node):
            return True
        node = node.parent
    return False


def _is_top(node: Node) -> bool:
    return node.span.parent_is_remote or node.span.parent_id is None


def _is_whole(tree: Tree) -> bool:
    """Whether no span of the trace has a parent that is missing in its process."""
    tops = (node.children if node.is_missing else [node] for node in tree.root.children)
    return all(not node.is_missing and _is_top(node) for nodes in tops for node in nodes)


def _take(found: Assembly, span_ids: Sequence[str], mapped: Mapped) -> None:
    found.used.extend(span_ids)
    interaction = mapped.interaction
    if interaction is None:
        found.refused.append(mapped)
    elif not _may_write(interaction.pipeline, found.trace.pipelines):
        detail = (
            f"the token of the sender may not write to the pipeline {interaction.pipeline!r}: change the token's "
            "pipelines, or the name of the service"
        )
        found.refused.append(Mapped(mapped.interaction_id, None, Refusal.INVALID, detail))
    else:
        found.interactions.append(interaction)
        found.payloads.append(mapped.payload)
        found.contents.append(_digest(interaction))


def _may_write(pipeline: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(pipeline, pattern) for pattern in patterns)


def _count_change(found: Assembly, group: SpanGroup, options: MappingOptions) -> None:
    interaction = interaction_of(group, options).interaction
    if interaction is None:
        return
    digest = _digest(interaction)
    if digest not in found.trace.contents:
        found.contents.append(digest)
        found.changed += 1


def _digest(interaction: RagInteraction) -> bytes:
    content = (interaction.question, interaction.response, [document.text for document in interaction.documents])
    return blake2b(json.dumps(content).encode(), digest_size=DIGEST_BYTES).digest()
