"""Findings of `ragtide doctor` about a partition: labeling, aggregator, checkpoint, keys, recorder, losses, clock."""

from typing import Any, Final

from ragtide_aggregator.reading.partitions import PartitionStatus
from ragtide_runtime.redis.backlog import COUNT_CAP, Backlog
from ragtide_runtime.redis.keys import DeliveriesField
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.times import from_milliseconds

from .finding import Finding, count_of

LATE: Final = 2.0
"""An entry may wait to be recorded for this many times `recorder.roll_s`."""

AHEAD_S: Final = 10.0
"""Seconds by which the ids of a stream may be ahead of Redis's clock: a clock that is set by NTP steps by less."""

CHANGED: Final = {
    DeliveriesField.SET_BACK: ("the group of the workers was set back or removed {} times", "nothing counts twice"),
    DeliveriesField.AGAIN: ("{} finished entries were delivered again", "none counts twice"),
    DeliveriesField.RESCUED: ("{} unfinished entries had left the group", "they were delivered again"),
    DeliveriesField.DELETED: ("{} entries were deleted from the stream", "those that waited have no score"),
    DeliveriesField.REPLACED: (
        "the stream was deleted or replaced by an older copy {} times",
        "interactions that waited are counted as dropped: deleted",
    ),
}
"""What other clients did to the stream of interactions, and its consequence."""

SHOWN: Final = 5
"""Most pipelines above their limit of keys that a finding names."""


def waiting(status: PartitionStatus) -> int:
    """Return how many interactions and metric events wait for a role."""
    return status.backlog.waiting + status.backlog.events_waiting


def partition_findings(status: PartitionStatus, settings: Settings) -> list[Finding]:
    """Return the findings about one partition."""
    name = f"partition {status.streams.partition}"
    findings = [_labeling(status, name), _aggregator(status, name)]
    if status.damage is not None:
        findings.append(Finding("problem", f"{name}: checkpoint", status.damage))
    if status.keys is not None:
        text, advice = _keys(status.keys, settings)
        findings.append(Finding("warning" if advice else "ok", f"{name}: keys", text, advice))
    if status.backlog.unrecorded_s is not None:
        findings.append(_recorder(status, name, status.backlog.unrecorded_s, settings))
    dead = status.backlog.lengths["dead_letters"]
    advice = "look at them: ragtide dead-letters" if dead else ""
    findings.append(Finding("warning" if dead else "ok", f"{name}: dead letters", f"{dead:,}", advice))
    return findings + _losses(status, name) + _deliveries(status.backlog, name)


def _deliveries(backlog: Backlog, name: str) -> list[Finding]:
    findings: list[Finding] = []
    numbers = {what: int(backlog.deliveries.get(what, 0)) for what in CHANGED}
    changes = [": ".join(CHANGED[what]).format(f"{number:,}") for what, number in numbers.items() if number]
    if changes:
        at = (
            from_milliseconds(int(backlog.deliveries[DeliveriesField.AT]))
            if DeliveriesField.AT in backlog.deliveries
            else None
        )
        last = f"; last on {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
        advice = "let only ragtide change its streams and groups: see ragtide docs delivery"
        findings.append(Finding("warning", f"{name}: deliveries", "; ".join(changes) + last, advice))
    if backlog.ahead_s > AHEAD_S:
        days, rest = divmod(int(backlog.ahead_s), 86_400)
        span = f"{days:,} days and {rest // 3600} hours" if days else f"{rest // 60} minutes and {rest % 60} s"
        text = (
            f"the last id of a stream is {span} ahead of Redis's clock, which was set back; everything is delivered "
            "and counted once, but ages of entries are known only since an aggregator first saw them"
        )
        advice = "correct the clock of Redis's host, and keep it with NTP; the ids become true again at that time"
        findings.append(Finding("warning", f"{name}: clock", text, advice))
    return findings


