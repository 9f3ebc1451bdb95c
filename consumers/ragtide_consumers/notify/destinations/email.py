"""E-mail: a message in plain text and HTML, by an SMTP server.

A repeated delivery has the same Message-ID, by which many mail servers remove it. Later messages about the same alert
or group refer to the first, so a mail program shows them as one conversation.
"""

import hashlib
import html
import smtplib
import socket
import ssl
from contextlib import closing, suppress
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Final

import structlog

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_schemas import utc_now
from ragtide_schemas.printable import printable

from ..messages import NotificationText, message_text
from ..notification import Notification
from .addresses import PrivateAddressError, check_public
from .http import SHOWN_CHARS, mask, secrets_of
from .protocol import DeliveryThreads, Preview, Refused, TryLater

PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
"""Usual port of each form of encryption."""

REPLY_BYTES: Final = 65_536
"""Most bytes of one reply of a server."""

log = structlog.get_logger()


class Email:
    """People who read e-mail.

    Args:
        notify: settings of all notifications.
    """

    grouped = True
    resend_s = None

    def __init__(self, settings: DestinationSettings, notify: NotifySettings) -> None:
        self.name = settings.name
        self.timeout_s = notify.timeout_s
        """Seconds that one delivery may take."""
        self._settings, self._allow_private = settings, notify.allow_private
        self._host, self._port = settings.host or "", settings.port or PORTS[settings.tls]
        self._secrets = secrets_of(settings)
        self._threads = DeliveryThreads(settings.name)

    async def deliver(self, notification: Notification) -> str:
        """Send a message, and return the Message-ID of the first message about it.

        Raises:
            TryLater: it failed, and may succeed later.
            Refused: it would fail again.
        """
        try:
            message = self.message(notification, utc_now())
            message.as_bytes()  # some versions of Python look for injected headers only here
        except (ValueError, MessageError):
            raise Refused(f"{self.name} has an address that e-mail cannot carry: correct sender and to") from None
        client = _MailConnection(
            self._settings, self._host, self._port, self.timeout_s, allow_private=self._allow_private
        )
        try:
            refused = await self._threads.run(lambda: client.send(message), self.timeout_s)
        except PrivateAddressError as error:
            raise Refused(f"{self.name} is not reached: {error}") from None
        except smtplib.SMTPException as error:
            raise self._failure(error) from None
        except TimeoutError:
            raise TryLater(f"{self.name} did not take the message within {self.timeout_s:g} s") from None
        except ConfigurationError as error:
            raise TryLater(f"{self.name} is not reached: {error}") from None
        except ssl.SSLError:
            raise TryLater(f"{self.name} is not reached: TLS with {self._host} fails (check its certificate)") from None
        except ValueError:  # such as a password outside of ASCII, which SMTP cannot carry
            raise Refused(f"{self.name} has a user, password or host that SMTP cannot carry: correct it") from None
        except OSError as error:
            reason = error.strerror or "no connection"
            raise TryLater(f"{self.name} is not reached: {self._host}:{self._port} ({reason})") from None
        finally:
            client.abort()
        if refused:
            log.warning("e-mail recipients refused", destination=self.name, refused=refused, of=len(self._settings.to))
        return notification.sent_as or str(message["Message-ID"])

    def preview(self, notification: Notification) -> list[Preview]:
        """Return the message that `deliver` would send. Nothing is sent."""
        message = self.message(notification, utc_now())
        body = message.get_body(("plain",))
        return [
            Preview(
                f"SMTP {self._host}:{self._port} ({self._settings.tls})",
                {name: str(value) for name, value in message.items()},
                body.get_content() if body is not None else "",
            )
        ]

    async def aclose(self) -> None:
        """Start no further delivery."""
        self._threads.close()

    def message(self, notification: Notification, now: datetime) -> EmailMessage:
        """Return the message about a notification.

        Args:
            now: wall time of the attempt.
        """
        text, sender = message_text(notification), self._settings.sender or ""
        alerts = [f"{alert.alert_id}:{alert.status}" for alert in notification.alerts]
        parts = (notification.key, notification.status, str(notification.repeat), str(notification.n_withheld), *alerts)
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]
        message = EmailMessage(policy=SMTP)
        message["From"] = _address(sender)
        message["To"] = [_address(recipient) for recipient in self._settings.to]
        message["Subject"] = header_text(text.title)
        message["Date"] = format_datetime(now)
        message["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
        if notification.sent_as:
            message["In-Reply-To"] = message["References"] = header_text(notification.sent_as)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(f"{text.plain}\n")
        message.add_alternative(html_of(text), subtype="html")
        return message

    def _failure(self, error: smtplib.SMTPException) -> TryLater | Refused:
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            codes = [code for code, _ in error.recipients.values()]
            reason = f"{self.name} refuses all recipients ({', '.join(str(code) for code in sorted(set(codes)))})"
            return TryLater(reason) if any(code < 500 for code in codes) else Refused(reason)
        if isinstance(error, smtplib.SMTPNotSupportedError):
            return Refused(f"{self.name} does not offer what the settings ask for ({self._clean(str(error))})")
        if isinstance(error, smtplib.SMTPResponseException):
            reply = error.smtp_error
            answer = self._clean(reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply))
            reason = f"{self.name} answered {error.smtp_code}: {answer}"
            return Refused(reason) if error.smtp_code >= 500 else TryLater(reason)
        return TryLater(f"{self.name} closed the connection")

    def _clean(self, text: str) -> str:
        return printable(mask(text, self._secrets))[:SHOWN_CHARS]


