"""Findings of `ragtide doctor` about alerts that reach nobody, for want of a destination or a reader."""

import asyncio
import shlex
import socket
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_consumers.notify.routing import any_matches
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.proxies import proxy_of
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import RECORD_GROUP
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.notify import DestinationSettings, MatchSettings
from ragtide_runtime.settings_reports import SettingsReport
from ragtide_schemas import AlertRule
from ragtide_schemas.printable import printable

from .finding import Finding, count_of

RESOLVE_S: Final = 5.0
"""Most seconds for the address of a destination."""

_USUAL: Final = {"pagerduty": "events.pagerduty.com", "slack": "slack.com"}
"""Hosts of destinations whose settings name none."""

FORGOTTEN_S: Final = 86_400
"""Age in seconds of the oldest alert that a group has not finished, from which on the group counts as forgotten."""

MOST: Final = 20
"""Most groups of a partition that are looked at: any client may create groups."""


async def notification_findings(settings: Settings, reports: Sequence[SettingsReport]) -> list[Finding]:
    """Return findings about destinations, as the running notifiers have them, and about `page` rules without one.

    Args:
        settings: as the file has them.
    """
    notify = settings.notify
    problems = await asyncio.gather(*(_address_problem(destination, settings) for destination in notify.destinations))
    findings = [problem for problem in problems if problem is not None]
    findings += _not_notified(settings, [report for report in reports if report.is_notifier])
    if notify.destinations and not findings:
        findings.append(Finding("ok", "notifications", count_of(len(notify.destinations), "destination")))
    return findings + _unheard(settings.alerts, notify.destinations)


def _not_notified(settings: Settings, notifiers: Sequence[SettingsReport]) -> list[Finding]:
    wanted = {destination.name for destination in settings.notify.destinations}
    if wanted and not notifiers:
        text = f"{count_of(len(wanted), 'destination')} in the settings, and no notifier runs: no alert is sent"
        return [Finding("warning", "notifications", text, "start ragtide notify, or ragtide up")]
    missing = sorted(wanted - {name for notifier in notifiers for name in notifier.destinations})
    if not missing:
        return []
    text = f"the running notifier does not send to {', '.join(missing)}"
    return [Finding("problem", "notifications", text, "see the finding settings, or restart the notifier")]


async def _address_problem(destination: DestinationSettings, settings: Settings) -> Finding | None:
    host = host_of(destination)
    name = f"destination {destination.name}"
    try:
        url = f"https://{host}/" if destination.url is None else destination.url.get_secret_value()
        if host is None or (destination.kind != "email" and proxy_of(url) is not None):
            return None
    except ConfigurationError as error:
        return Finding("problem", name, f"its proxy cannot be used: {error}", "correct the variable")
    try:
        async with asyncio.timeout(RESOLVE_S):
            loop = asyncio.get_running_loop()
            entries = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return Finding("problem", name, f"the host {host} has no address", "correct its url or host, or the DNS")
    if settings.notify.allow_private:
        return None
    from ragtide_consumers.notify.destinations.addresses import is_public  # noqa: PLC0415 - it imports aiohttp

    if any(is_public(str(address[0])) for *_, address in entries):
        return None
    return Finding(
        "problem",
        name,
        f"the host {host} has no public address, so it is not called",
        "set notify.allow_private = true if it is in your own network",
    )


def host_of(destination: DestinationSettings) -> str | None:
    """Return the host that a destination calls; None if only its library knows."""
    if destination.kind == "apprise":
        return None
    if destination.host is not None:
        return destination.host
    if destination.url is None:
        return _USUAL.get(destination.kind)
    try:
        return urlsplit(destination.url.get_secret_value()).hostname
    except ValueError:
        return None


def _unheard(rules: Sequence[AlertRule], destinations: Sequence[DestinationSettings]) -> list[Finding]:
    matches = [destination.match for destination in destinations if "firing" in destination.on]
    return [
        Finding(
            "warning",
            f"alert rule {rule.name}",
            "its severity is page, and no destination receives its alerts",
            "add it to the match of a destination in notify.destinations (ragtide docs notify)",
        )
        for rule in rules
        if rule.severity == "page" and not any(_may_match(match, rule) for match in matches)
    ]


def _may_match(match: MatchSettings, rule: AlertRule) -> bool:
    return (
        any_matches(match.rule, rule.name)
        and any_matches(match.metric, rule.metric)
        and (match.segment is None or rule.segment is not None)
        and (match.kind is None or rule.kind in match.kind)
        and (match.severity is None or rule.severity in match.severity)
    )


async def alert_group_findings(redis: Redis, settings: Settings, now_ms: int) -> list[Finding]:
    """Return a warning for each group whose oldest unfinished alert is older than a day.

    Alerts that such a group has not finished are trimmed only above ten times `alert_cap`. The recorder's group has a
    finding of its own.

    Args:
        redis: client.
        now_ms: Redis's clock.
    """
    findings: list[Finding] = []
    for streams in settings.layout.all():
        first = await read_range(redis, streams.alerts, count=1)
        if not first:
            continue
        for group in await _groups(redis, streams.alerts):
            oldest = await _oldest_unfinished(redis, streams.alerts, group, first[0].entry_id)
            age_s = 0.0 if oldest is None else (now_ms - order(oldest)[0]) / 1000
            if age_s > FORGOTTEN_S:
                name = group["name"].decode(errors="replace")
                command = shlex.join(["redis-cli", "XGROUP", "DESTROY", streams.alerts, name])
                findings.append(
                    Finding(
                        "warning",
                        f"partition {streams.partition}: group {printable(name)}",
                        f"its oldest unfinished alert is {age_s / FORGOTTEN_S:,.1f} days old",
                        f"start a process that reads the group; or remove the group: {printable(command)}",
                    )
                )
    return findings


async def _groups(redis: Redis, stream: str) -> list[dict[str, Any]]:
    try:
        groups = await redis.xinfo_groups(stream)
    except ResponseError as error:
        if not is_missing(error):
            raise
        return []  # the stream is gone meanwhile
    return [group for group in groups if group["name"] != RECORD_GROUP.encode()][:MOST]


async def _oldest_unfinished(redis: Redis, stream: str, group: dict[str, Any], first: str) -> str | None:
    pending = []
    if group["pending"]:
        reply = await redis.xpending_range(stream, group["name"], min=first, max="+", count=1)
        pending = [entry["message_id"].decode() for entry in cast("list[dict[str, Any]]", reply)]
    unread = await read_range(redis, stream, first=f"({group['last-delivered-id'].decode()}", count=1)
    return min([*pending, *(entry.entry_id for entry in unread)], key=order, default=None)


def false_alarm_findings(settings: Settings, detectors: int = 0) -> list[Finding]:
    """Return the budget or the rate of false alarms with the number of detectors that share it, if there is one."""
    budget = settings.budget
    if budget.false_discovery_rate is not None:
        allowed = f"at most {100 * budget.false_discovery_rate:.3g}% of the alarms of {budget.period} are false"
    elif budget.false_alarms is not None:
        allowed = f"at most {budget.false_alarms:g} in {budget.period}"
    else:
        return []
    return [Finding("ok", "false alarms", f"{allowed}, on average, of {count_of(detectors, 'detector')} together")]
