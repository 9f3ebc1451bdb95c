"""Constructions with the real libraries, traced into `ragtide up`: it records what each application itself saw.

`make instrumentations` runs it, one process for each framework.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.test_serve import port_in
from tests.instrumentations.capture import APPS, ENVIRONMENT, run_constructions
from tests.support.conditions import wait_until
from tests.support.constructions import check_recorded
from tests.support.roles import STREAMS, running
from tools.pages.constructions import fixtures

from ragtide_producers.ingest.outcomes import INTERACTION
from ragtide_runtime.redis.keys import OutcomeField
from ragtide_schemas import RagInteraction

SETTINGS = {"RAGTIDE_SERVE_PORT": "0", "RAGTIDE_INGEST_SETTLE_S": "1", "RAGTIDE_INGEST_QUIET_S": "5"}


@pytest.mark.parametrize("framework", ENVIRONMENT)
def test_every_construction_is_recorded_as_its_application_saw_it(
    framework: str, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "up.log"
    # Finished interactions are trimmed, unless a group still has to read them.
    redis.xgroup_create(STREAMS.interactions, "test", id="0", mkstream=True)
    with running("up", redis_url, log, SETTINGS):
        seen = run_constructions(framework, f"http://127.0.0.1:{port_in(log)}", tmp_path / "truth.jsonl")
        traces = {trace: truth["construction"] for truth in seen for trace in truth["traces"]}
        wait_until(lambda: sum(_outcomes(redis).values()) >= len(traces))
    entries = redis.xrange(STREAMS.interactions)
    found = [RagInteraction.from_entry(entry.decode(), fields[b"data"]) for entry, fields in entries]
    by_construction: dict[str, list[RagInteraction]] = {}
    for interaction in found:
        by_construction.setdefault(traces[str(interaction.metadata["trace_id"])], []).append(interaction)
    failures: list[AssertionError] = []
    for truth in seen:
        name = truth["construction"]
        try:
            check_recorded(by_construction.get(name, []), truth)
        except AssertionError as failure:
            failure.add_note(f"construction: {name}")
            failures.append(failure)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(seen)} constructions", failures)
    # Every trace is counted by what it gave.
    outcomes = _outcomes(redis)
    assert sum(outcomes.values()) == len(traces)
    assert outcomes[INTERACTION] == len({interaction.metadata["trace_id"] for interaction in found})


def _outcomes(redis: Any) -> dict[str, int]:
    """Return the number of traces by what they gave."""
    counted: dict[str, int] = {INTERACTION: 0}
    for key in redis.scan_iter(match=f"{STREAMS.trace_outcomes('')}*"):
        for name, value in redis.hgetall(key).items():
            kind, _, rest = name.decode().partition(":")
            if f"{kind}:" == OutcomeField.TRACES:
                outcome = rest.partition(":")[0]
                counted[outcome] = counted.get(outcome, 0) + int(value)
    return counted


def test_every_application_has_fixtures_of_all_its_constructions() -> None:
    assert {f"constructions_{framework}.py" for framework in ENVIRONMENT} == {
        file.name for file in APPS.glob("constructions_*.py")
    }
    assert ENVIRONMENT.keys() == {name.partition("/")[0] for name in fixtures()}
