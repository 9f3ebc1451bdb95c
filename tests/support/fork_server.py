"""Starts processes of the command line by a fork of a process that has imported it, so that a start takes no second.

python -P fork_server.py SOCKET

The socket is a file descriptor. Each message on it carries the descriptors of a new process: a socket for the answers,
standard output and standard error. That socket brings arguments, environment and folder as JSON; the answers are the
process id and, at the end, the exit code as `subprocess` counts it. The server ends when its socket is closed.
"""

import gc
import json
import os
import pkgutil
import signal
import socket
import sys
from importlib import import_module

IMPORTED = (
    "openai.resources.chat",
    "pyarrow.parquet",
    "ragtide.mcp_server.serving",
    "ragtide_aggregator.service.aggregator",
    "ragtide_consumers.labelers.judge.labeler",
    "ragtide_consumers.notify.service",
    "ragtide_consumers.recorder.service",
    "ragtide_consumers.worker.app",
    "ragtide_runtime.telemetry.endpoints",
    "ragtide_runtime.telemetry.span_exporter",
    "ragtide_web.server",
    "scipy.special",
)
"""Modules that roles and commands import only when they start, or at their first call."""


def main() -> None:
    """Serve until the socket is closed."""
    import ragtide.cli

    os.environ.pop(
        "COLUMNS", None
    )  # a console keeps the width that is stated when it is made: each process has its own
    for module in pkgutil.walk_packages(ragtide.cli.__path__, "ragtide.cli."):
        import_module(module.name)
    for name in IMPORTED:
        import_module(name)
    gc.freeze()  # a collection in a forked process would copy every page
    # An interrupt of the tests shall not end the server before its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that wait
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            message, files, _, _ = socket.recv_fds(requests, 1, 3)
            if not message:
                return
            if os.fork() == 0:
                requests.close()
                break
            for file in files:
                os.close(file)
    _run(*files)


def _run(answers: int, stdout: int, stderr: int) -> None:
    """Run the command in a fork of this process, wait for it, and answer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = socket.socket(fileno=answers)
    with connection.makefile("r") as file:
        wanted = json.load(file)
    command = os.fork()
    if command != 0:
        connection.sendall(f"{command}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        connection.sendall(f"{code}\n".encode())
        os._exit(0)
    connection.close()
    for given, place in ((stdout, 1), (stderr, 2)):
        os.dup2(given, place)
        os.close(given)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["folder"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["ragtide", *wanted["arguments"]]
    module, _, name = wanted["main"].partition(":")
    getattr(import_module(module), name)()


if __name__ == "__main__":
    main()
