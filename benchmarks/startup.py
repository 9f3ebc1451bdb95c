"""How long each command takes to its help or to the end of a short run, and each role until it is ready.

    python benchmarks/startup.py [--rounds 5]

Every figure is the median of rounds in which all commands take turns, because other work on the machine then slows all
of them. The unit is `python -c pass` of the same rounds. Processor time is user and system time of the command alone:
the Redis of the real runs is started before, and it is empty. Every module has its bytecode, as after `pip install`.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple
from urllib.request import urlopen

import psutil
from redis import Redis

from ragtide.cli.app import COMMANDS
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import RagInteraction

UNIT: Final = "python -c pass"
PYTHON: Final = {
    UNIT: "pass",
    "import typer, rich.console": "import typer, rich.console",
    "import pydantic": "import pydantic.main",
    "import redis.asyncio": "import redis.asyncio",
    "import numpy": "import numpy",
    "import scipy.special": "import scipy.special",
    "import redis.asyncio, pydantic.main, asyncio": "import redis.asyncio, pydantic.main, asyncio",
    "import ragtide": "import ragtide",
    "InteractionProducer()": "import ragtide; ragtide.InteractionProducer('redis://localhost:6379')",
}
"""Programs that show which part of a start is whose."""

READING: Final = (
    *("estimates", "alerts", "items", "watch --once", "replay workspaces"),
    *("explain", "dead-letters", "doctor", "criteria list"),
)
"""Commands that only read."""

REFUSED: Final = ("--partitions", "0", "estimates")
"""A command with a setting that is refused: exit code 1."""

LIMIT_S: Final = 0.5


class Cost(NamedTuple):
    """Seconds of one process."""

    wall_s: float
    cpu_s: float


class RoleCost(NamedTuple):
    """Seconds of a role until it is ready, and the megabytes (10^6 bytes, resident) that it then has."""

    wall_s: float
    cpu_s: float
    memory_mb: float


def cost_of(command: list[str], environment: dict[str, str]) -> Cost:
    """Run a command, and return the time that it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != (command[-len(REFUSED) :] == [*REFUSED]):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(commands: dict[str, list[str]], rounds: int, environment: dict[str, str]) -> dict[str, Cost]:
    """Return the medians of every command, after a round that only writes bytecode."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            cost = cost_of(command, environment)
            if number:
                costs[name].append(cost)
    return {
        name: Cost(median(cost.wall_s for cost in all_), median(cost.cpu_s for cost in all_))
        for name, all_ in costs.items()
    }


def role_costs(rounds: int, environment: dict[str, str], url: str) -> dict[str, RoleCost]:
    """Return the medians of each role's start, after a round that only writes bytecode; the roles take turns."""
    costs: dict[str, list[RoleCost]] = {name: [] for name in ROLES}
    for number in range(rounds + 1):
        for name in ROLES:
            cost = role_cost(name, environment, url)
            if number:
                costs[name].append(cost)
    return {name: RoleCost(*(median(column) for column in zip(*all_, strict=True))) for name, all_ in costs.items()}


def role_cost(role: str, environment: dict[str, str], url: str) -> RoleCost:
    """Start a role in one process, and return what it cost until it was ready."""
    command = [sys.executable, "-m", "ragtide", *role.split()]
    with Redis.from_url(url) as redis, socket.create_server(("127.0.0.1", 0)) as free:
        redis.flushall()
        port = free.getsockname()[1]
        free.close()
        began = time.perf_counter()
        environment = {**environment, "RAGTIDE_SERVE_PORT": str(port)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not ROLES[role](redis, port):
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)} ended with {process.returncode}")
                time.sleep(0.01)
            wall_s, seen = time.perf_counter() - began, psutil.Process(process.pid)
            spent = seen.cpu_times()
            return RoleCost(wall_s, spent.user + spent.system, seen.memory_info().rss / 1e6)
        finally:
            process.terminate()
            process.wait()


def _reads(redis: Redis, _: int) -> bool:
    stream = Streams("ragtide", 0).interactions
    return bool(redis.exists(stream)) and any(group["consumers"] for group in redis.xinfo_groups(stream))


def _owns(redis: Redis, _: int) -> bool:
    return bool(redis.exists(Streams("ragtide", 0).lease))


def _answers(_: Redis, port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


ROLES: Final[Mapping[str, Callable[[Redis, int], bool]]] = {
    "aggregator": _owns,
    "worker --processes 1": _reads,
    "serve": _answers,
}
"""Each role, and whether it is ready: it owns its partition, reads its stream, or answers on its port."""


def print_table(title: str, found: dict[str, Cost], unit: Cost) -> None:
    """Print one table, with the processor time in units."""
    print(f"\n## {title}\n\n| | wall, s | processor, s | in units |\n|---|---|---|---|")
    for name, cost in found.items():
        print(f"| `{name}` | {cost.wall_s:.2f} | {cost.cpu_s:.2f} | {cost.cpu_s / unit.cpu_s:.1f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    ragtide = [sys.executable, "-m", "ragtide"]
    python = {name: [sys.executable, "-c", program] for name, program in PYTHON.items()}
    helps = {f"ragtide {word}": [*ragtide, word] for word in ("--help", "--version")}
    helps |= {f"ragtide {name} --help": [*ragtide, name, "--help"] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name) / "redis") as server:
        file = Path(name) / "one.jsonl"
        one = RagInteraction(pipeline="p", question="Why?", documents=["Because."], response="Because.")
        file.write_bytes(one.encode() + b"\n")
        runs = {f"ragtide {words}": [*ragtide, *words.split()] for words in (*READING, f"score {file.name}")}
        runs[f"ragtide score {file.name}"][-1] = str(file)
        runs[f"ragtide {' '.join(REFUSED)}"] = [*ragtide, *REFUSED]
        environment = {**os.environ, "RAGTIDE_REDIS_URL": server.url, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        found = measure({**python, **helps, **runs}, rounds, environment)
        roles = role_costs(rounds, environment, server.url)
    unit = found[UNIT]
    print("# The start of every command\n")
    print(f"Written by `make startup` (`benchmarks/startup.py`): medians of {rounds} rounds.")
    print(f"The unit is the processor time of `{UNIT}`, whose wall time was {unit.wall_s:.2f} s.\n")
    late = [name for name in helps if found[name].cpu_s > LIMIT_S]
    print(f"{len(helps) - len(late)} of {len(helps)} pages of help take less than {LIMIT_S} s of processor time.")
    print_table("Python and libraries alone", {name: found[name] for name in python}, unit)
    print_table("To the help", {name: found[name] for name in helps}, unit)
    print_table("To the end of a short run, with an empty Redis", {name: found[name] for name in runs}, unit)
    print("\n## Until a role is ready, with an empty Redis and the local labeler\n")
    print("| | wall, s | processor, s | in units | memory, MB |\n|---|---|---|---|---|")
    for name, cost in roles.items():
        wall_s, cpu_s, memory_mb = cost
        print(f"| `ragtide {name}` | {wall_s:.2f} | {cpu_s:.2f} | {cpu_s / unit.cpu_s:.1f} | {memory_mb:.0f} |")


if __name__ == "__main__":
    main()
