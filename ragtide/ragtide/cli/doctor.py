"""`ragtide doctor`: checks whether a deployment can be trusted, and says how to repair each problem."""

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import typer
from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from rich.table import Table
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_roles.rule_findings import rule_findings
from ragtide_runtime.redis.backlog import COUNT_CAP, SEEN_MS, Backlog
from ragtide_runtime.redis.eviction import SAFE, danger_of
from ragtide_runtime.redis.keys import LABEL_GROUP, CheckpointField, Streams
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings

from .common import JsonOption, Role, given, out, print_json, with_redis
from .doctor_judge import judge_findings
from .doctor_keys import keys_of
from .doctor_known_ids import known_ids_finding
from .finding import Finding, Level
from .repair import damage, print_repairs, repaired

OLDEST_REDIS = (6, 2)
"""Oldest Redis with the commands that are used (XAUTOCLAIM)."""

LATE = 2.0
"""An entry may wait to be recorded for this many times `recorder.roll_s`."""


async def examine(redis: Redis, settings: Settings, description: str) -> list[Finding]:
    """Return the findings about Redis itself, its durability, and every partition's streams, workers and aggregator."""
    findings = [Finding("ok", "redis", description)]
    for name, info in await _servers(redis):
        findings += [replace(finding, subject=name + finding.subject) for finding in _about_server(info)]
    partitions = [
        Looked(streams, backlog, await _owner(redis, streams))
        for streams, backlog in zip(settings.layout.all(), await Deployment(redis, settings).backlog(), strict=True)
    ]
    findings.append(await known_ids_finding(redis, settings))
    findings.append(_roles(partitions))
    findings += await _aggregators(redis, settings)
    findings += _rules(settings)
    findings += await judge_findings(redis, settings)
    for looked in partitions:
        findings += await _partition(redis, looked, settings)
    return findings


@dataclass(frozen=True, slots=True)
class Looked:
    """A partition as it was found."""

    streams: Streams
    backlog: Backlog
    owner: str | None
    """Aggregator that holds the lease."""

    @property
    def waiting(self) -> int:
        """Interactions and metric events that wait for a role."""
        return self.backlog.waiting + self.backlog.events_waiting


def _rules(settings: Settings) -> list[Finding]:
    """Return the alert rules that can never fire, or how many there are."""
    found = rule_findings(settings.alerts, settings)
    if not found:
        return [Finding("ok", "alert rules", f"{len(settings.alerts):,}")] if settings.alerts else []
    levels: dict[str, Level] = {"error": "problem", "warning": "warning"}
    return [
        Finding(levels[one.level], f"alert rule {one.rule}", one.message, "correct the rule: ragtide rules check FILE")
        for one in found
    ]


def _roles(partitions: Sequence[Looked]) -> Finding:
    """Return a finding about the running roles, from their traces in Redis; their processes are not asked."""
    workers = max(looked.backlog.workers for looked in partitions)
    owned = sum(looked.owner is not None for looked in partitions)
    if workers or owned:
        found = f"{_counted(workers, 'worker')} seen this minute, {owned} of {_counted(len(partitions), 'partition')} "
        return Finding("ok", "roles", found + "owned by an aggregator")
    waiting = sum(looked.waiting for looked in partitions)
    found = (
        f"nothing runs: no worker and no aggregator; {waiting:,} entries wait"
        if waiting
        else ("nothing runs: no worker and no aggregator")
    )
    return Finding("problem" if waiting else "warning", "roles", found, "start both: ragtide up")


