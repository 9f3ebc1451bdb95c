"""Every Prometheus metric of ragtide as data: name, kind, labels and meaning. The table in the docs is made from it."""

from typing import Final, NamedTuple, get_args

from ragtide_schemas import Dropped, RagInteraction
from ragtide_schemas.alert_rule import AlertStatus
from ragtide_schemas.errors import Reason

from .metric import Metric
from .quality_metrics import HEADLINE_METRICS, QUALITY, QUALITY_METRICS

LABELING_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Seconds: from the milliseconds of the local labeler to the minutes of a judge with retries."""

CALL_OUTCOMES: Final = (
    "answered", "rate_limited", "timeout", "server_error", "refused", "no_connection", "unreadable",
)  # fmt: skip
"""Every outcome of a call."""

CALL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
"""Seconds of one call of a judge."""

CHECKPOINT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds of one commit."""


LABELINGS: Final = Metric(
    "ragtide_labelings_total",
    "counter",
    "Entries that this worker finished, by outcome; `failed` counts tries in which the labeler failed.",
    ("labeler", "outcome"),
)
EVALUATORS_REPLACED: Final = Metric(
    "ragtide_evaluators_replaced_total",
    "counter",
    "Changes of the evaluators while the worker runs: `taken`, or `refused` because one cannot start.",
    ("outcome",),
    {"outcome": ("taken", "refused")},
)
DEAD_LETTERS: Final = Metric(
    "ragtide_dead_letters_total",
    "counter",
    "Interactions that this worker gave up on, by reason.",
    ("reason",),
    {"reason": tuple(Reason)},
)
LEFT_OUT: Final = Metric(
    "ragtide_left_out_values_total",
    "counter",
    "Values that have no plain meaning and were left out of entries of a plain XADD, by field.",
    ("field",),
    {"field": (*RagInteraction.side_readers, "documents", "history")},
)
LABELING_SECONDS: Final = Metric(
    "ragtide_labeling_seconds", "histogram", "Time to label one interaction.", ("labeler",), buckets=LABELING_BUCKETS
)
IN_FLIGHT: Final = Metric(
    "ragtide_labelings_in_flight", "gauge", "Entries that this worker works on, until their results are committed."
)
RECLAIMED: Final = Metric(
    "ragtide_reclaimed_total",
    "counter",
    "Entries that this worker took over from another worker, or from an earlier try of its own.",
)
RESULT_SPANS: Final = Metric(
    "ragtide_result_spans_total",
    "counter",
    "Results for `otel.results`, by outcome: `sent`, `lost` (the receiver was away or refused), `dropped` (the queue "
    "was full) or `no_trace` (the interaction has no sampled trace).",
    ("outcome",),
    {"outcome": ("sent", "lost", "dropped", "no_trace")},
)
SPECIMENS: Final = Metric(
    "ragtide_specimens_total",
    "counter",
    "Specimens that this worker made, by outcome: `kept`, `unneeded` (others are worse), `full` (no room), "
    "`too_large`, `not_redacted` or `failed`.",
    ("outcome",),
    {"outcome": ("kept", "unneeded", "full", "too_large", "not_redacted", "failed")},
)
DOCUMENTS: Final = Metric(
    "ragtide_documents_total",
    "counter",
    "Documents that this worker split into sentences: `kept` if it had the sentences of the same text, else `cut`.",
    ("outcome",),
)
WORKER_METRICS: Final = (
    LABELINGS,
    EVALUATORS_REPLACED,
    DEAD_LETTERS,
    LEFT_OUT,
    LABELING_SECONDS,
    IN_FLIGHT,
    RECLAIMED,
    RESULT_SPANS,
    SPECIMENS,
    DOCUMENTS,
)


class EndpointMetrics(NamedTuple):
    """Metrics of the calls of one kind of endpoint."""

    calls: Metric
    call_seconds: Metric
    cost_usd: Metric
    cache_hits: Metric
    breaker_open: Metric
    calls_allowed: Metric
    tokens: tuple[Metric, ...] = ()
    """Empty for endpoints that count no tokens."""

    def all(self) -> tuple[Metric, ...]:
        """Return every metric, in the order of tables."""
        return (self.calls, self.call_seconds, *self.tokens, *self[2:6])


