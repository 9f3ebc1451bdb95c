"""ragtide beside its peers: the same items, the same endpoint, the same number of items at once.

    PYTHONPATH=. python benchmarks/beside_peers.py [--items 200 2000] [--limit 300] [--peers ragas ...]

Every peer runs in an environment of its own in .venv-peers, with the versions of peers/requirements/NAME.txt, by its
documented way to work on many items at once (peers/runners/NAME_run.py), without telemetry. The endpoint
(peers/server.py) answers a call after 200 ms and works on 64 calls at once; it counts calls and tokens. Measured of
each run, imports included: wall time, processor time and the largest memory of all its processes.

Then each peer is killed (SIGKILL to all its processes) when the endpoint has answered half of the calls of a whole run,
and started again with the same command. The calls of both runs beyond those of a whole run were paid twice; the items
without scores after the second run are lost. A run that takes longer than the limit is ended, and the table says so.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import statistics_speed
from peers.growth import growth_table
from processes import commit
from tools.environments import ROOT, Environments

from ragtide_offline.demo import demo_interactions

HERE = Path(__file__).parent / "peers"
ENVIRONMENTS = Environments(HERE / "requirements", ROOT / ".venv-peers", ("--no-deps",))
"""The files of requirements are complete, so nothing else is installed."""

LATENCY_S, AT_ONCE = 0.2, 64
SETTINGS = {
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_API_KEY": "none",
    "RAGTIDE_LOG_LEVEL": "error",
}
"""Environment variables of every peer: no telemetry, and no downloads."""


@dataclass(frozen=True)
class Peer:
    """A tool: its runner, and what it does."""

    name: str
    title: str
    computes: str
    resumes: str
    """What it keeps for a second run."""

    @property
    def command(self) -> list[str]:
        """The beginning of its command line."""
        own = self.name in ENVIRONMENTS.names
        python = ENVIRONMENTS.python_of(self.name) if own else sys.executable
        return [str(python), str(HERE / "runners" / f"{self.name}_run.py")]


PEERS = (
    Peer(
        "ragtide_score",
        "ragtide, `ragtide score --labeler judge`",
        "which document sentences each response sentence uses and needs: relevance, utilization, completeness and "
        "adherence, with intervals of their means; one call an item",
        "each line of `--output`",
    ),
    Peer(
        "ragtide_live",
        "ragtide live: Redis, a worker with the judge, an aggregator",
        "the same of a stream: estimates of pipelines and windows, alerts, each item counted once; one call an item",
        "each result in Redis, which is killed, too",
    ),
    Peer(
        "ragas",
        "Ragas 0.4.3, `evaluate`",
        "faithfulness (statements, then verdicts), context precision without reference (a call a document), context "
        "recall (the response is the reference), with reasons in words",
        "answers of the model, by `DiskCacheBackend`",
    ),
    Peer(
        "deepeval",
        "DeepEval 4.3.1, `evaluate`",
        "faithfulness (truths, claims, verdicts, reason) and contextual relevancy (a call a document, reason), with "
        "reasons in words",
        "test cases, by `CacheConfig(use_cache=True)`",
    ),
    Peer(
        "phoenix",
        "Phoenix evals 3.9.4, `async_evaluate_dataframe`",
        "faithfulness and retrieval relevance: a label of the whole answer each, with an explanation",
        "nothing",
    ),
    Peer(
        "ragchecker",
        "RAGChecker 0.1.9, `evaluate`",
        "claims of the response and of the reference (the response again), each checked against each document: "
        "faithfulness, claim recall, context precision",
        "each of its stages, by `save_path`",
    ),
)


@dataclass(frozen=True)
class Endpoint:
    """The endpoint's process, as its clients see it."""

    url: str

    def count(self) -> dict[str, int]:
        """Return calls and tokens since the last reset."""
        with urllib.request.urlopen(f"{self.url}/count", timeout=30) as reply:  # noqa: S310 - it is on this machine
            return dict(json.load(reply))

    def reset(self) -> None:
        """Begin counting anew."""
        request = urllib.request.Request(f"{self.url}/reset", method="POST")  # noqa: S310 - see above
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Return a context with the endpoint."""
    command = [sys.executable, str(HERE / "server.py"), "--latency", str(LATENCY_S), "--capacity", str(AT_ONCE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield Endpoint(process.stdout.readline().strip())
        finally:
            process.terminate()


@dataclass(frozen=True)
class Run:
    """What a run of a peer took."""

    ended: str
    """`done`, `killed`, `late`, or `failed`."""
    seconds: float
    processor_s: float
    memory_mib: float
    scored: int
    count: dict[str, int]
    """Of the endpoint."""


class Usage(threading.Thread):
    """Watches processor time and memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self._seconds: dict[int, float] = {}
        self.most_memory_mib = 0.0
        self.ended = threading.Event()

    @property
    def processor_s(self) -> float:
        """Seconds of user and system time of all of them so far."""
        return sum(self._seconds.values())

    def run(self) -> None:
        """Look ten times a second."""
        while not self.ended.wait(0.1):
            memory_mib = 0.0
            try:
                family = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in family:
                try:
                    times = process.cpu_times()
                    memory_mib += process.memory_info().rss / 2**20
                except psutil.NoSuchProcess:
                    continue
                self._seconds[process.pid] = times.user + times.system
            self.most_memory_mib = max(self.most_memory_mib, memory_mib)


