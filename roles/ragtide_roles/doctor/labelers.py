"""Findings of `ragtide doctor` about labelers: whether a worker could start, and the endpoints that they call."""

import asyncio
from collections import defaultdict

from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import EndpointState, read_endpoint_states, read_spend
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.evaluators import EvaluatorSettings
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import to_milliseconds, utc_now

from ..sentinels import asks_sentinels, read_sentinels
from .finding import LEVELS, Finding, Level


async def labeler_findings(redis: Redis, settings: Settings, workers: int) -> list[Finding]:
    """Return a finding if no worker could start with these settings, such as a judge without a model.

    If the local labeler scores, a finding names the languages that it knows.

    Args:
        redis: client.
        workers: number of workers that run. They have settings of their own, so with a worker it is a warning only.
    """
    from ragtide_consumers.labelers.evaluators import EvaluatorSet  # noqa: PLC0415 - the other checks need no labeler
    from ragtide_consumers.labelers.local.labeler import LANGUAGES  # noqa: PLC0415
    from ragtide_consumers.labelers.registry import labeler_of  # noqa: PLC0415

    try:
        async with labeler_of(settings, redis) as labeler:
            falls_back = settings.labeler == "judge" and settings.judge.over_budget == "local"
            hidden = labeler.hidden if isinstance(labeler, EvaluatorSet) else {}
            evaluators = [
                _evaluator_finding(evaluator, hidden.get(evaluator.name)) for evaluator in settings.evaluators
            ]
            if "local" not in settings.labelers and not falls_back:
                return evaluators
            known = ", ".join(LANGUAGES.values())
            return [
                *evaluators,
                Finding("ok", "local labeler", f"scores {known}; other languages are language_not_supported"),
            ]
    except ConfigurationError as error:
        level: Level = "warning" if workers else "problem"
        subject = "evaluators" if settings.evaluators else f"labeler {settings.labeler}"
        return [Finding(level, subject, f"no worker starts with these settings: {error}")]


def _evaluator_finding(evaluator: EvaluatorSettings, hidden_by: str | None) -> Finding:
    subject = f"evaluator {evaluator.name}"
    if hidden_by is not None:
        from ragtide_consumers.labelers.evaluators import hidden_sentence  # noqa: PLC0415 - as above

        return Finding("warning", subject, f"it never scores: {hidden_sentence(hidden_by)}")
    chosen = [f"{evaluator.rate:.3%}".replace(".000", "") if evaluator.rate < 1 else "all"]
    chosen.append(f"of the interactions of {', '.join(evaluator.pipelines)}")
    if evaluator.segments:
        segments = "; ".join(f"{name} {' or '.join(values)}" for name, values in evaluator.segments.items())
        chosen.append(f"with {segments}, so its means of a whole pipeline are those of this part")
    return Finding("ok", subject, f"{evaluator.labeler} scores {' '.join(chosen)}")


async def sentinel_findings(redis: Redis, settings: Settings) -> list[Finding]:
    """Return findings about the sentinels: whether they can be asked, and what the schedule means for the alert.

    Args:
        redis: client.
    """
    if settings.judge.sentinels is None:
        return []
    if not asks_sentinels(settings):
        advice = "set labeler to judge or cascade, and judge.model; or remove judge.sentinels"
        return [Finding("warning", "sentinels", "judge.sentinels is set, and no worker has a judge", advice)]
    try:
        sentinels = await asyncio.to_thread(read_sentinels, settings)
    except ConfigurationError as error:
        return [Finding("problem", "sentinels", str(error), "correct judge.sentinels: workers do not start")]
    from ragtide_consumers.sentinels.answers import learned_s  # noqa: PLC0415 - few deployments have sentinels
    from ragtide_consumers.sentinels.service import read_progress  # noqa: PLC0415 - as above

    progress = await read_progress(redis, settings.layout)
    every_s = settings.judge.sentinels_every_s
    counts = f"{len(sentinels):,} sentinels, an answer in {every_s:g} s; {progress.answers:,} answers so far"
    blind_s = learned_s(len(sentinels), every_s)
    counts += f". The first answers of a judge are learned: no change of it is seen in its first {_hours(blind_s)}"
    if (rest_s := blind_s - progress.answers * every_s) > 0:
        counts += f", of which {_hours(rest_s)} remain. Fewer sentinels or a shorter judge.sentinels_every_s see sooner"
    findings = [Finding("ok", "sentinels", counts)]
    late_s = (to_milliseconds(utc_now()) - progress.asked_ms) / 1000
    if progress.answers and late_s > LATE * every_s + LATE_S:
        advice = "check that a worker with these settings runs, and that the judge answers"
        findings.append(Finding("warning", "sentinels", f"the last answer is {late_s:,.0f} s old", advice))
    rules = [rule for rule in settings.alerts if rule.kind == "sentinel"]
    if not rules:
        advice = 'add a rule with kind = "sentinel" (ragtide docs trust-in-the-judge)'
        findings.append(Finding("warning", "sentinels", "no alert rule looks at their answers", advice))
    for rule in rules:
        if rule.run_length is not None:
            days = rule.run_length * every_s / 86_400
            text = f"at most one false alarm in {rule.run_length:,.0f} answers, which are {days:,.1f} days"
            findings.append(Finding("ok", f"alert rule {rule.name}", text))
    return findings


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.0f} minutes"


