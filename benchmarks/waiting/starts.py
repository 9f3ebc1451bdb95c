"""The start of a producer, of a command and of a role."""

import os
import subprocess
import sys
from statistics import median
from typing import Final, NamedTuple

import psutil
import startup
from many_pipelines import children_s

PRODUCER: Final = "import ragtide; ragtide.InteractionProducer"
LIBRARIES: Final = "import asyncio, redis.asyncio; from pydantic import BaseModel"
"""What a program needs that validates a message and sends it to Redis by itself."""
COMMANDS: Final = ("estimates", "alerts", "items", "doctor")
ROUNDS: Final = 3
SHOW_AND_WAIT: Final = "; import sys; print(len(sys.modules), flush=True); sys.stdin.read()"


class Import(NamedTuple):
    """What a program has taken when its imports are done."""

    cpu_s: float
    memory_mb: float
    modules: int


def import_cost(program: str) -> Import:
    """Run a program in a process of its own, and return what it took."""
    before = children_s()
    command = [sys.executable, "-c", program + SHOW_AND_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        modules = int(process.stdout.readline())
        memory = psutil.Process(process.pid).memory_info().rss
        process.communicate()
    return Import(children_s() - before, memory / 1e6, modules)


def imports() -> dict[str, float]:
    """Return the medians of a producer's imports and of the libraries alone, which take turns."""
    costs: dict[str, list[Import]] = {"import": [], "libraries": []}
    for number in range(ROUNDS + 1):
        for name, program in (("import", PRODUCER), ("libraries", LIBRARIES)):
            cost = import_cost(program)
            if number:  # the first has written bytecode
                costs[name].append(cost)
    return {
        f"{name}_{figure}": median(getattr(cost, field) for cost in of)
        for name, of in costs.items()
        for figure, field in (("cpu_s", "cpu_s"), ("mb", "memory_mb"), ("modules", "modules"))
    }


def commands(url: str) -> dict[str, float]:
    """Return the processor seconds of each reading command, of the slowest, and of a refused setting."""
    ragtide = [sys.executable, "-m", "ragtide"]
    named = {name: [*ragtide, name] for name in COMMANDS} | {"refused": [*ragtide, *startup.REFUSED]}
    costs = startup.measure(named, ROUNDS, {**os.environ, "RAGTIDE_REDIS_URL": url})
    found = {f"{name}_cpu_s": cost.cpu_s for name, cost in costs.items()}
    return {**found, "slowest_cpu_s": max(found[f"{name}_cpu_s"] for name in COMMANDS)}


def roles(url: str) -> dict[str, float]:
    """Return processor seconds and memory of each role when it is ready."""
    costs = startup.role_costs(ROUNDS, {**os.environ, "RAGTIDE_REDIS_URL": url}, url)
    found: dict[str, float] = {}
    for name, cost in costs.items():
        word = name.partition(" ")[0]
        found |= {f"{word}_cpu_s": cost.cpu_s, f"{word}_mb": cost.memory_mb}
    return found
