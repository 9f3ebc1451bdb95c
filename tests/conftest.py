"""Fixtures for every test: a real Redis, and an environment without settings of this machine."""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests.support.other_server import use_the_wanted_server

from ragtide.testing import embedded_redis
from ragtide_runtime.redis.client import connect, connect_async

ROOT = Path(__file__).parents[1]
FOLDERS = count()

# A shell ignores Ctrl-C for what it runs in the background, and children inherit that; ours shall hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A process that runs tests beside another has a width; rich would keep it for good, whatever a test asks for.
os.environ.pop("COLUMNS", None)

# Compiled code is kept, even if the environment says otherwise: without it every process of a test compiles anew
# whatever it imports, and every process that runs tests rewrites all their assertions.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

use_the_wanted_server()
QUICK = 12
"""Examples of a property in `make test`, also of one that states more; `make test-heavy` tries all of them."""
GLANCE = 3
"""Examples of a property on another Python, where a difference of the language shows in any example."""
# No property says how fast it holds: beside other load an example may take a second.
for profile, examples in (("glance", GLANCE), ("quick", QUICK), ("thorough", 8 * QUICK)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    """Write the pages of the reference, which are not committed, if `make` has not; then every process finds them."""
    pages = (ROOT / "docs" / "reference" / "http-api.md", ROOT / "docs" / "connect" / "interaction.md")
    if not hasattr(config, "workerinput") and not all(page.exists() for page in pages):
        subprocess.run([sys.executable, "-m", "tools.pages", "docs", "--reference"], cwd=ROOT, check=True)


STARTING = {"end_to_end", "chaos", "examples"}
"""Folders of tests that start processes; elsewhere a test says so by its marker."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Return whether to leave out a file without tests: there are no doctests here, and looking for them imports it."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by what it needs."""
    for item in items:
        stated = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
        if stated is not None and settings.default is not None and settings.default.max_examples <= QUICK:
            fewer = settings(stated, max_examples=min(stated.max_examples, settings.default.max_examples))
            item.obj._hypothesis_internal_use_settings = fewer  # type: ignore[attr-defined]
        parts = set(item.path.parts)
        if STARTING & parts or item.get_closest_marker("processes"):
            item.add_marker(pytest.mark.processes)
        elif {"redis_url", "server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.redis)
        elif not item.get_closest_marker("simulation"):
            item.add_marker(pytest.mark.pure)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Folder of the test's own: as pytest's, without the link to the newest, which costs more than a small test."""
    name = re.sub(r"\W", "_", request.node.name)[:24]
    path = tmp_path_factory.getbasetemp() / f"{name}-{next(FOLDERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("RAGTIDE_", "OPENAI_", "AZURE_OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _logs_as_they_come(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    level, configure = root.level, structlog.configure

    def configure_for_a_test(**options: Any) -> None:
        configure(**options | {"cache_logger_on_first_use": False})

    # A cached logger would keep the level of a command that ran in this process.
    monkeypatch.setattr(structlog, "configure", configure_for_a_test)
    yield
    structlog.reset_defaults()
    # A command that ran in this process has sent the logs elsewhere: pytest's own handlers are of another class.
    root.setLevel(level)
    root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]


@pytest.fixture(scope="session")
def _redis_of_the_session() -> Iterator[str]:
    with embedded_redis() as url:
        yield url


@pytest.fixture
def redis_url(_redis_of_the_session: str) -> str:
    """URL of a real Redis, empty whatever the tests before left there."""
    with connect(_redis_of_the_session) as client:
        client.flushall()
    return _redis_of_the_session


@pytest.fixture
def redis(redis_url: str) -> Iterator[Any]:
    """Return a client of an empty Redis; typed loosely, since redis-py leaves open whether replies are bytes."""
    with connect(redis_url) as client:
        yield client


@pytest.fixture
async def async_redis(redis: Any, redis_url: str) -> AsyncIterator[Any]:
    """Return an asynchronous client of an empty Redis."""
    async with connect_async(redis_url) as client:
        yield client
