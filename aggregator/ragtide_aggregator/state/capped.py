"""Counts the interactions in `other` by pipeline, and raises one alert for each pipeline. No clock, no I/O."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, from_milliseconds

from .capping import OTHER, Admission, Admitted, KeyCaps

RULE: Final = "keys-cap"
"""Rule of these alerts."""

SHOWN: Final = 20
"""Most pipelines in the summary: those with the most in `other`."""


@dataclass(slots=True)
class CappedRecord:
    """The counts of one pipeline in `other`."""

    since_ms: int
    """Time of the first interaction."""
    values: Counter[str] = field(default_factory=Counter)
    """By segment the interactions whose value has no keys of its own."""
    runs: int = 0
    pipelines: int = 0
    dropped: int = 0
    """Segment values that are not counted, because the pipeline has no room even for `other`."""

    @property
    def total(self) -> int:
        """Number of scopes that counted in `other`, or nowhere."""
        return self.values.total() + self.runs + self.pipelines + self.dropped

    def add(self, kind: str, name: str, n: int) -> None:
        """Count `n` interactions of a kind (see `Admitted.capped`)."""
        if kind == "segment":
            self.values[name] += n
        elif kind == "run":
            self.runs += n
        elif kind == "pipeline":
            self.pipelines += n
        else:
            self.dropped += n

    def encode(self) -> bytes:
        """Return the record as stored."""
        values = dict(sorted(self.values.items()))
        return json.dumps([self.since_ms, values, self.runs, self.pipelines, self.dropped]).encode()

    @classmethod
    def decode(cls, data: bytes) -> "CappedRecord":
        """Return a stored record."""
        since_ms, values, *rest = json.loads(data)
        return cls(since_ms, Counter(values), *rest)


class CappedRecords:
    """The records of a partition.

    Args:
        caps: caps of the partition.
        admission: the keys of the partition.
        origin: makes alert ids of a split pipeline different in each partition.
        book: of the partition.
    """

    def __init__(self, caps: KeyCaps | None, admission: Admission, origin: str, book: AlertBook) -> None:
        self._caps = caps
        self._admission = admission
        self._origin = origin
        self._book = book
        self._records: dict[str, CappedRecord] = {}
        self._changed: set[str] = set()
        self._keys = -1
        self._news = 0

    def count(self, admitted: Admitted, time_ms: int, n: int = 1) -> None:
        """Count the scopes in `other` of `n` equal events, the first of which has this time."""
        if not admitted.capped or self._caps is None:
            return
        pipeline = admitted.event.pipeline
        record = self._records.setdefault(pipeline, CappedRecord(time_ms))
        for kind, name in admitted.capped:
            record.add(kind, name, n)
            self._news += n
        self._changed.add(pipeline)
        name, first = alert_name(pipeline), admitted.capped[0]
        if name not in self._book:
            record.since_ms = time_ms
        self._book.fire(name, lambda: self._alert(pipeline, record, first))

    def _alert(self, pipeline: str, record: CappedRecord, first: tuple[str, str]) -> Alert:
        kind, name = first
        named = hashlib.sha256(f"{self._origin}{pipeline}".encode()).hexdigest()[:12]
        return Alert(
            alert_id=f"keys-cap-{named}-{record.since_ms}",
            status="firing",
            rule=RULE,
            kind="capped",
            pipeline=pipeline,
            metric="keys.other",
            direction="rise",
            fired_at=from_milliseconds(record.since_ms),
            message=self._message(pipeline, kind, name),
        )

    def _message(self, pipeline: str, kind: str, name: str) -> str:
        caps = self._caps
        assert caps is not None  # noqa: S101 - nothing is capped without caps
        if kind == "pipeline":
            return (
                f"This partition has reached its cap on keys (partition_keys_cap, {caps.partition:,}): new pipelines "
                f"count together as pipeline {pipeline}, without segments. Raise partition_keys_cap, or use more "
                "partitions."
            )
        cap = (
            f"The partition has reached its cap on keys of segments (partition_keys_cap, {caps.partition:,})"
            if self._admission.full()
            else f"Pipeline {pipeline} has reached its cap on keys (keys_cap, {caps.pipeline:,})"
        )
        placed = {
            "segment": f"new values of segment {name} count together as {name}={OTHER}",
            "run": f"new runs count together as run {OTHER}",
            "dropped": "new segments have no estimates",
        }[kind]
        return (
            f"{cap}: {placed}. Estimates of whole pipelines stay complete. Give segments few values, such as a plan or "
            "a language and not an id, or raise the cap."
        )

    def take_changes(self, keys: int) -> dict[str, bytes]:
        """Return fields of the checkpoint since the last call.

        Args:
            keys: number of keys of the state.
        """
        fields = {CheckpointField.CAPPED + pipeline: self._records[pipeline].encode() for pipeline in self._changed}
        if self._caps is not None and (self._changed or keys != self._keys):
            fields[CheckpointField.KEYS_SUMMARY] = self._summary(keys)
        self._changed, self._keys = set(), keys
        return fields

    def take_news(self) -> int:
        """Return the number of scopes that counted in `other` since the last call."""
        news, self._news = self._news, 0
        return news

    def _summary(self, keys: int) -> bytes:
        largest = sorted(self._records.items(), key=lambda item: (-item[1].total, item[0]))[:SHOWN]
        summary = {
            "keys": keys,
            "pipelines": len(self._records),
            "total": sum(record.total for record in self._records.values()),
            "largest": {pipeline: record.total for pipeline, record in largest},
        }
        return json.dumps(summary).encode()

    def load(self, pipeline: str, data: bytes) -> None:
        """Set the record of a pipeline; call this after all keys and alerts are loaded. Its alert may resolve."""
        record = self._records[pipeline] = CappedRecord.decode(data)
        if self._caps is not None and self._admission.room(pipeline):
            self._book.end(
                alert_name(pipeline),
                record.since_ms,
                f"Pipeline {pipeline} has room for new keys again: new segment values get estimates of their own.",
            )


def alert_name(pipeline: str) -> str:
    """Return the name of a pipeline's alert in the book."""
    return f"{RULE}:{pipeline}"


def pipeline_of_alert(name: str) -> str | None:
    """Return the pipeline of such a name; None for the alert of another rule."""
    rule, _, pipeline = name.partition(":")
    return pipeline if rule == RULE else None
