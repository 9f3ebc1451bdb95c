"""Supervises small processes, for tests: `python -m tests.support.supervised fork|spawn WORK...`; writes the ending.

Each process appends its name to the file `started` when it begins.
"""

import multiprocessing
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Final

from ragtide_roles import supervising
from ragtide_roles.supervising import ProcessPlace, supervise
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.process_reports import ReportSlot

KILLS: Final = 7
"""Times that the process `killed` is killed: more than it may fail."""


def work(name: str, place: ProcessPlace) -> None:
    """Do what the name says."""
    with open("started", "a") as file:  # noqa: PTH123 - a line at once
        file.write(f"{name} {os.getpid()} {place.is_restarted}\n")
    if name == "crash":
        os._exit(7)
    if name == "mistake":
        raise ConfigurationError("the setting x is wrong: correct it")
    if name == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout.write("deaf\n")
        sys.stdout.flush()
        threading.Event().wait()
    if name == "killed" and Path("started").read_text().count(name) <= KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    place.parent.poll(None)


def main() -> None:
    configure_logging("info", "supervised")
    for name, value in (("FIRST_PAUSE_S", 0.01), ("LONGEST_PAUSE_S", 0.05), ("KILL_S", 0.5)):
        setattr(supervising, name, value)
    context = multiprocessing.get_context(sys.argv[1])
    names = sys.argv[2:]
    slots = {name: ReportSlot(context) for name in names}
    ending = supervise({name: partial(work, name) for name in names}, slots, context=context)
    sys.stdout.write(f"{ending.sentence}\n")
    sys.exit(ending.code)


if __name__ == "__main__":
    main()
