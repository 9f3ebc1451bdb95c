"""A retriever that breaks for one language fires the template's rule, which names the metric and the language."""

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, dead_letters, running, wait_for_aggregation, wait_for_events

from ragtide import InteractionProducer, RagInteraction
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil
from ragtide_roles.rule_templates import fill_template

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "languages.py"
CLEAN, BROKEN = 600, 80


@pytest.fixture(scope="module")
def languages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("program_languages", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def traffic(languages: ModuleType) -> list[RagInteraction]:
    """Return questions in two languages in turn; in the end the retriever finds wrong documents for the German ones."""
    rng, found = Random(3), list[RagInteraction]()
    rows = {name: languages.rows_of(languages.SAMPLES / f"{name}.json") for name in ("de", "fr")}
    for number in range(CLEAN + BROKEN):
        for name, of_language in rows.items():
            row = rng.choice(of_language)
            if name == "de" and number >= CLEAN:
                broken = spoil(CORRUPTIONS["broken retriever"], row, of_language)
                assert broken is not None
                row = broken
            changes = {"interaction_id": f"{name}-{number:04d}", "pipeline": "shop", "segments": {"lang": name}}
            found.append(row.model_copy(update=changes))
    return found


def test_the_alert_comes_within_60_interactions_of_the_language(
    redis: Any, redis_url: str, tmp_path: Path, languages: ModuleType
) -> None:
    sent = traffic(languages)
    rules = {"RAGTIDE_ALERTS": json.dumps(tomllib.loads(fill_template("falls", "shop"))["alerts"])}
    with running("up", redis_url, tmp_path / "up.log", rules):
        with InteractionProducer(redis_url) as producer:
            assert all(producer.submit(interaction) for interaction in sent)
        wait_for_events(redis, len(sent))
        wait_for_aggregation(redis)
        wait_until(lambda: redis.xlen(STREAMS.alerts) > 0)
    alerts = [json.loads(line) for line in command(redis_url, "alerts", "--json").stdout.splitlines()]
    fired = {(alert["rule"], alert["metric"], alert["segment"]) for alert in alerts if alert["status"] == "firing"}
    assert ("shop-match-by-language", "retrieval.match", "lang=de") in fired
    assert not any(segment == "lang=fr" for _, _, segment in fired)
    (alert,) = [alert for alert in alerts if alert["rule"] == "shop-match-by-language"]
    assert CLEAN < alert["n"] <= CLEAN + 60
    assert "The documents are not about the questions" in alert["diagnosis"][0]
    assert dead_letters(redis) == []
