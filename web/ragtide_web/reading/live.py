"""Sends open pages what changed: one reader of the deployment for all viewers, and only differences on the wire."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import structlog
from redis.asyncio import Redis

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings

from ..guard.problems import REDIS_ERRORS, took_too_long

SOURCES: Final = ("estimates", "alerts", "dead_letters", "experiments", "orders", "replays", "system", "minute")
"""Sources of changes that a page may follow."""
PAUSE_S: Final = 0.25
"""Least seconds between two updates of a page."""
HEARTBEAT_S: Final = 15.0
"""Seconds after which an idle connection gets a comment, so that proxies keep it open."""
CHECK_S = 10.0
"""Seconds after which a connection is checked again: its login may have ended."""
LOADING_S: Final = 15.0
"""Longest time from the rendering of a page to its connection."""
SOONEST_S: Final = 0.875 * PAUSE_S
"""Seconds after the begin of an update after which a change is sent at once. A little less than the time between two
commits, so that a look that came late is made up for."""
LOOK_S: Final = 0.02
"""Seconds between two looks when the next commit is expected: a commit is on the screen so soon after it."""
IDLE_LOOK_S: Final = PAUSE_S / 4
"""Seconds between two looks while nothing changes."""
DRAWN_S: Final = 2.0
"""Seconds after which numbers are drawn again though no source changed: a pipeline falls silent by time alone."""
SYSTEM_S: Final = 5.0
"""Seconds after which a page about the system is new again: most of its numbers have no place where a change shows."""

MINUTE_S: Final = 60.0
"""Seconds after which a page with charts over time is new again."""

Patches = Mapping[str, Sequence[object]]
Draw = Callable[[], Awaitable[tuple[object, Patches]]]
"""Returns the shape of a screen and its numbers by the key of their place."""

Status = Literal["ok", "away", "slow", "unreadable"]
"""Whether numbers are of now; or why not: Redis does not answer, reading takes too long although it answers, or a
checkpoint cannot be read."""

log = structlog.get_logger("ragtide.web")


@dataclass(eq=False)
class PatchSet:
    """Numbers that changed. All pages that get the same ones share them, and the event is written once."""

    patches: Patches

    @cached_property
    def event(self) -> bytes:
        """The event for a page."""
        return _event("patch", self.patches)

    def followed_by(self, later: "PatchSet") -> "PatchSet":
        """Return these numbers with later ones, which replace them."""
        return PatchSet({**self.patches, **later.patches})


@dataclass(eq=False, slots=True)
class Subscriber:
    """An open page. News wait here until its connection takes them, merged, so a slow viewer skips old numbers."""

    follows: frozenset[str]
    topic: str | None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    patches: PatchSet | None = None
    changed: set[str] = field(default_factory=set)
    status: Status | None = None
    """None if the page knows it already."""
    closed: bool = False

    def notify(
        self, *, patches: PatchSet | None = None, changed: set[str] | None = None, status: Status | None = None
    ) -> None:
        """Add news."""
        if patches is not None and patches.patches:
            self.patches = patches if self.patches is None else self.patches.followed_by(patches)
        if changed:
            self.changed |= changed
        self.status = status or self.status
        if self.patches or self.changed or self.status:
            self.news.set()


def look_pause_s(since_s: float) -> float:
    """Return the seconds until the next look for changes.

    Args:
        since_s: seconds since the begin of the last update, at least 0.
    """
    if since_s > 2 * PAUSE_S:
        return IDLE_LOOK_S
    # Until then a change would only wait; a commit follows the one before after about `PAUSE_S`.
    return max(SOONEST_S - since_s, LOOK_S)


class LiveHub:
    """Looks at the deployment several times a second while pages are open, and sends each page its news."""

    def __init__(self, deployment: Deployment, redis: Redis, settings: Settings) -> None:
        self._deployment = deployment
        self._redis = redis
        self._partitions = settings.layout.all()
        self._orders = Streams(settings.prefix, 0).orders
        self._subscribers: set[Subscriber] = set()
        self._topics: dict[str, Draw] = {}
        self._drawn: dict[str, tuple[object, PatchSet]] = {}
        self._seen: dict[str, object] = {}
        self._wake = asyncio.Event()
        self._failed: set[str] = set()
        self._changed_at: dict[str, float] = {}
        self._status: Status = "ok"
        self._unsent: set[str] = set()
        self._sent_at = -DRAWN_S
        self._replays = 0

    def replays_changed(self) -> None:
        """Notify pages that a replay of a rule began or ended, which no stream shows."""
        self._replays += 1

    @contextmanager
    def subscribed(
        self, follows: Sequence[str], topic: str | None = None, draw: Draw | None = None
    ) -> Iterator[Subscriber]:
        """Return a context with a subscriber that gets news until the context ends.

        Args:
            follows: sources of `SOURCES`.
            topic: name of numbers that several pages share; None without them.
            draw: coroutine function that returns the shape and the patches of the topic.
        """
        page = Subscriber(frozenset(follows) & frozenset(SOURCES), topic)
        if topic is not None and draw is not None:
            self._topics[topic] = draw
            known = self._drawn.get(topic)
            # A new page gets everything once: the page may be older than the newest numbers.
            page.notify(patches=None if known is None else known[1])
        # The page was rendered before it connected: it fetches again if a source changed about that time.
        now = asyncio.get_running_loop().time()
        page.notify(changed={name for name in page.follows if now - self._changed_at.get(name, -LOADING_S) < LOADING_S})
        self._subscribers.add(page)
        self._wake.set()
        if self._status != "ok":
            page.notify(status=self._status)
        try:
            yield page
        finally:
            self._subscribers.discard(page)
            if topic is not None and all(other.topic != topic for other in self._subscribers):
                self._topics.pop(topic, None)
                self._drawn.pop(topic, None)

    def close(self) -> None:
        """End all connections: the service stops."""
        for subscriber in self._subscribers:
            subscriber.closed = True
            subscriber.news.set()

    async def run(self) -> None:
        """Look for changes until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._subscribers:
                self._wake.clear()
                await self._wake.wait()
            began = loop.time()
            try:
                await self._look({"system": int(began / SYSTEM_S), "minute": int(began / MINUTE_S)})
                self._say("ok")
            except CheckpointError:
                self._say("unreadable")
            except REDIS_ERRORS as error:
                self._say("slow" if await took_too_long(error, self._redis) else "away")
            except Exception:  # a defect of one screen must not end the updates of the others
                log.exception("an update of the page failed")
            await asyncio.sleep(look_pause_s(loop.time() - self._sent_at))

    def _say(self, status: Status) -> None:
        if status != self._status:
            self._status = status
            for subscriber in self._subscribers:
                # After an outage every page is fetched again.
                subscriber.notify(status=status, changed=set(subscriber.follows) if status == "ok" else set())

    async def _look(self, clock: Mapping[str, int]) -> None:
        revisions = {**await self._revisions(), **clock}
        changed = {name for name, revision in revisions.items() if self._seen.get(name, revision) != revision}
        fresh = not self._seen
        self._seen = revisions
        if fresh:
            # Nothing shows whether a source changed before this first look and after the page was rendered.
            changed = set(revisions)
        now = asyncio.get_running_loop().time()
        self._changed_at |= dict.fromkeys(changed, now)
        self._unsent |= changed
        since = now - self._sent_at
        if since < SOONEST_S:
            return
        if self._unsent or self._topics.keys() - self._drawn.keys() or since >= DRAWN_S:
            self._sent_at, unsent, self._unsent = now, self._unsent, set()
            await self._draw()
            for subscriber in self._subscribers:
                subscriber.notify(changed=unsent & subscriber.follows)

    async def _draw(self) -> None:
        for topic, draw in list(self._topics.items()):
            try:
                shape, patches = await draw()
            except (*REDIS_ERRORS, CheckpointError):
                raise
            except Exception:  # a defect of one screen must not end the updates of the others
                if topic not in self._failed:
                    log.exception("an update of the page failed")
                self._failed.add(topic)
                continue
            self._failed.discard(topic)
            known = self._drawn.get(topic)
            self._drawn[topic] = shape, PatchSet(patches)
            reshaped = known is not None and known[0] != shape
            before = {} if known is None else known[1].patches
            new = PatchSet({key: patch for key, patch in patches.items() if before.get(key) != patch})
            for subscriber in self._subscribers:
                if subscriber.topic == topic:
                    subscriber.notify(patches=new, changed={"shape"} if reshaped else None)

    async def _revisions(self) -> dict[str, object]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in self._partitions:
                pipe.hmget(streams.checkpoint, CheckpointField.STEPS)
                pipe.xrevrange(streams.alerts, count=1)
                pipe.xrevrange(streams.dead_letters, count=1)
                pipe.xlen(streams.dead_letters)
            pipe.xrevrange(self._orders, count=1)
            replies = await pipe.execute()
        count = len(self._partitions)
        steps, alerts, letters, letter_counts = (replies[place::4][:count] for place in range(4))
        return {
            "estimates": [reply[0] for reply in steps],
            "alerts": _ids(alerts),
            "dead_letters": (_ids(letters), letter_counts),
            "orders": _ids(replies[-1:]),
            "replays": self._replays,
            "experiments": int(asyncio.get_running_loop().time()),
        }


def _ids(replies: Sequence[Any]) -> list[Any]:
    return [reply[0][0] if reply else None for reply in replies]


async def events(page: Subscriber, may_still: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes]:
    """Yield the server-sent events of a page until its connection, its login or the service ends.

    Args:
        page: the subscriber of an open page.
        may_still: returns whether the user may still see the same; asked every few seconds.
    """
    yield b"retry: 1000\n\n"
    loop = asyncio.get_running_loop()
    checked = loop.time()
    while not page.closed:
        if loop.time() - checked >= CHECK_S:
            if not await may_still():
                return
            checked = loop.time()
        try:
            async with asyncio.timeout(min(HEARTBEAT_S, CHECK_S)):
                await page.news.wait()
        except TimeoutError:
            yield b": still here\n\n"
            continue
        page.news.clear()
        patches, changed, status = page.patches, page.changed, page.status
        page.patches, page.changed, page.status = None, set(), None
        if status:
            yield _event("status", status)
        if patches is not None:
            yield patches.event
        if changed:
            yield _event("changed", sorted(changed))


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()