def _endpoint_metrics(kind: str, label: str, price: str, *tokens: Metric) -> EndpointMetrics:
    return EndpointMetrics(
        Metric(
            f"ragtide_{kind}_calls_total",
            "counter",
            "Calls, each try counted: `answered`, `rate_limited`, `timeout`, `server_error`, `refused`, "
            "`no_connection` or `unreadable`.",
            (label, "outcome"),
            {"outcome": CALL_OUTCOMES},
        ),
        Metric(
            f"ragtide_{kind}_call_seconds",
            "histogram",
            "Time of one call that was answered.",
            (label,),
            buckets=CALL_BUCKETS,
        ),
        Metric(
            f"ragtide_{kind}_cost_usd_total", "counter", f"Dollars that calls cost, by {price}; 0 without.", (label,)
        ),
        Metric(f"ragtide_{kind}_cache_hits_total", "counter", "Answers found in the cache, without a call.", (label,)),
        Metric(
            f"ragtide_{kind}_breaker_open",
            "gauge",
            "1 while calls are paused after many failures.",
            (label,),
            together="max",
        ),
        Metric(
            f"ragtide_{kind}_calls_allowed", "gauge", "Most concurrent calls that this worker allows now.", (label,)
        ),
        tokens,
    )


JUDGE: Final = _endpoint_metrics(
    "judge",
    "model",
    "`judge.prices` or the list price",
    Metric(
        "ragtide_judge_tokens_total",
        "counter",
        "Tokens that the judge counted: `prompt` or `completion`.",
        ("model", "direction"),
        {"direction": ("prompt", "completion")},
    ),
)
SERVICE: Final = _endpoint_metrics("service", "service", "`services.NAME.call_usd`")

EVENTS_APPLIED: Final = Metric(
    "ragtide_events_applied_total", "counter", "Metric events in the checkpoints that this aggregator committed."
)
EVENTS_REFUSED: Final = Metric(
    "ragtide_events_refused_total",
    "counter",
    "Metric events and feedback that this aggregator rejected as dead letters.",
)
GOLD_SCORES: Final = Metric("ragtide_gold_scores_total", "counter", "Gold scores of feedback that count.")
GOLD_UNCOMPARED: Final = Metric(
    "ragtide_gold_scores_uncompared_total",
    "counter",
    "Those gold scores whose metric is absent for the interaction, so that there is no score to compare with.",
)
CHECKPOINT_SECONDS: Final = Metric(
    "ragtide_checkpoint_seconds",
    "histogram",
    "Time of one commit: state, position, estimates and alerts in one script.",
    buckets=CHECKPOINT_BUCKETS,
)
CHECKPOINT_ROWS: Final = Metric("ragtide_checkpoint_rows_total", "counter", "Rows of state that commits have written.")
LEASE_OWNED: Final = Metric(
    "ragtide_lease_owned", "gauge", "1 while this aggregator owns the partition, 0 while it stands by.", ("partition",)
)
LEASES_LOST: Final = Metric(
    "ragtide_leases_lost_total",
    "counter",
    "Times that this aggregator lost a partition: another aggregator took it, or Redis lost entries that were read.",
)
KEYS: Final = Metric(
    "ragtide_keys", "gauge", "Pipelines, segments and metrics with estimates of this owner.", ("partition",)
)
CAPPED: Final = Metric(
    "ragtide_capped_total",
    "counter",
    "Times that a segment value, run or pipeline was counted in `other`, because a limit of keys was reached.",
    ("partition",),
)
EVICTED: Final = Metric(
    "ragtide_evicted_keys_total",
    "counter",
    "Keys that the Redis of the partition evicted, as its owner found: estimates may miss or double interactions.",
    ("partition",),
)
ALERTS: Final = Metric(
    "ragtide_alerts_total",
    "counter",
    "Alerts that this aggregator wrote: `firing`, `explained` or `resolved`.",
    ("rule", "status"),
    {"status": get_args(AlertStatus)},
)
RULES_READ: Final = Metric(
    "ragtide_rules_read_total",
    "counter",
    "Readings of rules and evaluators while it runs (a worker counts, too): `taken`, `unchanged` or `refused`.",
    ("outcome",),
    {"outcome": ("taken", "unchanged", "refused")},
)
AGGREGATOR_METRICS: Final = (
    RULES_READ,
    EVENTS_APPLIED,
    EVENTS_REFUSED,
    GOLD_SCORES,
    GOLD_UNCOMPARED,
    CHECKPOINT_SECONDS,
    CHECKPOINT_ROWS,
    LEASE_OWNED,
    LEASES_LOST,
    KEYS,
    CAPPED,
    EVICTED,
    ALERTS,
)

