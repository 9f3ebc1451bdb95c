import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.recorded import record

from ragtide import RagInteraction
from ragtide_offline.replay.counting import count_selected
from ragtide_offline.replay.selection import Scope, Selection, selection
from ragtide_offline.replay.speed import ReplayPace, speed
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def interaction(number: int, **changes: Any) -> RagInteraction:
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "pipeline": "shop",
        "occurred_at": NOON + timedelta(hours=number),
        "question": "Why?",
        "documents": ("Because.",),
        "response": "So.",
    }
    return RagInteraction(**{**fields, **changes})


@pytest.mark.parametrize(
    ("given_words", "taken"),
    [
        ({}, {0, 1, 2, 3}),
        ({"since": "2026-11-01T13:00:00Z"}, {1, 2, 3}),
        ({"until": "2026-11-01T14:00:00+00:00"}, {0, 1}),
        ({"since": "2026-11-01T15:00+01:00", "until": "2026-11-01T15:00"}, {2}),
        ({"pipelines": ["docs", "other"]}, {3}),
        ({"segments": ["lang=de"]}, {1, 2}),
        ({"segments": ["lang=de", "lang=en"]}, {0, 1, 2}),
        ({"segments": ["lang=de", "plan=pro"]}, {2}),
    ],
)
def test_a_selection_takes_what_its_words_say(given_words: dict[str, Any], taken: set[int]) -> None:
    some = [
        interaction(0, segments={"lang": "en"}),
        interaction(1, segments={"lang": "de"}),
        interaction(2, segments={"lang": "de", "plan": "pro"}),
        interaction(3, pipeline="docs"),
    ]
    chosen = selection(**given_words)
    assert {number for number, one in enumerate(some) if chosen.takes(one)} == taken


@pytest.mark.parametrize("kind", [EntryKind.INTERACTIONS])
def test_what_is_selected_is_counted_by_scope(kind: EntryKind, tmp_path: Path) -> None:
    some = [
        interaction(n, pipeline=("shop", "docs")[n % 2], segments={"lang": "de"} if n % 3 else {}) for n in range(30)
    ]
    ms = int(NOON.timestamp() * 1000)
    recording = record(
        [(kind, RecordedEntry(0, f"{ms + 3_600_000 * n}-0", one)) for n, one in enumerate(some)], tmp_path / "r"
    )
    chosen = selection("2026-11-01T18:00:00Z", segments=["lang=de"])
    counted = count_selected(recording, kind, chosen, ("pipeline",))
    wanted = [one for one in some if chosen.takes(one)]
    assert counted.total == len(wanted) == 16
    for pipeline in ("shop", "docs"):
        n = sum(one.pipeline == pipeline for one in wanted)
        assert counted.scopes[Scope((pipeline,))] == counted.scopes[Scope((pipeline,), "lang=de")] == n


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (selection(pipelines=["shop", "dosc"]), "--pipeline: there is no pipeline 'dosc'; did you mean 'docs'?"),
        (selection(segments=["lang=dee"]), "--segment: there is no segment value 'lang=dee'; did you mean 'lang=de'?"),
        (selection(segments=["lang=de", "lang=fr"]), "no segment value 'lang=fr'"),
        (selection(segments=["land=de"]), "did you mean 'lang=de'"),
        (selection("2026-11-02T00:00:00Z"), "has no interactions in this selection"),
        (selection("2026-11-02T00:00:00Z", segments=["lang=de"]), "has no interactions in this selection"),
    ],
)
def test_a_selection_of_an_unknown_name_is_refused(chosen: Selection, said: str, tmp_path: Path) -> None:
    some = [interaction(n, pipeline=("shop", "docs")[n % 2], segments={"lang": "de"}) for n in range(4)]
    ms = int(NOON.timestamp() * 1000)
    entries = [(EntryKind.INTERACTIONS, RecordedEntry(0, f"{ms}-{n}", one)) for n, one in enumerate(some)]
    recording = record(entries, tmp_path / "r")
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        count_selected(recording, EntryKind.INTERACTIONS, chosen, ("pipeline",))


@pytest.mark.parametrize("word", ["", "fast", "0x", "-1x", "10", "x", "infx"])
def test_a_speed_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ConfigurationError, match="is unknown: use original, max, or how many times faster"):
        speed(word)


def test_what_is_paced_is_due_as_long_after_the_first_as_it_was() -> None:
    pace = ReplayPace(speed("10x"))
    assert pace.wait_s(NOON, 100.0) == 0
    assert pace.wait_s(NOON + timedelta(seconds=30), 101.0) == 2.0
    assert pace.wait_s(NOON - timedelta(seconds=30), 101.0) == 0
    assert pace.wait_s(NOON + timedelta(seconds=30), 200.0) == 0
    assert ReplayPace(None).wait_s(NOON + timedelta(days=1), 0.0) == 0
