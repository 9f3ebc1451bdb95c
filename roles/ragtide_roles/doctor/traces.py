"""Findings of `ragtide doctor` about traces that gave no interaction, by the service that sent them."""

from collections import Counter
from typing import Final

from redis.asyncio import Redis

from ragtide_producers.ingest.outcomes import ServiceTraces, read_outcomes
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable
from ragtide_schemas.times import from_milliseconds

from .finding import LEVELS, Finding, Level, count_of

MOST_SHOWN: Final = 5
"""Most services with a finding."""
NAME_CHARS: Final = 60


async def trace_findings(redis: Redis, settings: Settings, now_ms: int) -> list[Finding]:
    """Return a finding for each service with a trace that gave no interaction in the last hour, the worst first.

    Chains without a retriever and the building of an index are such traces, too, so one that also gave interactions is
    no warning.

    Args:
        redis: client.
        now_ms: time of Redis, in milliseconds since 1970.
    """
    services = await read_outcomes(redis, settings.layout.all(), from_milliseconds(now_ms))
    findings = [_service_finding(service) for service in services if service.without or service.refused]
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    more = len(findings) - MOST_SHOWN
    if more > 0:
        findings[MOST_SHOWN:] = [Finding("ok", "traces", f"{count_of(more, 'more service')} with traces of this kind")]
    return findings


def _service_finding(service: ServiceTraces) -> Finding:
    without, total = service.without, service.traces.total()
    parts = [f"since {service.since:%H:%M} UTC {without.total():,} of {total:,} traces gave no interaction"]
    parts[0] += f": {_numbers(without)}" if without else ""
    refused = service.refused.total()
    if refused:
        parts.append(f"{count_of(refused, 'interaction')} cannot be used: {_numbers(service.refused)}")
    level: Level = "warning" if refused else "ok"
    if total and without.total() == total:
        level = "problem" if refused else "warning"
    advice = []
    if refused:
        advice.append("the first are dead letters: ragtide dead-letters")
    if without:
        newest = service.newest.get(without.most_common(1)[0][0], "")
        advice.append(f"see why: ragtide publish explain {newest[:32]}".rstrip())
    name = printable(service.service)[:NAME_CHARS]
    return Finding(level, f"traces of {name}" if name else "traces", "; ".join(parts), ", ".join(advice))


def _numbers(counted: Counter[str]) -> str:
    return ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in counted.most_common())
