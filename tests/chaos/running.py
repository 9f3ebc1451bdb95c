"""A run: a deployment with its traffic and its faults, from the first process to the last, and the result."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.checks import Check, checks
from tests.chaos.deployment import Deployment
from tests.chaos.faults import Ending, Fault, Injector
from tests.chaos.judge import UnevenJudge
from tests.chaos.observer import Observer
from tests.chaos.outcome import Outcome, read_outcome
from tests.chaos.proxy import Proxy
from tests.chaos.publisher import Publisher
from tests.chaos.redis_server import RedisServer
from tests.chaos.traffic import Traffic
from tests.support.conditions import wait_until

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import AlertRule

RULES = (
    AlertRule(name="adherence-drift", kind="drift", metric="trace.adherence", learn_n=60),
    AlertRule(name="adherence-floor", kind="threshold", metric="trace.adherence", target=0.3),
    AlertRule(name="adherence-error", kind="rmse", metric="trace.adherence", target=0.6),
)
"""Rules that fire when the second half of the traffic gets the wrong answers."""

SPECIMENS = SpecimenSettings(sample=0.05, sample_n=100_000, count=100_000)
"""Room for each specimen of the sample of the longest run."""

TICK_S = 0.02
"""Seconds between two looks at how far the run is."""

PATIENCE_S = 120.0
"""Seconds without any progress after which a run ends; its checks then say which results are missing."""

NOTICED_S = 30.0
"""Seconds that an owner has to find out that it lost its lease; it looks three times in the time of a lease."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    interactions: int
    seed: int
    faults: Sequence[Fault] = ()
    plant: str | None = None
    workers: int = 4
    aggregators: int = 2
    partitions: int = 1
    appendfsync: str = "always"

    @property
    def ahead(self) -> int:
        """Entries that may wait for the workers."""
        return min(600, self.interactions // 6)


@dataclass(slots=True)
class Run:
    """How a run went."""

    outcome: Outcome
    duration_s: float
    wrong_ends: list[str]
    stuck: list[str]
    stale: int
    """How many owners were paused beyond their lease."""
    not_refused: list[str]
    """Those of them that never found out."""
    faults: Counter[str] = field(default_factory=Counter)
    logged: Counter[str] = field(default_factory=Counter)
    ended_while_starting: list[str] = field(default_factory=list)
    publish_retries: int = 0
    connections: int = 0
    """Connections that were made to Redis."""
    differing: list[str] = field(default_factory=list)
    """Differences that a look beside the run found at the end."""

    def checks(self, traffic: Traffic, quiet: Outcome | None) -> list[Check]:
        """Return the checks of the run."""
        return [
            Check("everything published is worked off", 1, self.stuck),
            *checks(traffic, self.outcome, quiet),
            Check("every owner paused beyond its lease is refused afterwards", self.stale, self.not_refused),
            Check("no role that has started ends by itself, and each ends well when it is stopped", 1, self.wrong_ends),
        ]

    def counts(self) -> dict[str, Any]:
        """Return numbers that describe the run."""
        return {
            "entries": len(self.outcome.entries),
            "metric events": len(self.outcome.events),
            "dead letters": dict(Counter(str(letter.reason) for _, letter in self.outcome.dead_letters)),
            "deliveries of dead letters, most": max(
                (letter.deliveries for _, letter in self.outcome.dead_letters), default=0
            ),
            "alerts": dict(Counter(f"{alert.rule} {alert.pipeline} {alert.status}" for alert in self.outcome.alerts)),
            "estimates": len(self.outcome.estimates),
            "faults": dict(self.faults),
            "roles said": dict(self.logged),
            "ended while starting": self.ended_while_starting,
            "publishing tried again": self.publish_retries,
            "connections made": self.connections,
            "scored by a clock that had jumped": self.outcome.jumped,
            "seconds": round(self.duration_s, 1),
        }


Beside = Callable[[str, str], AbstractContextManager[Callable[[], list[str]]]]
"""Is given the URL of Redis with its faults, and the URL past them. Its context lasts as long as the run, and yields a
function that tells at the end, when all is at rest, the differences to what should be."""


def run(options: Options, things: Traffic, folder: Path, say: Say, beside: Beside | None = None) -> Run:
    """Run a deployment over the traffic, with the faults; everything it started has ended when this returns."""
    folder.mkdir(parents=True)
    started = time.monotonic()
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(folder, appendfsync=options.appendfsync))
        proxy = stack.enter_context(Proxy(redis.socket))
        judge = stack.enter_context(UnevenJudge(random.Random(options.seed)))
        settings = Settings(
            redis_url=proxy.url,
            partitions=options.partitions,
            alerts=RULES,
            windows=("1h",),
            data_dir=folder,
            specimens=SPECIMENS,
        )
        deployment = Deployment(
            folder,
            _environment(settings, judge),
            workers=options.workers,
            aggregators=options.aggregators,
            plant=options.plant,
        )
        stack.callback(deployment.kill)
        publisher = Publisher(settings, things, ahead=options.ahead)
        stack.callback(publisher.stop)
        observer = Observer(redis.client, settings)
        for streams in settings.layout.all():
            # A group that never reads pins the streams: finished entries stay for the checks at the end.
            redis.client.xgroup_create(streams.interactions, "audit", id="0", mkstream=True)
        direct = f"unix://{redis.socket}"
        differences = None if beside is None else stack.enter_context(beside(proxy.url, direct))
        faults: Counter[str] = Counter()
        injector = Injector(deployment, observer, redis, proxy, judge)
        publisher.start()
        stuck = _until_done(
            options, injector, publisher, faults, lambda text: say(f"{time.monotonic() - started:8.1f} s  {text}")
        )
        not_refused = _not_refused(injector, options)
        wrong_ends = deployment.stop() if not stuck else []
        differing = [] if differences is None else differences()
        outcome = read_outcome(redis.client, settings, direct)
        return Run(
            outcome=outcome,
            duration_s=time.monotonic() - started,
            wrong_ends=deployment.ended_by_themselves + wrong_ends,
            stuck=stuck,
            stale=len(injector.stale),
            not_refused=not_refused,
            faults=faults,
            logged=deployment.logged(),
            ended_while_starting=deployment.ended_while_starting,
            publish_retries=publisher.retries,
            connections=proxy.connections,
            differing=differing,
        )


