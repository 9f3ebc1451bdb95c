"""What each release has stored is read by this one, to the same numbers; its aggregator goes on from there."""

import gzip
import json
import shutil
import tomllib
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from tests.support.roles import STREAMS, running, wait_for_aggregation
from tests.support.stored_release import FOLDER, READINGS, readings, restore
from tools.pages.json_schemas import json_schemas

from ragtide_runtime.redis.keys import DATA_FIELD

RELEASES = sorted(path.name for path in FOLDER.iterdir())
LAST_DIGITS = 1e-12
"""Ends of intervals come from functions of NumPy whose last digit depends on the place of a row among others."""
OF_THE_READING = {"made_at", "seconds"}
"""Fields about the command that reads."""


MEASURED_ANEW = {"design_effect", "n_effective"}
"""What 0.1.0 measured otherwise: it took an incident for dependence. What is measured now is not in its checkpoint."""


REPLAYED = "alerts of the recording"

REPLACED = {"fit_for", "cautions", "message"}
"""What 0.1.0 said in words: slopes that were measured stand for the purposes of a labeler, and an alert says more."""


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Return where a value is no longer as it was; fields that an object has besides are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = before.keys() - OF_THE_READING - MEASURED_ANEW - REPLACED
        gone = [f"{place}.{name} is gone" for name in names - now.keys()]
        both = sorted(names & now.keys())
        return gone + [found for name in both for found in differences(before[name], now[name], f"{place}.{name}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [found for number, pair in pairs for found in differences(*pair, f"{place}[{number}]")]
    if isinstance(before, float) and isinstance(now, float) and isclose(before, now, rel_tol=LAST_DIGITS):
        return []
    return [] if before == now else [f"{place} was {before!r} and is {now!r}"]


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, redis: Any) -> Path:
    """Restore what a release has stored, and return its folder."""
    folder = FOLDER / str(request.param)
    restore(redis, json.loads(gzip.decompress((folder / "redis.json.gz").read_bytes())))
    shutil.copy(folder / "ragtide.toml", "ragtide.toml")
    shutil.copytree(folder / "recording", "recording")
    return folder


def test_the_numbers_of_a_stored_release_are_the_same(release: Path, redis_url: str) -> None:
    expected = json.loads((release / "expected.json").read_text(encoding="utf-8"))
    assert expected.keys() <= READINGS.keys()
    found = readings(redis_url, expected)
    own = {rule["name"] for rule in tomllib.loads((release / "ragtide.toml").read_text(encoding="utf-8"))["alerts"]}
    for reading in (expected, found):
        reading["rules"] = reading["rules"].splitlines()[0]  # the numbers; the sentences below them are of each release
        if (replayed := reading.get(REPLAYED)) is not None:  # the default rules are those of each release
            replayed["alerts"] = [alert for alert in replayed["alerts"] if alert["rule"] in own]
    assert differences(expected, found) == []


def test_the_aggregator_goes_on_from_the_checkpoint_of_a_stored_release(
    release: Path, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    more = json.loads((release / "more.json").read_text(encoding="utf-8"))
    rejected = redis.xlen(STREAMS.dead_letters)
    for event in more["events"]:
        redis.xadd(STREAMS.metrics, {DATA_FIELD: event})
    with running("aggregator", redis_url, tmp_path / "aggregator.log"):
        wait_for_aggregation(redis)
    found = [row for row in readings(redis_url, ["estimates"])["estimates"] if row["pipeline"] == "shop"]
    assert differences(more["estimates"], found) == []
    assert redis.xlen(STREAMS.dead_letters) == rejected


@pytest.mark.parametrize(
    ("stream", "schema"),
    [
        ("metrics", "metric-event"),
        ("feedback", "feedback"),
        ("estimates", "estimate"),
        ("alerts", "alert"),
        ("dead_letters", "dead-letter"),
    ],
)
def test_entries_of_a_stored_release_follow_the_published_schemas(
    release: Path, redis: Any, stream: str, schema: str
) -> None:
    from jsonschema import Draft202012Validator  # its import takes seconds

    validator = Draft202012Validator(json.loads(json_schemas()[f"{schema}.schema.json"]))
    entries = [json.loads(fields[DATA_FIELD]) for _, fields in redis.xrange(getattr(STREAMS, stream))]
    assert entries
    assert [entry for entry in entries if not validator.is_valid(entry)] == []
