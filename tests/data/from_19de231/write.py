"""Writes the fixtures of this folder with the code of commit 19de231; README.md beside this file says how to run it."""

import base64
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from redis import Redis

from ragtide import Feedback, InteractionProducer, RagInteraction

HERE = Path(__file__).parent
JUDGE = HERE.parents[1] / "support" / "remembering_judge.py"
START = datetime(2026, 11, 2, 6, tzinfo=UTC)
SPLITS = {"search": 2}
PIPELINES = {"shop": 150, "search": 40, "help/desk Ä": 20}
"""Interactions of each pipeline."""
SUBJECTS = ("tower", "bridge", "station", "library", "harbour", "museum")
MATERIALS = ("iron", "granite", "oak", "glass", "brick")
LEFT_OUT = ("lease", "recorder-lease", "aggregators", "estimates", "owner", "scored", "graded", "executed")
"""Keys that are not stored, by the third part of their name: they expire, or nothing reads them again."""
COMMANDS = {
    "estimates": ("estimates", "--strategy", "running", "--estimator", "all"),
    "estimates_1h": ("estimates", "--strategy", "running", "--window", "1h"),
    "estimates_3h": ("estimates", "--strategy", "running", "--window", "3h/1h"),
    "labeling": ("estimates", "--strategy", "running", "--labeling"),
    "alerts": ("alerts",),
    "compare": ("compare", "shop", "search"),
    "runs": ("runs",),
    "experiment": ("experiment", "show", "race"),
    "experiment_estimates": ("estimates", "--run", "race", "--strategy", "running"),
}
"""The commands by which 19de231 reads its checkpoints, by the name of the output."""


def interaction(pipeline: str, number: int, count: int) -> RagInteraction:
    """Return an interaction; after half of them the responses of the shop have nothing to do with its documents."""
    random = Random(f"{pipeline}-{number}")
    subject, material = random.choice(SUBJECTS), random.choice(MATERIALS)
    year = 1800 + random.randrange(120)
    response = f"The {subject} was built of {material} in {year}."
    if random.random() < (0.9 if pipeline == "shop" and number > count / 2 else 0.15):
        response = "Nobody remembers such details, but flying squirrels sleep through winter mornings."
    gold = {"trace.context_relevance": random.random(), "trace.adherence": float(random.random() < 0.8)}
    return RagInteraction.from_fields(
        {
            "interaction_id": f"{pipeline}-{number}",
            "pipeline": pipeline,
            "occurred_at": START + timedelta(minutes=2 * number, milliseconds=random.randrange(1000)),
            "question": f"When was the {subject} built, and what is it made of?",
            "documents": [
                f"The {subject} was built of {material} in {year}. It stands near the river.",
                f"A {random.choice(SUBJECTS)} is often visited in summer. Tickets are sold at the gate.",
            ],
            "response": response,
            "segments": {"tier": random.choice(("free", "paid")), "lang": "en"},
            "gold_scores": gold if number % 5 == 0 else {},
        }
    )


def feedback() -> list[Feedback]:
    """Return gold scores that come later, the last for an interaction that never comes."""
    return [
        Feedback(pipeline="shop", interaction_id=f"shop-{number}", gold_scores={"trace.context_relevance": 0.5})
        for number in (*range(1, 40, 3), 9999)
    ]


