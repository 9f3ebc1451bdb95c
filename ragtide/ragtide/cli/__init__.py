"""The command `ragtide`: each module parses the options of a command, calls the package, and prints the result."""

import atexit
import gc
import os
import signal
import sys
from typing import Final, NoReturn

from ragtide_runtime import __version__

NOT_IN_WORKER: Final = ("jinja2", "scipy")
"""Modules of the extra `service` that the extra `worker` does not contain."""


def run() -> None:
    """Run the command line; a user's mistake ends in one sentence on standard error and exit code 1 or 2."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)  # the kernel drops what process 1 of a container has no handler for
    if sys.argv[1:] in (["--version"], ["-V"]):  # works without any extra
        print(__version__)  # noqa: T201 - typer is in an extra
        return
    # Nearly all objects of a start, and of a role, are alive at every collection, so look for cycles rarely. An
    # application that imports ragtide decides for itself.
    gc.set_threshold(50_000, 20, 50)
    # Nothing is collected at the end: looking for cycles among all modules takes a fifth of a short command.
    atexit.register(gc.freeze)
    try:
        from .app import main  # noqa: PLC0415 - imported here to name the missing extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        sys.exit(f"ragtide: the command line needs {error.name}: pip install 'ragtide[service,embedded]'")
    try:
        main()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in NOT_IN_WORKER:
            raise
        sys.exit(f"ragtide: this command needs {name}, which the extra worker lacks: pip install 'ragtide[service]'")


def _end(number: int, _: object) -> NoReturn:
    os._exit(128 + number)
