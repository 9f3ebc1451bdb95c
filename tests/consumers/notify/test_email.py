"""E-mail: the messages, and what the answers of a server mean."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP, compat32
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.support.conditions import until
from tests.support.receiver import destination, receiver
from tests.support.smtp_server import SmtpServer, smtp_server
from tests.support.told import RESOLVED, drift, told_of

from ragtide_consumers.notify.destinations.email import Email, header_text
from ragtide_consumers.notify.destinations.protocol import Refused, TryLater
from ragtide_consumers.notify.messages import message_text
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_schemas import utc_now

HOSTILE = 'lang=<b>"x"</b>'


def fields(server: SmtpServer, **changes: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "sender": "ragtide@example.org",
        "to": ["ann@example.org", "bob@example.org"],
        "tls": "none",
        **changes,
    }


async def test_a_message_has_text_and_html_and_a_stable_id() -> None:
    async with smtp_server() as server, destination("email", **fields(server)) as email:
        assert email.grouped
        told = told_of(drift(segment=HOSTILE))
        first = await email.deliver(told)
        assert await email.deliver(told) == first
        resolved = drift(segment=HOSTILE, status="resolved", resolved_at=RESOLVED)
        assert await email.deliver(told_of(resolved, sent_as=first)) == first
    message, again, later = server.messages
    assert server.recipients[0] == ["ann@example.org", "bob@example.org"]
    assert message["Subject"] == f"trace.adherence of shop, {HOSTILE} fell from 0.910 to 0.712"
    assert message["Message-ID"] == again["Message-ID"] == first
    assert first.endswith("@example.org>")
    assert later["Message-ID"] != first
    assert (later["In-Reply-To"], later["References"]) == (first, first)
    assert later["Subject"].startswith("Resolved: ")
    assert message["Auto-Submitted"] == "auto-generated"
    plain, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None
    assert "https://ragtide.example/a/adherence-3f2a9c" in plain.get_content()
    assert html is not None
    assert "<b>&quot;x&quot;" not in html.get_content()
    assert "lang=&lt;b&gt;&quot;x&quot;&lt;/b&gt;" in html.get_content()


KNOWN = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
         "MIME-Version", "Content-Type"]  # fmt: skip
NAMES = (
    "=?utf-8?q?=0aBcc:_v@evil.example?=",
    "=?utf-8?q?=0aReply-To:_v@evil.example=0a=0aclick_evil.example?=",
    "=?UTF-8?B?CkJjYzogdkBldmlsLmV4YW1wbGU=?=",
    "=?utf-8?q?=0d=0aX:_y?= =?utf-8?q?=0d=0aZ:_y?=",
    "é =?latin-1?q?=0aBcc:_v?= é",
    "x" * 70 + " =?utf-8?q?=0aBcc:_v@evil.example?=",
    "=?utf-8*en?q?=E2=80=A8Bcc:_v?=",
    "==??utf-8?q?=0aBcc:_v?=",
    "=\u00ad?utf-8?q?=0aBcc:_v?=",
    "a, b <c@evil.example>; d:e",
    "<b>&amp;</b>",
)
"""Names that some version of Python, or a mail program, reads as more than a name."""


def test_no_name_writes_a_header_or_ends_one() -> None:
    settings = DestinationSettings(
        name="e", kind="email", host="mail.example", sender="r@example.org", to=("ann@example.org", "bob@example.org")
    )
    email = Email(settings, NotifySettings())
    for name in NAMES:
        for field in ("pipeline", "segment", "rule", "message", "labeler"):
            changes = {field: name} | ({"kind": "stall", "observed": None} if field == "message" else {})
            told = told_of(drift(**changes), sent_as=f"<a@example.org> {name}")
            raw = email.message(told, utc_now()).as_bytes()
            for policy in (compat32, SMTP):
                found = message_from_bytes(raw, policy=policy)
                assert found.keys() == KNOWN, (name, field)
                assert found["To"] == "ann@example.org, bob@example.org"
                assert found["From"] == "r@example.org"
            parsed = message_from_bytes(raw, policy=SMTP)
            assert isinstance(parsed, EmailMessage)
            # A mail program that decodes every encoded word of the subject finds the title in one line.
            decoded = str(make_header(decode_header(str(parsed["Subject"]))))
            assert decoded.splitlines() == [decoded]
            assert parsed["Subject"].replace(" ", "") == header_text(message_text(told).title).replace(" ", "")
            body = parsed.get_body(("plain",))
            assert body is not None
            assert body.get_content().replace("\r\n", "\n") == f"{message_text(told).plain}\n"
            html = parsed.get_body(("html",))
            assert html is not None
            assert "<b>&amp;</b>" not in html.get_content()


async def test_a_header_that_python_refuses_to_write_is_a_refused_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    class WriteError(MessageError):
        """The class of the error is newer than the oldest version of Python that is supported."""

    def refused(*_: object, **__: object) -> bytes:
        raise WriteError

    async with smtp_server() as server, destination("email", **fields(server)) as email:
        monkeypatch.setattr(EmailMessage, "as_bytes", refused)
        with pytest.raises(Refused):
            await email.deliver(told_of())


@pytest.mark.parametrize("sender", ["a,b@example.org", "=?utf-8?q?x?=@example.org", "a<b@example.org", "a@b>c"])
async def test_a_sender_that_is_no_single_address_is_refused(sender: str) -> None:
    async with smtp_server() as server, destination("email", **fields(server, sender=sender)) as email:
        with pytest.raises(Refused, match="address"):
            await email.deliver(told_of())
    assert server.messages == []


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's certificate that this machine trusts."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return context


@pytest.mark.parametrize("form", ["starttls", "tls"])
async def test_user_and_password_go_over_tls(tls: ssl.SSLContext, form: str) -> None:
    async with smtp_server(tls, starttls=form == "starttls") as server:
        given = fields(server, host="localhost", tls=form, user="me", password="s3cret")
        async with destination("email", **given) as email:
            await email.deliver(told_of())
    assert server.logins == [("me", "s3cret")]
    assert server.encrypted == [True]


async def test_a_certificate_of_another_name_is_not_accepted(tls: ssl.SSLContext) -> None:
    async with (
        smtp_server(tls, starttls=True) as server,
        destination("email", **fields(server, tls="starttls", user="me", password="pw")) as email,
    ):
        with pytest.raises(TryLater, match=r"TLS with 127\.0\.0\.1 fails"):
            await email.deliver(told_of())
    assert server.logins == []


async def test_nothing_is_sent_if_the_server_offers_no_starttls() -> None:
    async with smtp_server() as server, destination("email", **fields(server, tls="starttls")) as email:
        with pytest.raises(Refused, match="STARTTLS"):
            await email.deliver(told_of())
    assert server.messages == []


@pytest.mark.parametrize(
    ("answers", "expected", "reason"),
    [
        ({"CONNECT": "421 too busy"}, TryLater, "answered 421"),
        ({"CONNECT": "554 no service"}, Refused, "answered 554"),
        ({"MAIL": "451 later"}, TryLater, "answered 451: later"),
        ({"MAIL": "550 blocked"}, Refused, "answered 550: blocked"),
        ({"RCPT": "550 unknown"}, Refused, r"all recipients \(550\)"),
        ({"RCPT": "450 grey"}, TryLater, r"all recipients \(450\)"),
        ({"DATA": "552 too large"}, Refused, "answered 552"),
    ],
)
async def test_an_answer_of_the_server_has_a_meaning(
    answers: dict[str, str], expected: type[Exception], reason: str
) -> None:
    async with smtp_server() as server, destination("email", **fields(server)) as email:
        server.answers = answers
        with pytest.raises(expected, match=reason):
            await email.deliver(told_of())


async def test_a_wrong_password_is_final_and_stays_secret(tls: ssl.SSLContext) -> None:
    async with smtp_server(tls) as server:
        server.answers = {"AUTH": "535 bad password s3cret-of-me"}
        given = fields(server, host="localhost", tls="tls", user="me", password="s3cret-of-me")
        async with destination("email", **given) as email:
            with pytest.raises(Refused, match=r"535: bad password \*\*\*"):
                await email.deliver(told_of())
            assert "s3cret" not in repr(email.preview(told_of()))


async def test_a_password_that_smtp_cannot_carry_is_refused_and_stays_secret() -> None:
    async with smtp_server() as server, destination("email", **fields(server, user="me", password="größe")) as email:
        with pytest.raises(Refused, match="user, password or host") as failed:
            await email.deliver(told_of())
    assert "größe" not in str(failed.value)
    assert server.messages == []


async def test_one_refused_recipient_does_not_repeat_the_message_to_the_others() -> None:
    async with smtp_server() as server, destination("email", **fields(server)) as email:
        server.answers = {"RCPT bob@example.org": "550 unknown"}
        await email.deliver(told_of())
    assert server.recipients == [["ann@example.org"]]


async def test_an_error_after_the_message_was_taken_does_not_send_it_again() -> None:
    async with smtp_server() as server, destination("email", **fields(server)) as email:
        server.answers = {"QUIT": "500 what"}
        await email.deliver(told_of())
    assert len(server.messages) == 1


async def test_a_server_that_hangs_is_left_after_the_limit() -> None:
    async with smtp_server() as server:
        server.hangs = True
        async with destination("email", notify={"timeout_s": 0.1}, **fields(server)) as email:
            with pytest.raises(TryLater):
                await email.deliver(told_of())


async def test_servers_that_hang_take_no_thread_from_other_destinations() -> None:
    patient = {"timeout_s": 30}
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(smtp_server())
        server.hangs = True
        others = [
            await stack.enter_async_context(destination("email", notify=patient, **fields(server))) for _ in range(4)
        ]
        hanging = [asyncio.create_task(one.deliver(told_of())) for one in others]
        await until(lambda: server.connections == len(others))
        hooks = await stack.enter_async_context(receiver())
        # The name is resolved in a thread of the event loop.
        url = hooks.url.replace("127.0.0.1", "localhost")
        webhook = await stack.enter_async_context(destination("webhook", notify=patient, url=url))
        await webhook.deliver(told_of())
        assert not any(task.done() for task in hanging)
        server.released.set()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_private_address_is_refused_before_anything_is_sent() -> None:
    async with (
        smtp_server() as server,
        destination("email", notify={"allow_private": False}, **fields(server)) as email,
    ):
        with pytest.raises(Refused, match="not public"):
            await email.deliver(told_of())
    assert server.connections == 0


async def test_no_server_is_tried_again() -> None:
    async with smtp_server() as server:
        pass
    async with destination("email", **fields(server)) as email:
        with pytest.raises(TryLater, match="is not reached"):
            await email.deliver(told_of())
