from collections.abc import Iterator

import pytest

from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.remote import endpoint as endpoint_module
from ragtide_consumers.worker import waiting


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    """Return a judge that answers by rules, and misbehaves as scripted."""
    with ScriptedJudge() as running:
        yield running


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(waiting, "LONGEST_WAIT_S", 0.05)