def header_text(text: str) -> str:
    """Return a text for a header in one line.

    Python reads an encoded word (RFC 2047) in the value of a header, and the decoded text may hold a line feed, which
    begins a header of its own. So no encoded word may stand in the text.

    >>> header_text("=?utf-8?q?=0aBcc:_v@evil.example?=")
    '= ?utf-8?q?=0aBcc:_v@evil.example?='
    """
    return printable(text).replace("=?", "= ?")


def _address(text: str) -> Address:
    if header_text(text) != text:
        raise ValueError("an address must have no encoded words and no control characters")
    address = Address(addr_spec=text)
    if address.addr_spec != text:
        raise ValueError("the text is no single address")
    return address


def html_of(text: NotificationText) -> str:
    """Return a message as HTML without scripts, images and styles from elsewhere."""
    rows = "".join(
        f"<tr><td><b>{html.escape(name)}</b></td><td>{html.escape(value)}</td></tr>" for name, value in text.facts
    )
    parts = [f"<h2>{html.escape(text.title)}</h2>"]
    parts += [f"<p>{html.escape(sentence)}</p>" for sentence in text.sentences]
    parts += [
        f'<p><a href="{html.escape(answer.link)}">{html.escape(answer.label)}</a>{html.escape(answer.because)}</p>'
        for answer in text.answers
    ]
    parts += [f"<table>{rows}</table>"] if rows else []
    parts += [f'<p><a href="{html.escape(text.link)}">{html.escape(text.link_name)}</a></p>'] if text.link else []
    return f"<!doctype html><html><body>{''.join(parts)}</body></html>\n"


class _MailConnection:
    """One connection to an SMTP server, in a thread; another thread may end it."""

    def __init__(
        self, settings: DestinationSettings, host: str, port: int, timeout_s: float, *, allow_private: bool
    ) -> None:
        self._settings, self._host, self._port, self._timeout_s = settings, host, port, timeout_s
        self._allow_private = allow_private
        self._opened: socket.socket | None = None

    def send(self, message: EmailMessage) -> int:
        """Send a message, and return how many of several recipients the server refused."""
        settings, sender = self._settings, self._settings.sender or ""
        context = None if settings.tls == "none" else tls_context()
        with self._connect() as connected:
            self._opened = connected
            if context is not None and settings.tls == "tls":
                self._opened = context.wrap_socket(connected, server_hostname=self._host)
            with closing(_OpenedSmtp(self._opened, sender.rpartition("@")[2], self._timeout_s)) as client:
                client.read_greeting(self._host, self._port)
                if settings.tls == "starttls":
                    client.starttls(context=context)
                    self._opened = client.sock
                if settings.user is not None and settings.password is not None:
                    client.login(settings.user, settings.password.get_secret_value())
                refused = client.send_message(message, sender, list(settings.to))
                with suppress(smtplib.SMTPException, OSError):
                    client.quit()  # the server has the message, whatever it answers now
                return len(refused)

    def abort(self) -> None:
        """End the connection, so that a thread that waits for the server ends, too."""
        if self._opened is not None:
            with suppress(OSError, ValueError):
                self._opened.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> socket.socket:
        failure = OSError("no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM):
            opened = socket.socket(family, kind, protocol)
            try:
                if not self._allow_private:
                    check_public(str(address[0]))
                opened.settimeout(self._timeout_s)
                opened.connect(address)
            except OSError as error:
                opened.close()
                failure = error
            else:
                return opened
        raise failure


class _OpenedSmtp(smtplib.SMTP):
    """The protocol on a connection that is open already."""

    def __init__(self, opened: socket.socket, own_name: str, timeout_s: float) -> None:
        super().__init__(local_hostname=own_name, timeout=timeout_s)
        self._given = opened

    def read_greeting(self, host: str, port: int) -> None:
        """Read the greeting of the server. Its name is checked by `starttls`."""
        self._host = host
        code, reply = self.connect(host, port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, reply)

    def _get_socket(self, *_: object) -> socket.socket:
        return self._given

    def getreply(self) -> tuple[int, bytes]:
        """Return a reply of the server.

        The library limits each line of a reply, and not their number: a server could send lines for ever.

        Raises:
            SMTPServerDisconnected: the reply is larger than `REPLY_BYTES`.
        """
        if self.file is None and self.sock is not None:
            self.file = self.sock.makefile("rb")
        if not isinstance(self.file, _BoundedLines):
            self.file = _BoundedLines(self.file)
        self.file.left = REPLY_BYTES
        return super().getreply()


class _BoundedLines:
    """The lines of a server, of which so many bytes are read for one reply."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.left = REPLY_BYTES

    def readline(self, most: int) -> bytes:
        """Return the next line.

        Raises:
            OSError: the reply is larger than its limit.
        """
        line: bytes = self._file.readline(most)
        self.left -= len(line)
        if self.left < 0:
            raise OSError(f"the reply of the server is larger than {REPLY_BYTES:,} bytes")
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()
