"""Measures of one interaction, from `submit` to the commit of the aggregator that has its metric event.

`python -m tools.house.interaction TREE` runs `ragtide up` of the imported product in this process, on an embedded
Redis, and publishes interactions one by one. A profile function of every thread notes the functions of the product that
are entered. Start-up and imports come before. Two sets are counted: the functions that at least half of the
interactions enter, and those that any enters; the second has the maintenance of each second, and what only some
interactions need.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import mode
from types import FrameType
from typing import Any, Final

from .imports import module_name
from .source import PACKAGES

WARM_UP: Final = 60
MEASURED: Final = 20
TIMEOUT_S: Final = 60.0

CONFIG: Final = """
[[alerts]]
name = "adherence-drift"
kind = "drift"
metric = "trace.adherence"
learn_n = 20

[[alerts]]
name = "utilization-floor"
kind = "threshold"
metric = "trace.context_utilization"
target = 0.1
"""


class Recorder:
    """Notes product functions, validations by Pydantic and JSON encodings by Pydantic, while it is on.

    A validation is a call of a `SchemaValidator` whose model is one of the wire, whichever code makes it; an encoding
    is a call of `to_json` of a `SchemaSerializer` of such a model. Both are calls into compiled code.
    """

    def __init__(self, tree: Path) -> None:
        self._roots = tuple(f"{(tree / root / package).resolve()}{os.sep}" for root, package in PACKAGES)
        self.on = False
        self.functions: set[tuple[str, str, int]] = set()
        self.validations: Counter[str] = Counter()
        self.encodings: Counter[str] = Counter()

    def start(self) -> None:
        """Begin another interaction."""
        self.functions, self.validations, self.encodings = set(), Counter(), Counter()
        self.on = True

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Take an event of the interpreter's profiling."""
        if not self.on:
            return
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(self._roots):
                self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        elif event == "c_call":
            owner = type(getattr(arg, "__self__", None)).__name__
            if owner == "SchemaValidator" and arg.__name__.startswith("validate_"):
                self.validations[_title(arg.__self__)] += 1
            elif owner == "SchemaSerializer" and arg.__name__ == "to_json":
                self.encodings[_title(frame.f_locals.get("self"))] += 1


def _title(named: Any) -> str:
    return str(getattr(named, "title", "") or type(named).__name__)


def measure(tree: Path, url: str) -> dict[str, Any]:
    """Publish interactions one by one beside the roles of this process, and return the measures of one."""
    import redis  # noqa: PLC0415 - the profile comes first

    from ragtide import InteractionProducer  # noqa: PLC0415 - as above
    from ragtide_offline.demo import demo_interactions  # noqa: PLC0415 - as above

    client: Any = redis.Redis.from_url(url)
    rows, seen = demo_interactions(), []
    with InteractionProducer(url) as producer:
        for number in range(WARM_UP + MEASURED):
            changes = {"interaction_id": f"house-{number}", "pipeline": "house"}
            interaction = rows[number % len(rows)].model_copy(update=changes)
            if number >= WARM_UP:
                RECORDER.start()
            producer.submit(interaction)
            _wait_for_commit(client, number + 1)
            RECORDER.on = False
            if number >= WARM_UP:
                seen.append((RECORDER.functions, RECORDER.validations, RECORDER.encodings))
    times = Counter(function for functions, _, _ in seen for function in functions)
    usual = {function for function, count in times.items() if 2 * count >= MEASURED}
    wire = {"RagInteraction", "MetricEvent", "Specimen"}
    validations = _usual([counts for _, counts, _ in seen], wire)
    encodings = _usual([counts for _, _, counts in seen], wire)
    return {
        "files": len({file for file, _, _ in usual}),
        "modules": sorted({module_name(tree, Path(file)) for file, _, _ in usual}),
        "functions": len(usual),
        "files of any": len({file for file, _, _ in times}),
        "functions of any": len(times),
        "validations": sum(validations.values()),
        "encodings": sum(encodings.values()),
        "validations by model": validations,
        "encodings by model": encodings,
    }


def _usual(counts: list[Counter[str]], names: set[str]) -> dict[str, int]:
    usual = {name: mode(count[name] for count in counts) for name in sorted(names)}
    return {name: count for name, count in usual.items() if count}


def _wait_for_commit(client: Any, events: int) -> None:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        last = client.xrevrange("ragtide:{0}:metrics", count=1)
        position = client.hget("ragtide:{0}:checkpoint", "position")
        if client.xlen("ragtide:{0}:metrics") >= events and last and position == last[0][0]:
            return
        time.sleep(0.005)
    raise TimeoutError(f"the metric event of interaction {events} was not committed within {TIMEOUT_S:g} s")


RECORDER: Recorder


def main() -> None:
    """Measure the imported product and print JSON."""
    global RECORDER  # noqa: PLW0603 - the profile function of every thread is one
    tree = Path(sys.argv[1])
    RECORDER = Recorder(tree)
    threading.setprofile(RECORDER)
    sys.setprofile(RECORDER)
    from ragtide.cli import run  # noqa: PLC0415 - its threads are profiled
    from ragtide.testing import embedded_redis  # noqa: PLC0415 - as above

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, embedded_redis() as url:
        os.chdir(folder)
        Path("ragtide.toml").write_text(CONFIG, encoding="utf-8")
        os.environ |= {"RAGTIDE_REDIS_URL": url, "RAGTIDE_DATA_DIR": folder}

        def publish() -> None:
            try:
                found.update(measure(tree, url))
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=publish)
        thread.start()
        sys.argv = ["ragtide", "up"]
        out, sys.stdout = sys.stdout, sys.stderr
        try:
            run()
        except SystemExit as ended:
            if not found:
                raise SystemExit(ended.code) from None
        thread.join()
        sys.stdout = out
    print(json.dumps(found))


if __name__ == "__main__":
    main()
