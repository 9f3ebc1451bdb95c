"""Text that anybody may write into Redis is shown by every command, in a terminal and in a pipe, and steers neither."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.schemas.test_printable import steers
from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.conditions import wait_until
from tests.support.experiment_plans import plan
from tests.support.in_process import run_command

from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import DeadLetter, Reason, Workspace, utc_now
from ragtide_schemas.experiments import Begun, Command, Config, Execution

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)
RUN = Streams("ragtide.run.xss", 0)

ESCAPE = "\x1b]0;PWNED\x07\x1b[2J"
C1 = "\x9b2J\x9d0;PWNED\x9c"
BIDI = "\u202ekcattA\u202c"
FOREIGN = f"{ESCAPE}{C1}{BIDI}\u2028[link=http://evil]x[/link]"

COMMANDS = (
    ("dead-letters",),
    ("dead-letters", "--json"),
    ("dead-letters", "retry", "--all"),
    ("alerts",),
    ("alerts", "--json"),
    ("alerts", "--workspace", "bad"),
    ("estimates",),
    ("estimates", "--json"),
    ("watch", "--once"),
    ("workspaces",),
    ("workspaces", "--json"),
    ("doctor",),
    ("compare", "a", "b"),
    ("experiment", "show", "xss"),
    ("experiment", "show", "xss", "--json"),
    ("experiment", "stop", "xss", "nowhere"),
    ("experiment", "resume", "xss"),
    ("report", "xss", "--output", "-", "--format", "html"),
    ("report", "xss", "--output", "-", "--json"),
)


@pytest.fixture(autouse=True)
def foreign(redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fill Redis with text that steers a terminal, wherever a schema takes free text."""
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")
    redis.xadd(STREAMS.alerts, {"data": alert("a", message=FOREIGN, diagnosis=[FOREIGN]).encode()})
    redis.xadd(STREAMS.alerts, {"data": json.dumps({FOREIGN: 1, "pipeline": FOREIGN})})
    letter = DeadLetter(
        stream=STREAMS.interactions,
        entry_id="1-1",
        reason=Reason.INVALID,
        detail=FOREIGN,
        payload="{}",
        failed_at=utc_now(),
        component="w",
    )
    redis.xadd(STREAMS.dead_letters, {"data": letter.encode()})
    redis.xadd(STREAMS.dead_letters, {"data": json.dumps({FOREIGN: 1})})
    redis.xadd(STREAMS.dead_letters, {FOREIGN: "x"})
    info = Workspace(run="xss", kind="experiment", source=FOREIGN, options={"file": FOREIGN})
    redis.hset(STREAMS.workspaces, "xss", info.encode())
    redis.hset(STREAMS.workspaces, "bad", json.dumps({FOREIGN: 1}))
    redis.hset(STREAMS.workspaces, FOREIGN, json.dumps({"run": FOREIGN}))
    configs = (Config(name="a", parameters={"k": FOREIGN, FOREIGN: 1}), Config(name="<script>b</script>"))
    changes = {"run": "xss", "configs": configs, "target": FOREIGN, "data": FOREIGN}
    redis.xadd(RUN.experiment, {DATA_FIELD: Begun(plan=plan(2).model_copy(update=changes)).encode()}, id="1-1")
    redis.xadd(RUN.experiment, {DATA_FIELD: Command(op="stop", config="a", reason=FOREIGN).encode()})
    redis.xadd(RUN.experiment, {DATA_FIELD: Command(op="stop", config="a", reason=FOREIGN).encode()})
    failed = Execution(config="a", item=0, item_id="i", failure=FOREIGN)
    redis.xadd(RUN.executions, {DATA_FIELD: failed.encode()})
    yield
    structlog.reset_defaults()


def raw(text: str) -> list[str]:
    """Return the characters that steer and are in a text; line feeds and tabs may be there."""
    return [character for character in text if steers(character) and character not in "\n\t"]


@for_each("arguments", COMMANDS)
def test_nothing_steers_in_a_pipe(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    done = run_command(capsys, *arguments)
    assert raw(done.stdout) == []
    assert raw(done.stderr.replace(done.told, "")) == []


SCRIPT = """
import sys
from ragtide.cli.app import main
for arguments in {commands!r}:
    sys.argv = ["ragtide", *arguments]
    try:
        main()
    except SystemExit:
        pass
print("THE END")
"""


def test_nothing_steers_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(commands=COMMANDS)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    read = bytearray()

    def ended() -> bool:
        if select.select([ours], [], [], 0)[0]:
            try:
                read.extend(os.read(ours, 65536))
            except OSError:  # the other side is closed
                return True
        return b"THE END" in read

    try:
        wait_until(ended)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    shown = read.decode()
    # Colours and the bars of progress are ours; the terminal adds carriage returns.
    without_styles = re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|1A)", "", shown).replace("\r", "")
    assert raw(without_styles) == []
    assert "\x1b]8" not in shown
    for words in ("FIRING", "PWNED", "nowhere", "THE END"):
        assert words in shown


def test_the_html_report_has_a_policy_that_runs_and_loads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    page = run_command(capsys, "report", "xss", "--output", "-", "--format", "html").stdout
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in page
    assert "<script" not in page


def test_exported_files_steer_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("r.html", "r.json"):
        run_command(capsys, "report", "xss", "--output", name)
        text = (tmp_path / name).read_text()
        assert "PWNED" in text
        assert raw(text) == []


def test_log_lines_steer_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        configure_logging("info")
        log = structlog.get_logger("test")
        log.info(FOREIGN, field=FOREIGN)
        try:
            raise ValueError(FOREIGN)  # noqa: TRY301
        except ValueError:
            log.exception("failed")
        written = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)
        assert "PWNED" in written
        assert raw(written) == []
        structlog.reset_defaults()
