"""Plays a story at a fixed time, and writes all answers about it: commits with the same answers write the same.

    python -m tools.answers FOLDER
    diff -r FOLDER-OF-ONE-COMMIT FOLDER-OF-ANOTHER

Run it in the tree of each commit, with the Python of that tree. It needs a C compiler and Linux. In the folder are

- `routes`: the JSON of every route that `/openapi.json` lists and that answers to GET;
- `commands`: exit code, standard output and errors of the commands with `--json`, and of those that read files;
- `state`: every key of Redis, checkpoints in a readable form;
- `recorded_day.jsonl`: what `tools/recorded_day.py` writes.

The story is that of `tests/support/story.py` with less traffic. Every process and Redis see one clock
that stands still, which this program moves, so that times, ages and ids of entries are equal. Durations are 0, and ids
that are drawn at random are counted, in this process. Left out are `/metrics`, `/healthz` and `/readyz`, and the
keys that `LEFT_OUT_KEYS` names. Feedback and ends of sessions are only in the recorded day.
"""

import importlib
import itertools
import os
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from .clock import CLOCK, CLOCK_FILE, NOW

STILL: Final = ("ragtide_consumers.specimens.lists", "ragtide_consumers.labelers.remote.endpoint")
"""Modules that choose by a clock which only grows what they keep, or measure a duration with it."""


def restart() -> None:
    """Start this program again, with a clock that stands still."""
    folder = Path(tempfile.mkdtemp(prefix="answers-"))
    (folder / "clock.c").write_text(CLOCK, encoding="utf-8")
    library = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"], check=True)  # noqa: S607
    (folder / "now").write_bytes(struct.pack("l", NOW))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAGTIDE_")},
        CLOCK_FILE: str(folder / "now"),
        "LD_PRELOAD": str(library),
        "HOME": str(folder),
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    os.execve(sys.executable, [sys.executable, "-m", "tools.answers", *sys.argv[1:]], environment)  # noqa: S606


def still(*_: Any) -> Any:
    """Return 0, as a clock."""
    return 0.0


def stop_clocks() -> None:
    """Let the modules of `STILL` see a clock that stands still."""
    for module in map(importlib.import_module, STILL):
        for found in list(vars(module).values()):
            for function in vars(found).values() if isinstance(found, type) else (found,):
                if isinstance(function, FunctionType) and function.__defaults__:
                    given = function.__defaults__
                    function.__defaults__ = tuple(still if value is time.monotonic else value for value in given)
        if hasattr(module, "monotonic"):
            setattr(module, "monotonic", still)  # noqa: B010 - mypy knows no such name


if __name__ == "__main__":
    if CLOCK_FILE not in os.environ:
        restart()
    numbers = itertools.count(1)
    uuid.uuid4 = lambda: uuid.UUID(int=next(numbers))  # before the product imports it
    time.perf_counter = still
    from .writing import write_answers

    stop_clocks()
    write_answers(Path(sys.argv[1]).resolve())
