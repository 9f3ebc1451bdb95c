"""Names of the Redis keys, and which partition a pipeline lives in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

DATA_FIELD: Final = b"data"
"""The one field of a stream entry: the JSON of one model."""

TRACEPARENT_FIELD: Final = b"traceparent"
"""A field beside it that an entry may have: the W3C trace context of who added it."""

MOVED_FIELD: Final = b"moved"
"""A field of an entry that is a copy of one in another partition, made when partitions were changed: its token."""

LABEL_GROUP: Final = "label"
"""Consumer group of the label workers."""

KNOWN_SHARDS: Final = 64
"""Parts over which known interaction ids are spread, so that no key of them becomes large."""

KNOWN_BUCKETS: Final = 6
"""Buckets of a shard of known ids, which take turns."""

RECORD_GROUP: Final = "record"
"""Consumer group that stands for the recorder: it keeps what is not recorded yet from being trimmed."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The keys of one partition. All share the hash tag `{partition}`, so on a cluster they share a slot."""

    prefix: str
    partition: int

    def _key(self, name: str) -> str:
        return f"{self.prefix}:{{{self.partition}}}:{name}"

    @property
    def interactions(self) -> str:
        """Stream: producers to label workers."""
        return self._key("interactions")

    @property
    def metrics(self) -> str:
        """Stream: label workers to the aggregator."""
        return self._key("metrics")

    @property
    def feedback(self) -> str:
        """Stream: people and judges to the aggregator."""
        return self._key("feedback")

    @property
    def estimates(self) -> str:
        """Capped stream: the aggregator to dashboards and clients."""
        return self._key("estimates")

    @property
    def alerts(self) -> str:
        """Stream: the aggregator to subscribers."""
        return self._key("alerts")

    @property
    def dead_letters(self) -> str:
        """Stream: whoever gave up on an entry, to people."""
        return self._key("dead-letters")

    @property
    def checkpoint(self) -> str:
        """Hash: the aggregator's state and its position in the metrics stream."""
        return self._key("checkpoint")

    @property
    def dropped(self) -> str:
        """Hash: interactions that were dropped, by why."""
        return self._key("dropped")

    @property
    def lease(self) -> str:
        """String: fencing token of the aggregator that owns the partition."""
        return self._key("lease")

    @property
    def fencing_tokens(self) -> str:
        """Counter: the last fencing token handed out."""
        return self._key("fencing-tokens")

    @property
    def recorder_lease(self) -> str:
        """String: fencing token of the recorder that writes the partition down."""
        return self._key("recorder-lease")

    @property
    def recorder_fencing_tokens(self) -> str:
        """Counter: the last fencing token handed out to a recorder."""
        return self._key("recorder-fencing-tokens")

    @property
    def aggregators(self) -> str:
        """Hash: the aggregators there are, until when each counts, and how many partitions it owns; of partition 0."""
        return self._key("aggregators")

    @property
    def layout(self) -> str:
        """String: partitions and splits of the deployment; of partition 0."""
        return self._key("layout")

    @property
    def relocation(self) -> str:
        """Hash: the layout that the deployment is being changed to, and how far that is; of partition 0."""
        return self._key("relocation")

    @property
    def relocated(self) -> str:
        """Hash: the checkpoint to be, while partitions are being changed."""
        return self._key("checkpoint-relocated")

    @property
    def copies(self) -> str:
        """Hash: between which entries of a stream the copies of a change of partitions lie."""
        return self._key("copies")

    @property
    def runs(self) -> str:
        """Hash: the deployment's runs that have keys of their own, by name; of partition 0."""
        return self._key("runs")

    @property
    def experiment(self) -> str:
        """Stream: the log of an experiment, anybody to everybody: its plan, orders, looks."""
        return self._key("experiment")

    @property
    def executions(self) -> str:
        """Stream: what became of each config's answer to each item."""
        return self._key("executions")

    @property
    def executed(self) -> str:
        """Hash: the executions there are, by config and item."""
        return self._key("executed")

    @property
    def driver(self) -> str:
        """String: the one process that executes an experiment."""
        return self._key("driver")

    @property
    def replay(self) -> str:
        """Hash: how far a replay of interactions into a run is; of partition 0."""
        return self._key("replay")

    def known(self, kind: str) -> str:
        """Return the pattern of all keys of single interactions of a kind: `owner`, `scored` or `graded`."""
        return self._key(f"{kind}:*")

    def known_buckets(self, kind: str) -> str:
        """Return the pattern of all buckets of known ids of a kind: `owners` or `events`."""
        return self._key(f"{kind}:*")

    def owner_keys(self, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        """Where the entry that a pipeline's interaction id belongs to is, for the dedupe window (runtime/known_ids.py).

        First the key of an id that no bucket takes, then the buckets.
        """
        return self._known_keys("owner", "owners", pipeline, interaction_id)

    def event_keys(self, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        """Where the id of an interaction's metric event is, for the feedback window; in the same order."""
        return self._known_keys("scored", "events", pipeline, interaction_id)

    def _known_keys(self, own: str, buckets: str, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        digest = interaction_digest(pipeline, interaction_id)
        shard = int(digest[-2:], 16) % KNOWN_SHARDS
        base = self._key(f"{buckets}:{shard}:")
        return (self._key(f"{own}:{digest}"), *(f"{base}{bucket}" for bucket in range(KNOWN_BUCKETS)))

    def owner(self, pipeline: str, interaction_id: str) -> str:
        """String: the owner of an id that no bucket takes, and of every id that an earlier release wrote."""
        return self._key(f"owner:{interaction_digest(pipeline, interaction_id)}")

    def feedback_mark(self, digest: str) -> str:
        """String: the entry of a submitted feedback, kept for some minutes to see whether Redis lost it."""
        return self._key(f"feedback-mark:{digest}")

    def quarantine(self, entry_id: str) -> str:
        """Counter: how often an entry that was delivered too often was tried alone."""
        return self._key(f"quarantine:{entry_id}")

    def scored(self, pipeline: str, interaction_id: str) -> str:
        """String: the metric event of an interaction that no bucket takes, or that an earlier release wrote."""
        return self._key(f"scored:{interaction_digest(pipeline, interaction_id)}")

    def graded(self, pipeline: str, interaction_id: str) -> str:
        """Set: metrics of an interaction and the feedback entry that graded each, kept for the feedback window."""
        return self._key(f"graded:{interaction_digest(pipeline, interaction_id)}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where interactions live: the partitions of a deployment, and the pipelines that are split over several.

    Attributes:
        prefix: first part of every key.
        partitions: number of partitions.
        splits: for each pipeline that is too much for one partition, over how many it is split.
    """

    prefix: str
    partitions: int = 1
    splits: Mapping[str, int] = field(default_factory=dict)

    def of(self, pipeline: str, interaction_id: str) -> Streams:
        """Return the keys of the partition of an interaction, and of everything about it."""
        partition = partition_of(pipeline, self.partitions)
        parts = self.splits.get(pipeline, 1)
        if parts > 1:
            part = int.from_bytes(blake2b(interaction_id.encode(), digest_size=8).digest(), "big") % parts
            partition = (partition + part) % self.partitions
        return Streams(self.prefix, partition)

    def all_of(self, pipeline: str) -> list[Streams]:
        """Return the keys of every partition that a pipeline may be in."""
        first = partition_of(pipeline, self.partitions)
        parts = min(self.splits.get(pipeline, 1), self.partitions)
        return [Streams(self.prefix, (first + part) % self.partitions) for part in range(parts)]

    def all(self) -> list[Streams]:
        """Return the keys of every partition."""
        return [Streams(self.prefix, partition) for partition in range(self.partitions)]


def interaction_digest(pipeline: str, interaction_id: str) -> str:
    """Return a short name of an interaction: long names are not to cost their length in every key."""
    return blake2b(f"{pipeline}\0{interaction_id}".encode(), digest_size=16).hexdigest()


def known_digest(pipeline: str, interaction_id: str) -> bytes:
    """Return the 10 bytes by which an interaction id is known."""
    return bytes.fromhex(interaction_digest(pipeline, interaction_id))[:10]


def partition_of(pipeline: str, partitions: int) -> int:
    """Return the partition of a pipeline: the same in every process, release and language.

    The first 8 bytes of BLAKE2b of the UTF-8 name, big-endian, modulo the number of partitions.

    >>> partition_of("shop", 1)
    0
    """
    return int.from_bytes(blake2b(pipeline.encode(), digest_size=8).digest(), "big") % partitions