def _labeling(status: PartitionStatus, name: str) -> Finding:
    backlog = status.backlog
    age = f", the oldest for {backlog.oldest_s:,.0f} s" if backlog.waiting > backlog.awaiting else ""
    sample = f"; {backlog.awaiting:,} of them wait for an unavailable labeler"
    workers = f"{count_of(backlog.workers, 'worker')} seen this minute"
    text = (
        f"{backlog.waiting:,} waiting ({backlog.pending:,} taken){age}, {workers}{sample if backlog.awaiting else ''}"
    )
    if backlog.waiting and not backlog.workers:
        return Finding("problem", f"{name}: labeling", text, "start one: ragtide worker")
    return Finding("ok", f"{name}: labeling", text)


def _aggregator(status: PartitionStatus, name: str) -> Finding:
    behind = status.backlog.events_waiting
    more = "or more " if behind >= COUNT_CAP else ""
    lag = f"{behind:,} {more}metric events not yet aggregated" if behind else "up to date"
    text = f"{'owned by ' + status.owner if status.owner else 'no owner'}, {lag}"
    # An interaction that waits for a worker will wait for an aggregator next.
    if waiting(status) and status.owner is None:
        return Finding("problem", f"{name}: aggregator", text, "start one: ragtide aggregator")
    return Finding("ok", f"{name}: aggregator", text)


def _keys(summary: dict[str, Any], settings: Settings) -> tuple[str, str]:
    text = f"{summary['keys']:,} of {settings.partition_keys_cap:,}"
    if not summary["pipelines"]:
        return text, ""
    largest = list(summary["largest"].items())[:SHOWN]
    named = ", ".join(f"{pipeline} {total:,}" for pipeline, total in largest)
    more = summary["pipelines"] - len(largest)
    text += (
        f"; {summary['total']:,} segment values, runs or pipelines counted in `other` so far: {named}"
        f"{f' and {more:,} more pipelines' if more > 0 else ''}"
    )
    return text, "give segments few values and no ids, or raise keys_cap (one pipeline) or partition_keys_cap"


def _recorder(status: PartitionStatus, name: str, behind_s: float, settings: Settings) -> Finding:
    waits = f"the oldest entry waits for {behind_s:,.0f} s"
    if status.recorder is None:
        advice = "start one: ragtide recorder; or release the waiting entries: ragtide recorder --forget"
        if not behind_s:
            return Finding("ok", f"{name}: recorder", "no recorder, and no entry waits for one")
        return Finding("warning", f"{name}: recorder", f"no recorder, {waits}", advice)
    text = f"owned by {status.recorder}, {waits if behind_s else 'up to date'}"
    if behind_s > LATE * settings.recorder.roll_s + settings.lease_s:
        advice = "look at the recorder's log: its store may be full or unreachable"
        return Finding("warning", f"{name}: recorder", text, advice)
    return Finding("ok", f"{name}: recorder", text)


def _losses(status: PartitionStatus, name: str) -> list[Finding]:
    findings: list[Finding] = []
    dropped = dict(status.backlog.dropped)
    unread = dropped.pop("alerts", 0)
    if unread:
        text = f"{unread:,} dropped before every consumer group had finished them"
        advice = "raise alert_cap, or remove groups that no process reads: see ragtide docs notify"
        findings.append(Finding("warning", f"{name}: alerts", text, advice))
    if dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        advice = "add workers, or raise interactions_cap: estimates miss them"
        if set(dropped) == {"deleted"}:
            advice = "another client deleted or replaced the stream: estimates miss them; publish them again"
        findings.append(Finding("warning", f"{name}: dropped", reasons, advice))
    if status.rollback is not None:
        record = status.rollback
        text = f"{record['times']} times, last on {record['at']}: Redis had lost the end of a stream"
        advice = "look at Redis's persistence and failovers; let producers send their last interactions again"
        findings.append(Finding("warning", f"{name}: rollback", text, advice))
    return findings
