"""Builds a destination from its settings."""

import aiohttp

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings

from .alertmanager import Alertmanager
from .email import Email
from .pagerduty import PagerDuty
from .protocol import Destination
from .slack import Slack
from .teams import Teams
from .webhook import Webhook


def destination_of(
    settings: DestinationSettings, notify: NotifySettings, session: aiohttp.ClientSession, *, prefix: str = "ragtide"
) -> Destination:
    """Return the destination that the settings describe.

    Args:
        settings: of the destination.
        notify: settings of all notifications.
        session: that `open_session` returned; the caller closes it after the destinations.
        prefix: of the keys in Redis; webhooks name the deployment by it.

    Raises:
        ConfigurationError: a library that the kind needs is not installed.
    """
    match settings.kind:
        case "webhook":
            return Webhook(settings, notify, session, prefix=prefix)
        case "alertmanager":
            return Alertmanager(settings, notify, session)
        case "pagerduty":
            return PagerDuty(settings, notify, session)
        case "slack":
            return Slack(settings, notify, session)
        case "teams":
            return Teams(settings, notify, session)
        case "email":
            return Email(settings, notify)
        case kind:
            raise ConfigurationError(f"destination {settings.name}: kind {kind} is not available in this release")
