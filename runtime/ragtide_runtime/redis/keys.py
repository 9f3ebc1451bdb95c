"""Names in Redis: every key, every field of a hash or stream entry, and every consumer group.

No other file has such a name, in Python or in Lua. A name never changes, because stored data depend on it.
docs/reference/redis-keys.md lists all keys.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, unique
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

Place = Literal["every partition", "partition 0", "no partition"]
"""Where a key exists. A key of no partition has no hash tag: a cluster spreads such keys over its nodes."""


class KeyShape(NamedTuple):
    """One line of the list of keys."""

    shape: str
    kind: str
    place: Place
    content: str


class _Named:
    """A key, or a family of keys, with its line in the list."""

    def __init__(self, name: str, kind: str, content: str, *, place: Place = "every partition") -> None:
        self.name = name
        self.kind = kind
        self.content = content
        self.place = place

    def key(self, streams: "Streams") -> str:
        """Return the key, or the beginning of the keys of a family."""
        tag = "" if self.place == "no partition" else f"{{{streams.partition}}}:"
        return f"{streams.prefix}:{tag}{self.name}"


class _Key(_Named):
    """A single key."""

    def __get__(self, streams: "Streams", owner: type) -> str:
        return f"{streams.prefix}:{{{streams.partition}}}:{self.name}"


class _Family(_Named):
    """Keys that share a beginning; called with the rest of one key, or with `*` for the pattern of all."""

    def __get__(self, streams: "Streams", owner: type) -> Callable[[str], str]:
        base = self.key(streams)
        return lambda rest: f"{base}:{rest}"


class _LabelerFamily(_Named):
    """A family of keys for each labeler; called with the labeler's name and the rest of one key."""

    def key(self, streams: "Streams", labeler: str = "LABELER") -> str:
        """Return the beginning of the keys of a labeler."""
        tag = "" if self.place == "no partition" else f"{{{streams.partition}}}:"
        return f"{streams.prefix}:{tag}{labeler}-{self.name}"

    def __get__(self, streams: "Streams", owner: type) -> Callable[[str, str], str]:
        return lambda labeler, rest: f"{self.key(streams, labeler)}:{rest}"


