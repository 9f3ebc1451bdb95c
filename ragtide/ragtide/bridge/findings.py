"""Findings of `ragtide doctor` about the topics of a bridge that the settings name."""

import asyncio
from contextlib import suppress

from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.settings.model import Settings

from .addresses import BrokerAddress
from .links import CONNECT_S, TopicMissingError, link_class
from .service import bridge_addresses


async def bridge_findings(settings: Settings) -> list[Finding]:
    """Return a finding about each topic: whether its broker answers and has it. None is read or written.

    Args:
        settings: of the deployment; without topics there is no finding.
    """
    bridge = settings.bridge
    if not (bridge.source or bridge.alerts or bridge.events or bridge.estimates):
        return []
    try:
        addresses = bridge_addresses(bridge)
    except ConfigurationError as error:
        return [Finding("problem", "bridge", str(error), "correct the settings of the bridge")]
    return await asyncio.gather(*(_finding(direction, address, settings) for direction, address in addresses.items()))


async def _finding(direction: str, address: BrokerAddress, settings: Settings) -> Finding:
    subject = f"bridge {direction}"
    try:
        link = link_class(address.kind)(address, settings.bridge.group, settings.bridge.batch)
    except ConfigurationError as error:
        return Finding("problem", subject, str(error), "install the extra")
    try:
        async with asyncio.timeout(2 * CONNECT_S):
            await link.open(None)
            await link.check()
    except TopicMissingError as error:
        return Finding("problem", subject, str(error), "create the topic, or correct its name")
    except link.errors as error:
        found = f"the broker of {address.shown} does not answer: {explained(error)}"
        return Finding("problem", subject, found, "start the broker, or correct the URL")
    finally:
        with suppress(TimeoutError):
            await link.close()
    return Finding("ok", subject, address.shown)
