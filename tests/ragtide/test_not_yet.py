"""Where too little is known for an interval, no screen prints ends: it says so."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.support.metric_events import event
from tests.support.owners import owners

from ragtide import Deployment
from ragtide.cli.printing.estimates import headlines_table
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, utc_now
from ragtide_web.reading.fleet import patch, positions

ADHERENCE, TOKENS, UNSUPPORTED = "trace.adherence", "answer.prompt_tokens", "sentences.unsupported"


async def headlines(redis: Any, *, sessions: bool) -> dict[str, Headline]:
    """Return the headlines of 100 answers, in open sessions or by themselves; all prompts have 1,800 tokens."""
    settings, rng, now = Settings(), np.random.default_rng(1), utc_now()
    (owner,) = owners(redis, settings)
    answers = [
        event(
            number,
            {ADHERENCE: float(rng.random() < 0.8), TOKENS: 1800.0, UNSUPPORTED: float(number == 7)},
            session_id=f"s-{number // 4}" if sessions else None,
            occurred_at=now - timedelta(seconds=100 - number),
            labeled_at=now,
        )
        for number in range(100)
    ]
    await owner.commit(*answers)
    return {found.metric: found for found in await Deployment(redis, settings).headlines("all")}


def drawn(found: Headline) -> str:
    console = Console(width=200, record=True, file=None)
    with console.capture() as captured:
        console.print(headlines_table([found], 200, small=True))
    return captured.get()


@pytest.mark.parametrize("sessions", [False, True])
async def test_a_screen_has_an_interval_or_says_that_there_is_none_yet(async_redis: Any, *, sessions: bool) -> None:
    found = await headlines(async_redis, sessions=sessions)
    tokens = found[TOKENS]
    assert tokens.lower is not None
    assert tokens.upper is not None
    assert 1600 < tokens.lower < 1800 < tokens.upper < 2000, "the counts themselves say how far they vary"
    assert found[ADHERENCE].has_interval == (not sessions), "no session is closed"
    assert (found[UNSUPPORTED].lower, found[UNSUPPORTED].upper) == (None, None), "one of a hundred is not enough"
    for metric in (ADHERENCE, UNSUPPORTED):
        if found[metric].has_interval:
            continue
        assert found[metric].state == "too few"
        assert "not yet" in drawn(found[metric])
        assert patch(found[metric])[1] == ""
        assert positions(found[metric])[0::2] == (0.0, 100.0)
    assert "not yet" not in drawn(tokens)