def run_peer(
    peer: Peer, folder: Path, at: Endpoint, limit_s: float, kill_when: Callable[[], bool] = lambda: False
) -> Run:
    """Run a peer on the items of a folder, and return what it took."""
    at.reset()
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    begun, ended = time.monotonic(), "done"
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*peer.command, str(folder), f"{at.url}/v1", str(AT_ONCE)],
            env={**os.environ, **SETTINGS},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    usage = Usage(process.pid)
    usage.start()
    while process.poll() is None:
        time.sleep(0.02)
        if kill_when():
            ended = "killed"
        elif time.monotonic() - begun > limit_s:
            ended = "late"
        if ended != "done":
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - begun
    usage.ended.set()
    usage.join()
    if ended == "done" and process.returncode:
        ended = "failed"
        sys.stderr.write(f"{peer.name} failed:\n{(folder / 'log').read_text(errors='replace')[-3000:]}\n")
    scored = json.loads(result.read_text())["scored"] if result.exists() else 0
    return Run(ended, seconds, usage.processor_s, usage.most_memory_mib, scored, at.count())


@contextmanager
def folder_of_items(count: int) -> Iterator[Path]:
    """Return a context with a folder that has so many items of the demo, each with a question of its own."""
    rows = demo_interactions()
    with tempfile.TemporaryDirectory() as name:
        with (Path(name) / "items.jsonl").open("w") as file:
            for number in range(count):
                row = rows[number % len(rows)]
                item = {
                    "item_id": f"item-{number}",
                    "question": f"{row.question} ({number})",
                    "documents": [document.text for document in row.documents or ()],
                    "response": row.response,
                }
                file.write(json.dumps(item) + "\n")
        yield Path(name)


def speed_row(peer: Peer, run: Run, count: int, limit_s: float) -> str:
    """Return the row of a whole run."""
    calls = run.count["calls"]
    name = f"| {peer.title} | {count:,} "
    if run.ended == "failed":
        return name + "| failed | | | | | | |"
    if run.ended == "late":
        late = f"| not finished in {limit_s:.0f} s, {calls:,} calls "
        return name + late + f"| | | | {run.processor_s:.0f} s in all | {run.memory_mib:,.0f} | |"
    tokens = (run.count["prompt_tokens"] + run.count["completion_tokens"]) / count
    cells = (
        f"{run.seconds:.1f} s" + ("" if run.scored == count else f", {count - run.scored} items without scores"),
        f"{count / run.seconds:.1f}",
        f"{calls / count:.1f}",
        f"{tokens:,.0f}",
        f"{1000 * run.processor_s / count:.0f} ms",
        f"{run.memory_mib:,.0f}",
        f"{run.count['most_at_once']}",
    )
    return name + "| " + " | ".join(cells) + " |"


UNKILLED = {"done": "finished before the kill", "late": "half not reached within the limit", "failed": "failed"}