def _not_refused(injector: Injector, options: Options) -> list[str]:
    """Return the owners that were paused beyond their lease and did not find out, once they had the time to."""
    with suppress(AssertionError):
        # The last one may have gone on just now. With a planted bug there may be nothing to wait for.
        wait_until(lambda: all(stale.noticed for stale in injector.stale), NOTICED_S if options.plant is None else 1.0)
    return [stale.role.name for stale in injector.stale if not stale.noticed]


def _environment(settings: Settings, judge: UnevenJudge) -> dict[str, str]:
    return {
        "RAGTIDE_REDIS_URL": str(settings.redis_url),
        "RAGTIDE_DATA_DIR": str(settings.data_dir),
        "RAGTIDE_PARTITIONS": str(settings.partitions),
        "RAGTIDE_WINDOWS": json.dumps(settings.windows),
        "RAGTIDE_ALERTS": json.dumps([rule.model_dump(mode="json", exclude_none=True) for rule in settings.alerts]),
        "RAGTIDE_SPECIMENS": settings.specimens.model_dump_json(),
        "RAGTIDE_WORKER_MIN_IDLE_S": "1",
        "RAGTIDE_LEASE_S": "1",
        # Whether metrics become absent for long enough depends on the speed of the machine.
        "RAGTIDE_STALL_ABSENT_SHARE": "0.999",
        "RAGTIDE_COMMIT_INTERVAL_S": "0.1",
        "RAGTIDE_LABELER": "judge",
        "RAGTIDE_JUDGE_MODEL": "m",
        "RAGTIDE_JUDGE_BASE_URL": judge.url,
        "RAGTIDE_JUDGE_API_KEY": "none",
        "RAGTIDE_JUDGE_TIMEOUT_S": "2",
        "RAGTIDE_JUDGE_BREAKER_PAUSE_S": "0.2",
    }


def _until_done(
    options: Options, injector: Injector, publisher: Publisher, faults: Counter[str], say: Say
) -> list[str]:
    """Inject the faults as they are due until all work is done; without progress, return the work that is left."""
    due = list(options.faults)
    endings: list[tuple[float, Fault, Ending]] = []
    observer = injector.observer
    progress, moved_at = (-1, -1), time.monotonic()
    while True:
        if publisher.error is not None:
            raise publisher.error
        injector.deployment.supervise()
        now = time.monotonic()
        for ending in [one for one in endings if one[0] <= now]:
            ending[2]()
            endings.remove(ending)
        scored, waiting = observer.scored(), observer.waiting()
        # Not far beyond the next fault, so that it hits work; duplicates and poison are published, and not scored. One
        # that is due and finds nothing to hit needs more work, as long as there is any.
        is_due = bool(due) and scored >= due[0].after
        items_per_score = len(publisher.items) / options.interactions
        gated = bool(due) and not is_due
        at_most = int(due[0].after * items_per_score) + options.ahead if gated else len(publisher.items)
        publisher.go_on(waiting=waiting, at_most=at_most)
        injector.idle = publisher.done and not waiting
        if is_due and (done := injector.inject(due[0])) is not None:
            fault = due.pop(0)
            faults[fault.kind] += 1
            say(f"after {scored:6,} scored  {fault.kind:16} {done[0]}")
            if done[1] is not None:
                endings.append((time.monotonic() + fault.seconds, fault, done[1]))
        behind = observer.behind()
        if publisher.done and not due and not endings and not waiting and not behind:
            return []
        if (scored, waiting) != progress:
            progress, moved_at = (scored, waiting), now
        elif now - moved_at > PATIENCE_S:
            return [
                f"{waiting} entries wait, held {observer.pending()}, owners {observer.owners()}",
                f"{publisher.published} of {len(publisher.items)} items are published",
                f"faults to come: {[fault.kind for fault in due]}, to end: {[fault.kind for _, fault, _ in endings]}",
                *[
                    f"{role.name} ({role.pid}) {'is ready' if role.ready else 'is not'}"
                    for role in injector.deployment.roles
                ],
                *behind,
            ]
        time.sleep(TICK_S)
