"""Sessions: the turns of a conversation, and the one interaction in which a judge reads them all. No I/O, no clock."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from .interaction import EarlierTurn, RagInteraction, last_turns
from .limits import HISTORY_MAX_CHARS, HISTORY_TURNS_MAX

TURNS_MAX: Final = HISTORY_TURNS_MAX + 1
"""Most turns of a conversation that a judge reads: the last ones."""

_TEXT: Final = HISTORY_MAX_CHARS // 2
"""Most characters of a text of an earlier turn, so that one turn fits into a history."""

_OF_A_TURN: Final = frozenset(
    {
        "schema_version", "interaction_id", "pipeline", "occurred_at", "question", "response", "segments", "session_id",
        "turn", "user_id", "cluster", "run", "sampling_probability", "source",
    }
)  # fmt: skip
"""Fields of an interaction that a session needs."""


def turn_of(interaction: RagInteraction) -> RagInteraction:
    """Return what a session needs of an interaction: question, response and properties, without documents."""
    left_out = {
        name: () if name == "documents" else field.get_default(call_default_factory=True)
        for name, field in RagInteraction.model_fields.items()
        if name not in _OF_A_TURN
    }
    return interaction.model_copy(update=left_out)


def sessions_of(turns: Sequence[RagInteraction], quiet_s: float, *, missing: int = 0) -> list[RagInteraction]:
    """Return an interaction for each session among the turns of one pipeline with one session id, in their order.

    A session ends when it was quiet for longer than `quiet_s`, in the times of its turns; a later turn begins the next
    session. The interaction has the last turn as its question and response, and the turns before it as its history: the
    last 20, with 100,000 characters together. `turns` in its metadata has the ids of these turns. Its own id follows
    from the session id and the first turn, so that the same turns make the same interaction everywhere. It has the
    segments, the user and the cluster that all its turns have.

    Within a session the turns are in the order of their numbers if all have one, else in that of their times.

    Args:
        turns: at least one.
        quiet_s: seconds without a turn after which a session has ended.
        missing: number of earlier turns that are not given.
    """
    ordered = sorted(turns, key=lambda turn: turn.occurred_at)
    quiet = timedelta(seconds=quiet_s)
    begins = [0, *(n for n, (a, b) in enumerate(pairwise(ordered), 1) if b.occurred_at - a.occurred_at > quiet)]
    parts = [ordered[begin:end] for begin, end in zip(begins, [*begins[1:], len(ordered)], strict=True)]
    return [_session(part, 0 if number else missing) for number, part in enumerate(parts)]


def _session(turns: Sequence[RagInteraction], missing: int) -> RagInteraction:
    if all(turn.turn is not None for turn in turns):
        turns = sorted(turns, key=lambda turn: turn.turn or 0)
    first, last = turns[0], turns[-1]
    earlier = [EarlierTurn(question=turn.question[:_TEXT], response=turn.response[:_TEXT]) for turn in turns[:-1]]
    history = last_turns(earlier)
    identity = f"{first.pipeline}\0{first.session_id}\0{first.interaction_id}"
    segments = {
        name: value for name, value in first.segments.items() if all(turn.segments.get(name) == value for turn in turns)
    }
    users, clusters = {turn.user_id for turn in turns}, {turn.cluster for turn in turns}
    return last.model_copy(
        update={
            "unit": "session",
            "interaction_id": f"session-{blake2b(identity.encode(errors='surrogatepass'), digest_size=16).hexdigest()}",
            "occurred_at": max(turn.occurred_at for turn in turns),
            "documents": (),
            "history": tuple(history) or None,
            "turn": missing + len(turns) - 1,
            "metadata": {"turns": [turn.interaction_id for turn in turns[-1 - len(history) :]]},
            "segments": segments,
            "user_id": last.user_id if len(users) == 1 else None,
            "cluster": last.cluster if len(clusters) == 1 else None,
            "sampling_probability": min(turn.sampling_probability for turn in turns),
        }
    )


def has_turn(session: RagInteraction, interaction_id: str) -> bool:
    """Return whether the interaction of a session has the texts of a turn."""
    turns = session.metadata.get("turns")
    return session.is_session and isinstance(turns, list) and interaction_id in turns


def turns_not_shown(session: RagInteraction) -> int:
    """Return the number of first turns of a session that its interaction does not have."""
    return max((session.turn or 0) - len(session.history or ()), 0)
