"""What a help, a look, a role and an application import: no library and no module of ragtide that they do not need."""

import os
import signal
import socket
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.support.cases import for_each
from tests.support.conditions import wait_until

from ragtide_runtime import __version__
from ragtide_runtime.redis.keys import Streams

pytestmark = pytest.mark.processes

SLOW = {
    "scipy",
    "pandas",
    "polars",
    "pyarrow",
    "faststream",
    "openai",
    "httpx",
    "httpx2",
    "aiohttp",
    "mlflow",
    "matplotlib",
    "mcp",
}
"""Libraries that only the work of a few commands needs."""

UNUSED = SLOW | {"numpy", "redis", "opentelemetry", "structlog", "pydantic_settings", "asyncio", "jinja2"}
"""Libraries that no page of help and no completion needs."""

UNPARSED = UNUSED | {"pydantic"}
"""Libraries that the list of commands does not need. Typer imports pydantic when it parses the options of a command."""

MODULES = """
import pkgutil, sys
from importlib import import_module
import ragtide.cli

for module in pkgutil.walk_packages(ragtide.cli.__path__, "ragtide.cli."):
    import_module(module.name)
print("imported:", *(set(sys.modules) & SLOW))
"""

HELP = """
import sys
from contextlib import redirect_stdout
from io import StringIO
from ragtide.cli import run
from ragtide.cli.app import cli
from typer.main import get_command

for name, command in get_command(cli).commands.items():
    for child in [[], *([each] for each in getattr(command, "commands", ()))]:
        sys.argv = ["ragtide", name, *child, "--help"]
        page = StringIO()
        try:
            with redirect_stdout(page):
                run()
        except SystemExit:
            pass
        print(*sys.argv, *(set(sys.modules) & UNUSED), end=": ")
        print(page.getvalue().split()[0])
"""

RUN = """
import sys
from ragtide.cli import run

sys.argv = ["ragtide", *sys.argv[1:]]
try:
    run()
finally:
    print("imported:", *(set(sys.modules) & UNUSED))
"""


CORE = """
import runpy, sys

class Missing:
    names = UNUSED - {"redis", "pydantic_settings", "asyncio"} | {"typer", "rich", "click", "prometheus_client"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
sys.argv = ["ragtide", *sys.argv[1:]]
runpy.run_module("ragtide", run_name="__main__", alter_sys=True)
"""

SUMMARY = """
import sys
from ragtide import score

row = {"question": "q", "documents": ["d"], "response": "r"}
summary = score([row] * 300, pipeline="p", labeler="local")
large = {f"scipy.{name}" for name in ("signal", "stats", "optimize", "interpolate")}
print(f"{summary.estimates[0].n} scored, imported:", *(large & set(sys.modules)))
"""

SCORING = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.argv = ["ragtide", "score", "rows.jsonl", "--labeler", "judge", "--model", "m", "--base-url", "http://127.0.0.1:9"]
from ragtide_offline.score import scored_file

def first_row(*_, **__):
    print("first row:", {"numpy", "scipy", "ragtide_aggregator.state.state"} & set(sys.modules), flush=True)
    raise SystemExit

scored_file.score_rows = first_row
from ragtide.cli import run

with TemporaryDirectory() as folder:
    sys.argv[2] = str(Path(folder) / "rows.jsonl")
    Path(sys.argv[2]).write_text('{"question": "q", "documents": ["d"], "response": "r"}')
    run()
"""

PRODUCER = """
import sys
import redis.asyncio, asyncio
from pydantic import BaseModel

class Any(BaseModel):
    pass

libraries = set(sys.modules)
from ragtide import InteractionProducer

InteractionProducer("redis://127.0.0.1:1/0")
print(*sorted(set(sys.modules) - libraries))
"""

LOADED = """
import sys
from ragtide.cli import run

sys.argv = ["ragtide", *sys.argv[1:]]
try:
    run()
finally:
    print(*sorted(sys.modules))
"""

WORKER = """
import sys

loaded = []

def note(event, arguments):
    if event == "pickle.find_class":
        loaded.append(f"pickle:{arguments[1]}")
    elif event == "open" and str(arguments[0]).endswith((".xz", ".gz", ".pkl", ".npz", ".npy")):
        loaded.append(str(arguments[0]))

sys.addaudithook(note)
from ragtide.cli import run

sys.argv = ["ragtide", "worker", "--processes", "1"]
try:
    run()
finally:
    print("loaded:", *loaded, *(set(sys.modules) & {"ragtide_consumers.text.language_model", "scipy", "openai"}))
