"""The traffic of a chaos run: valid interactions, the same ones again, and poison, which is invalid entries."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tests.support.transcripts import as_run

from ragtide import RagInteraction
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas import Reason

PIPELINES = ("shop", "support")

START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
SPAN = timedelta(minutes=50)
"""All of the traffic occurs within one window of an hour, so that no order makes any of it late."""

SHIFT = 7
"""In the second half each question has the answer of the one this many rows further on."""

DUPLICATES = 0.05
POISON = 0.02
BY_XADD = 0.1
"""Shares of the interactions that are published again, followed by poison, and published without the producer."""

LARGE = 3
"""Most poison entries of megabytes."""

Way = Literal["producer", "interactions", "metrics"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to publish: an interaction by the producer, or fields by a plain XADD to a stream."""

    way: Way
    interaction: RagInteraction
    """The published interaction; for poison, an interaction of the pipeline to whose stream it goes."""
    fields: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Traffic:
    """Everything that is published, in order, and the expected result."""

    items: list[Item] = field(default_factory=list)
    valid: dict[tuple[str, str], RagInteraction] = field(default_factory=dict)
    """Each valid interaction by pipeline and id."""
    poison: dict[bytes, Reason] = field(default_factory=dict)
    """For each poison entry, as its dead letter shows it, the expected reason."""


def traffic(count: int, seed: int) -> Traffic:
    """Return the traffic of a run with so many valid interactions; the same seed gives the same."""
    chance = random.Random(f"traffic {seed}")
    result = Traffic()
    poisons = _poisons(chance)
    published: list[RagInteraction] = []
    for interaction in _interactions(count):
        result.valid[interaction.pipeline, interaction.interaction_id] = interaction
        published.append(interaction)
        result.items.append(_plain(interaction) if chance.random() < BY_XADD else Item("producer", interaction))
        if chance.random() < DUPLICATES:
            again = chance.choice(published)
            # The producer adds nothing for it; added by XADD it becomes a dead letter.
            result.items.append(_plain(again) if chance.random() < 0.5 else Item("producer", again))
        if chance.random() < POISON:
            way, fields, shown, reason = next(poisons)
            result.poison[shown] = reason
            result.items.append(Item(way, interaction, fields))
    return result


def _plain(interaction: RagInteraction) -> Item:
    return Item("interactions", interaction, {DATA_FIELD: interaction.encode()})


def _interactions(count: int) -> Iterator[RagInteraction]:
    rows = demo_interactions()
    for number in range(count):
        row = rows[number % len(rows)]
        worse = number >= count // 2
        changes: dict[str, Any] = {
            "interaction_id": f"i-{number:06d}",
            "pipeline": PIPELINES[number % len(PIPELINES)],
            "occurred_at": START + SPAN * number / count,
            # Each asks something else, so that no answer of the judge serves for two.
            "question": f"{row.question} ({number})",
            "segments": {"lang": ("en", "de", "ru")[number % 3]},
        }
        if worse:
            changes["response"] = rows[(number + SHIFT) % len(rows)].response
        made = row.model_copy(update=changes)
        yield as_run(made) if number % 3 else made


def _poisons(chance: random.Random) -> Iterator[tuple[Way, dict[bytes, bytes], bytes, Reason]]:
    """Yield poison without end: its stream, its fields, the payload of its dead letter, and the reason."""
    good = json.loads(demo_interactions()[0].encode())
    number = 0
    while True:
        number += 1

        def with_(number: int = number, **changes: Any) -> bytes:
            return json.dumps({**good, "interaction_id": f"poison-{number}", **changes}).encode()

        kinds: list[tuple[bytes, Reason]] = [
            (f"no JSON {number}".encode(), Reason.NOT_JSON),
            (b"\xff\xfe%d" % number, Reason.NOT_JSON),
            (with_()[:-10], Reason.NOT_JSON),
            (with_(schema_version=99), Reason.UNKNOWN_SCHEMA_VERSION),
            (with_(question=" "), Reason.INVALID),
            (with_(documents=[" "]), Reason.INVALID),
            (with_(unheard_of=1), Reason.INVALID),
        ]
        if number <= LARGE:
            kinds = [(with_(documents=["x" * 1_100_000]), Reason.TOO_LARGE)]
        payload, reason = chance.choice(kinds)
        if number % 8 == 4:
            yield "interactions", {b"other": payload}, b"other=" + payload, Reason.MISSING_DATA_FIELD
        elif number % 4 == 2 and number > LARGE:
            payload = f"no event {number}".encode()
            yield "metrics", {DATA_FIELD: payload}, payload, Reason.NOT_JSON
        else:
            yield "interactions", {DATA_FIELD: payload}, payload, reason
