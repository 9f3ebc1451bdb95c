"""The two examinations: `ragtide doctor` checks a whole deployment, a container's health check asks about one role."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_aggregator.reading.first_commit import has_commits
from ragtide_aggregator.reading.partitions import PartitionStatus, RunningRoles, read_partitions
from ragtide_runtime.redis.backlog import SEEN_MS
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.settings.alerting import default_rules_of
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings_reports import read_reports
from ragtide_runtime.stored_criteria import read_stored_criteria, with_stored_criteria

from ..rule_checks import default_rules_sentence, rule_findings
from .alerting import alert_group_findings, false_alarm_findings, notification_findings
from .finding import Finding, Level, count_of
from .in_force import settings_findings
from .labelers import endpoint_findings, labeler_findings, sentinel_findings
from .partitions import partition_findings, waiting
from .recording import recording_findings
from .results import result_findings
from .server import known_ids_finding, server_findings
from .traces import trace_findings


async def examine(
    redis: Redis,
    settings: Settings,
    description: str,
    *,
    check_labeler: bool = True,
    further: Callable[[Settings], Awaitable[list[Finding]]] | None = None,
) -> list[Finding]:
    """Return the findings about Redis, its durability, roles, alert rules, the judge, and every partition.

    Args:
        redis: client.
        description: of the Redis in use, for the first finding.
        check_labeler: whether to load the labeler, which takes as long and as much memory as in a worker.
        further: examines what only the command line knows.
    """
    partitions = await read_partitions(redis, settings)
    reports = await read_reports(redis, settings.prefix)
    now_ms = _time_ms(await redis.time())
    return [
        Finding("ok", "redis", description),
        *await server_findings(redis),
        await known_ids_finding(redis, settings),
        _roles(partitions),
        *await _aggregators(redis, settings),
        *(await labeler_findings(redis, settings, max(s.backlog.workers for s in partitions)) if check_labeler else ()),
        *_rules(with_stored_criteria(settings, await read_stored_criteria(redis, settings.prefix))),
        *settings_findings(settings, reports),
        *await notification_findings(settings, reports),
        *(await further(settings) if further is not None else ()),
        *await recording_findings(settings),
        *await result_findings(settings.otel),
        *await _numbers(redis, settings),
        *await endpoint_findings(redis, settings),
        *await sentinel_findings(redis, settings),
        *await alert_group_findings(redis, settings, now_ms),
        *await trace_findings(redis, settings, now_ms),
        *(finding for status in partitions for finding in partition_findings(status, settings)),
    ]


async def _numbers(redis: Redis, settings: Settings) -> list[Finding]:
    if not await has_commits(redis, settings):
        return false_alarm_findings(settings)
    from .numbers import number_findings  # noqa: PLC0415 - imports NumPy

    return await number_findings(redis, settings)


def _rules(settings: Settings) -> list[Finding]:
    findings = rule_findings(settings.alerts, settings)
    if not findings:
        defaults = default_rules_of(settings.alerts)
        own = len(settings.alerts) - len(defaults)
        return [Finding("ok", "alert rules", f"{own:,} of your own. {default_rules_sentence(defaults)}")]
    levels: dict[str, Level] = {"error": "problem", "warning": "warning"}
    return [
        Finding(
            levels[finding.level],
            f"alert rule {finding.rule}",
            finding.message,
            "correct the rule: ragtide rules check FILE",
        )
        for finding in findings
    ]


def _roles(partitions: Sequence[PartitionStatus]) -> Finding:
    running = RunningRoles.of(partitions)
    if running.workers or running.owned:
        seen = [status.backlog.seen_s for status in partitions if status.backlog.seen_s is not None]
        last = f" (the last read was {min(seen):,.0f} s ago)" if seen else ""
        text = (
            f"{count_of(running.workers, 'worker')} seen this minute{last}, {running.owned} of "
            f"{count_of(running.partitions, 'partition')} owned by an aggregator"
        )
        return Finding("ok", "roles", text)
    entries = sum(waiting(status) for status in partitions)
    text = "no worker and no aggregator is running" + (f"; {entries:,} entries wait" if entries else "")
    return Finding("problem" if entries else "warning", "roles", text, "start both: ragtide up")


async def _aggregators(redis: Redis, settings: Settings) -> list[Finding]:
    members = cast("dict[bytes, bytes]", await redis.hgetall(Streams(settings.prefix, 0).aggregators))
    now_ms = _time_ms(await redis.time())
    present = {name: data.split() for name, data in sorted(members.items()) if int(data.split()[0]) >= now_ms}
    if not present:
        return []
    owned = ", ".join(f"{name.decode()} owns {count.decode()}" for name, (_, count) in present.items())
    return [Finding("ok", "aggregators", owned)]


def _time_ms(time: Any) -> int:
    times = list(time.values()) if isinstance(time, dict) else [time]
    return max(int(seconds) * 1000 for seconds, _ in times)


async def examine_role(redis: Redis, settings: Settings, role: str, host: str) -> list[Finding]:
    """Return findings on whether a role works in every partition.

    A worker of this host must have asked every partition for entries within the last minute. A partition must have an
    aggregator on any host, because a standby is healthy too.
    """
    findings: list[Finding] = []
    for streams in settings.layout.all():
        name = f"partition {streams.partition}: {role}"
        if role == "worker":
            idle = [
                int(consumer["idle"])
                for consumer in await _consumers(redis, streams)
                if consumer["name"].decode().startswith(f"{host}-")
            ]
            well = bool(idle) and min(idle) < SEEN_MS
            text = f"last read {min(idle) / 1000:.1f} s ago" if idle else f"no worker of host {host} has read yet"
        else:
            lease = {"recorder": streams.recorder_lease, "notify": streams.notifier_lease}.get(role, streams.lease)
            owner = cast("bytes | None", await redis.get(lease))
            well, text = owner is not None, "no owner" if owner is None else f"owned by {owner.decode()}"
        findings.append(Finding("ok" if well else "problem", name, text, "" if well else f"look at the {role}'s log"))
    return findings


async def _consumers(redis: Redis, streams: Streams) -> list[dict[str, Any]]:
    try:
        return list(await redis.xinfo_consumers(streams.interactions, LABEL_GROUP))
    except ResponseError as error:
        if not is_missing(error):
            raise
        return []
