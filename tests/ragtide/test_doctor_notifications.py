"""What `ragtide doctor` says about notifications."""

from typing import Any

import pytest

from ragtide_roles.doctor.alerting import notification_findings
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings_reports import SettingsReport

pytestmark = pytest.mark.pure


def settings(*destinations: dict[str, Any], allow_private: bool = False, severity: str = "page") -> Settings:
    rule = {"name": "floor", "kind": "threshold", "metric": "trace.adherence", "target": 0.7, "severity": severity}
    notify = {"allow_private": allow_private, "destinations": destinations}
    return Settings.model_validate({"alerts": [rule], "notify": notify})


def hook(url: str, **fields: Any) -> dict[str, Any]:
    return {"name": "ops", "kind": "webhook", "url": url, **fields}


async def findings(wanted: Settings, *sends_to: str) -> list[Finding]:
    names = sends_to or tuple(destination.name for destination in wanted.notify.destinations)
    return await notification_findings(wanted, [SettingsReport("host-1", ("notify",), destinations=names)])


async def test_a_destination_that_no_running_notifier_has_is_a_problem() -> None:
    wanted = settings(hook("http://127.0.0.1:9"), allow_private=True)
    (found,) = await findings(wanted, "other")
    assert (found.level, found.found) == ("problem", "the running notifier does not send to ops")
    (found,) = await notification_findings(wanted, [SettingsReport("host-1", ("worker",))])
    assert (found.level, found.subject) == ("warning", "notifications")
    assert "no notifier runs" in found.found


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


async def test_a_destination_without_an_address_is_a_problem_without_its_secret_path() -> None:
    (found,) = await findings(settings(hook("https://nowhere.invalid/secret")))
    assert (found.level, found.subject) == ("problem", "destination ops")
    assert "nowhere.invalid" in found.found
    assert "secret" not in str(found)


async def test_a_private_address_is_a_problem_unless_it_is_allowed() -> None:
    (found,) = await findings(settings(hook("http://127.0.0.1:9/secret")))
    assert "allow_private" in found.advice
    (found,) = await findings(settings(hook("http://127.0.0.1:9/secret"), allow_private=True))
    assert (found.level, found.found) == ("ok", "1 destination")


@pytest.mark.parametrize(
    "fields",
    [
        {"match": {"severity": "ticket"}},
        {"match": {"rule": "other"}},
        {"match": {"segment": "lang=*"}},
        {"on": "resolved"},
    ],
)
async def test_a_page_rule_without_a_destination_is_a_warning(fields: dict[str, Any]) -> None:
    found = await findings(settings(hook("http://127.0.0.1", **fields), allow_private=True))
    assert [one.subject for one in found if one.level == "warning"] == ["alert rule floor"]


async def test_without_destinations_only_a_page_rule_is_a_warning() -> None:
    assert await findings(settings(severity="ticket")) == []
    (found,) = await findings(settings())
    assert found.level == "warning"