"""


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    values = f"SLOW, UNUSED, UNPARSED = {SLOW!r}, {UNUSED!r}, {UNPARSED!r}\n"
    return subprocess.run(
        [sys.executable, "-c", values + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=None if not environment else {**environment},
    )


def test_no_module_of_the_command_line_imports_a_slow_library() -> None:
    """A command begins with the imports of its modules."""
    done = python(MODULES)
    assert done.stdout.splitlines()[-1] == "imported:", done.stderr


@pytest.mark.parametrize(
    ("arguments", "words", "unused"),
    [
        (("--help",), "Usage: ragtide", UNPARSED),
        (("--version",), __version__, UNPARSED),
        (("-V",), __version__, UNPARSED),
        ((), "Usage: ragtide", UNPARSED),
        (("estimate",), "did you mean 'estimates'?", UNPARSED),
        (("score", "--help"), "Usage: ragtide score", UNPARSED),
        (("experiment", "run", "--help"), "Usage: ragtide experiment run", UNUSED),
        (("score", "--fil", "x"), "No such option: --fil", UNUSED),
        (("estimates", "--confidence", "2"), "--confidence", UNUSED),
        (("experiment", "run"), "Missing argument 'file'", UNUSED),
        (("experiment", "shw"), "did you mean 'show'?", UNUSED),
    ],
)
def test_what_needs_no_command_imports_none(arguments: tuple[str, ...], words: str, unused: set[str]) -> None:
    done = python(f"UNUSED = {unused!r}\n{RUN}", *arguments)
    assert words in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_core_install_prints_the_version(option: str) -> None:
    done = python(CORE, option)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("demo",), ("score", "x.jsonl"), ("--version", "demo")])
def test_the_core_install_names_the_extra_of_the_command_line_in_one_line(arguments: tuple[str, ...]) -> None:
    done = python(CORE, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'ragtide[service,embedded]'" in done.stderr


def test_no_command_imports_anything_for_its_help() -> None:
    done = python(HELP)
    lines = done.stdout.splitlines()
    assert len(lines) > 30, done.stderr
    assert [line for line in lines if not line.endswith(": Usage:")] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ragtide esti", ["estimates"]),
        ("ragtide experiment sho", ["show"]),
        ("ragtide estimates --pipe", ["--pipeline"]),
        ("ragtide score --undecided p", ["pass"]),
        ("ragtide experiment run --undecided f", ["fail"]),
    ],
)
def test_completions_import_none(words: str, expected: list[str]) -> None:
    place = str(len(words.split()) - 1)
    done = python(RUN, COMP_WORDS=words, COMP_CWORD=place, _RAGTIDE_COMPLETE="complete_bash")
    assert done.stdout.splitlines() == [*expected, "imported:"], done.stderr


def test_a_command_that_reads_no_redis_imports_no_client() -> None:
    imports = "import sys, ragtide.cli.printing.pages, ragtide.cli.printing.laboratory\n"
    done = python(f"{imports}print('imported:', *(set(sys.modules) & {{'redis', 'opentelemetry'}}))")
    assert done.stdout.splitlines() == ["imported:"], done.stderr


def test_a_summary_of_many_rows_needs_only_the_special_functions_of_scipy() -> None:
    """The other packages of SciPy take several times as long to import, and twice the memory."""
    done = python(SUMMARY)
    assert done.stdout.splitlines() == ["300 scored, imported:"], done.stderr


def test_the_first_call_of_a_judge_waits_for_no_statistics() -> None:
    """They are imported while the calls are answered."""
    done = python(SCORING)
    assert done.stdout.splitlines()[-1] == "first row: set()", done.stdout + done.stderr


def test_the_package_alone_imports_no_library() -> None:
    done = python("import sys, ragtide\nprint('imported:', *(set(sys.modules) & UNPARSED))")
    assert done.stdout.splitlines() == ["imported:"]


OF_ROLES = {
    *(
        f"ragtide_runtime.settings.{name}"
        for name in ("model", "alerting", "evaluators", "labelers", "notify", "serve")
    ),
    *(
        f"ragtide_schemas.{name}"
        for name in ("alert", "alert_rule", "criterion", "metric_definitions", "metric_event", "metrics")
    ),
}
"""Modules of rules, notifications, metrics, evaluators and labelers, which no application needs."""

PRODUCERS_MODULES = 63
"""Most modules of a producer beside those of redis, asyncio and a model of Pydantic."""


@for_each("name", ["", "ragtide.toml"])
def test_a_producer_loads_nothing_of_a_role_and_no_other_library(name: str, tmp_path: Path) -> None:
    """With redis-py and Pydantic alone, and also if a file and variables of roles are there."""
    file = tmp_path / "ragtide.toml"
    file.write_text("labeler = 'judge'\n[judge]\nmodel = 'm'\n[[notify.destinations]]\nname = 'a'\n")
    roles = {"RAGTIDE_CONFIG": str(file), "RAGTIDE_JUDGE_MODEL": "m"} if name else {}
    done = python(PRODUCER, **{**os.environ, **roles})
    loaded = set(done.stdout.split())
    assert "ragtide_producers.client" in loaded, done.stderr
    assert loaded & OF_ROLES == set()
    assert len(loaded) <= PRODUCERS_MODULES, sorted(loaded)
    known = {"ragtide", "ragtide_producers", "ragtide_runtime", "ragtide_schemas", "pydantic", "tomllib"}
    assert {module.partition(".")[0] for module in loaded} <= known


SERVERS = {"fastapi", "starlette", "uvicorn", "faststream", "jinja2", "aiohttp", "openai", "mcp", "grpc"}
NUMBERS = {"numpy", "scipy", "ddsketch", "ragtide_aggregator.state.state"}
LABELERS = {"ragtide_consumers.labelers.registry", "ragtide_consumers.text.answers", "sentencex"}


def loaded_by(*words: str, **environment: str) -> set[str]:
    done = python(LOADED, *words, **{**os.environ, **environment})
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "ragtide.cli.app" in loaded, done.stderr
    return loaded


@for_each(
    "words, unused",
    [
        ("alerts", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("items", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("dead-letters", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("explain", SERVERS | NUMBERS | LABELERS),
        ("estimates", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("estimates --json", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("estimates --last 7d", SERVERS | NUMBERS | LABELERS | {"prometheus_client"}),
        ("watch --once", SERVERS | NUMBERS | LABELERS),
        ("doctor", SERVERS | {"scipy"}),
    ],
)
def test_a_reading_command_loads_what_it_reads(redis_url: str, words: str, unused: set[str]) -> None:
    """Of an empty deployment."""
    assert loaded_by(*words.split(), RAGTIDE_REDIS_URL=redis_url) & unused == set()


@for_each("command", ["alerts", "doctor", "estimates", "items", "aggregator", "serve", "worker", "watch"])
def test_a_wrong_setting_is_refused_before_anything_else_is_loaded(command: str) -> None:
    loaded = loaded_by("--partitions", "0", command)
    assert loaded & (SERVERS | NUMBERS | LABELERS | {"redis", "prometheus_client"}) == set()
    assert len(loaded) <= REFUSED_MODULES, sorted(loaded)


REFUSED_MODULES = 520
"""Most modules of a command with a setting that is refused; with the rest of a command they would be 900."""


@for_each(
    "role, unused",
    [
        ("aggregator", SERVERS | LABELERS),
        ("worker", {"scipy", "openai", "fastapi", "jinja2", "mcp", "ragtide_aggregator.state.state"}),
        ("serve", LABELERS | {"scipy", "faststream", "openai", "mcp", "ragtide_offline.report.comparing"}),
    ],
)
def test_a_role_loads_what_it_does(redis: Any, redis_url: str, role: str, unused: set[str]) -> None:
    streams = Streams("ragtide", 0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = {**os.environ, "RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_SERVE_PORT": port}
    words = [role, "--processes", "1"] if role == "worker" else [role]
    process = subprocess.Popen(
        [sys.executable, "-c", LOADED, *words], env=environment, stdout=subprocess.PIPE, text=True
    )
    ready = {
        "aggregator": lambda: redis.exists(streams.lease),
        "worker": lambda: redis.exists(streams.interactions) and redis.xinfo_groups(streams.interactions),
        "serve": lambda: answers(f"http://127.0.0.1:{port}/readyz"),
    }[role]
    try:
        wait_until(ready)
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert set(output.splitlines()[-1].split()) & unused == set()


def answers(address: str) -> bool:
    try:
        with urlopen(address) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def test_a_worker_with_the_local_labeler_is_ready_without_a_model_of_languages(redis: Any, redis_url: str) -> None:
    """It loads no compressed file, no pickle and no table before the first text that needs one."""
    stream = Streams("ragtide", 0).interactions
    environment = {**os.environ, "RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_LABELER": "local"}
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: redis.exists(stream) and any(group["consumers"] for group in redis.xinfo_groups(stream)))
    finally:
        worker.send_signal(signal.SIGINT)
        output, _ = worker.communicate(timeout=60)
    assert output.splitlines()[-1] == "loaded:"
