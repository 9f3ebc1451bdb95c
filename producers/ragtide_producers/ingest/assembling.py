"""Decides which interactions of a stored trace are complete, and when the trace is read again. No I/O and no clock."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Final, Literal

from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import RagInteraction

from ..traces.grouping import SpanGroup, groups_of
from ..traces.interactions import Mapped, Refusal, interaction_of
from ..traces.nothing import why_nothing
from ..traces.tree import Node, Tree
from .closing import HOLD_MS
from .outcomes import INTERACTION
from .stored_spans import DIGEST_BYTES, StoredTrace

NextStep = Literal["again", "keep", "close"]
"""`again`: read the trace at a time, or sooner if spans come. `keep`: only if spans come, and delete it at a time.
`close`: delete its spans now."""

READS_MAX: Final = 5
"""Times that a trace is read without success, before it is given up: it may crash the process."""
SERVICE_CHARS: Final = 200
"""Most characters of the name of a service."""


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
    outcome: str = ""
    """What the trace gave so far: `interaction`, why its interactions cannot be used, or why it has none; empty if this
    reading does not tell."""

    @property
    def decides(self) -> bool:
        """Whether there is something to write down before the next step."""
        return bool(self.used or self.contents)


def assemble(trace: StoredTrace, now_ms: int, settings: IngestSettings, user_ids: UserIds) -> Assembly:
    """Return the complete interactions of a trace, and its next step.

    An interaction is complete when the spans above its anchor have come, up to the first span of the process, and no
    span below the anchor has come for the settle time. So is one of several turns, if the anchor ended last. If a span
    above is missing, an interaction is complete when no span of the trace has come for the quiet time: the missing span
    may have the question. After the hold time it is complete in any case. A span belongs to one interaction for good:
    an interaction that late spans would change is counted, and not published again.

    Args:
        trace: the trace.
        now_ms: time of the server, in milliseconds since 1970.
        settings: names of attributes, and times at which traces are read.
    """
    arrivals = trace.arrivals_ms()
    spans = trace.read_spans()
    tree = Tree(spans, settings.retrieval_names, settings.action_names)
    first = next((node.span for node in tree.nodes if not node.is_missing), tree.root.span)
    service = str(first.resource.get("service.name", ""))[:SERVICE_CHARS]
    assembly = Assembly(trace, now_ms, "close", now_ms, service=service)
    due: list[int] = []
    groups = groups_of(tree)
    settled: dict[Node, int | None] = {}
    for group in groups:
        span_ids = _span_ids(group)
        if not trace.used.isdisjoint(span_ids):
            changed = interaction_of(group, settings, user_ids).interaction
            if changed is not None and (digest := _digest(changed)) not in trace.contents:
                assembly.contents.append(digest)
                assembly.changed += 1
            continue
        if group.anchor not in settled:
            knows = group.turn is None or _ended_last(group.anchor, tree)
            settled[group.anchor] = _settled_ms(group.anchor, tree, arrivals, settings) if knows else None
        complete_ms = _complete_ms(group, span_ids, settled[group.anchor], arrivals, settings)
        if complete_ms > now_ms:
            due.append(complete_ms)
            continue
        _add_interaction(assembly, span_ids, interaction_of(group, settings, user_ids))
    if not groups and not trace.used:
        assembly.outcome = why_nothing(tree).cause
    elif assembly.interactions or trace.contents:
        assembly.outcome = INTERACTION
    else:
        assembly.outcome = next((str(mapped.refusal) for mapped in assembly.refused), "")
    assembly.expired.extend(span_id for span_id, at in arrivals.items() if at + HOLD_MS <= now_ms)
    return _choose_next_step(assembly, tree, due, max(arrivals.values(), default=0), settings)


def _choose_next_step(
    assembly: Assembly, tree: Tree, due: Sequence[int], newest_ms: int, settings: IngestSettings
) -> Assembly:
    next_step: NextStep = "keep"
    if due:
        next_step, at_ms = "again", min(due)
    else:
        tops = (node.children if node.is_missing else [node] for node in tree.root.children)
        is_whole = all(not node.is_missing and _is_top(node) for nodes in tops for node in nodes)
        at_ms = newest_ms + (int(1000 * settings.quiet_s) if is_whole else HOLD_MS)
    if at_ms <= assembly.now_ms:
        next_step = "close"
    return replace(assembly, next_step=next_step, at_ms=at_ms)


def _span_ids(group: SpanGroup) -> list[str]:
    # A span that retrieves and answers is in both.
    span_ids = list(dict.fromkeys(node.span.span_id for node in (*group.retrievals, *group.calls, *group.tools)))
    return [*span_ids, group.anchor.span.span_id] if group.anchor.is_explicit else span_ids


def _complete_ms(
    group: SpanGroup,
    span_ids: Sequence[str],
    settled_ms: int | None,
    arrivals: dict[str, int],
    settings: IngestSettings,
) -> int:
    own = [arrivals[span_id] for span_id in span_ids]
    # A turn of a session that goes on is over when its own spans are.
    newest_ms = max(arrivals.values() if group.turn is None else own)
    complete_ms = newest_ms + int(1000 * settings.quiet_s) if settled_ms is None else settled_ms
    return min(complete_ms, min(own) + HOLD_MS)


def _settled_ms(anchor: Node, tree: Tree, arrivals: dict[str, int], settings: IngestSettings) -> int | None:
    """Return when all spans below an anchor have come; None if one above or below is missing: nothing is known."""
    node: Node | None = anchor
    while node is not None and not node.is_missing and not _is_top(node):
        node = node.parent
    if node is None or node.is_missing:
        return None
    below = tree.nodes[anchor.first : anchor.last + 1]
    if any(node.is_missing for node in below):
        return None
    return max(arrivals[node.span.span_id] for node in below if not node.is_missing) + int(1000 * settings.settle_s)


def _ended_last(anchor: Node, tree: Tree) -> bool:
    """Whether a span was open until those below it had ended, all of its process, so that none of them is to come."""
    resource = anchor.span.resource
    below = (node.span for node in tree.nodes[anchor.first : anchor.last + 1] if not node.is_missing)
    same = all(span.resource is resource or span.resource == resource for span in below)
    return same and anchor.latest_ns <= anchor.span.end_ns


def _is_top(node: Node) -> bool:
    return node.span.parent_is_remote or node.span.parent_id is None


def _add_interaction(assembly: Assembly, span_ids: Sequence[str], mapped: Mapped) -> None:
    assembly.used.extend(span_ids)
    interaction, patterns = mapped.interaction, assembly.trace.pipelines
    if interaction is None:
        assembly.refused.append(mapped)
    elif patterns and not any(fnmatchcase(interaction.pipeline, pattern) for pattern in patterns):
        detail = (
            f"the token of the sender may not write to the pipeline {interaction.pipeline!r}: change the token's "
            "pipelines, or the name of the service"
        )
        assembly.refused.append(Mapped(mapped.interaction_id, None, Refusal.INVALID, detail))
    else:
        assembly.interactions.append(interaction)
        assembly.payloads.append(mapped.payload)
        assembly.contents.append(_digest(interaction))


def _digest(interaction: RagInteraction) -> bytes:
    content = (interaction.question, interaction.response, [document.text for document in interaction.documents])
    return blake2b(json.dumps(content).encode(), digest_size=DIGEST_BYTES).digest()