RECORDED_KINDS: Final = ("interactions", "metrics", "feedback", "alerts")
"""Every kind of recorded entries."""

RECORDED: Final = Metric(
    "ragtide_recorded_total",
    "counter",
    "Entries in files that a manifest of this recorder names.",
    ("kind",),
    {"kind": RECORDED_KINDS},
)
RECORDED_UNREADABLE: Final = Metric(
    "ragtide_recorded_unreadable_total",
    "counter",
    "Recorded entries that are unreadable and were stored unchanged.",
    ("kind",),
    {"kind": RECORDED_KINDS},
)
RECORDED_WITHHELD: Final = Metric(
    "ragtide_recorded_without_texts_total",
    "counter",
    "Entries that were recorded without their texts, because the redaction took too long or crashed.",
    ("kind",),
    {"kind": RECORDED_KINDS},
)
RECORDED_BYTES: Final = Metric(
    "ragtide_recorded_bytes_total", "counter", "Bytes of the recorded files.", ("kind",), {"kind": RECORDED_KINDS}
)
REDACTIONS: Final = Metric(
    "ragtide_redactions_total",
    "counter",
    "Places that were redacted in texts, by pattern; for a function, the texts that it changed.",
    ("what",),
)
RECORDER_OWNED: Final = Metric(
    "ragtide_recorder_owned", "gauge", "1 while this recorder records the partition.", ("partition",)
)
RECORDER_MANIFEST: Final = Metric(
    "ragtide_recorder_manifest_timestamp_seconds",
    "gauge",
    "Time of this recorder's last manifest of the partition, in seconds since 1970.",
    ("partition",),
)
RECORDER_METRICS: Final = (
    RECORDED,
    RECORDED_UNREADABLE,
    RECORDED_WITHHELD,
    RECORDED_BYTES,
    REDACTIONS,
    RECORDER_OWNED,
    RECORDER_MANIFEST,
)

REFUSED: Final = ("truncated", "no_content", "no_pipeline", "invalid")
"""Why interactions of traces cannot be used."""

TRACE_OUTCOMES: Final = (
    "interaction", *REFUSED, "no_retrieval", "no_documents", "no_model_call", "no_later_call", "answer_repeats",
    "failed",
)  # fmt: skip
"""What a trace may give: an interaction, none that can be used, or none at all, each with the reason."""

