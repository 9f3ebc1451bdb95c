"""Publishes the traffic from a thread, never further ahead of the workers than it is let."""

import random
import threading
from itertools import groupby
from typing import Any

from redis import RedisError
from tests.chaos.traffic import Item, Traffic

from ragtide import InteractionProducer
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import partition_of
from ragtide_runtime.settings.model import Settings

CHUNK = 40
"""Items published at once, at most."""

RETRY_S = 0.05
"""Seconds before a failed item is published again."""


class Publisher:
    """Publishes item after item; it publishes failed items again, as any application would.

    Args:
        settings: with the URL of the proxy.
        traffic: what to publish.
        ahead: entries that may wait for the workers.
    """

    def __init__(self, settings: Settings, traffic: Traffic, *, ahead: int) -> None:
        self._settings = settings
        self.items = traffic.items
        self._ahead = ahead
        self._allowed = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self.published = 0
        self.retries = 0
        self.added = 0
        """Interactions that the producer reports as added."""
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    @property
    def done(self) -> bool:
        """Whether everything has been published."""
        return self.published == len(self.items)

    def start(self) -> None:
        self._thread.start()

    def go_on(self, *, waiting: int, at_most: int) -> None:
        """Publish more, if few entries wait for the workers now, until so many items have been published."""
        with self._changed:
            self._allowed = min(self.published + max(self._ahead - waiting, 0), at_most)
            self._changed.notify_all()

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(30)

    def _run(self) -> None:
        try:
            with InteractionProducer(settings=self._settings) as producer:
                assert self._settings.redis_url is not None
                with connect(self._settings.redis_url) as redis:
                    self._publish_all(producer, redis)
        except BaseException as error:  # noqa: BLE001 - raised where the run looks
            self.error = error

    def _publish_all(self, producer: InteractionProducer, redis: Any) -> None:
        while not self.done:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped.is_set() or self.published < self._allowed)
                end = min(self._allowed, self.published + CHUNK)
            if self._stopped.is_set():
                return
            chunk = self.items[self.published : end]
            for way, group in groupby(chunk, key=lambda item: item.way == "producer"):
                self._until_it_works(producer if way else redis, list(group))
            self.published += len(chunk)

    def _until_it_works(self, client: Any, items: list[Item]) -> None:
        while not self._stopped.is_set():
            try:
                if isinstance(client, InteractionProducer):
                    found = client.publish_many(item.interaction for item in items)
                    self.added += sum(publication.added for publication in found)
                else:
                    self._xadd(client, items)
            except (RedisUnavailable, RedisError):
                self.retries += 1
                self._stopped.wait(RETRY_S * random.uniform(0.5, 1.5))
            else:
                return

    def _xadd(self, redis: Any, items: list[Item]) -> None:
        with redis.pipeline(transaction=False) as pipe:
            for item in items:
                pipeline = item.interaction.pipeline
                streams = Streams(self._settings.prefix, partition_of(pipeline, self._settings.partitions))
                pipe.xadd(streams.metrics if item.way == "metrics" else streams.interactions, item.fields)
            pipe.execute()
