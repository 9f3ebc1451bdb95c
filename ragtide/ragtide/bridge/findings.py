"""Findings of `ragtide doctor` about the topics of the bridge; without topics nothing of the bridge is imported."""

from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.settings.model import Settings


async def bridge_findings(settings: Settings) -> list[Finding]:
    """Return a finding about each topic: whether its broker answers and has it. None is read or written.

    Without topics there is no finding.
    """
    bridge = settings.bridge
    if not (bridge.source or bridge.alerts or bridge.events or bridge.estimates):
        return []
    from .service import topic_findings  # noqa: PLC0415 - as above

    return await topic_findings(settings)
