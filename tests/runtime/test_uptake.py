"""Every setting is either taken by running roles, or waits for a restart of roles; one table says which."""

import json
from typing import Any

import pytest

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.uptake import (
    RUNNING,
    UPTAKE,
    changed_settings,
    digests,
    leaf_settings,
    uptake_of,
    with_live_settings,
)
from ragtide_runtime.settings.watch import AGGREGATION, CRITERIA, LABELING, NOTIFY, PAGE, RULES

pytestmark = pytest.mark.pure

NAMES = [name for name, _, _ in leaf_settings(Settings())]


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_is_live_or_waits_for_a_restart(name: str) -> None:
    found = uptake_of(name)
    assert found.live or found.restart or found.note
    assert not found.live & found.restart
    assert (found.live | found.restart) <= set(RUNNING)
    assert found.sentence.endswith(".")


def test_the_table_names_settings_and_tables_that_exist() -> None:
    for name in UPTAKE:
        assert any(each == name or each.startswith(f"{name}.") for each in NAMES), name


@pytest.mark.parametrize(
    ("role", "taken"),
    [
        ("worker", (*RULES, *LABELING, *CRITERIA)),
        ("aggregator", AGGREGATION),
        ("notify", NOTIFY),
        ("serve", (*PAGE, *CRITERIA)),
    ],
)
def test_what_the_table_calls_live_is_what_the_role_takes(role: str, taken: tuple[str, ...]) -> None:
    live = {name for name in NAMES if role in uptake_of(name).live and name != "rules_poll_s"}
    covered = {name for name in NAMES if any(name == each or name.startswith(f"{each}.") for each in taken)}
    assert live == {name for name in covered if uptake_of(name).live}
    assert live


def test_only_live_settings_are_taken() -> None:
    before = Settings()
    given: dict[str, Any] = {
        "log_level": "debug",
        "judge": {"model": "m", "reasons": "all"},
        "stall": {"labeling_s": 7},
        "notify": {"group_wait_s": 1},
        "moves": {"false_per_month": 2},
    }
    found = Settings.model_validate(given)
    taken = with_live_settings(before, found)
    assert changed_settings(before, taken) == ["judge.model", "stall.labeling_s", "notify.group_wait_s"]
    assert changed_settings(taken, found) == ["judge.reasons", "moves.false_per_month", "log_level"]


def test_a_digest_holds_no_secret_and_shows_a_change() -> None:
    def of(password: str, host: str = "a", token: str = "t") -> dict[str, str]:
        destination = {"name": "x", "kind": "webhook", "url": f"https://{host}/{password}"}
        given = {
            "redis_url": f"redis://:{password}@{host}",
            "redis_password": password,
            "notify": {"destinations": [destination]},
            "judge": {"model": host, "api_key": token},
            "recorder": {"storage_options": {"key": password}},
        }
        return digests(Settings.model_validate(given))

    first = of("first-word")
    assert first == of("other-word", token="u")
    assert set(first) - {"data_dir"} == {
        "redis_url", "redis_password", "notify.destinations", "judge.model", "judge.api_key", "recorder.storage_options"
    }  # fmt: skip
    assert of("first-word", host="b")["judge.model"] != first["judge.model"]
    assert "first-word" not in json.dumps(first)
