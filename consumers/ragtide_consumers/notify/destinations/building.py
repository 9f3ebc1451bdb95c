"""Builds a destination from its settings."""

from collections.abc import Mapping
from typing import Final

import aiohttp

from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings

from .alertmanager import Alertmanager
from .apprise import AppriseService
from .email import Email
from .http import HttpDestination
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
    if settings.kind == "webhook":
        return Webhook(settings, notify, session, prefix=prefix)
    if settings.kind == "email":
        return Email(settings, notify)
    if settings.kind == "apprise":
        return AppriseService(settings, notify)
    return _OVER_HTTP[settings.kind](settings, notify, session)


_OVER_HTTP: Final[Mapping[str, type[HttpDestination]]] = {
    "alertmanager": Alertmanager,
    "pagerduty": PagerDuty,
    "slack": Slack,
    "teams": Teams,
}
