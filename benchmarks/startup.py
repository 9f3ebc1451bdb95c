"""How long each command takes to its help, a few commands to the end of a short real run, and a worker until it reads.

    python benchmarks/startup.py [--rounds 5]

Every figure is the median of rounds in which all commands take turns, because other work on the machine then slows all
of them. The unit is `python -c pass` of the same rounds. Processor time is user and system time of the command alone:
the Redis of the real runs is started before, and it is empty. Every module has its bytecode, as after `pip install`.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

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
    "import ragtide": "import ragtide",
}
"""Programs that show which part of a start is whose."""

READING: Final = ("estimates", "alerts", "items", "watch --once", "workspaces", "explain", "dead-letters", "doctor")
"""Commands that only read."""

WORKER: Final = "ragtide worker"

LIMIT_S: Final = 0.5


class Cost(NamedTuple):
    """Seconds of one process."""

    wall_s: float
    cpu_s: float


def cost_of(command: list[str], environment: dict[str, str]) -> Cost:
    """Run a command, and return the time that it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
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


def worker_cost(environment: dict[str, str], url: str) -> Cost:
    """Start a worker with the local labeler, and return the time that it took until it read the stream."""
    command = [sys.executable, "-m", "ragtide", "worker", "--processes", "1"]
    with Redis.from_url(url) as redis:
        redis.flushall()
        began = time.perf_counter()
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not _is_read(redis):
                if worker.poll() is not None:
                    sys.exit(f"{' '.join(command)} ended with {worker.returncode}")
                time.sleep(0.01)
            spent = psutil.Process(worker.pid).cpu_times()
            return Cost(time.perf_counter() - began, spent.user + spent.system)
        finally:
            worker.terminate()
            worker.wait()


def _is_read(redis: Redis) -> bool:
    stream = Streams("ragtide", 0).interactions
    return bool(redis.exists(stream)) and any(group["consumers"] for group in redis.xinfo_groups(stream))


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
        environment = {**os.environ, "RAGTIDE_REDIS_URL": server.url, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        found = measure({**python, **helps, **runs}, rounds, environment)
        workers = [worker_cost(environment, server.url) for _ in range(rounds + 1)][1:]
        found[WORKER] = Cost(median(cost.wall_s for cost in workers), median(cost.cpu_s for cost in workers))
    unit = found[UNIT]
    print("# The start of every command\n")
    print(f"Written by `make startup` (`benchmarks/startup.py`): medians of {rounds} rounds.")
    print(f"The unit is the processor time of `{UNIT}`, whose wall time was {unit.wall_s:.2f} s.\n")
    late = [name for name in helps if found[name].cpu_s > LIMIT_S]
    print(f"{len(helps) - len(late)} of {len(helps)} pages of help take less than {LIMIT_S} s of processor time.")
    print_table("Python and libraries alone", {name: found[name] for name in python}, unit)
    print_table("To the help", {name: found[name] for name in helps}, unit)
    print_table("To the end of a short run, with an empty Redis", {name: found[name] for name in runs}, unit)
    print_table("Until it reads, with the local labeler", {WORKER: found[WORKER]}, unit)


if __name__ == "__main__":
    main()
