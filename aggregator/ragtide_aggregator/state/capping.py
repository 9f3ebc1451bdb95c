"""Limits the number of keys: new pipelines, runs and segment values beyond a cap share keys named `other`.

No clock, no I/O. Producers choose pipelines, runs and segment values, so their number has no natural bound: an id as a
segment value would create keys without end. The decision about a new value depends only on the existing keys, which
are in the checkpoint, so a restart or a replay decides alike.

A segment value gets keys of its own while its pipeline and its partition have used less than `VALUES_SHARE` of their
caps. The rest of the caps is for whole pipelines, runs, and `other`, so that values of one pipeline never keep another
pipeline out. Versions have at most `VERSIONS_SHARE`, because each deploy is a new one, also where nobody chose the
segment: the others keep the rest. Beyond that, a new value counts as the value `other` of its segment. A new run counts
as the run `other` of its pipeline. A new pipeline counts as the partition's pipeline for further pipelines, without
segments. Models invent names of tools: a pipeline has keys of its first `TOOLS_KEPT` tools, and further ones count as
the tool `other`.

The interactions in `other` are counted by pipeline, and one alert fires for each such pipeline.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Alert, MetricEvent, from_milliseconds
from ragtide_schemas.limits import SEGMENTS_MAX
from ragtide_schemas.step_metrics import ToolMetric

from ..events.keys import VERSION, EstimateKey, scored_metric
from .options import OTHER, KeyCaps
from .rows import StatePart

TOOLS_KEPT: Final = 64
"""Tools of a pipeline with keys of their own."""

VALUES_SHARE: Final = 0.8
"""Share of both caps that segment values may use."""
VERSIONS_SHARE: Final = 0.4
"""Share of both caps that the values of the segment `version` may use."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An event with the pipeline, run and segment values whose keys it changes."""

    event: MetricEvent
    capped: tuple[tuple[str, str], ...] = ()
    """For each shared key its kind (`segment`, `dropped`, `tool`, `run` or `pipeline`), and the name of the segment."""


class Admission:
    """The scopes with keys, and the numbers of keys."""

    def __init__(self, caps: KeyCaps | None) -> None:
        self._caps = caps
        self._scopes: set[tuple[str, str | None, str | None]] = set()
        self._n_of: dict[str, int] = {}
        self._others: dict[str, int] = {}
        self._tools: dict[str, set[str]] = {}
        self._versions: Counter[str] = Counter()
        self.n = 0
        """Number of keys; 0 without caps."""

    def add(self, key: EstimateKey) -> None:
        """Count a new key, if there are caps."""
        if self._caps is None:
            return
        scope = key[:3]
        self.n += 1
        if (tool := ToolMetric.read(scored_metric(key.metric))) is not None:
            self._tools.setdefault(key.pipeline, set()).add(tool.tool)
        self._n_of[key.pipeline] = self._n_of.get(key.pipeline, 0) + 1
        if key.segment is not None and key.segment.startswith(f"{VERSION}="):
            self._versions[key.pipeline] += 1
        if scope not in self._scopes:
            self._scopes.add(scope)
            if key.segment is not None and key.segment.endswith(f"={OTHER}"):
                self._others[key.pipeline] = self._others.get(key.pipeline, 0) + 1

    def room(self, pipeline: str, segment: str) -> bool:
        """Return whether a pipeline may have new values of a segment; the shared one, whether pipelines may be new."""
        caps = self._caps
        if caps is None or pipeline == caps.further:
            return caps is None or self.n < caps.partition
        if segment == VERSION and (
            self._versions[pipeline] >= VERSIONS_SHARE * caps.pipeline
            or self._versions.total() >= VERSIONS_SHARE * caps.partition
        ):
            return False
        return self._n_of.get(pipeline, 0) < VALUES_SHARE * caps.pipeline and self.n < VALUES_SHARE * caps.partition

    def full(self) -> bool:
        """Return whether the partition has no room for new segment values."""
        return self._caps is not None and self.n >= VALUES_SHARE * self._caps.partition

    def admit(self, event: MetricEvent, *, segments: bool) -> Admitted:
        """Return the event with the pipeline, run and segment values as which it counts.

        Args:
            event: any event.
            segments: whether segment values have estimates.
        """
        if self._caps is None:
            return Admitted(event)
        pipeline, run = event.pipeline, event.run
        if (pipeline, run, None) not in self._scopes:
            if not self._n_of.get(pipeline) and self.n >= self._caps.partition:
                place: dict[str, Any] = {"pipeline": self._caps.further, "run": None, "segments": {}}
                return Admitted(event.model_copy(update=place), (("pipeline", ""),))
            if run is not None and self._over(pipeline):
                admitted = self._values(event.model_copy(update={"run": OTHER}), segments=segments)
                return Admitted(admitted.event, (("run", ""), *admitted.capped))
        admitted = self._values(event, segments=segments)
        beyond = self._tools_beyond(event)
        return Admitted(admitted.event, (*beyond, *admitted.capped)) if beyond else admitted

    def pipeline_of(self, event: MetricEvent) -> str:
        """Return the pipeline as which an admitted event counts."""
        return event.pipeline if self._caps is None or event.pipeline in self._n_of else self._caps.further

    def metric_of(self, pipeline: str, metric: str) -> str:
        """Return the metric as which a metric of an event counts: of a tool beyond the cap that of the tool `other`."""
        tool = ToolMetric.read(metric)
        if tool is None or not self._is_beyond(pipeline, tool.tool):
            return metric
        return tool._replace(tool=OTHER).name

    def _is_beyond(self, pipeline: str, tool: str) -> bool:
        known = self._tools.get(pipeline, ())
        return self._caps is not None and len(known) >= TOOLS_KEPT and tool not in known

    def _tools_beyond(self, event: MetricEvent) -> tuple[tuple[str, str], ...]:
        if not event.declared or len(self._tools.get(event.pipeline, ())) < TOOLS_KEPT:
            return ()
        tools = {tool.tool for name in event.declared if (tool := ToolMetric.read(name)) is not None}
        return (("tool", ""),) if any(self._is_beyond(event.pipeline, tool) for tool in tools) else ()

    def _over(self, pipeline: str) -> bool:
        caps = self._caps
        return caps is not None and (self._n_of.get(pipeline, 0) >= caps.pipeline or self.n >= caps.partition)

    def _values(self, event: MetricEvent, *, segments: bool) -> Admitted:
        # An event without scores and absences adds no keys.
        if not segments or not event.segments or not (event.scores or event.absent):
            return Admitted(event)
        pipeline, run = event.pipeline, event.run
        unknown = {
            name: value
            for name, value in sorted(event.segments.items())
            if (pipeline, run, f"{name}={value}") not in self._scopes
        }
        if not unknown:
            return Admitted(event)
        placed = dict(event.segments)
        capped = []
        for name, value in unknown.items():
            if value != OTHER and self.room(pipeline, name):
                continue
            has_other = (pipeline, run, f"{name}={OTHER}") in self._scopes
            if has_other or self._others.get(pipeline, 0) < SEGMENTS_MAX or not self._over(pipeline):
                placed[name] = OTHER
                if value != OTHER:
                    capped.append(("segment", name))
            else:
                del placed[name]
                capped.append(("dropped", ""))
        return Admitted(event.model_copy(update={"segments": placed}), tuple(capped)) if capped else Admitted(event)


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
    tools: int = 0
    """Calls of tools without keys of their own, counted once an interaction."""

    @property
    def total(self) -> int:
        """Number of scopes that counted in `other`, or nowhere."""
        return self.values.total() + self.runs + self.pipelines + self.dropped + self.tools

    def add(self, kind: str, name: str, n: int) -> None:
        """Count `n` interactions of a kind (see `Admitted.capped`)."""
        if kind == "segment":
            self.values[name] += n
        elif kind == "run":
            self.runs += n
        elif kind == "pipeline":
            self.pipelines += n
        elif kind == "tool":
            self.tools += n
        else:
            self.dropped += n

    def encode(self) -> bytes:
        """Return the record as stored."""
        values = dict(sorted(self.values.items()))
        tools = [self.tools] if self.tools else []
        return json.dumps([self.since_ms, values, self.runs, self.pipelines, self.dropped, *tools]).encode()

    @classmethod
    def decode(cls, data: bytes) -> "CappedRecord":
        """Return a stored record."""
        since_ms, values, *rest = json.loads(data)
        return cls(since_ms, Counter(values), *rest)