INGEST_SPANS: Final = Metric(
    "ragtide_ingest_spans_total",
    "counter",
    "Spans that this process received, by outcome; `full` counts requests that found no room.",
    ("outcome",),
    {"outcome": ("stored", "repeated", "rejected", "invalid", "full")},
)
INGEST_LATE_SPANS: Final = Metric(
    "ragtide_ingest_late_spans_total",
    "counter",
    "Spans that came after interactions of their trace were published. If there are many, raise `ingest.settle_s`.",
)
INGEST_INTERACTIONS: Final = Metric(
    "ragtide_ingest_interactions_total",
    "counter",
    "Interactions of traces that this process published or refused, by outcome.",
    ("outcome",),
    {"outcome": ("published", "duplicate", "dropped", *REFUSED)},
)
INGEST_TRACES: Final = Metric(
    "ragtide_ingest_traces_total",
    "counter",
    "Traces that are over, by what they gave: `interaction`, or the reason why they gave none.",
    ("outcome",),
    {"outcome": TRACE_OUTCOMES},
)
INGEST_CHANGED: Final = Metric(
    "ragtide_ingest_changed_interactions_total",
    "counter",
    "Published interactions that late spans would have changed. They are not published again.",
)
INGEST_COSTS: Final = Metric(
    "ragtide_ingest_costs_total",
    "counter",
    "Interactions of traces with a model, by the source of their cost: `trace`, `computed`, or the reason why there "
    "is none: `no_model`, `no_tokens`, `unknown_model` or `no_price_table`.",
    ("source",),
    {"source": ("trace", "computed", "no_model", "no_tokens", "unknown_model", "no_price_table")},
)
INGEST_LEFT_OUT: Final = Metric(
    "ragtide_ingest_left_out_values_total",
    "counter",
    "Values that were left out of interactions of traces, by field: without a plain meaning, reasoning, or media.",
    LEFT_OUT.labels,
    LEFT_OUT.values,
)
INGEST_DOCUMENTS: Final = Metric(
    "ragtide_ingest_documents_total",
    "counter",
    "Documents of interactions of traces: `given` in the prompts that led to the answer, `not_given` if a retrieval "
    "returned them and they stand in none of these, `unknown` if the spans have no prompt, and the retrieval decided.",
    ("outcome",),
    {"outcome": ("given", "not_given", "unknown")},
)
INGEST_OPEN_TRACES: Final = Metric("ragtide_ingest_open_traces", "gauge", "Traces that wait to be read.")
INGEST_BYTES: Final = Metric("ragtide_ingest_stored_bytes", "gauge", "Bytes of the stored spans.")
HTTP_REQUESTS: Final = Metric(
    "ragtide_http_requests_total", "counter", "Requests that this process answered.", ("route", "status")
)
HTTP_SECONDS: Final = Metric(
    "ragtide_http_request_seconds",
    "histogram",
    "Time to answer a request, its body included.",
    ("route",),
    buckets=LABELING_BUCKETS,
)
HTTP_ITEMS: Final = Metric(
    "ragtide_http_items_total",
    "counter",
    "Interactions and feedback items that came by HTTP, by outcome.",
    ("kind", "outcome"),
    {
        "kind": ("interaction", "feedback"),
        "outcome": ("published", "duplicate", "dropped", "full", "forbidden", "invalid"),
    },
)
HTTP_LEFT_OUT: Final = Metric(
    "ragtide_http_left_out_values_total",
    "counter",
    "Values that have no plain meaning and were left out of items that came by HTTP, by field.",
    LEFT_OUT.labels,
    LEFT_OUT.values,
)
INGEST_METRICS: Final = (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    HTTP_ITEMS,
    HTTP_LEFT_OUT,
    INGEST_SPANS,
    INGEST_LATE_SPANS,
    INGEST_INTERACTIONS,
    INGEST_TRACES,
    INGEST_CHANGED,
    INGEST_COSTS,
    INGEST_LEFT_OUT,
    INGEST_DOCUMENTS,
    INGEST_OPEN_TRACES,
    INGEST_BYTES,
)

REDIS_UP: Final = Metric("ragtide_redis_up", "gauge", "1 if Redis answered this scrape; otherwise 0, alone.")
WAITING: Final = Metric(
    "ragtide_interactions_waiting",
    "gauge",
    "Interactions that no worker has finished; before Redis 7.0, those not yet taken are counted to at most 1000.",
    ("partition",),
)
PENDING: Final = Metric(
    "ragtide_interactions_pending", "gauge", "Waiting interactions that a worker has taken.", ("partition",)
)
AWAITING: Final = Metric(
    "ragtide_interactions_awaiting",
    "gauge",
    "Waiting interactions whose labeler, of a cascade's sample or of an evaluator, is unavailable.",
    ("partition",),
)
OLDEST: Final = Metric(
    "ragtide_interactions_oldest_seconds",
    "gauge",
    "Age of the oldest interaction that no worker has finished, without those awaiting a labeler; 0 if there is none.",
    ("partition",),
)
EVENTS_WAITING: Final = Metric(
    "ragtide_events_waiting",
    "gauge",
    "Metric events that are in no checkpoint yet, counted to at most 1000.",
    ("partition",),
)
EVENTS_OLDEST: Final = Metric(
    "ragtide_events_oldest_seconds",
    "gauge",
    "Age of the oldest metric event that is in no checkpoint yet; 0 if there is none.",
    ("partition",),
)
UNRECORDED: Final = Metric(
    "ragtide_unrecorded_oldest_seconds",
    "gauge",
    "Age of the oldest entry that waits to be recorded; 0 if there is none, or there was never a recorder.",
    ("partition",),
)
STREAM_ENTRIES: Final = Metric(
    "ragtide_stream_entries",
    "gauge",
    "Entries in a stream: interactions, metrics, feedback, estimates, alerts, dead_letters.",
    ("partition", "stream"),
)
DROPPED: Final = Metric(
    "ragtide_dropped_total",
    "counter",
    "Dropped interactions, by reason.",
    ("partition", "why"),
    {"why": tuple(Dropped)},
)
WORKERS: Final = Metric(
    "ragtide_workers", "gauge", "Worker processes that have read within the last minute.", ("partition",)
)
OWNED: Final = Metric(
    "ragtide_partition_has_owner",
    "gauge",
    "1 while any aggregator of the deployment holds the partition's lease, as Redis says, so every process reports it.",
    ("partition",),
)
REDIS_METRICS: Final = (
    REDIS_UP,
    WAITING,
    PENDING,
    AWAITING,
    OLDEST,
    EVENTS_WAITING,
    EVENTS_OLDEST,
    UNRECORDED,
    STREAM_ENTRIES,
    DROPPED,
    WORKERS,
    OWNED,
)

