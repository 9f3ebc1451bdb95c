"""Findings of `ragtide doctor` about notifications: destinations without an address, and alerts that wake nobody."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from ragtide_consumers.notify.routing import any_matches
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.notify import DestinationSettings, MatchSettings
from ragtide_schemas import AlertRule

from .finding import Finding, counted

RESOLVE_S: Final = 5.0
"""Most seconds for the address of a destination."""

_USUAL: Final = {"pagerduty": "events.pagerduty.com", "slack": "slack.com"}
"""Hosts of destinations whose settings name none."""


async def notification_findings(settings: Settings) -> list[Finding]:
    """Return findings about destinations that have no usable address, and about `page` rules without a destination."""
    notify = settings.notify
    found = list(await asyncio.gather(*(_resolved(one, settings) for one in notify.destinations)))
    findings = [one for one in found if one is not None]
    if notify.destinations and not findings:
        findings.append(Finding("ok", "notifications", counted(len(notify.destinations), "destination")))
    return findings + _unheard(settings.alerts, notify.destinations)


async def _resolved(destination: DestinationSettings, settings: Settings) -> Finding | None:
    """Return a problem if the host of a destination has no address, or none that may be called."""
    host = host_of(destination)
    if host is None or (destination.kind != "email" and getproxies()):
        return None
    name = f"destination {destination.name}"
    try:
        async with asyncio.timeout(RESOLVE_S):
            loop = asyncio.get_running_loop()
            addresses = {str(one[4][0]) for one in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError, TimeoutError):
        return Finding("problem", name, f"the host {host} has no address", "correct its url or host, or the DNS")
    if settings.notify.allow_private:
        return None
    from ragtide_consumers.notify.destinations.addresses import is_public  # noqa: PLC0415 - it imports aiohttp

    if any(is_public(one) for one in addresses):
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
    matches = [one.match for one in destinations if "firing" in one.on]
    return [
        Finding(
            "warning",
            f"alert rule {rule.name}",
            "its severity is page, and no destination is told of its alerts",
            "add it to the match of a destination in notify.destinations (ragtide docs notify)",
        )
        for rule in rules
        if rule.severity == "page" and not any(_may_match(match, rule) for match in matches)
    ]


def _may_match(match: MatchSettings, rule: AlertRule) -> bool:
    """Return whether a destination may be told of an alert of a rule, whatever its pipeline and segment value."""
    return (
        any_matches(match.rule, rule.name)
        and any_matches(match.metric, rule.metric)
        and (match.segment is None or rule.segment is not None)
        and (match.kind is None or rule.kind in match.kind)
        and (match.severity is None or rule.severity in match.severity)
    )
