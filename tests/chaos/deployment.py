"""The processes of a chaos run: started, watched, killed, paused, and in the end stopped as an operator does."""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess

ROOT = Path(__file__).parents[2]

READY = re.compile(rb"worker started|aggregating a partition|partition acquired|standing by")
"""Log messages of a role that has started."""

START_S = 60.0
"""Seconds a role may take to start, with all others at work on the same machine."""

RoleName = Literal["worker", "aggregator", "notify"]

COUNTED = (
    "partition lost",
    "took over abandoned entries",
    "labeling an entry alone",
    "Redis failed",
    "the endpoint is paused",
    "labeling failed",
    "working on an entry failed",
    "Traceback",
)
"""Log messages that are counted."""


class Role:
    """A role: a process, and its successor when it is killed."""

    def __init__(
        self, role: RoleName, number: int, folder: Path, environment: Mapping[str, str], plant: str | None
    ) -> None:
        self.role = role
        self.name = f"{role}-{number}"
        self.log = folder / f"{self.name}.log"
        self.paused = False
        self._arguments = [role, *(["--plant", plant] if plant else [])]
        self._environment = environment
        self.start()

    def start(self) -> None:
        self.paused = self._has_started = False
        with self.log.open("ab") as file:
            self._log_start = file.tell()
            self.process = ForkedProcess(
                self._arguments, self._environment, self.log.parent, file, file, main="tests.chaos.role:main"
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ready(self) -> bool:
        """Whether it has started and is not paused."""
        self._has_started = self._has_started or bool(READY.search(self.said))
        return self._has_started and not self.paused and self.process.poll() is None

    @property
    def said(self) -> bytes:
        """The log of the present process."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.signal(signal.SIGCONT)
            self.paused = False


class Deployment:
    """All roles of a run. A role that ends by itself is noted, and started again as a supervisor would."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        workers: int,
        aggregators: int,
        plant: str | None,
        notifiers: int = 0,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTIDE_", "OPENAI_"))}
        environment = {**inherited, "PYTHONPATH": str(ROOT), "RAGTIDE_WORKER_PROCESSES": "0", **settings}
        self.roles = [Role("worker", number + 1, folder, environment, plant) for number in range(workers)]
        self.roles += [Role("aggregator", number + 1, folder, environment, plant) for number in range(aggregators)]
        self.roles += [Role("notify", number + 1, folder, environment, plant) for number in range(notifiers)]
        self.ended_by_themselves: list[str] = []
        self.ended_while_starting: list[str] = []
        """Roles that lost Redis while they started and ended, for a supervisor to start them again; the last words."""

    def ready(self, role: RoleName) -> list[Role]:
        """Return the processes of a role that have started and are not paused."""
        return [one for one in self.roles if one.role == role and one.ready]

    def by_pid(self, pid: int) -> Role | None:
        return next((role for role in self.roles if role.pid == pid), None)

    def supervise(self) -> None:
        """Start roles again that have ended by themselves."""
        for role in self.roles:
            code = role.process.poll()
            if code is None:
                continue
            starting = code == 1 and not READY.search(role.said)
            ended = self.ended_while_starting if starting else self.ended_by_themselves
            ended.append(f"{role.name} ended with {code}: {_tail(role)}")
            role.start()

    def stop(self) -> list[str]:
        """Stop every role with SIGTERM, and return the roles that ended badly, in words."""
        wrong = []
        for role in self.roles:
            try:
                # A process that is still starting does not hear SIGTERM as a request yet.
                wait_until(lambda role=role: role.ready or role.process.poll() is not None, START_S)  # type: ignore[misc]
            except AssertionError:
                wrong.append(f"{role.name} has neither started nor ended: {_tail(role)}")
                role.kill()
                continue
            if not role.ready:
                wrong.append(f"{role.name} ended with {role.process.poll()}: {_tail(role)}")
        started = [role for role in self.roles if role.ready]
        for role in started:
            role.signal(signal.SIGTERM)
        for role in started:
            try:
                code = role.process.wait(60)
            except subprocess.TimeoutExpired:
                wrong.append(f"{role.name} did not end within a minute: {_tail(role)}")
            else:
                wrong += [] if code == 0 else [f"{role.name} ended with {code}: {_tail(role)}"]
        return wrong

    def kill(self) -> None:
        """End whatever still runs."""
        for role in self.roles:
            if role.process.poll() is None:
                role.kill()

    def logged(self) -> Counter[str]:
        """Return how often the roles logged each counted message."""
        said = "\n".join(role.log.read_text(errors="replace") for role in self.roles)
        return Counter({words: said.count(words) for words in COUNTED if words in said})


def _tail(role: Role) -> str:
    lines = role.said.decode(errors="replace").strip().splitlines()
    return lines[-1][-500:] if lines else "it said nothing"
