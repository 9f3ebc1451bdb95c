"""A small SMTP server that records messages: greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, QUIT."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any


class SmtpServer:
    """The recorded messages, and what the server answers."""

    def __init__(self, context: ssl.SSLContext | None, *, starttls: bool) -> None:
        self.context = context
        self.starttls = starttls
        self.port = 0
        self.messages: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.logins: list[tuple[str, str]] = []
        self.encrypted: list[bool] = []
        """Of each message, whether it came over TLS."""
        self.answers: dict[str, str] = {}
        """Answers that differ from the usual ones, by the beginning of a command; of a recipient by `RCPT address`."""
        self.hangs = False
        """The server gives no greeting."""
        self.connections = 0
        self.released = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.hangs:
            await self.released.wait()
            return
        encrypted = self.context is not None and not self.starttls
        recipients: list[str] = []

        async def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")
            await writer.drain()

        await say(self.answers.get("CONNECT", "220 mail.example ready"))
        while line := (await reader.readline()).decode().strip():
            verb = line.split(" ")[0].upper()
            address = line.partition("<")[2].partition(">")[0]
            wanted = self.answers.get(f"{verb} {address}") or self.answers.get(verb)
            if wanted:
                await say(wanted)
            elif verb == "EHLO":
                offers = ["STARTTLS"] if self.starttls and not encrypted else []
                for offer in ["mail.example", *offers, "AUTH PLAIN"]:
                    await say(f"250-{offer}")
                await say("250 SIZE 1000000")
            elif verb == "STARTTLS" and self.context is not None:
                await say("220 go ahead")
                await writer.start_tls(self.context)
                encrypted = True
            elif verb == "AUTH":
                _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
                self.logins.append((user, password))
                await say("235 welcome")
            elif verb == "RCPT":
                recipients.append(address)
                await say("250 ok")
            elif verb == "DATA":
                await say("354 go on")
                body = await reader.readuntil(b"\r\n.\r\n")
                message: Any = message_from_bytes(body[:-5].replace(b"\r\n..", b"\r\n."), policy=default)
                self.messages.append(message)
                self.recipients.append(recipients)
                self.encrypted.append(encrypted)
                await say("250 taken")
            elif verb == "QUIT":
                await say("221 bye")
                return
            else:
                await say("250 ok")


@asynccontextmanager
async def smtp_server(context: ssl.SSLContext | None = None, *, starttls: bool = False) -> AsyncIterator[SmtpServer]:
    """Give a server on a free port of this machine.

    Args:
        context: for TLS, from the first byte unless `starttls`; None for a server without TLS.
        starttls: whether TLS begins with the command STARTTLS.
    """
    kept = SmtpServer(context, starttls=starttls)
    listening = await asyncio.start_server(kept.serve, "127.0.0.1", 0, ssl=None if starttls else context)
    kept.port = listening.sockets[0].getsockname()[1]
    async with listening:
        try:
            yield kept
        finally:
            kept.released.set()
