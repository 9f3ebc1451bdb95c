"""ragtide beside its peers: the same items, the same endpoint, the same number of items at once.

    python benchmarks/beside_peers.py [--items 200 2000] [--rounds 3] [--limit 300] [--peers ragas ...]

Every peer runs in an environment of its own in .venv-peers, with the versions of peers/requirements/NAME.txt, by its
documented way to work on many items at once (peers/runners/NAME_run.py), without telemetry. The endpoint
(peers/server.py) answers a call after 200 ms and works on 64 calls at once; it counts calls and tokens. Measured of
each run, imports included: wall time, processor time and the largest memory of all its processes.

Every run begins with an empty folder, which is also its home, its cache and its data. The peers take turns, and the
table has medians over the rounds. A run that takes longer than the limit is ended and not repeated. A run that asked
the endpoint less often than it has items measured something else, such as a cache: its row says so and has no figures.

Then each peer is killed (SIGKILL to all its processes) when the endpoint has answered half of the calls of a whole run,
and started again with the same command and folder. The calls of both runs beyond those of a whole run were paid twice;
the items without scores after the second run are lost.
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
from statistics import median

import psutil

# The environments are made as those of the tests.
sys.path.append(str(Path(__file__).parents[1]))

import statistics_speed
from before_after import this_tree
from peers.growth import growth_table
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
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OPENAI_API_KEY": "none",
    "OPIK_SENTRY_ENABLE": "false",
    "OPIK_TRACK_DISABLE": "true",
    "RAGTIDE_LOG_LEVEL": "error",
    "TRULENS_OTEL_TRACING": "0",
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
        """The beginning of its command line.

        Raises:
            RuntimeError: it cannot be installed here.
        """
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
    Peer(
        "pydantic_evals",
        "pydantic_evals 2.62.0, `Dataset.evaluate`",
        "faithfulness and relevance by two `LLMJudge`s: a score of the whole answer each, with a reason",
        "nothing",
    ),
    Peer(
        "opik",
        "Opik 2.2.122, `evaluate_on_dict_items`",
        "hallucination and context precision: a score of the whole answer each, with reasons; no server of Opik",
        "nothing",
    ),
    Peer(
        "trulens",
        "TruLens 2.16.0, `BatchEvaluator`",
        "groundedness (statements by the model, then a call a statement) and context relevance, with reasons; asks for "
        "the responses protocol first",
        "nothing",
    ),
    Peer(
        "mlflow",
        "MLflow 3.17.2, `genai.evaluate`",
        "faithfulness and relevance by two judges of `make_judge`: yes or no, with a reason; a run and a trace of each "
        "item in a SQLite file",
        "nothing that a second run reads",
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
    load: float = 0.0
    """Of the machine when it began."""


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


def own_folders(folder: Path) -> dict[str, str]:
    """Return the environment variables with which a program keeps everything in a folder."""
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "RAGTIDE_DATA_DIR")
    for name in names:
        (folder / name.lower()).mkdir(exist_ok=True)
    return {name: str(folder / name.lower()) for name in names}


def run_peer(
    peer: Peer, folder: Path, at: Endpoint, limit_s: float, kill_when: Callable[[], bool] = lambda: False
) -> Run:
    """Run a peer on the items of a folder, in which it keeps everything, and return what it took."""
    at.reset()
    load = os.getloadavg()[0]
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    begun, ended = time.monotonic(), "done"
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*peer.command, str(folder), f"{at.url}/v1", str(AT_ONCE)],
            env={**os.environ, **SETTINGS, **own_folders(folder)},
            cwd=folder,
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
    return Run(ended, seconds, usage.processor_s, usage.most_memory_mib, scored, at.count(), load)


@contextmanager
def folder_of_items(count: int) -> Iterator[Path]:
    """Return a context with a folder that has so many items of the demo, each with a question of its own."""
    rows = demo_interactions()
    # A Redis whose program was killed may still write its last file.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
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


def typical(runs: Sequence[Run]) -> Run:
    """Return the medians of runs that all ended in the same way, or the first that ended otherwise than `done`."""
    for run in runs:
        if run.ended != "done":
            return run
    return Run(
        "done",
        median(run.seconds for run in runs),
        median(run.processor_s for run in runs),
        median(run.memory_mib for run in runs),
        min(run.scored for run in runs),
        {name: round(median(run.count[name] for run in runs)) for name in runs[0].count},
        max(run.load for run in runs),
    )


def measured_nothing(run: Run, count: int) -> str | None:
    """Return why the figures of a run that ended say nothing about a tool; None if they do."""
    if run.ended == "failed":
        return "failed"
    if run.count["calls"] == 0:
        return "no calls"
    if run.ended == "done" and run.scored == 0:
        return "no item has scores"
    if run.ended == "done" and run.count["calls"] < count:
        return f"{run.count['calls']:,} calls for {count:,} items, the others came from elsewhere"
    return None


def speed_row(peer: Peer, runs: Sequence[Run], count: int, limit_s: float) -> str:
    """Return the row of the whole runs of a peer."""
    run = typical(runs)
    calls = run.count["calls"]
    name = f"| {peer.title} | {count:,} "
    if why := measured_nothing(run, count):
        return name + f"| **measured nothing: {why}** | | | | | | | {run.load:.1f} |"
    if run.ended == "late":
        late = f"| not finished in {limit_s:.0f} s, {calls:,} calls "
        return name + late + f"| | | | {run.processor_s:.0f} s in all | {run.memory_mib:,.0f} | | {run.load:.1f} |"
    tokens = (run.count["prompt_tokens"] + run.count["completion_tokens"]) / count
    cells = (
        f"{run.seconds:.1f} s" + ("" if run.scored == count else f", {count - run.scored} items without scores"),
        f"{count / run.seconds:.1f}",
        f"{calls / count:.1f}",
        f"{tokens:,.0f}",
        f"{1000 * run.processor_s / count:.0f} ms",
        f"{run.memory_mib:,.0f}",
        f"{run.count['most_at_once']}",
        f"{run.load:.1f}",
    )
    return name + "| " + " | ".join(cells) + " |"


UNKILLED = {"done": "finished before the kill", "late": "half not reached within the limit", "failed": "failed"}


def kill_row(peer: Peer, calls: int, count: int, runs: tuple[Run, Run]) -> str:
    """Return the row of a run that was to be killed half way and of the one after it; a whole run has so many calls."""
    first, second = runs
    if first.ended != "killed" or second.ended != "done":
        what = UNKILLED[first.ended] if first.ended != "killed" else f"the second run: {second.ended}"
        return f"| {peer.title} | {peer.resumes} | **measured nothing: {what}** | | | |"
    twice = first.count["calls"] + second.count["calls"] - calls
    cells = (f"{first.count['calls']:,}", f"{second.count['calls']:,}", f"{twice:,} ({twice / calls:.0%})")
    return f"| {peer.title} | {peer.resumes} | " + " | ".join(cells) + f" | {count - second.scored} |"


def killed_runs(peer: Peer, calls: int, count: int, at: Endpoint, limit_s: float) -> tuple[Run, Run]:
    """Kill a peer after half of so many calls, start it again, and return both runs."""
    with folder_of_items(count) as folder:
        first = run_peer(peer, folder, at, limit_s, lambda: at.count()["calls"] >= calls // 2)
        return first, run_peer(peer, folder, at, limit_s)


def whole_runs(peers: Sequence[Peer], count: int, rounds: int, at: Endpoint, limit_s: float) -> dict[str, list[Run]]:
    """Return the runs of each peer, which take turns; one that did not finish is not run again."""
    runs: dict[str, list[Run]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            if all(run.ended == "done" for run in runs[peer.name]):
                with folder_of_items(count) as folder:
                    runs[peer.name].append(run_peer(peer, folder, at, limit_s))
                sys.stderr.write(speed_row(peer, runs[peer.name][-1:], count, limit_s) + "\n")
    return runs


def installed(peers: Sequence[Peer]) -> tuple[list[Peer], list[Peer]]:
    """Return the peers whose environments are there, which makes them, and those that cannot be installed here."""
    there, missing = [], []
    for peer in peers:
        try:
            sys.stderr.write(f"environment of {peer.name}: {peer.command[0]}\n")
            there.append(peer)
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            missing.append(peer)
    return there, missing


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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a run")
    parser.add_argument("--peers", nargs="*", default=[peer.name for peer in PEERS])
    options = parser.parse_args()
    peers, missing = installed([peer for peer in PEERS if peer.name in options.peers])
    loads, newer = [os.getloadavg()[0]], newer_python()
    speeds, kills, tree = [], [], this_tree()
    with endpoint() as at:
        for place, count in enumerate(options.items):
            runs = whole_runs(peers, count, options.rounds, at, options.limit)
            loads += [run.load for of_peer in runs.values() for run in of_peer]
            speeds += [speed_row(peer, runs[peer.name], count, options.limit) for peer in peers]
            for peer in peers if place == 0 else ():
                whole = typical(runs[peer.name])
                if whole.ended == "done" and not measured_nothing(whole, count):
                    calls = whole.count["calls"]
                    kills.append(kill_row(peer, calls, count, killed_runs(peer, calls, count, at, options.limit)))
                    sys.stderr.write(kills[-1] + "\n")
    speeds += [f"| {peer.title} | | cannot be installed here | | | | | | | |" for peer in missing]
    growth = growth_table(ENVIRONMENTS.python_of("rapidfireai", newer) if newer else None)
    text = PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        commit=tree.commit,
        python=platform.python_version(),
        cores=os.cpu_count(),
        load=f"{loads[0]:.1f} before the runs, and {min(loads):.1f} to {max(loads):.1f} when a run began",
        caution=CAUTION if loads[0] > 1 else "",
        rounds=options.rounds,
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


CAUTION = ", because other programs ran as well: compare neither wall times nor runs that did not finish"
PAGE = """# Beside other tools

Written by `make peers` (`benchmarks/beside_peers.py`) on {date}, commit {commit}, Python {python}. The {cores}
cores of the machine run the endpoint, too. Its load was {load}{caution}.

Every tool gets the same items of the demo (a question, two documents on average, a response) and the same endpoint,
which answers a call after {latency_ms:.0f} ms and works on {at_once} calls at once. Each tool's own setting for items
at once is {at_once}. **The tools compute different quantities**, so their calls and tokens buy different answers. The
processor time is that of the tool alone. The endpoint's answers are made up and short, and follow the schema of each
request. A run begins with an empty folder, home and cache, and includes the start of the process and its imports.
The tools take turns; figures are medians of {rounds} runs. A row without figures says why. A token here is a word or a
punctuation mark. Versions are in `benchmarks/peers/requirements`, commands in `benchmarks/peers/runners`.

| tool | computes |
|---|---|
{computes}

## Speed and cost

| tool | items | whole run | items/s | calls an item | tokens an item | processor an item | MiB | calls at once | load |
|---|---|---|---|---|---|---|---|---|---|
{speeds}

`MiB` is the largest memory of all processes together; `calls at once` is the most that the endpoint had, those that
waited included. `load` is the highest of the machine when a run of the row began.

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
