"""Users of the page: how they are known, and what they may see and order."""

import hmac
import json
import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated, Final, cast
from urllib.parse import quote

from fastapi import Depends, Request
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import TokenSettings, token_digest
from ragtide_schemas.printable import printable

from .access import ANYBODY, Client
from .admission import GuardContext, addresses_of_request, client_of, guard_context_of
from .problems import HttpProblem

SESSION_COOKIE: Final = "ragtide_session"
LOCAL: Final = "local user"
"""Name of the user of a service without tokens, which answers to its own machine only."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user of the page."""

    name: str
    is_operator: bool
    """Whether the user may give orders, such as a silence or a retry."""
    sees_texts: bool
    """Whether the user may see questions, documents and answers."""
    patterns: tuple[str, ...]
    """Patterns of the pipelines that the user may see; empty for all."""
    session: bool = False
    """Whether the user has logged in with a token, and so can log out."""

    def may_use(self, pipeline: str) -> bool:
        """Return whether the user may see a pipeline."""
        return not self.patterns or any(fnmatchcase(pipeline, pattern) for pattern in self.patterns)


class LoginNeededError(Exception):
    """A request of a browser without a login.

    Attributes:
        location: the login page, which leads back.
    """

    def __init__(self, request: Request) -> None:
        super().__init__("the page needs a login")
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.location = "/login" + (f"?next={quote(path[:1000])}" if request.method == "GET" and path != "/" else "")


class Sessions:
    """Logins with a token. Redis holds them, so any process of the service knows them, and each ends in time.

    Args:
        redis: client.
        settings: tokens, and the life of a session.
    """

    def __init__(self, redis: Redis, settings: Settings) -> None:
        self._redis = redis
        self._settings = settings
        self._streams = Streams(settings.prefix, 0)

    def token_of(self, token: str) -> TokenSettings | None:
        """Return the settings of a token; None for an unknown token."""
        digest, match = token_digest(token), None
        # Every token is compared, so that the time does not reveal which was nearly right.
        for known in self._settings.serve.tokens:
            if hmac.compare_digest(known.digest, digest):
                match = known
        return match

    async def begin(self, token: TokenSettings) -> str:
        """Begin a session, and return the content of its cookie."""
        cookie = secrets.token_urlsafe(32)
        content = json.dumps({"token": token.digest.hex()})
        await self._redis.set(self._key(cookie), content, px=int(self._settings.web.session_s * 1000))
        return cookie

    async def find(self, cookie: str) -> TokenSettings | None:
        """Return the token of a session; None if the session has ended, or its token is no longer in the settings."""
        stored = cast("bytes | None", await self._redis.get(self._key(cookie[:200])))
        if stored is None:
            return None
        digest = json.loads(stored)["token"]
        return next((token for token in self._settings.serve.tokens if token.digest.hex() == digest), None)

    async def end(self, cookie: str) -> None:
        """End a session."""
        await self._redis.delete(self._key(cookie[:200]))

    def _key(self, cookie: str) -> str:
        return self._streams.web_session(sha256(cookie.encode("utf-8", "replace")).hexdigest())


def cookie_of(request: Request, name: str) -> str | None:
    """Return the cookie with the longest path: another ragtide at the root of the site has one of the same name."""
    for header in request.headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value.strip('"')
    return None


async def viewer_of(request: Request, shared: GuardContext) -> Viewer | None:
    """Return the user of a request; None if the request names none.

    A header of a trusted proxy counts first, then a login, then a token. A service without tokens and without such a
    header answers to its own machine only, whose user may do everything.
    """
    settings = shared.settings
    header = settings.serve.trusted_header
    if header is not None:
        name = request.headers.get(header, "").strip()
        if name and request.client is not None and settings.serve.trusts(request.client.host):
            shared.clients.hold(request.scope["state"], f"user {name[:200]}")
            is_operator = any(fnmatchcase(name, pattern) for pattern in settings.web.operators)
            return Viewer(printable(name)[:200], is_operator, _sees(settings, is_operator=is_operator), ())
    cookie = cookie_of(request, SESSION_COOKIE)
    token = None if cookie is None else await Sessions(shared.redis, settings).find(cookie)
    if cookie is not None and token is None:
        shared.clients.wrong_guess(addresses_of_request(request, shared))
    if token is not None:
        shared.clients.hold(request.scope["state"], token.digest.hex())
        is_operator = "operate" in token.access
        patterns = () if "*" in token.pipelines else token.pipelines
        sees = _sees(settings, is_operator=is_operator)
        return Viewer(token.name, is_operator, sees, patterns, session=True)
    if header is None and not shared.clients.need_tokens:
        shared.clients.hold(request.scope["state"], ANYBODY)
        return Viewer(LOCAL, True, settings.web.texts != "nobody", ())
    if settings.serve.tokens and shared.clients.has_token(request.headers):
        return viewer_of_client(client_of(request, shared, "read"), shared)
    return None


def viewer_of_client(client: Client, shared: GuardContext) -> Viewer:
    """Return what a client of the API may see: as much as a user of the page with the same token.

    A client of a service without tokens may see everything, as the local user of the page.
    """
    is_operator = "operate" in client.access or not shared.clients.need_tokens
    sees_texts = _sees(shared.settings, is_operator=is_operator)
    return Viewer(client.name, is_operator, sees_texts, client.patterns)


def _sees(settings: Settings, *, is_operator: bool) -> bool:
    return settings.web.texts == "viewer" or (settings.web.texts == "operator" and is_operator)


def sees_all_pipelines(viewer: Viewer) -> None:
    """Let a user of all pipelines pass.

    Raises:
        HttpProblem: 403, the user's token is for some pipelines.
    """
    if viewer.patterns:
        raise HttpProblem(403, f"the token {viewer.name!r} is for some pipelines, and this is about all of them")


async def reader(request: Request, shared: Annotated[GuardContext, Depends(guard_context_of)]) -> Viewer:
    """Return the user of a request.

    Raises:
        LoginNeededError: the request names none.
    """
    viewer = await viewer_of(request, shared)
    if viewer is None:
        raise LoginNeededError(request)
    return viewer


async def operator(viewer: Annotated[Viewer, Depends(reader)]) -> Viewer:
    """Return the user of an order.

    Raises:
        HttpProblem: 403, the user may only look.
    """
    if not viewer.is_operator:
        raise HttpProblem(403, f"{viewer.name!r} may look and give no orders: add 'operate' to the token's access")
    return viewer


Reader = Annotated[Viewer, Depends(reader)]
Operator = Annotated[Viewer, Depends(operator)]
