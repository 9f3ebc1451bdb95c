"""A deployment under steps that a seed draws, then every number compared with what was published.

    python -m tests.chaos.stateful [--seed N] [--episodes 6] [--steps 18] [--plant xack]

An episode draws steps: publishing (sessions among it), the same again by the producer and by plain XADD, entries that
nobody can use, feedback and contradicting feedback, annotations by two people, a change of the number of partitions,
kills, pauses and cuts, and what an operator may do to the group of the workers. Each step waits for a condition, not
for a time. At the end of an episode everything must be worked off, and the checks are made. The seed repeats the steps,
not how the processes interleave. The exit code is 1 if anything was not as promised.
"""

import argparse
import asyncio
import json
import math
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from redis import RedisError, ResponseError
from tests.chaos.checks import Check
from tests.chaos.deployment import Deployment, RoleName
from tests.chaos.plants import PLANTS
from tests.chaos.redis_server import RedisServer
from tests.support.conditions import wait_until
from tests.support.roles import command, publish_until_confirmed

from ragtide import InteractionProducer, RagInteraction
from ragtide_aggregator.reading.deployment import Deployment as StoredDeployment
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_roles.kept.queue import store
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, MOVED_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule, DeadLetter, Estimate, Feedback, InvalidEntryError, MetricEvent, utc_now

ADHERENCE: Final = "trace.adherence"

RULES: Final = (AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.9, run_length=500),)

PINS: Final = "audit"
"""A group that reads nothing: finished entries stay in the stream, so that a group that is set back meets them."""

SETTLED_S: Final = 300.0
"""Most seconds until everything is worked off."""

STEPS: Final = {
    "publish": 8,
    "publish_again": 3,
    "add_again": 1,
    "add_garbage": 1,
    "kill": 4,
    "stop": 1,
    "pause": 2,
    "kill_redis": 1,
    "cut_connections": 1,
    "give_feedback": 3,
    "annotate": 2,
    "answers_get_worse_or_better": 1,
    "repartition": 1,
    "group_destroyed": 1,
    "group_set_back": 1,
    "group_set_forward": 1,
    "consumer_deleted": 1,
    "acknowledged_by_hand": 1,
}
"""Each step, and how often it is drawn beside the others."""

GROUPS: Final = ("group_destroyed", "group_set_back", "group_set_forward", "consumer_deleted", "acknowledged_by_hand")
"""What an operator does to the group of the workers."""


class Webhook(BaseHTTPRequestHandler):
    """A destination of notifications."""

    received: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass(slots=True)
class Model:
    """What was published, and what must follow from it."""

    published: dict[tuple[str, str], RagInteraction] = field(default_factory=dict)
    gold: dict[tuple[str, str], float] = field(default_factory=dict)
    """The first gold score of each interaction that people graded."""
    garbage: set[bytes] = field(default_factory=set)
    worse: bool = False


