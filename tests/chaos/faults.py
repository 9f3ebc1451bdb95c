"""Faults, drawn from a seed. Each is due when a number of interactions has been scored, so that it hits work."""

import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.deployment import Deployment, Role
from tests.chaos.judge import OUTAGES, UnevenJudge
from tests.chaos.observer import Observer
from tests.chaos.proxy import Proxy
from tests.chaos.redis_server import RedisServer

KINDS: Final = {
    "kill_worker": 5,
    "kill_owner": 3,
    "kill_redis": 2,
    "pause_worker": 4,
    "pause_owner": 4,
    "cut_connections": 3,
    "stall_network": 2,
    "judge_outage": 3,
    "clock_jump": 3,
}
"""Each kind of fault, and how often it is drawn beside the others."""

LONGER_THAN_IDLE_S: Final = (1.6, 3.0)
"""Seconds a pause or a stall lasts: beyond the idle time and the lease of a run, both a second."""

FIRST, LAST = 0.03, 0.92
"""Shares of the interactions before and after which nothing happens."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the plan."""

    kind: str
    after: int
    """It is due when so many interactions have been scored."""
    seconds: float
    """How long it lasts, if it lasts."""
    choice: float
    """In [0, 1): which of those that could be hit is hit, or how."""


def plan(seed: int, count: int, interactions: int, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Fault]:
    """Return so many faults, in the order in which they are due; each kind at least once if there are enough."""
    chance = random.Random(f"faults {seed}")
    weights = [KINDS[kind] for kind in kinds]
    drawn = [*kinds[:count], *chance.choices(kinds, weights, k=max(count - len(kinds), 0))]
    chance.shuffle(drawn)
    due = sorted(chance.uniform(FIRST, LAST) for _ in drawn)
    return [
        Fault(kind, int(share * interactions), chance.uniform(*LONGER_THAN_IDLE_S), chance.random())
        for kind, share in zip(drawn, due, strict=True)
    ]


Ending = Callable[[], None]

NOTICED = (b"partition lost", b"taken back", b"Redis failed", b"Redis answers again", b"using ")
"""Log events of an owner that finds its lease lost or run out, or its connection cut, and of its replacement."""


@dataclass(frozen=True, slots=True)
class Stale:
    """An owner that was paused beyond its lease and was resumed."""

    role: Role
    log_size: int
    """Of its log when it went on."""

    @property
    def noticed(self) -> bool:
        """Whether it has noticed that it does not own the partition any more."""
        said = self.role.log.read_bytes()[self.log_size :]
        return any(words in said for words in NOTICED)


@dataclass(slots=True)
class Injector:
    """Carries faults out."""

    deployment: Deployment
    observer: Observer
    redis: RedisServer
    proxy: Proxy
    judge: UnevenJudge
    idle: bool = False
    """Whether all work is done, so that no worker will have entries."""
    stale: list[Stale] = field(default_factory=list)
    """Every owner that was paused and resumed."""

    def inject(self, fault: Fault) -> tuple[str, Ending | None] | None:
        """Carry out a fault. Return a description of it, and a function that ends it if it lasts.

        Returns None while there is no victim, such as no owner: the caller tries again.
        """
        found: tuple[str, Ending | None] | None = getattr(self, f"_{fault.kind}")(fault)
        return found

    def _kill_worker(self, fault: Fault) -> tuple[str, Ending | None] | None:
        victim = self._worker(fault)
        if victim is None:
            return None
        role, pending = victim
        text = f"{role.name}, with {pending} entries"
        role.kill()
        role.start()
        return text, None

    def _kill_owner(self, fault: Fault) -> tuple[str, Ending | None] | None:
        role = self._owner(fault)
        if role is None:
            return None
        role.kill()
        role.start()
        return role.name, None

    def _kill_redis(self, fault: Fault) -> tuple[str, Ending | None]:
        self.redis.kill_and_restart()
        return f"back with {self.observer.scored():,} scored", None

    def _pause_worker(self, fault: Fault) -> tuple[str, Ending | None] | None:
        victim = self._worker(fault)
        if victim is None:
            return None
        role, pending = victim
        role.pause()
        return f"{role.name}, with {pending} entries, for {fault.seconds:.1f} s", role.resume

    def _pause_owner(self, fault: Fault) -> tuple[str, Ending | None] | None:
        role = self._owner(fault)
        if role is None:
            return None
        role.pause()
        if role.pid not in self.observer.owners():
            role.resume()  # it gave its partition up in the moment before: another owner is to be hit
            return None

        def resume() -> None:
            self.stale.append(Stale(role, role.log.stat().st_size))
            role.resume()

        return f"{role.name} for {fault.seconds:.1f} s", resume

    def _cut_connections(self, fault: Fault) -> tuple[str, Ending | None]:
        return f"{self.proxy.cut()} connections", None

    def _stall_network(self, fault: Fault) -> tuple[str, Ending | None]:
        self.proxy.stall()
        return f"for {fault.seconds:.1f} s", self.proxy.flow

    def _judge_outage(self, fault: Fault) -> tuple[str, Ending | None]:
        name = list(OUTAGES)[int(fault.choice * len(OUTAGES))]
        self.judge.always = OUTAGES[name]

        def end() -> None:
            self.judge.always = None

        return f"{name} for {fault.seconds:.1f} s", end

    def _clock_jump(self, fault: Fault) -> tuple[str, Ending | None] | None:
        worker, owner = self._worker(fault), self._owner(fault)
        if worker is None or owner is None:
            return None
        forward = int(fault.choice * 1000) % 2 == 0
        for role in (worker[0], owner):
            role.signal(signal.SIGUSR1 if forward else signal.SIGUSR2)
        return f"{worker[0].name} and {owner.name} an hour {'forward' if forward else 'back'}", None

    def _worker(self, fault: Fault) -> tuple[Role, int] | None:
        """Return a worker with many entries, and how many; any worker if no entries are left."""
        pending = self.observer.pending()
        found = [(role, pending.get(role.pid, 0)) for role in self.deployment.ready("worker")]
        most = max((count for _, count in found), default=0)
        busy = [one for one in found if one[1] > most / 2 or self.idle]
        return busy[int(fault.choice * len(busy))] if busy else None

    def _owner(self, fault: Fault) -> Role | None:
        """Return an aggregator that owns a partition."""
        owners = list(self._ready_owners())
        return owners[int(fault.choice * len(owners))] if owners else None

    def _ready_owners(self) -> Iterator[Role]:
        for pid in sorted(set(self.observer.owners())):
            role = self.deployment.by_pid(pid)
            if role is not None and role.ready:
                yield role