def _counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> _counted(1, "worker"), _counted(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


async def examine_role(redis: Redis, settings: Settings, role: str, host: str) -> list[Finding]:
    """Return whether a role works, as a container's health check asks.

    A worker of this host must have asked every partition for entries within the last minute; a partition must have
    an aggregator, on whichever host, because a standby is healthy too.
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
            found = f"last read {min(idle) / 1000:.1f} s ago" if idle else f"no worker of host {host} has read yet"
        else:
            owner = await (_holder(redis, streams.recorder_lease) if role == "recorder" else _owner(redis, streams))
            well, found = owner is not None, "no owner" if owner is None else f"owned by {owner}"
        findings.append(Finding("ok" if well else "problem", name, found, "" if well else f"look at the {role}'s log"))
    return findings


async def _servers(redis: Redis) -> list[tuple[str, dict[str, Any]]]:
    """Return the INFO of every server that takes writes; for a cluster that is every master, with its name."""
    if isinstance(redis, RedisCluster):
        found = await redis.info(target_nodes=RedisCluster.PRIMARIES)
        return [(f"{name}: ", info) for name, info in sorted(found.items())]
    return [("", await redis.info())]


def _about_server(info: dict[str, Any]) -> list[Finding]:
    return [*_server(info), *_persistence(info), *_replicas(info), *_memory(info)]


def _replicas(info: dict[str, Any]) -> list[Finding]:
    count = int(info.get("connected_slaves", 0))
    if not count:
        return []
    return [Finding("ok", "replicas", f"{count}; a failover loses what they have not received yet")]


async def _aggregators(redis: Redis, settings: Settings) -> list[Finding]:
    members = cast("dict[bytes, bytes]", await redis.hgetall(Streams(settings.prefix, 0).aggregators))
    now_ms = _time_ms(await redis.time())
    counting = {name: data.split() for name, data in sorted(members.items()) if int(data.split()[0]) >= now_ms}
    if not counting:
        return []
    owned = ", ".join(f"{name.decode()} owns {owned.decode()}" for name, (_, owned) in counting.items())
    return [Finding("ok", "aggregators", owned)]


def _time_ms(time: Any) -> int:
    """Return Redis's clock in milliseconds; of a cluster, whose servers answer one by one, the latest."""
    times = list(time.values()) if isinstance(time, dict) else [time]
    return max(int(seconds) * 1000 for seconds, _ in times)


def _server(info: dict[str, Any]) -> list[Finding]:
    version = str(info.get("valkey_version", info["redis_version"]))
    known = tuple(int(part) for part in version.split(".")[:2])
    if known >= OLDEST_REDIS:
        return [Finding("ok", "version", version)]
    return [Finding("problem", "version", version, "use Redis 6.2 or newer, or Valkey")]


def _persistence(info: dict[str, Any]) -> list[Finding]:
    if info.get("aof_enabled"):
        if info.get("aof_last_write_status") != "ok":
            return [
                Finding(
                    "problem", "durability", "the append-only file cannot be written", "look at Redis's log and disk"
                )
            ]
        return [Finding("ok", "durability", "append-only file")]
    return [
        Finding(
            "warning",
            "durability",
            "no append-only file: a crash of Redis loses everything since its last snapshot",
            "set appendonly yes",
        )
    ]


def _memory(info: dict[str, Any]) -> list[Finding]:
    policy = str(info.get("maxmemory_policy", SAFE))
    used = f"{info.get('used_memory_human', '?')} used"
    danger = danger_of(policy)
    if not danger:
        return [Finding("ok", "memory", f"{used}, {policy}")]
    advice = f"set maxmemory-policy {SAFE}: otherwise data go silently, and an interaction may count twice"
    if info.get("maxmemory"):
        return [Finding("problem", "memory", f"{used}, eviction policy {policy} may drop {danger}", advice)]
    found = f"{used}, eviction policy {policy} may drop {danger} as soon as maxmemory is set"
    return [Finding("warning", "memory", found, advice)]


async def _partition(redis: Redis, looked: Looked, settings: Settings) -> list[Finding]:
    streams, backlog, owner = looked.streams, looked.backlog, looked.owner
    name = f"partition {streams.partition}"
    level: Level = "problem" if backlog.waiting and not backlog.workers else "ok"
    age = f", the oldest for {backlog.oldest_s:,.0f} s" if backlog.waiting else ""
    workers = f"{_counted(backlog.workers, 'worker')} seen this minute"
    found = f"{backlog.waiting:,} waiting ({backlog.pending:,} taken){age}, {workers}"
    findings = [Finding(level, f"{name}: labeling", found, "start one: ragtide worker" if level == "problem" else "")]
    behind = backlog.events_waiting
    # An interaction that waits for a worker waits for an aggregator next.
    level = "problem" if looked.waiting and owner is None else "ok"
    more = "or more " if behind >= COUNT_CAP else ""
    lag = f"{behind:,} {more}metric events not yet aggregated" if behind else "up to date"
    findings.append(
        Finding(
            level,
            f"{name}: aggregator",
            f"{'owned by ' + owner if owner else 'no owner'}, {lag}",
            "start one: ragtide aggregator" if level == "problem" else "",
        )
    )
    damaged = await damage(redis, settings, streams)
    if damaged is not None:
        findings.append(Finding("problem", f"{name}: checkpoint", damaged))
    keys = await keys_of(redis, streams, settings)
    if keys is not None:
        findings.append(Finding("warning" if keys[1] else "ok", f"{name}: keys", *keys))
    if backlog.unrecorded_s is not None:
        findings.append(await _recorder(redis, streams, name, backlog.unrecorded_s, settings))
    dead = backlog.lengths["dead_letters"]
    findings.append(
        Finding(
            "warning" if dead else "ok",
            f"{name}: dead letters",
            f"{dead:,}",
            "look at them: ragtide dead-letters" if dead else "",
        )
    )
    return findings + await _losses(redis, streams, name, backlog.dropped)


async def _recorder(redis: Redis, streams: Streams, name: str, behind_s: float, settings: Settings) -> Finding:
    owner = await _holder(redis, streams.recorder_lease)
    if owner is None:
        return Finding(
            "warning" if behind_s else "ok",
            f"{name}: recorder",
            f"no recorder, the oldest entry waits for {behind_s:,.0f} s",
            "start one: ragtide recorder; or let go of what waits: ragtide recorder --forget" if behind_s else "",
        )
    late = behind_s > LATE * settings.recorder.roll_s + settings.lease_s
    return Finding(
        "warning" if late else "ok",
        f"{name}: recorder",
        f"owned by {owner}, " + (f"the oldest entry waits for {behind_s:,.0f} s" if behind_s else "up to date"),
        "look at the recorder's log: its store may be full or unreachable" if late else "",
    )


async def _losses(redis: Redis, streams: Streams, name: str, dropped: dict[str, int]) -> list[Finding]:
    """Return findings about dropped interactions, and about a stream that went back behind the checkpoint."""
    findings: list[Finding] = []
    if dropped:
        whys = ", ".join(f"{count:,} {why}" for why, count in sorted(dropped.items()))
        findings.append(
            Finding("warning", f"{name}: dropped", whys, "add workers, or raise interactions_cap: estimates miss them")
        )
    went_back = cast("bytes | None", await redis.hget(streams.checkpoint, CheckpointField.STREAM_ROLLBACK))
    if went_back is not None:
        told = json.loads(went_back)
        findings.append(
            Finding(
                "warning",
                f"{name}: went back",
                f"{told['times']} times, last on {told['at']}: Redis had lost the end of a stream",
                "look at Redis's persistence and failovers; let producers send their last interactions again",
            )
        )
    return findings


async def _consumers(redis: Redis, streams: Streams) -> list[dict[str, Any]]:
    try:
        return list(await redis.xinfo_consumers(streams.interactions, LABEL_GROUP))
    except ResponseError:  # no stream or no group yet
        return []


async def _owner(redis: Redis, streams: Streams) -> str | None:
    return await _holder(redis, streams.lease)


async def _holder(redis: Redis, lease: str) -> str | None:
    token = cast("bytes | None", await redis.get(lease))
    return None if token is None else token.decode()


def doctor(
    context: typer.Context,
    role: Annotated[
        Role | None, typer.Option(help="Only whether this role works on this host: a container's health check.")
    ] = None,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Drop this damaged field of a checkpoint, while no aggregator runs: its key is counted anew.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether this deployment is fit to be trusted; exit code 1 if there is a problem."""
    settings = given(context).settings()
    if repair is not None:
        print_repairs(with_redis(settings, lambda redis, _: repaired(redis, settings, repair)), as_json=as_json)
        return

    async def body(redis: Redis, handle: RedisHandle) -> list[Finding]:
        if role is not None:
            return await examine_role(redis, settings, role.value, socket.gethostname())
        return await examine(redis, settings, handle.description)

    findings = with_redis(settings, body)
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        marks = {"ok": Text("✓", "green"), "warning": Text("!", "yellow"), "problem": Text("✗", "red")}
        table = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            advice = Text(f" → {finding.advice}" if finding.advice else "", "yellow")
            table.add_row(marks[finding.level], finding.subject, Text.assemble(finding.found, advice))
        out.print(table)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
