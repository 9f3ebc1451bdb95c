"""Write what this release stores into `tests/data/stored/VERSION`, with the numbers that it reads from it.

    python -m tools.stored_release

Run it once for each release that changes a stored form, and commit the folder: later releases must read the same
numbers from it. A worker, an aggregator and a recorder take 140 short interactions of two pipelines, with sessions,
segments, gold scores, feedback and an invalid entry; half way the answers of one pipeline get worse. An experiment of
two configs is run. `redis.json.gz` holds all keys, `recording` the recorder's files, `ragtide.toml` the settings,
`expected.json` the output of the commands that read them. `more.json` holds metric events that come later, and the
estimates with them.
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from socket import gethostname
from typing import Any, Final

from tests.support.conditions import wait_until
from tests.support.roles import command, running, wait_for_aggregation
from tests.support.stored_release import EXPERIMENT, FOLDER, STREAMS, dumped, readings

from ragtide import InteractionProducer, RagInteraction, __version__
from ragtide.testing import embedded_redis
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas import Feedback, utc_now

N: Final = 140
SETTINGS: Final = """\
windows = ["10m", "1h/10m"]
alert_cap = 1000

[[alerts]]
name = "adherence-drift"
kind = "drift"
metric = "trace.adherence"
learn_n = 40

[[alerts]]
name = "utilization-floor"
kind = "threshold"
metric = "trace.context_utilization"
target = 0.1
severity = "page"

[budget]
false_alarms = 1


[clusters]
quiet_s = 120

[history]
segments = ["lang"]

[recorder]
url = "recording"
roll_s = 0.5

[notify]
allow_private = true

[[notify.destinations]]
name = "team"
kind = "webhook"
url = "http://127.0.0.1:9/alerts"
"""
GRID: Final = f"""\
name = "{EXPERIMENT}"
target = "shop:answer"
data = "questions.jsonl"
metric = "trace.adherence"

[grid]
sentences = [1, 2]

[race]
look_every = 5
"""
TARGET: Final = """\
def answer(question, sentences):
    document = f"The {question.split()[-1][:-1]} was built in 1889. It is made of iron. Visitors may climb it on foot."
    response = " ".join(document.split(". ")[:sentences]) + "." if sentences == 1 else "It opened in 2020, of glass."
    return [document], response
"""
THINGS: Final = ("tower", "bridge", "station", "library", "market")


def interactions() -> Iterator[RagInteraction]:
    """Yield the traffic."""
    begin = utc_now() - timedelta(minutes=N // 2)
    for number in range(N):
        thing = THINGS[number % len(THINGS)]
        worse = number >= N // 2 and number % 4 != 3
        yield RagInteraction(
            interaction_id=f"i-{number:04d}",
            pipeline="chat" if number % 4 == 3 else "shop",
            occurred_at=begin + timedelta(seconds=30 * number),
            question=f"When was the {thing} built?",
            documents=[f"The {thing} of town {number} was built in {1800 + number}. It is made of iron and stone."],
            response="Nobody may sell umbrellas there." if worse else f"The {thing} was built in {1800 + number}.",
            segments={"lang": ("en", "de")[number % 2]},
            session_id=f"s-{number // 12}" if number % 4 == 3 else None,
            gold_scores={"trace.adherence": 1.0} if number % 7 == 0 else {},
            metadata={"position": number},
        )


def publish(redis: Any, url: str) -> None:
    """Publish the traffic, an invalid entry, and feedback; return when all are labeled and aggregated."""
    redis.xadd(STREAMS.interactions, {DATA_FIELD: b'{"pipeline": "shop", "question": 7}'})
    with InteractionProducer(url) as producer:
        producer.publish_many(list(interactions()))
        wait_until(lambda: redis.xlen(STREAMS.metrics) == N)
        for number in range(5, N, 11):
            pipeline = "chat" if number % 4 == 3 else "shop"
            gold = {"trace.adherence": 0.5}
            producer.publish_feedback([Feedback(pipeline=pipeline, interaction_id=f"i-{number:04d}", gold_scores=gold)])
    wait_for_aggregation(redis)
    last = redis.xrevrange(STREAMS.feedback, count=1)[0][0]
    wait_until(lambda: redis.hget(STREAMS.checkpoint, "feedback") == last)
    wait_until(lambda: sum(Recording.open("recording").count(kind) for kind in EntryKind) >= 2 * N)


def later(redis: Any) -> list[str]:
    """Return metric events as they come later: of the pipeline without sessions, under other ids."""
    found = []
    for entry_id, fields in redis.xrange(STREAMS.metrics)[:40]:
        event = json.loads(fields[DATA_FIELD])
        if event["pipeline"] == "shop":
            changed = {"interaction_id": f"later-{entry_id.decode()}", "entry_id": f"9{entry_id.decode()}"}
            found.append(json.dumps({**event, **changed}))
    return found


def main() -> None:
    """Write the folder."""
    place = FOLDER / __version__
    os.environ["RAGTIDE_RECORDER_ROLL_S"] = "0.5"
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        work = Path(name)
        os.chdir(work)
        Path("ragtide.toml").write_text(SETTINGS, encoding="utf-8")
        Path("grid.toml").write_text(GRID, encoding="utf-8")
        Path("shop.py").write_text(TARGET, encoding="utf-8")
        rows = [json.dumps({"question": f"When was the {thing} {n}?"}) for thing in THINGS for n in range(4)]
        Path("questions.jsonl").write_text("\n".join(rows), encoding="utf-8")
        url = stack.enter_context(embedded_redis())
        redis: Any = stack.enter_context(connect(url))
        with ExitStack() as roles:
            for role in ("recorder", "worker", "aggregator"):
                roles.enter_context(running(role, url, work / f"{role}.log"))
            publish(redis, url)
        done = command(url, "experiment", "run", "grid.toml", "--json")
        if done.returncode != 0:
            sys.exit(done.stderr)
        keys = dumped(redis)
        expected = readings(url)
        if not expected["alerts"]:
            sys.exit("no alert fired: make the answers worse, so that an alert is stored")
        events = later(redis)
        for event in events:
            redis.xadd(STREAMS.metrics, {DATA_FIELD: event})
        with running("aggregator", url, work / "later.log"):
            wait_for_aggregation(redis)
        after = readings(url, ["estimates"])["estimates"]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "redis.json.gz").write_bytes(gzip.compress(_json(keys).encode(), mtime=0))
        (place / "expected.json").write_text(_json(expected), encoding="utf-8")
        more = {"events": events, "estimates": [row for row in after if row["pipeline"] == "shop"]}
        (place / "more.json").write_text(_json(more), encoding="utf-8")
        shutil.copy("ragtide.toml", place)
        shutil.copytree("recording", place / "recording")
        for manifest in place.rglob("manifests/*.json"):
            manifest.write_text(_anywhere(manifest.read_text(encoding="utf-8")), encoding="utf-8")
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        sys.stdout.write(f"{path.stat().st_size:>8,} {path.relative_to(FOLDER)}\n")


def _anywhere(text: str) -> str:
    """Return a text without the names of this machine and of the working directory."""
    return text.replace(f"{gethostname()}-", "host-").replace(str(Path.cwd()), "/deployment")


def _json(found: Any) -> str:
    return _anywhere(json.dumps(found, indent=0, sort_keys=True, ensure_ascii=False)) + "\n"


if __name__ == "__main__":
    main()