NOTIFICATIONS: Final = Metric(
    "ragtide_notifications_total",
    "counter",
    "Messages, each try counted: `sent`, `failed` or `refused`; `given_up` counts dead letters.",
    ("destination", "outcome"),
    {"outcome": ("sent", "failed", "refused", "given_up")},
)
NOTIFICATIONS_WITHHELD: Final = Metric(
    "ragtide_notifications_withheld_total",
    "counter",
    "Changes not sent: `resolved_first` (resolved before it was sent), `never_sent` (its firing was not), `storm` "
    "(messages of a summary), `removed` (with the destination) or `fails_itself` (that another one fails, to one that "
    "fails, too).",
    ("destination", "reason"),
    {"reason": ("resolved_first", "never_sent", "storm", "removed", "fails_itself")},
)
NOTIFY_OUTBOX: Final = Metric(
    "ragtide_notify_outbox",
    "gauge",
    "Changes that are still to be sent to a destination.",
    ("destination",),
)
NOTIFY_OUTBOX_SECONDS: Final = Metric(
    "ragtide_notify_outbox_oldest_seconds",
    "gauge",
    "Age of the oldest of them; 0 without any.",
    ("destination",),
)
NOTIFY_OWNED: Final = Metric(
    "ragtide_notify_owned", "gauge", "1 while this process sends the notifications of the partition.", ("partition",)
)
NOTIFY_METRICS: Final = (
    NOTIFICATIONS,
    NOTIFICATIONS_WITHHELD,
    NOTIFY_OUTBOX,
    NOTIFY_OUTBOX_SECONDS,
    NOTIFY_OWNED,
)

BRIDGE_MESSAGES: Final = Metric(
    "ragtide_bridge_items_total",
    "counter",
    "Items of messages, by outcome: `published`, `duplicate` (its id was known), `dropped` (by the policy of a full "
    "stream), `dead_letter`, `spans`; `waited` counts tries that found no room, and `left_out` values without a plain "
    "meaning that were left out of items.",
    ("outcome",),
    {"outcome": ("published", "duplicate", "dropped", "dead_letter", "spans", "waited", "left_out")},
)
BRIDGE_SENT: Final = Metric(
    "ragtide_bridge_sent_total",
    "counter",
    "Messages that a broker has confirmed: `alerts`, `events` or `estimates`.",
    ("direction",),
)
BRIDGE_CONNECTED: Final = Metric(
    "ragtide_bridge_connected",
    "gauge",
    "1 while the broker of a direction is connected: `from`, `alerts`, `events` or `estimates`.",
    ("direction",),
)
BRIDGE_METRICS: Final = (BRIDGE_MESSAGES, BRIDGE_SENT, BRIDGE_CONNECTED)

CATALOGUE: Final = {
    "worker": WORKER_METRICS,
    "judge": JUDGE.all(),
    "service": SERVICE.all(),
    "aggregator": AGGREGATOR_METRICS,
    "recorder": RECORDER_METRICS,
    "serve": INGEST_METRICS,
    "notify": NOTIFY_METRICS,
    "bridge": BRIDGE_METRICS,
    "Redis": REDIS_METRICS,
    QUALITY: (*QUALITY_METRICS, *HEADLINE_METRICS),
}
"""The metrics of each role. Every role reports the metrics of Redis; an aggregator reports quality, too."""

HIGHEST: Final = frozenset(
    metric.name for metrics in CATALOGUE.values() for metric in metrics if metric.together == "max"
)
"""Gauges of which the highest value of several processes counts."""


def catalogue_table() -> str:
    """Return every metric but those of quality as a Markdown table."""
    lines = ["| metric | of | kind | labels | meaning |", "|---|---|---|---|---|"]
    for owner, metrics in CATALOGUE.items():
        if owner == QUALITY:  # on a page of its own
            continue
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {owner} | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