class Driver:
    """Carries out steps on a deployment, and checks it."""

    def __init__(self, seed: int, folder: Path, stack: ExitStack, plant: str | None = None) -> None:
        self.chance = random.Random(f"stateful {seed}")
        self.model = Model()
        self.counts: Counter[str] = Counter()
        self.redis = stack.enter_context(RedisServer(folder, appendfsync="always"))
        self.client: Any = self.redis.client
        hooks = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
        stack.callback(hooks.server_close)
        stack.callback(hooks.shutdown)
        Thread(target=hooks.serve_forever, daemon=True).start()
        Webhook.received.clear()
        self._folder, self._plant = folder, plant
        self._notify = {
            "allow_private": True,
            "repeat_s": 0,
            "destinations": [{"name": "hook", "kind": "webhook", "url": f"http://127.0.0.1:{hooks.server_port}/"}],
        }
        self.ended: list[str] = []
        self.partitions = 2
        self.deployment = self._deploy()
        stack.callback(lambda: self.deployment.kill())  # noqa: PLW0108 - of the deployment at that time

    @property
    def url(self) -> str:
        return f"unix://{self.redis.socket}"

    @property
    def streams(self) -> list[Streams]:
        return [Streams("ragtide", partition) for partition in range(self.partitions)]

    def run(self, step: str) -> None:
        """Carry out a step, as often as Redis fails meanwhile."""
        getattr(self, f"_{step}")()
        self.counts[step] += 1
        self.deployment.supervise()

    # Settings and processes.

    def settings(self) -> Settings:
        return Settings(
            redis_url=self.url, partitions=self.partitions, alerts=RULES, windows=("1h",), data_dir=self._folder
        )

    def _environment(self) -> dict[str, str]:
        return {
            "RAGTIDE_REDIS_URL": self.url,
            "RAGTIDE_DATA_DIR": str(self._folder),
            "RAGTIDE_PARTITIONS": str(self.partitions),
            "RAGTIDE_WINDOWS": '["1h"]',
            "RAGTIDE_ALERTS": json.dumps([rule.model_dump(mode="json", exclude_none=True) for rule in RULES]),
            "RAGTIDE_HISTORY": '{"segments": ["lang"]}',
            "RAGTIDE_NOTIFY": json.dumps(self._notify),
            "RAGTIDE_WORKER_MIN_IDLE_S": "2",
            "RAGTIDE_LEASE_S": "2",
            "RAGTIDE_COMMIT_INTERVAL_S": "0.1",
        }

    def _deploy(self) -> Deployment:
        for streams in self.streams:
            try:
                self.client.xgroup_create(streams.interactions, PINS, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
        return Deployment(self._folder, self._environment(), workers=2, aggregators=2, notifiers=1, plant=self._plant)

    def _producing(self) -> InteractionProducer:
        return InteractionProducer(self.url, partitions=self.partitions)

    # Steps: what applications and people do.

    def _item(self, number: int) -> RagInteraction:
        year = 1800 + number % 200
        bad = self.chance.random() < (0.8 if self.model.worse else 0.1)
        return RagInteraction(
            interaction_id=f"i-{number}",
            pipeline=f"p-{number % 3}",
            question=f"When was tower {number} built?",
            documents=[f"Tower {number} was built in {year}.", f"It stands in town {number % 7}."],
            response=f"Bananas fly {number} times." if bad else f"Tower {number} was built in {year}.",
            segments={"lang": ("de", "en")[number % 2]},
            session_id=f"s-{number // 4}" if number % 5 == 0 else None,
        )

    def _some(self, most: int) -> list[RagInteraction]:
        known = list(self.model.published.values())
        return self.chance.sample(known, min(len(known), most))

    def _publish(self) -> None:
        first = len(self.model.published)
        batch = [self._item(first + at) for at in range(self.chance.randint(20, 120))]
        self.model.published |= {(one.pipeline, one.interaction_id): one for one in batch}
        with self._producing() as producer:
            publish_until_confirmed(producer, batch)

    def _publish_again(self) -> None:
        with self._producing() as producer:
            publish_until_confirmed(producer, self._some(60))

    def _add_again(self) -> None:
        for one in self._some(5):
            streams = self.settings().layout.of(one.pipeline, one.interaction_id)
            self.client.xadd(streams.interactions, {DATA_FIELD: one.encode()})

    def _add_garbage(self) -> None:
        for streams in self.streams:
            for name in (streams.interactions, streams.metrics, streams.feedback):
                payload = f"garbage {len(self.model.garbage)}".encode()
                self.model.garbage.add(payload)
                self.client.xadd(name, {DATA_FIELD: payload})

    def _give_feedback(self) -> None:
        some = [one for one in self._some(40) if (one.pipeline, one.interaction_id) not in self.model.gold]
        first = [self._feedback(one, float(self.chance.random() < 0.5)) for one in some]
        self._confirm(first)
        for one in first:
            self.model.gold[one.pipeline, one.interaction_id] = one.gold_scores[ADHERENCE]
        contradicting = [
            one.model_copy(update={"gold_scores": {ADHERENCE: 1 - one.gold_scores[ADHERENCE]}}) for one in first
        ]
        self._confirm(contradicting[: len(first) // 2])

    def _feedback(self, one: RagInteraction, score: float) -> Feedback:
        return Feedback(pipeline=one.pipeline, interaction_id=one.interaction_id, gold_scores={ADHERENCE: score})

    def _confirm(self, feedback: Sequence[Feedback]) -> None:
        def confirmed() -> bool:
            try:
                with self._producing() as producer:
                    producer.publish_feedback(list(feedback))
            except RedisUnavailable:
                return False
            return True

        wait_until(confirmed)

    def _annotate(self) -> None:
        """Let two people annotate the same items, with different answers: those of the first count."""
        for one in self._some(5):
            if (one.pipeline, one.interaction_id) in self.model.gold:
                continue
            score = float(self.chance.random() < 0.5)
            self.model.gold[one.pipeline, one.interaction_id] = score
            for annotator, answer in (("ann", score), ("bob", 1 - score), ("ann", score)):
                asyncio.run(self._store_annotation(one, annotator, answer))

    async def _store_annotation(self, one: RagInteraction, annotator: str, score: float) -> None:
        annotation = Annotation(
            pipeline=one.pipeline,
            interaction_id=one.interaction_id,
            annotator=annotator,
            given_at=utc_now(),
            gold_scores={ADHERENCE: score},
            inclusion_probability=1.0,
        )
        item: Any = SimpleNamespace(specimen=SimpleNamespace(interaction=one))
        async with (
            connect_async(self.url) as redis,
            InteractionProducer(self.url, partitions=self.partitions) as producer,
        ):

            async def publish(feedback: Feedback) -> None:
                await producer.apublish_feedback([feedback])

            await store(StoredAnnotations(redis, "ragtide"), annotation, item, publish)

    def _answers_get_worse_or_better(self) -> None:
        self.model.worse = not self.model.worse

    # Steps: faults.

    def _victim(self, *names: RoleName) -> Any:
        found = [role for name in names or ("worker", "aggregator", "notify") for role in self.deployment.ready(name)]
        return self.chance.choice(found) if found else None

    def _kill(self) -> None:
        if (role := self._victim()) is not None:
            role.kill()
            role.start()

    def _stop(self) -> None:
        if (role := self._victim()) is not None:
            role.signal(signal.SIGTERM)
            if role.process.wait(60) != 0:
                self.ended.append(f"{role.name} ended badly after SIGTERM")
            role.start()

    def _pause(self) -> None:
        """Pause a role until the others have gone on, or for as long as idle time and lease."""
        if (role := self._victim()) is None:
            return
        role.pause()
        before = self.client.info("stats")["total_commands_processed"]
        wait_until(lambda: self.client.info("stats")["total_commands_processed"] > before + 400)
        role.resume()

    def _kill_redis(self) -> None:
        self.redis.kill_and_restart()

    def _cut_connections(self) -> None:
        for client in self.client.client_list():
            if self.chance.random() < 0.5:
                try:
                    self.client.client_kill_filter(_id=client["id"])
                except RedisError:  # its own connection
                    self.client.connection_pool.disconnect()

    def _repartition(self) -> None:
        """Let everything be worked off, stop all roles, change the number of partitions, and start them again."""
        self.settle()
        self.ended += self.deployment.stop() + self.deployment.ended_by_themselves
        new = self.chance.choice([one for one in (1, 2, 3) if one != self.partitions])
        done = command(self.url, "capacity", "repartition", str(new), extra=self._environment())
        assert done.returncode == 0, done.stderr
        self.partitions = new
        self.deployment = self._deploy()

    # Steps: what an operator does to the group of the workers.

    def _on_group(self, act: Callable[[str], object]) -> None:
        for streams in self.streams:
            try:
                act(streams.interactions)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise

    def _group_destroyed(self) -> None:
        self._on_group(lambda stream: self.client.xgroup_destroy(stream, LABEL_GROUP))

    def _group_set_back(self) -> None:
        self._on_group(lambda stream: self.client.xgroup_setid(stream, LABEL_GROUP, "0"))

    def _group_set_forward(self) -> None:
        self._publish()
        self._on_group(lambda stream: self.client.xgroup_setid(stream, LABEL_GROUP, "$"))

    def _consumer_deleted(self) -> None:
        self._publish()

        def act(stream: str) -> None:
            for consumer in self.client.xinfo_consumers(stream, LABEL_GROUP):
                self.client.xgroup_delconsumer(stream, LABEL_GROUP, consumer["name"])

        self._on_group(act)

    def _acknowledged_by_hand(self) -> None:
        self._publish()

        def act(stream: str) -> None:
            for pending in self.client.xpending_range(stream, LABEL_GROUP, "-", "+", 1000):
                self.client.xack(stream, LABEL_GROUP, pending["message_id"])

        self._on_group(act)

    # The end of an episode.

    def settle(self) -> None:
        """Wait until everything is worked off; what is not is told by the checks."""
        try:
            wait_until(self._settled, SETTLED_S)
        except AssertionError:
            self.counts["not settled"] += 1

    def _settled(self) -> bool:
        self.deployment.supervise()
        if any(self._scored().get(name, 0) == 0 for name in self.model.published):
            return False
        return all(self._at_rest(streams) for streams in self.streams)

    def _at_rest(self, streams: Streams) -> bool:
        groups = {group["name"]: group for group in self.client.xinfo_groups(streams.interactions)}
        group = groups.get(LABEL_GROUP.encode())
        last = self.client.xinfo_stream(streams.interactions)["last-generated-id"]
        if group is None or group["pending"]:
            return False
        # A group that was made anew, or set back, has yet to read the entries after its position.
        if self.client.xrange(streams.interactions, f"({group['last-delivered-id'].decode()}", count=1):
            return False
        if self.client.xlen(streams.interactions) != self.client.zcard(streams.finished):
            return False
        for stream, name in ((streams.metrics, "position"), (streams.feedback, "feedback")):
            end = self.client.xinfo_stream(stream)["last-generated-id"] if self.client.exists(stream) else b"0-0"
            if end != (self.client.hget(streams.checkpoint, name) or b"0-0"):
                return False
        return bool(last)

    def _events(self) -> Iterator[tuple[MetricEvent, bool]]:
        """Yield the metric events, and whether a repartition copied each from another partition."""
        for streams in self.streams:
            for _, fields in self.client.xrange(streams.metrics):
                try:
                    yield MetricEvent.decode(fields[DATA_FIELD]), MOVED_FIELD in fields
                except (InvalidEntryError, KeyError):
                    continue

    def _scored(self) -> Counter[tuple[str, str]]:
        """Return how often each interaction was scored; an event and its copies are one."""
        events = {(one.pipeline, one.interaction_id, one.entry_id, one.labeled_at) for one, _ in self._events()}
        return Counter((pipeline, interaction_id) for pipeline, interaction_id, _, _ in events)

    def checks(self) -> list[Check]:
        """Return the checks of an episode, after everything was worked off."""
        self.settle()
        estimates = asyncio.run(self._estimates())
        return [
            Check("everything is worked off", 1, ["it is not"] * self.counts["not settled"]),
            self._scored_once(),
            self._estimates_are_right(estimates),
            self._gold_counts_once(estimates),
            self._dead_letters_once(),
            self._alerts_once(),
            Check("every role ends well", 1, [*self.ended, *self.deployment.ended_by_themselves]),
        ]

    async def _estimates(self) -> list[Estimate]:
        async with connect_async(self.url) as redis:
            return await StoredDeployment(redis, self.settings()).estimates(strategy="asymptotic")

    def _scored_once(self) -> Check:
        scored = self._scored()
        wrong = [f"{name} was scored {scored[name]} times" for name in self.model.published if scored[name] != 1]
        wrong += [f"{name} was never published" for name in scored.keys() - self.model.published.keys()]
        return Check("every interaction is scored exactly once", len(self.model.published), wrong)

    def _estimates_are_right(self, estimates: Sequence[Estimate]) -> Check:
        values: defaultdict[tuple[str, str | None, str], list[float]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        for event, _ in self._events():
            name = event.pipeline, event.interaction_id
            if name in seen:
                continue
            seen.add(name)
            for metric, score in event.scores.items():
                for segment in (None, *(f"{key}={value}" for key, value in event.segments.items())):
                    values[event.pipeline, segment, metric].append(score)
        found = {
            (estimate.pipeline, estimate.segment, estimate.metric): estimate
            for estimate in estimates
            if estimate.window == "all" and estimate.estimator == "mean"
        }
        wrong = []
        for key, scores in values.items():
            n, mean = (found[key].n, found[key].estimate) if key in found else (0, None)
            if n != len(scores) or mean is None or abs(mean - math.fsum(scores) / n) > 1e-9:
                wrong.append(f"{key}: n {n} instead of {len(scores)}, mean {mean}")
        return Check("estimates equal a computation from the metric events", len(values), wrong)

    def _gold_counts_once(self, estimates: Sequence[Estimate]) -> Check:
        errors: defaultdict[str, list[float]] = defaultdict(list)
        scores = {(one.pipeline, one.interaction_id): one.scores for one, _ in self._events()}
        for name, gold in self.model.gold.items():
            if ADHERENCE in scores.get(name, {}):
                errors[name[0]].append((scores[name][ADHERENCE] - gold) ** 2)
        found = {
            estimate.pipeline: estimate
            for estimate in estimates
            if estimate.metric == f"rmse.{ADHERENCE}" and estimate.window == "all" and estimate.segment is None
        }
        wrong = []
        for pipeline, squares in errors.items():
            n, value = (found[pipeline].n, found[pipeline].estimate) if pipeline in found else (0, None)
            if n != len(squares) or value is None or abs(value - math.sqrt(math.fsum(squares) / n)) > 1e-9:
                wrong.append(f"{pipeline}: n {n} instead of {len(squares)}, error {value}")
        return Check("feedback and annotations count once, the first of an item", len(self.model.gold), wrong)

    def _dead_letters_once(self) -> Check:
        letters: list[DeadLetter] = []
        for streams in self.streams:
            letters += [DeadLetter.decode(fields[DATA_FIELD]) for _, fields in self.client.xrange(streams.dead_letters)]
        of_garbage = Counter(dead_letter.payload_bytes() for dead_letter in letters)
        wrong = [f"{one!r} has {of_garbage[one]} dead letters" for one in self.model.garbage if of_garbage[one] != 1]
        entries = Counter(
            (dead_letter.stream.rpartition(":")[2], dead_letter.entry_id)
            for dead_letter in letters
            if dead_letter.reason != "duplicate"
        )
        wrong += [f"{entry} has {count} dead letters" for entry, count in entries.items() if count > 2]
        return Check("every entry that nobody can use is one dead letter", len(letters), wrong)

    def _alerts_once(self) -> Check:
        changes: Counter[tuple[str, str]] = Counter()
        for streams in self.streams:
            for _, fields in self.client.xrange(streams.alerts):
                if MOVED_FIELD not in fields:
                    one = Alert.decode(fields[DATA_FIELD])
                    changes[one.alert_id, one.status] += 1
        wrong = [f"{change} is {count} times on the stream" for change, count in changes.items() if count > 1]
        told: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for message_id, body in Webhook.received:
            told[body["data"]["alert_id"], body["type"]].add(message_id)
        wrong += [f"{change} was sent under {len(ids)} ids" for change, ids in told.items() if len(ids) > 1]
        return Check("every change of an alert is raised once, and sent under one id", len(changes), wrong)


def drawn(chance: random.Random, count: int) -> list[str]:
    """Return so many steps; the first publishes, and the groups are among them if there is room."""
    names = list(STEPS)
    return ["publish", *chance.choices(names, [STEPS[name] for name in names], k=count - 1)]


def episode(driver: Driver, steps: Sequence[str], say: Callable[[str], None]) -> list[Check]:
    """Carry out steps, and return the checks."""
    for step in steps:
        driver.run(step)
    found = driver.checks()
    say(f"{len(driver.model.published):,} published, {dict(driver.counts)}")
    for check in found:
        say(f"{'passed' if check.passed else 'FAILED'}  {check.claim} ({check.looked_at:,}) {check.wrong[:5] or ''}")
    return found


def main() -> int:
    """Run the episodes of the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--episodes", type=int, default=6)
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--plant", choices=sorted(PLANTS))
    options = parser.parse_args()

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    say(f"seed {options.seed}: {options.episodes} episodes of {options.steps} steps")
    folder = Path(tempfile.mkdtemp(prefix="ragtide-stateful-"))
    passed = True
    try:
        with ExitStack() as stack:
            driver = Driver(options.seed, folder, stack, options.plant)
            for number in range(options.episodes):
                say(f"episode {number + 1}")
                passed &= all(check.passed for check in episode(driver, drawn(driver.chance, options.steps), say))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"{'passed' if passed else 'FAILED'}: seed {options.seed}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