@dataclass(frozen=True, slots=True)
class Streams:
    """The keys of one partition, most of them streams. All have the hash tag `{partition}`, so they share a slot."""

    prefix: str
    partition: int

    interactions = _Key("interactions", "stream", "interactions, from producers to label workers")
    metrics = _Key("metrics", "stream", "metric events, from label workers to the aggregator")
    feedback = _Key("feedback", "stream", "gold scores, from people and judges to the aggregator")
    estimates = _Key("estimates", "stream", "estimates that changed, from the aggregator to dashboards; capped")
    alerts = _Key("alerts", "stream", "changes of alerts, from the aggregator to subscribers")
    dead_letters = _Key("dead-letters", "stream", "entries that could not be used, each with the reason")
    dropped = _Key("dropped", "hash", "numbers of dropped entries, by reason")
    finished = _Key("finished", "sorted set", "finished entries that are still in the stream of interactions, by time")
    rejected = _Key("rejected", "sorted set", "entries of the latest dead letters about interactions, by time")
    deliveries = _Key("deliveries", "hash", "what other clients did to the stream of interactions and its groups")

    checkpoint = _Key("checkpoint", "hash", "state of the aggregator and its positions in the streams")
    lease = _Key("lease", "string", "fencing token of the aggregator that owns the partition")
    fencing_tokens = _Key("fencing-tokens", "counter", "last fencing token of an aggregator")
    recorder_lease = _Key("recorder-lease", "string", "fencing token of the recorder that records the partition")
    recorder_fencing_tokens = _Key("recorder-fencing-tokens", "counter", "last fencing token of a recorder")
    notifier_lease = _Key(
        "notifier-lease", "string", "fencing token of the process that sends the partition's notifications"
    )
    notifier_fencing_tokens = _Key("notifier-fencing-tokens", "counter", "last fencing token of such a process")
    sentinels_lease = _Key("sentinels-lease", "string", "fencing token of the worker that asks the sentinels")
    sentinels_fencing_tokens = _Key("sentinels-fencing-tokens", "counter", "last fencing token of such a worker")
    sentinels = _Key("sentinels", "hash", "earlier answers to each sentinel, and the number of answers so far")
    suspected = _Key("suspected", "hash", "pipelines whose rules have evidence of a change, with the time since when")
    outbox = _Key("outbox", "hash", "alerts that were sent to destinations, or are still to be sent")
    silences = _Key("silences", "hash", "silences of alerts, by id", place="partition 0")
    acknowledged = _Key("acknowledged", "hash", "acknowledged alerts, by id", place="partition 0")
    criteria = _Key("criteria", "hash", "criteria that operators wrote, by name", place="partition 0")
    slopes = _Key(
        "slopes", "hash", "slopes of labelers that were measured here, by labeler and version", place="partition 0"
    )
    annotations = _Key(
        "annotations", "sorted set", "annotated items, by when their annotations expire", place="partition 0"
    )
    annotation = _Family(
        "annotation",
        "hash",
        "answers about one item, or opinions about it, by person; they expire",
        place="partition 0",
    )
    aggregators = _Key(
        "aggregators", "hash", "aggregators that run, with their number of partitions", place="partition 0"
    )

    settings_reports = _Key(
        "settings-reports",
        "hash",
        "which settings each process has in force, and which wait for a restart; digests, no value",
        place="partition 0",
    )

    owner = _Family("owner", "string", "entry of one interaction id that no bucket takes, by digest")
    owners = _Family("owners", "hash", "bucket of interaction ids with their entries, by shard and bucket")
    scored = _Family("scored", "string", "metric event of one interaction that no bucket takes, by digest")
    events = _Family("events", "hash", "bucket of interactions with their metric events, by shard and bucket")
    graded = _Family("graded", "set", "metrics of one interaction that feedback has graded, by digest")
    feedback_probe = _Family("feedback-probe", "string", "entry of one submitted feedback item, for ten minutes")
    quarantine = _Family("quarantine", "counter", "exclusive tries of one entry that was delivered too often")

    trace = _Family("trace", "hash", "spans of one trace that may still be read, by trace id")
    open_traces = _Key("open-traces", "sorted set", "traces that wait to be read, by the time at which they are due")
    read_traces = _Key("read-traces", "sorted set", "traces that were read, by the time at which they are over")
    kept_traces = _Key(
        "kept-traces", "sorted set", "traces that are over and can still be explained, by the time since which they are"
    )
    trace_outcomes = _Family(
        "trace-outcomes", "hash", "numbers of traces by service and outcome, by the hour since 1970; it expires"
    )
    traces_bytes = _Key("traces-bytes", "counter", "bytes of the stored spans")

    session = _Family("session", "hash", "turns of one session that has not ended, by its digest; it expires")
    open_sessions = _Key(
        "open-sessions", "sorted set", "sessions that have not ended, by the time of the entry of their last turn"
    )
    session_sizes = _Key("session-sizes", "hash", "bytes of the turns of each session that has not ended, and of all")

    specimen = _Family("specimen", "string", "one specimen, by the digest of its interaction")
    specimen_order = _Family(
        "specimen-order", "sorted set", "specimens of one pipeline, by the time at which each expires"
    )
    specimen_sizes = _Family("specimen-sizes", "hash", "bytes and number of lists of each specimen of one pipeline")
    specimen_lists = _Family("specimen-lists", "set", "names of the lists of specimens of one pipeline")
    specimen_list = _Family("specimen-list", "sorted set", "one list of specimens of one pipeline")
    specimen_pipelines = _Key(
        "specimen-pipelines", "sorted set", "pipelines with specimens, by the time at which the last one expires"
    )
    specimen_usage = _Key("specimen-usage", "hash", "bytes of the specimens of each pipeline, and of all")
    specimen_pins = _Key("specimen-pins", "hash", "pipeline and specimens that a firing alert names, by alert")
    specimen_pinned = _Key("specimen-pinned", "hash", "number of firing alerts that name a specimen, by specimen")

    field_names = _Key("field-names", "string", "names of those fields of the checkpoint that readers list, one a line")

    history = _Family(
        "history", "list", "closed panes of the history of one key, by the key's digest and the panes' length"
    )

    layout = _Key("layout", "string", "number of partitions, and pipelines that are split", place="partition 0")
    repartition = _Key("repartition", "hash", "layout that a running repartition changes to", place="partition 0")
    next_checkpoint = _Key("next-checkpoint", "hash", "checkpoint that a running repartition has prepared")
    next_history = _Family("next-history", "list", "copy of a list of the history that a repartition has prepared")
    copies = _Key("copies", "hash", "ranges of entries that a repartition has copied from other partitions")

    workspaces = _Key("workspaces", "hash", "workspaces of replays and experiments, by name", place="partition 0")
    replay = _Key("replay", "hash", "progress of a replay of interactions", place="partition 0")
    experiment = _Key("experiment", "stream", "log of an experiment: plan, commands, decisions", place="partition 0")
    executions = _Key(
        "executions", "stream", "results of an experiment's calls, by config and item", place="partition 0"
    )
    executed = _Key(
        "executed", "hash", "calls of an experiment that have a result, with the entry", place="partition 0"
    )
    driver = _Key("driver", "string", "lease of the process that executes an experiment", place="partition 0")
    driver_fencing_tokens = _Key(
        "driver-fencing-tokens", "counter", "last fencing token of such a process", place="partition 0"
    )

    labeler_spend = _LabelerFamily(
        "spend",
        "string",
        "dollars spent on a labeler such as `judge`, by hour and day; the limit that is reached, and its alert",
        place="partition 0",
    )
    labeler_reserved = _LabelerFamily(
        "reserved",
        "hash",
        "dollars that calls in flight of a labeler such as `judge` have reserved, by day",
        place="partition 0",
    )
    labeler_calls = _LabelerFamily(
        "calls", "hash", "calls, dollars and seconds of a labeler such as `judge`, by hour and day", place="partition 0"
    )
    endpoint_states = _Key("endpoint-states", "set", "processes that ask a judge or a service", place="partition 0")
    endpoint_state = _Family(
        "endpoint-states", "string", "state of a judge or a service in one process", place="partition 0"
    )
    orders = _Key("orders", "stream", "orders that users of the page gave: name, time, reason", place="partition 0")
    web_session = _Family(
        "web-session", "string", "login of a browser, by a digest of its cookie; it expires", place="partition 0"
    )
    labeler_cache = _LabelerFamily(
        "cache", "string", "answer to a labeler such as `judge`, by a digest of the question", place="no partition"
    )

    def owner_keys(self, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        """Return the keys that may hold the entry of an interaction id: its own key first, then six buckets."""
        return self._known_keys("owner", "owners", pipeline, interaction_id)

    def event_keys(self, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        """Return the keys that may hold the metric event of an interaction: its own key first, then six buckets."""
        return self._known_keys("scored", "events", pipeline, interaction_id)

    @property
    def known_id_families(self) -> tuple[str, ...]:
        """The beginnings of `owner_keys` (own keys, buckets) and of `event_keys`, for scripts about many ids."""
        base = f"{self.prefix}:{{{self.partition}}}:"
        return (f"{base}owner", f"{base}owners", f"{base}scored", f"{base}events")

    def specimen_keys(self, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        """Return the keys that the scripts about a specimen need, in their order; `specimens.lua` names them."""
        place = pipeline_digest(pipeline)
        return (
            self.specimen(interaction_digest(pipeline, interaction_id)),
            self.specimen_order(place),
            self.specimen_sizes(place),
            self.specimen_lists(place),
            self.specimen_pipelines,
            self.specimen_usage,
            self.specimen_pinned,
        )

    def specimens_of(self, pipeline: str, name: str) -> str:
        """Return the key of a list of specimens of a pipeline."""
        return self.specimen_list(f"{pipeline_digest(pipeline)}:{name}")

    def _known_keys(self, own: str, buckets: str, pipeline: str, interaction_id: str) -> tuple[str, ...]:
        digest = interaction_digest(pipeline, interaction_id)
        shard = int(digest[-2:], 16) % KNOWN_SHARDS
        base = f"{self.prefix}:{{{self.partition}}}:"
        return (f"{base}{own}:{digest}", *(f"{base}{buckets}:{shard}:{bucket}" for bucket in range(KNOWN_BUCKETS)))


def key_shapes() -> Iterator[KeyShape]:
    """Yield every key that ragtide uses, with `{p}` for the partition and `*` for the rest of a family's keys."""
    for named in vars(Streams).values():
        if isinstance(named, _Named):
            shape = named.key(Streams("ragtide", 0))
            shape = shape.replace("{0}", "{p}") if named.place == "every partition" else shape
            yield KeyShape(
                shape + ":*" * isinstance(named, _Family | _LabelerFamily), named.kind, named.place, named.content
            )


def keys_table() -> str:
    """Return the table of keys in docs/reference/redis-keys.md."""
    lines = ["| key | type | holds |", "|---|---|---|"]
    lines += [f"| `{key.shape}` | {key.kind} | {key.content} |" for key in key_shapes()]
    return "\n".join(lines) + "\n"


KNOWN_SHARDS: Final = 64
"""Shards over which known interaction ids are spread, so that no key of them becomes large."""

KNOWN_BUCKETS: Final = 6
"""Buckets of a shard of known ids, which are written in turn."""

SPECIMEN_TOTAL: Final = ""
"""Field of the hashes of specimens that holds a sum; no pipeline and no digest is empty."""

SESSIONS_TOTAL: Final = ""
"""Field of the hash `session-sizes` that holds the sum."""

SPECIMEN_SAMPLE: Final = "sample"
"""Name of the list of specimens that is a uniform sample."""

SPECIMEN_NEWEST: Final = "newest"
"""Name of the list of the newest specimens; of much traffic a few a second."""

SPECIMEN_JUDGED: Final = "judged"
"""Name of the list of specimens that chance drew for the second labeler of a cascade, at each moment with one
probability."""

DATA_FIELD: Final = b"data"
"""The field of a stream entry that holds the JSON of one model."""

TRACEPARENT_FIELD: Final = b"traceparent"
"""An optional field of a stream entry: the W3C trace context of the process that added it."""

MOVED_FIELD: Final = b"moved"
"""An optional field of a stream entry: the token of the repartition that copied the entry here."""

LABEL_GROUP: Final = "label"
"""Consumer group of the label workers."""

RESCUER: Final = "rescued"
"""Consumer of the group `label` that holds unfinished entries which had left the group, until a worker takes them."""

AWAITING: Final = "awaiting:"
"""Beginning of the consumers of the group `label` that hold interactions whose labeler is unavailable. No worker has
such a name, because no host has."""

AWAITING_TURN: Final = f"{AWAITING}turn"
"""Beginning of those that hold interactions which may be turns of a session: they keep sessions open, the others do
not. The name of the labeler or evaluator follows, such as `awaiting:turn:judge`. It follows `awaiting:turn$:` if the
labeler has reached its spend limit."""


def awaiting_consumer(labeler: str, *, is_turn: bool, is_over_budget: bool = False) -> str:
    """Return the consumer that holds interactions which wait for a labeler or an evaluator.

    Args:
        labeler: that is waited for.
        is_turn: whether they may be turns of a session.
        is_over_budget: whether the labeler has reached its spend limit.
    """
    beginning = AWAITING_TURN if is_turn else f"{AWAITING}answer"
    return f"{beginning}{'$' if is_over_budget else ''}:{labeler}"


def awaited_labeler(consumer: str) -> str | None:
    """Return the labeler or evaluator that the interactions of a consumer wait for; None for a worker.

    >>> awaited_labeler(awaiting_consumer("judge", is_turn=True)), awaited_labeler("host-17-a1b2c3")
    ('judge', None)
    """
    return consumer.split(":", 2)[2] if consumer.startswith(AWAITING) else None


RECORD_GROUP: Final = "record"
"""Consumer group that pins entries until a recorder has recorded them."""

NOTIFY_GROUP: Final = "notify"
"""Consumer group of the alerts stream whose entries become notifications."""

REPLAY_GROUP: Final = "replay"
"""Consumer group that pins the metric events of a replay until its progress counts them."""

EXPERIMENT_GROUP: Final = "experiment"
"""Consumer group that pins the answers and metric events of an experiment for its whole life."""


@unique
class CheckpointField(StrEnum):
    """Fields of the hash `checkpoint`. A name that ends with `:` begins the names of many fields."""

    POSITION = "position"
    FEEDBACK_POSITION = "feedback"
    STEPS = "steps"
    VERSION = "version"
    STREAM_ROLLBACK = "stream_rollback"
    ALERT_CLOCK = "clock"
    LEVEL_BUDGET = "level_budget"
    KEYS_SUMMARY = "keys"
    ESTIMATE = "estimate:"
    QUANTILES = "quantiles:"
    PANE = "pane:"
    PROCESSED = "processed:"
    PAIR = "pair:"
    EXACT = "exact:"
    EXACT_PAIR = "exact_pair:"
    DEPENDENCE = "dependence:"
    SEASON = "season:"
    CLUSTERS = "clusters:"
    CLUSTER_SCOPE = "cluster_scope:"
    OPEN_CLUSTER = "open_cluster:"
    RULE_STATE = "rule_state:"
    LEVEL = "level:"
    RELEASE = "release:"
    DECLARED = "declared:"
    HISTORY = "history:"
    HISTORY_SERIES = "series:"
    CAPPED = "capped:"
    PENDING_FEEDBACK = "pending:"
    SEEN_IDS = "seen_ids:"
    FIRING_ALERT = "alert:"
    PIPELINE_HEALTH = "health:"
    HEALTH_DROPPED = "health:dropped"
    HEALTH_EVICTED = "health:evicted"
    HEALTH_ABSENT = "health:absent:"
    HEALTH_TRAFFIC = "health:traffic:"
    ESTIMATES_OWED = "owed"
    CHANGED = "changed:"
    NAMES = "names"
    REPLAY_COUNTS = "replay"
    REPLAY_SCORED = "scored:"
    REPLAY_GRADED = "graded:"


@unique
class ReplayField(StrEnum):
    """Fields of the hash `replay`."""

    POSITION = "position"
    PUBLISHED = "published"
    DUPLICATES = "duplicates"
    PROGRESS = "progress"


@unique
class DeliveriesField(StrEnum):
    """Fields of the hash `deliveries`. Times are milliseconds of Redis's clock."""

    AGAIN = "again"
    """Finished entries that were delivered again."""
    SET_BACK = "set_back"
    """Times that the group of the workers stood before a finished entry."""
    RESCUED = "rescued"
    """Unfinished entries that had left the group, and were delivered again."""
    DELETED = "deleted"
    """Entries that other clients deleted from the stream; known since Redis 7.0."""
    REPLACED = "replaced"
    """Times that the stream was deleted, or replaced by an older copy."""
    AT = "at"
    """Time of the last change of any of these numbers."""
    DOUBTFUL = "doubtful"
    """Entries up to this one may be finished although they are not in the set of finished entries."""
    LAST = "last"
    """The last id of the stream."""
    GONE = "gone"
    """Entries of the stream that are known to be gone."""
    WAITING = "waiting"
    """Interactions that waited."""
    SCANNED = "scanned"
    """Entry up to which unfinished entries were searched."""
    OLDEST = "oldest"
    """The oldest interaction that waited."""
    OLDEST_SINCE = "oldest_since"
    """Time at which this interaction was first found to be the oldest."""


@unique
class OutboxField(StrEnum):
    """Fields of the hash `outbox`, besides those of groups and destinations."""

    REVISION = "revision"
    POSITION = "position"
    """The last alert that was taken from the stream."""


@unique
class CriteriaField(StrEnum):
    """Fields of the hash `criteria`, besides those of criteria; the name of a criterion has no colon."""

    REVISION = "revision:"
    """A new token of each change, so that a process that polls reads the rest only after a change."""


@unique
class SentinelField(StrEnum):
    """Fields of the hash `sentinels`. A name that ends with `:` begins the names of many fields."""

    NUMBER = "number"
    """Number of answers so far."""
    ASKED = "asked"
    """Milliseconds since 1970 of the last one."""
    BASELINE = "baseline"
    """Number of times that the earlier answers were forgotten by a person."""
    EVENT = "event"
    """Entry of the last metric event of a sentinel or a session."""
    TRAFFIC = "traffic"
    """Last metric event before it that is of traffic."""
    ITEM = "item:"
    """By digest of a sentinel: its earlier answers, and which judge and baseline they belong to."""


@unique
class SessionField(StrEnum):
    """Fields of the hash `session`; a turn has its number, from 0."""

    TURNS = "turns"
    """Number of turns so far, those included that were dropped."""
    FIRST = "first"
    """Number of the first turn that is kept."""


@unique
class TraceField(StrEnum):
    """Fields of the hash `trace`. A span has 8 bytes as its field, and a resource 9 bytes that begin with `r`."""

    VERSION = "v"
    BYTES = "b"
    SPANS = "n"
    PIPELINES = "p"
    DECISION = "d"
    OUTBOX = "o"
    USED_SPANS = "c"
    CONTENTS = "i"
    READS = "k"
    OUTCOME = "y"
    """What the trace gave so far, and its service; empty once it is counted."""


@unique
class OutcomeField(StrEnum):
    """Fields of the hash `trace-outcomes`. Each but `letters` begins the names of many fields: `OUTCOME:SERVICE`."""

    TRACES = "traces:"
    """Number of traces."""
    NEWEST = "newest:"
    """The newest of these traces."""
    REFUSED = "refused:"
    """Number of interactions that could not be used."""
    LETTERS = "letters"
    """Number of these interactions that became dead letters."""


@unique
class RepartitionField(StrEnum):
    """Fields of the hash `repartition`."""

    LAYOUT = "layout"
    TOKEN = "token"  # noqa: S105 - the name of a field
    PREPARED = "prepared"


@unique
class CallField(StrEnum):
    """Fields of the hash `calls` of a labeler. A name that ends with `:` begins the names of many fields."""

    OUTCOME = "calls:"
    LATENCY = "latency:"
    CACHE_HITS = "cache_hits"
    SAVED_USD = "saved_usd"
    PURPOSE_USD = "usd:"
    MODEL_USD = "model_usd:"
    PIPELINE_USD = "pipeline_usd:"
    PIPELINES = "pipelines"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"
    BATCH = "batch:"


def copies_field(stream: str, token: str, end: Literal["after", "until"]) -> str:
    """Return the field of the hash `copies` that holds where a repartition's copies in a stream begin or end."""
    return f"{stream}:{token}:{end}"


def worst_list(metric: str, labeler: str) -> str:
    """Return the name of the list of the worst specimens of a metric by one labeler."""
    return f"worst:{metric}:{labeler}"


def parts_of_worst(name: str) -> tuple[str, str] | None:
    """Return metric and labeler of a list of the worst; None for another list.

    >>> parts_of_worst("worst:trace.adherence:local"), parts_of_worst("sample")
    (('trace.adherence', 'local'), None)
    """
    kind, _, rest = name.partition(":")
    metric, _, labeler = rest.partition(":")
    return (metric, labeler) if kind == "worst" else None


def beyond_list(rule: str) -> str:
    """Return the name of the list of the latest specimens beyond the line of a rule."""
    return f"beyond:{rule}"


def rule_of_beyond(name: str) -> str | None:
    """Return the rule of a list of specimens beyond its line; None for another list.

    >>> rule_of_beyond("beyond:grounded"), rule_of_beyond("sample")
    ('grounded', None)
    """
    kind, separator, rule = name.partition(":")
    return rule if separator and kind == "beyond" else None


def executed_field(config: str, item: int) -> str:
    """Return the field of the hash `executed` that holds the answer of a config to an item."""
    return f"{item}:{config}"


_INFIX: Final = ".run."


def workspace_prefix(prefix: str, workspace: str) -> str:
    """Return the first part of the keys of a workspace of a deployment.

    >>> workspace_prefix("ragtide", "may")
    'ragtide.run.may'
    """
    return f"{deployment_prefix(prefix)}{_INFIX}{workspace}"


def workspace_of(prefix: str) -> str | None:
    """Return the name of the workspace with this prefix; None if it is the prefix of a deployment.

    >>> workspace_of("ragtide.run.may"), workspace_of("ragtide")
    ('may', None)
    """
    return prefix.partition(_INFIX)[2] or None


def deployment_prefix(prefix: str) -> str:
    """Return the first part of a deployment's keys, given its own prefix or the prefix of one of its workspaces.

    >>> deployment_prefix("ragtide.run.may"), deployment_prefix("ragtide")
    ('ragtide', 'ragtide')
    """
    return prefix.partition(_INFIX)[0]


def identity_digest(pipeline: str, interaction_id: str) -> bytes:
    """Return 16 bytes that identify an interaction."""
    return blake2b(f"{pipeline}\0{interaction_id}".encode(), digest_size=16).digest()


def interaction_digest(pipeline: str, interaction_id: str) -> str:
    """Return 32 characters that identify an interaction, so that a long id does not lengthen every key."""
    return identity_digest(pipeline, interaction_id).hex()


def pipeline_digest(pipeline: str) -> str:
    """Return 32 characters that identify a pipeline."""
    return blake2b(pipeline.encode(), digest_size=16).hexdigest()


def session_digest(pipeline: str, session_id: str) -> str:
    """Return 32 characters that identify a session of a pipeline."""
    return blake2b(f"{pipeline}\0{session_id}".encode(), digest_size=16).hexdigest()


def known_digest(pipeline: str, interaction_id: str) -> bytes:
    """Return the 10 bytes by which an interaction id is known."""
    return identity_digest(pipeline, interaction_id)[:10]


if __name__ == "__main__":
    print(keys_table(), end="")  # noqa: T201 - for the documentation
