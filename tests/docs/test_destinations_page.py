"""The requests on the page of destinations are those that the destinations on it send."""

import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.receiver import destination
from tests.support.told import told_of

from ragtide_consumers.notify.destinations import http

PAGE = (Path(__file__).parents[2] / "docs/live/destinations.md").read_text(encoding="utf-8")
PAIR = re.compile(r"^```toml\n([^`]*)```\n\n```(json|text)\n([^`]*)```$", re.MULTILINE)
EXAMPLES = [pytest.param(*found.groups(), id=f"{place}") for place, found in enumerate(PAIR.finditer(PAGE))]


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```json") + PAGE.count("```text") == 5


@pytest.mark.parametrize(("settings", "language", "body"), EXAMPLES)
async def test_a_request_on_the_page_is_what_is_sent(
    settings: str, language: str, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "utc_now", lambda: datetime(2026, 11, 23, 3, 5, tzinfo=UTC))
    (fields,) = tomllib.loads(settings)["notify"]["destinations"]
    async with destination(**fields) as one:
        (shown,) = one.preview(told_of())
    assert shown.body.strip() == body.strip() if language == "text" else shown.body == json.loads(body)


def test_the_signature_is_checked_as_the_page_says() -> None:
    import time

    from pydantic import SecretStr

    from ragtide_consumers.notify.destinations.webhook import signature

    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "documentation", "exec"), names)
    is_genuine = names["is_genuine"]
    assert callable(is_genuine)
    secret, stamp = "whsec_" + "YWJj" * 8, str(int(time.time()))
    headers = {"webhook-id": "a", "webhook-timestamp": stamp}
    headers["webhook-signature"] = signature(SecretStr(secret), "a", stamp, b"{}")
    assert is_genuine(headers, b"{}", secret)
    assert not is_genuine(headers, b"{ }", secret)
