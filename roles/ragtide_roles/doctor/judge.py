"""The findings of `ragtide doctor` about the judge: whether it is asked, its last error, its cost."""

from collections import defaultdict

from redis.asyncio import Redis

from ragtide_consumers.labelers.remote.spend import read_spent
from ragtide_consumers.labelers.remote.state import JudgeState, read_judge_states
from ragtide_runtime.settings.model import Settings

from .finding import Finding

MOST_SHOWN = 5
"""Different states of one judge that are shown; a deployment has one in most cases."""


async def judge_findings(redis: Redis, settings: Settings) -> list[Finding]:
    """Return the state of every judge that processes of the deployment ask, and the dollars spent of its limits."""
    processes: defaultdict[JudgeState, list[str]] = defaultdict(list)
    for name, state in (await read_judge_states(redis, settings.prefix)).items():
        processes[state].append(name)
    found = [_of_state(state, names) for state, names in processes.items()]
    worst = sorted(found, key=lambda finding: ("problem", "warning", "ok").index(finding.level))[:MOST_SHOWN]
    return worst + await _spent(redis, settings)


def _of_state(state: JudgeState, processes: list[str]) -> Finding:
    subject = f"judge {state.model}"
    asked_by = f"{len(processes)} processes" if len(processes) > 1 else processes[0]
    if state.left_alone:
        return Finding(
            "problem",
            subject,
            f"{asked_by}: left alone, because calls fail: {state.last_error}",
            "correct its key, model, address or quota, or wait until the endpoint works again",
        )
    if state.over_budget:
        return Finding(
            "warning",
            subject,
            f"{asked_by}: the spend limit of the {state.over_budget} is reached",
            f"raise judge.spend_per_{state.over_budget}_usd, or wait for the next {state.over_budget}",
        )
    if state.asked_to_wait:
        return Finding(
            "warning",
            subject,
            f"{asked_by}: the endpoint asks for fewer calls (429)",
            "set judge.requests_per_minute, or ask the provider for a higher limit",
        )
    if state.last_error:
        return Finding("warning", subject, f"{asked_by}: the last call failed: {state.last_error}")
    return Finding("ok", subject, f"{asked_by}: answers")


async def _spent(redis: Redis, settings: Settings) -> list[Finding]:
    judge = settings.judge
    limits = (judge.spend_per_hour_usd, judge.spend_per_day_usd)
    if limits == (None, None):
        return []
    spent = await read_spent(redis, settings.prefix)
    parts = [
        (amount, limit, f"${amount:.2f} of ${limit:.2f} {name}")
        for amount, limit, name in zip(
            (spent.hour_usd, spent.day_usd), limits, ("this hour", "today (UTC)"), strict=True
        )
        if limit is not None
    ]
    reached = any(amount >= 0.9 * limit for amount, limit, _ in parts)
    return [
        Finding(
            "warning" if reached else "ok",
            "judge: spent",
            ", ".join(said for _, _, said in parts),
            "raise judge.spend_per_hour_usd or judge.spend_per_day_usd, or ask for fewer labels" if reached else "",
        )
    ]