LATE = 3
"""How many times the time between two answers the last one may be old."""

LATE_S = 120
"""Seconds that it may be older than that."""

MOST_SHOWN = 5
"""Most endpoint states that are shown. Usually all processes report the same state of an endpoint."""


async def endpoint_findings(redis: Redis, settings: Settings) -> list[Finding]:
    """Return findings about the state of each endpoint, and about the dollars spent of each spend limit."""
    processes: defaultdict[EndpointState, list[str]] = defaultdict(list)
    for name, state in (await read_endpoint_states(redis, settings.prefix)).items():
        processes[state].append(name)
    findings = [_endpoint_finding(state, names) for state, names in processes.items()]
    findings = sorted(findings, key=lambda finding: LEVELS.index(finding.level))[:MOST_SHOWN]
    findings += await _spent(redis, settings, "judge", "judge", settings.judge)
    for evaluator in settings.evaluators:
        if evaluator.has_own_account:
            own = settings.of_evaluator(evaluator).judge
            findings += await _spent(redis, settings, evaluator.account, f"evaluators.judge of {evaluator.name}:", own)
    for name, service in settings.services.items():
        findings += await _spent(redis, settings, name, f"services.{name}", service)
    return findings


def _endpoint_finding(state: EndpointState, processes: list[str]) -> Finding:
    judge = state.labeler == "judge"
    subject = f"judge {state.model}" if judge else f"service {state.labeler}"
    table = "judge" if judge else f"services.{state.labeler}"
    asked_by = f"{len(processes)} processes" if len(processes) > 1 else processes[0]
    if state.paused:
        return Finding(
            "problem",
            subject,
            f"{asked_by}: calls are paused, because they fail: {state.last_error}",
            "do what the message says, or wait until the endpoint works again",
        )
    if state.over_budget:
        return Finding(
            "warning",
            subject,
            f"{asked_by}: the spend limit of the {state.over_budget} is reached",
            f"raise {table}.spend_per_{state.over_budget}_usd, or wait for the next {state.over_budget}",
        )
    if state.busy:
        return Finding(
            "warning",
            subject,
            f"{asked_by}: the endpoint asks for fewer calls (429)",
            f"set {table}.requests_per_minute, or ask the provider for a higher limit",
        )
    if state.last_error:
        return Finding("warning", subject, f"{asked_by}: the last call failed: {state.last_error}")
    less = f"; after its refusals it is asked for less: {state.adapted}" if state.adapted else ""
    return Finding("ok", subject, f"{asked_by}: answers{less}")


async def _spent(redis: Redis, settings: Settings, labeler: str, table: str, remote: RemoteSettings) -> list[Finding]:
    if not remote.spend_is_limited:
        return []
    limits = (remote.spend_per_hour_usd, remote.spend_per_day_usd)
    spent = await read_spend(redis, settings.prefix, labeler=labeler)
    parts = [
        (amount, limit, f"${amount:.2f} of ${limit:.2f} {name}")
        for amount, limit, name in zip(
            (spent.hour_usd, spent.day_usd), limits, ("this hour", "today (UTC)"), strict=True
        )
        if limit is not None
    ]
    reached = any(amount >= 0.9 * limit for amount, limit, _ in parts)
    advice = f"raise {table}.spend_per_hour_usd or {table}.spend_per_day_usd, or ask for fewer labels"
    return [
        Finding(
            "warning" if reached else "ok",
            f"{labeler}: spent",
            ", ".join(text for _, _, text in parts),
            advice if reached else "",
        )
    ]