def command(*arguments: str) -> str:
    """Return what a command of ragtide prints."""
    done = subprocess.run(
        [sys.executable, "-m", "ragtide", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        sys.exit(f"ragtide {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def json_of(*arguments: str) -> Any:
    """Return what a command prints as JSON, which may be an object a line."""
    text = command(*arguments, "--json")
    return [json.loads(line) for line in text.splitlines()] if arguments == ("alerts",) else json.loads(text)


@contextmanager
def roles(log: Path) -> Iterator[None]:
    """Run all roles for the body of a `with`."""
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "ragtide", "up"], stdout=file, stderr=file)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        if process.wait(60):
            sys.exit(log.read_text())
    finally:
        process.kill()


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("the roles are not done after 120 s")
        time.sleep(0.05)


def last_id(redis: Any, stream: str) -> bytes | None:
    """Return the id of the last entry of a stream; None if there is none."""
    found = redis.xrevrange(stream, count=1)
    return found[0][0] if found else None


def done(redis: Any) -> bool:
    """Return whether everything is labeled and aggregated."""
    if sum(redis.xlen(f"ragtide:{{{part}}}:metrics") for part in range(2)) < sum(PIPELINES.values()):
        return False
    return all(
        redis.hget(f"ragtide:{{{part}}}:checkpoint", field) == last_id(redis, f"ragtide:{{{part}}}:{stream}")
        for part in range(2)
        for stream, field in (("metrics", "position"), ("feedback", "feedback"))
        if last_id(redis, f"ragtide:{{{part}}}:{stream}")
    )


def publish(redis: Any, url: str) -> None:
    """Publish everything in two halves, with feedback between them and after them, and wait until it is aggregated."""
    everything = sorted(
        (interaction(pipeline, number, count) for pipeline, count in PIPELINES.items() for number in range(count)),
        key=lambda one: one.occurred_at,
    )
    with InteractionProducer(url, partitions=2, splits=SPLITS) as producer:
        producer.publish_many(everything[:100])
        producer.publish_feedback(feedback())
        producer.publish_many(everything[100:])
        wait_until(lambda: done(redis))


def stored(redis: Any, key: bytes) -> dict[str, Any]:
    """Return a key as JSON: a hash by its fields, anything else as Redis's DUMP returns it."""
    if redis.type(key) == b"hash":
        fields = {name.decode(): value.decode("latin-1") for name, value in sorted(redis.hgetall(key).items())}
        return {"key": key.decode(), "hash": fields}
    return {"key": key.decode(), "dump": base64.b64encode(redis.dump(key)).decode()}


def dump(redis: Any, target: Path) -> None:
    """Write the keys of the deployment and of the experiment, a line of JSON each."""
    # The whole streams are in the recording. Here the ends are enough for roles to go on after them.
    for key in redis.scan_iter(match="ragtide:{*}:*"):
        if key.rsplit(b":", 1)[-1] in (b"interactions", b"metrics", b"feedback"):
            redis.xtrim(key, maxlen=3, approximate=False)
    keys = sorted(
        key for key in redis.scan_iter(match="*:{*}:*") if key.decode().partition("}:")[2].split(":")[0] not in LEFT_OUT
    )
    lines = [json.dumps(stored(redis, key)) + "\n" for key in keys]
    target.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


@contextmanager
def judge_process() -> Iterator[str]:
    """Yield the URL of a judge: a process with the code of today, because 19de231 has no `ragtide.testing`."""
    today = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(JUDGE), "--latency", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=today) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Write the fixtures; the only argument is the URL of an empty Redis 6.2."""
    (url,) = sys.argv[1:]
    redis: Any = Redis.from_url(url)
    recording, scratch = HERE / "recording", Path(tempfile.mkdtemp())
    shutil.rmtree(recording, ignore_errors=True)
    with judge_process() as judge_url:
        os.environ |= {
            "RAGTIDE_REDIS_URL": url,
            "RAGTIDE_CONFIG": str(HERE / "ragtide.toml"),
            "RAGTIDE_DATA_DIR": str(scratch),
            "RAGTIDE_COMMIT_INTERVAL_S": "0.05",
            "RAGTIDE_JUDGE_BASE_URL": judge_url,
            "RAGTIDE_JUDGE_API_KEY": "none",
        }
        os.environ |= {"RAGTIDE_RECORDER_URL": str(recording), "RAGTIDE_RECORDER_ROLL_S": "2"}
        with roles(scratch / "up.log"):
            publish(redis, url)
        del os.environ["RAGTIDE_RECORDER_URL"]
        questions = [{"question": f"When was building number {n} built? {n} tower-{n}"} for n in range(40)]
        for name in ("experiment.toml", "target.py"):
            shutil.copy(HERE / "experiment" / name, scratch)
        (scratch / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
        command("experiment", "run", str(scratch / "experiment.toml"), "--json")
    printed = {name: json_of(*arguments) for name, arguments in COMMANDS.items()}
    dump(redis, HERE / "redis.jsonl.gz")
    printed["replay"] = json_of("replay", str(recording), "--run", "again")
    text = json.dumps(printed, ensure_ascii=False, indent=0)
    (HERE / "printed.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
