"""The settings of notifications: each kind has fields of its own, and no message shows a secret."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each

from ragtide import ConfigurationError
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.settings.notify import DestinationSettings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

TOML = f"""
[notify]
allow_private = true
group_wait_s = 5

[[notify.destinations]]
name = "ops"
kind = "webhook"
url = "https://hooks.example.com/a-secret-path"
secret = "{SECRET}"
on = ["firing", "explained", "resolved"]
match = {{ pipeline = "shop*", severity = ["page"], kind = "drift" }}

[[notify.destinations]]
name = "mail"
kind = "email"
host = "mail.example.com"
sender = "ragtide@example.com"
to = ["a@example.com"]
"""


def test_destinations_are_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "ragtide.toml").write_text(TOML)
    notify = load_settings().notify
    assert (notify.allow_private, notify.group_wait_s, notify.repeat_s, notify.give_up_s) == (True, 5, 14_400, 21_600)
    ops, mail = notify.destinations
    assert (ops.match.pipeline, ops.match.severity, ops.match.kind) == (("shop*",), ("page",), ("drift",))
    assert (mail.on, mail.match.pipeline, mail.tls) == (("firing", "explained", "resolved"), ("*",), "starttls")
    assert "a-secret-path" not in repr(notify) + notify.model_dump_json()
    assert SECRET not in repr(notify) + notify.model_dump_json()


def test_destinations_may_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "RAGTIDE_NOTIFY_DESTINATIONS", '[{"name": "t", "kind": "teams", "url": "https://example.com/x"}]'
    )
    monkeypatch.setenv("RAGTIDE_NOTIFY_REPEAT_S", "0")
    notify = load_settings().notify
    assert (notify.destinations[0].kind, notify.repeat_s) == ("teams", 0)


@for_each(
    "fields, words",
    [
        ({"kind": "webhook"}, "url is missing: kind webhook needs url"),
        ({"kind": "webhook", "url": "ftp://a/a-secret-path"}, "http:// or https://"),
        (
            {"kind": "webhook", "url": "https://a/a-secret-path", "channel": "x"},
            "channel is no setting of kind webhook",
        ),
        ({"kind": "webhook", "url": "https://a", "secret": "a-secret-path"}, "whsec_"),
        ({"kind": "webhook", "url": "https://a", "secret": "whsec_c2hvcnQ="}, "24 to 64 bytes"),
        ({"kind": "webhook", "url": "https://a", "on": []}, "on"),
        ({"kind": "webhook", "url": "https://a", "on": ["fired"]}, "firing"),
        ({"kind": "webhook", "url": "https://a", "match": {"severty": "page"}}, "did you mean severity"),
        ({"kind": "webhok", "url": "https://a"}, "webhook"),
        ({"kind": "slack"}, "either url"),
        ({"kind": "slack", "url": "https://a", "token": "a-secret-path"}, "either url"),
        ({"kind": "slack", "token": "a-secret-path"}, "channel goes with token"),
        ({"kind": "pagerduty"}, "token is missing"),
        ({"kind": "alertmanager", "url": "http://a", "user": "u"}, "user and password go together"),
        (
            {"kind": "alertmanager", "url": "http://a", "user": "u", "password": "p", "token": "t"},
            "token and user exclude each other",
        ),
        ({"kind": "email", "host": "h", "sender": "a@b"}, "to is missing"),
        ({"kind": "email", "host": "h", "sender": "a@b\nBcc: c@d", "to": ["a@b"]}, "sender"),
        ({"kind": "email", "host": "h", "sender": "a@b", "to": ["a@b"], "port": 0}, "port"),
        ({"kind": "teams", "url": "https://a", "name": "with space"}, "name"),
    ],
)
def test_a_mistake_names_the_field_and_the_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(notify={"destinations": [{"name": "one", **fields}]})
    assert words in str(caught.value)
    assert "a-secret-path" not in str(caught.value)


def test_every_kind_has_its_fields() -> None:
    given: list[dict[str, Any]] = [
        {"kind": "pagerduty", "token": "key"},
        {"kind": "slack", "token": "xoxb-1", "channel": "C1"},
        {"kind": "apprise", "url": "ntfys://topic"},
        {"kind": "alertmanager", "url": "http://alertmanager:9093", "user": "u", "password": "p"},
    ]
    for fields in given:
        assert DestinationSettings(name="one", **fields).kind == fields["kind"]


def test_names_are_unique() -> None:
    one = {"name": "ops", "kind": "teams", "url": "https://a"}
    with pytest.raises(ConfigurationError, match="two destinations named 'ops'"):
        load_settings(notify={"destinations": [one, one]})
