"""Apprise: the long tail of services, with the extra `ragtide[apprise]`. Text only, at least once.

Apprise opens its own connections. An audit hook of Python checks the address of each of them, as long as a delivery of
this module runs.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings

from ..messages import NotificationText, message_text
from ..notification import Notification
from .addresses import PrivateAddressError, check_public
from .http import MASK
from .protocol import DeliveryThreads, Preview, Refused, TryLater

WORD_JOINER: Final = "\u2060"
"""An invisible character that is part of no mention."""


class AppriseService:
    """One service that Apprise knows.

    Args:
        notify: settings of all notifications.

    Raises:
        ConfigurationError: Apprise is not installed, or does not know the address.
    """

    grouped = True
    resend_s = None

    def __init__(self, settings: DestinationSettings, notify: NotifySettings) -> None:
        try:
            import apprise  # noqa: PLC0415  # an extra
        except ImportError:
            raise ConfigurationError(
                f"destination {settings.name} needs Apprise: pip install 'ragtide[apprise]'"
            ) from None
        # Apprise and its HTTP client may log addresses, which hold secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        logging.getLogger("urllib3").setLevel(logging.WARNING)
        self.name = settings.name
        self.timeout_s = notify.timeout_s
        """Seconds that one delivery may take."""
        self._url = settings.url.get_secret_value() if settings.url else ""
        self._allow_private = notify.allow_private
        self._threads = DeliveryThreads(settings.name)
        self._apprise = apprise.Apprise()
        if not self._apprise.add(self._url) or len(self._apprise) != 1:
            raise ConfigurationError(
                f"destination {settings.name}: url is not one address that Apprise knows; give each address a "
                "destination of its own"
            )

    async def deliver(self, notification: Notification) -> str:
        """Send a notification. The service gives no id to messages, so the returned id is empty.

        Raises:
            TryLater: it failed; Apprise does not say whether it may succeed later.
            Refused: the service has an address that is not public.
        """
        refused: list[str] = []
        try:
            delivered = await self._threads.run(lambda: self._notify(notification, refused), self.timeout_s)
        except TimeoutError:
            raise TryLater(f"{self.name} did not take the message within {self.timeout_s:g} s") from None
        if refused:
            raise Refused(f"{self.name} is not reached: {PrivateAddressError()}")
        if not delivered:
            raise TryLater(f"{self.name} did not take the message: check the address in Apprise's own command line")
        return ""

    def preview(self, notification: Notification) -> list[Preview]:
        """Return what Apprise would send. Nothing is sent."""
        text = message_text(notification)
        target = f"Apprise {urlsplit(self._url).scheme}://{MASK}"
        return [Preview(target, {"title": harmless(text.title), "type": self._kind(notification)}, _body(text))]

    async def aclose(self) -> None:
        """Start no further delivery."""
        self._threads.close()

    def _notify(self, notification: Notification, refused: list[str]) -> bool:
        text = message_text(notification)
        message: dict[str, Any] = {
            "title": harmless(text.title),
            "body": _body(text),
            "notify_type": self._kind(notification),
            "body_format": "text",
        }
        if self._allow_private:
            return bool(self._apprise.notify(**message))
        with _checked_connections(refused):
            return bool(self._apprise.notify(**message))

    @staticmethod
    def _kind(notification: Notification) -> str:
        if notification.tone != "problem":
            return "success" if notification.tone == "end" else "info"
        severities = {alert.severity for alert in notification.alerts}
        return "failure" if "page" in severities else "warning" if "ticket" in severities else "info"


def harmless(text: str) -> str:
    """Return a text that mentions nobody in a service that reads `@here`, `<@U1>` or `<!channel>` in plain text.

    >>> harmless("@here") == f"@{WORD_JOINER}here"
    True
    """
    return text.replace("@", f"@{WORD_JOINER}").replace("<", f"<{WORD_JOINER}")


def _body(text: NotificationText) -> str:
    above = harmless(replace(text, link=None).plain)
    return f"{above}\n\n{text.link}" if text.link else above


_refused: ContextVar[list[str] | None] = ContextVar("_refused", default=None)
"""Addresses that were refused in the delivery that runs; None outside of deliveries."""

_installed: Final[list[bool]] = []


@contextmanager
def _checked_connections(refused: list[str]) -> Iterator[None]:
    if not _installed:
        sys.addaudithook(_check)  # for the life of the process: Python has no way to remove it
        _installed.append(True)
    token = _refused.set(refused)
    try:
        yield
    finally:
        _refused.reset(token)


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"socket.connect", "socket.sendto"}:
        return
    refused = _refused.get()
    if refused is None:
        return
    address = arguments[1]
    host = str(address[0]) if isinstance(address, tuple) and address else "a local socket"
    try:
        check_public(host)
    except PrivateAddressError:
        refused.append(host)
        raise