def kill_row(peer: Peer, whole: Run, count: int, at: Endpoint, limit_s: float) -> str:
    """Kill a peer half way, start it again, and return the row."""
    calls = whole.count["calls"]
    with folder_of_items(count) as folder:
        first = run_peer(peer, folder, at, limit_s, lambda: at.count()["calls"] >= calls // 2)
        second = run_peer(peer, folder, at, limit_s)
    if first.ended != "killed" or second.ended != "done":
        what = UNKILLED[first.ended] if first.ended != "killed" else f"the second run: {second.ended}"
        return f"| {peer.title} | {peer.resumes} | {what} | | | |"
    twice = first.count["calls"] + second.count["calls"] - calls
    cells = (f"{first.count['calls']:,}", f"{second.count['calls']:,}", f"{twice:,} ({twice / calls:.0%})")
    return f"| {peer.title} | {peer.resumes} | " + " | ".join(cells) + f" | {count - second.scored} |"


def newer_python() -> str | None:
    """Return a Python of 3.12 or newer that runs on this machine; None without one."""
    for name in (sys.executable, "python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        check = "import sys; sys.exit(sys.version_info < (3, 12))"
        if path and not subprocess.run([path, "-c", check], capture_output=True, check=False).returncode:
            return path
    return None


def beside_river() -> list[str]:
    """Return the table of our statistics core beside river."""
    lines = ["| keys | ragtide, values/s | river, values/s | ratio |", "|---|---|---|---|"]
    for keys in (10, 1_000, 100_000):
        pairs = [(statistics_speed.core(keys, 40), statistics_speed.river(keys, 40)) for _ in range(3)]
        ours, theirs = (sorted(values)[1] for values in zip(*pairs, strict=True))
        lines.append(f"| {keys:,} | {ours:,.0f} | {theirs:,.0f} | {sorted(a / b for a, b in pairs)[1]:.1f} |")
    return lines


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="*", default=[200, 2000])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a run")
    parser.add_argument("--peers", nargs="*", default=[peer.name for peer in PEERS])
    options = parser.parse_args()
    peers = [peer for peer in PEERS if peer.name in options.peers]
    for peer in peers:
        sys.stderr.write(f"environment of {peer.name}: {peer.command[0]}\n")
    load, newer = os.getloadavg()[0], newer_python()
    growth = growth_table(ENVIRONMENTS.python_of("rapidfireai", newer) if newer else None)
    speeds, kills = [], []
    with endpoint() as at:
        for place, count in enumerate(options.items):
            for peer in peers:
                with folder_of_items(count) as folder:
                    run = run_peer(peer, folder, at, options.limit)
                speeds.append(speed_row(peer, run, count, options.limit))
                sys.stderr.write(speeds[-1] + "\n")
                if place == 0 and run.ended == "done":
                    kills.append(kill_row(peer, run, count, at, options.limit))
                    sys.stderr.write(kills[-1] + "\n")
    text = PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        commit=commit(),
        python=platform.python_version(),
        cores=os.cpu_count(),
        load=load,
        caution=": other programs ran as well, so wall times and runs that did not finish say little" * (load > 1),
        latency_ms=1000 * LATENCY_S,
        at_once=AT_ONCE,
        computes=_lines(f"| {peer.title} | {peer.computes} |" for peer in peers),
        speeds=_lines(speeds),
        killed_n=options.items[0],
        kills=_lines(kills),
        growth=_lines(growth),
        river=_lines(beside_river()),
    )
    sys.stdout.write(text)


def _lines(lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join(lines)


PAGE = """# Beside other tools

Written by `make peers` (`benchmarks/beside_peers.py`) on {date}, commit {commit}, Python {python}, {cores} cores, on
which the endpoint runs, too.
The load of the machine before the runs was {load:.1f}{caution}.

Every tool gets the same items of the demo (a question, two documents on average, a response) and the same endpoint,
which answers a call after {latency_ms:.0f} ms and works on {at_once} calls at once. Each tool's own setting for items
at once is {at_once}. **The tools compute different quantities**, so calls and tokens are prices of different goods; the
processor time is what a tool itself costs. The endpoint's answers are made up and short, and follow the schema of each
request. A run begins with the start of the process and its imports. A token here is a word or a punctuation mark.
Versions are in `benchmarks/peers/requirements`, commands in `benchmarks/peers/runners`.

| tool | computes |
|---|---|
{computes}

## Speed and cost

| tool | items | whole run | items/s | calls an item | tokens an item | processor an item | MiB | calls at once |
|---|---|---|---|---|---|---|---|---|
{speeds}

`MiB` is the largest memory of all processes together; `calls at once` is the most that the endpoint had, those that
waited included.

## Killed half way

With {killed_n:,} items: all processes of the tool are killed (SIGKILL) when the endpoint has answered half of the calls
of a whole run. Then the same command runs again.

| tool | kept for a second run | calls before | calls after | paid twice | items without scores |
|---|---|---|---|---|---|
{kills}

## Aggregation as n grows

{growth}

## Statistics beside river

ragtide's core takes batches of 5,000 values as arrays, and computes mean, variance, a drift detector and an interval;
river takes them one by one, and computes mean, variance and ADWIN. Median of three rounds (`make stats` has more).

{river}
"""


if __name__ == "__main__":
    main()