class CappedRecords(StatePart):
    """The records of a partition, and one alert for each pipeline with such counts.

    Args:
        caps: caps of the partition.
        admission: the keys of the partition.
        origin: makes alert ids of a split pipeline different in each partition.
    """

    kinds = (CheckpointField.CAPPED,)

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
        digest = hashlib.sha256(f"{self._origin}{pipeline}".encode()).hexdigest()[:12]
        return Alert(
            alert_id=f"keys-cap-{digest}-{record.since_ms}",
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
        if kind == "tool":
            return (
                f"Pipeline {pipeline} has called {TOOLS_KEPT} tools of different names: further ones count together as "
                f"tool {OTHER}. Give tools few names: one that a model invents is no tool."
            )
        if kind == "segment" and name == VERSION and self._admission.room(pipeline, ""):
            return (
                f"Pipeline {pipeline} has as many versions as may have keys ({VERSIONS_SHARE:.0%} of keys_cap and "
                f"partition_keys_cap): new ones count together as {VERSION}={OTHER}. Estimates of whole pipelines stay "
                "complete. Send a version that changes with a release only, name its attribute in ingest.version_from, "
                "or raise the caps."
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

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the records that changed since the last call, and their summary."""
        keys = self._admission.n
        fields = {CheckpointField.CAPPED + pipeline: self._records[pipeline].encode() for pipeline in self._changed}
        if self._caps is not None and (self._changed or keys != self._keys):
            largest = sorted(self._records.items(), key=lambda item: (-item[1].total, item[0]))[:SHOWN]
            summary = {
                "keys": keys,
                "pipelines": len(self._records),
                "total": sum(record.total for record in self._records.values()),
                "largest": {pipeline: record.total for pipeline, record in largest},
            }
            fields[CheckpointField.KEYS_SUMMARY] = json.dumps(summary).encode()
        self._changed, self._keys = set(), keys
        return fields, []

    def take_news(self) -> int:
        """Return the number of scopes that counted in `other` since the last call."""
        news, self._news = self._news, 0
        return news

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        # All keys and alerts are loaded before, so the alert resolves if there is room now.
        record = self._records[name] = CappedRecord.decode(data)
        segment = VERSION if VERSION in record.values else ""
        if self._caps is not None and self._admission.room(name, segment) and not record.tools:
            self._book.end(
                alert_name(name),
                record.since_ms,
                f"Pipeline {name} has room for new keys again: new segment values get estimates of their own.",
            )
        return True


def alert_name(pipeline: str) -> str:
    """Return the name of a pipeline's alert in the book."""
    return f"{RULE}:{pipeline}"


def pipeline_of_alert(name: str) -> str | None:
    """Return the pipeline of such a name; None for the alert of another rule."""
    rule, _, pipeline = name.partition(":")
    return pipeline if rule == RULE else None
