"""Starts a role as a container would: with its arguments, its variables and its folders, but on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from tests.support.conditions import wait_until

LISTENS = {"metrics": "serving metrics and health", "http": "serving"}
"""Messages in the log that have the port, by the name of the port in the chart."""

SECRETS = {
    "ragtide_serve_tokens": "0123456789abcdef0123456789abcdef",
    "ragtide_notify_destinations": '[{"name": "a", "kind": "webhook", "url": "https://example.com"}]',
}
"""Secrets without which a role does not start."""


@dataclass(frozen=True)
class StartedRole:
    """A role that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def port(self, name: str) -> int | None:
        """Return the port of the metrics or of the page; None as long as the role has not opened it."""
        lines = self.log.read_text().splitlines()
        assert self.process.poll() is None, lines
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return next((event["port"] for event in events if event["event"] == LISTENS[name]), None)

    def answers(self, name: str, path: str) -> bool:
        """Return whether a request is answered with 200."""
        port = self.port(name)
        if port is None:
            return False
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


@contextmanager
def started(
    arguments: Sequence[str], variables: Mapping[str, str], folders: Mapping[str, Path], home: Path
) -> Iterator[StartedRole]:
    """Run a role for the body of a `with`.

    Args:
        arguments: of the command `ragtide`.
        variables: of its environment; every port becomes a free one.
        folders: of this machine, by their paths in the container.
        home: for its log; also its home and its working directory.
    """

    def here(value: str) -> str:
        inside = next((path for path in folders if value.startswith(path)), None)
        return value if inside is None else value.replace(inside, str(folders[inside]))

    given = {name: "0" if name.endswith("_PORT") else here(value) for name, value in variables.items()}
    log = home / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [Path(sys.executable).parent / "ragtide", *map(here, arguments)],
            env={"PATH": os.environ["PATH"], "HOME": str(home), **given},
            cwd=home,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        role = StartedRole(process, log)
        wait_until(lambda: role.port("metrics"))
        yield role
    finally:
        process.kill()
        process.wait()
