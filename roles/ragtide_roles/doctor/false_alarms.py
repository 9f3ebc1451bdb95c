"""The finding of `ragtide doctor` about the false alarms that a deployment allows."""

from ragtide_aggregator.alerts.watches import watches
from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding, counted


async def false_alarm_findings(deployment: Deployment) -> list[Finding]:
    """Return the budget or the rate of false alarms with the number of detectors that share it, if there is one."""
    settings = deployment.settings
    budget = settings.budget
    if budget.false_discovery_rate is not None:
        allowed = f"at most {100 * budget.false_discovery_rate:.3g}% of the alarms of {budget.period} are false"
    elif budget.false_alarms is not None:
        allowed = f"at most {budget.false_alarms:g} in {budget.period}"
    else:
        return []
    try:
        states = await deployment.states()
    except CheckpointError:
        # The finding of its partition names the damage.
        return []
    number = sum(watches(settings.alerts, state.keys) for state in states)
    return [Finding("ok", "false alarms", f"{allowed}, on average, of {counted(number, 'detector')} together")]
