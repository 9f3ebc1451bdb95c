"""Tokens: which client may do what, and how much of it."""

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ragtide_runtime.settings.serve import Access, ServeSettings, TokenSettings, token_digest

from .problems import HttpProblem

BURST_S: Final = 2.0
"""Seconds of a limit that a client may use at once."""
HEADER_MAX_CHARS: Final = 4096
ALL: Final = ("*",)


class TokenBucket:
    """A limit of a rate, with a burst.

    Args:
        per_s: units a second; None for no limit.
        clock: monotonic seconds.
    """

    def __init__(self, per_s: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._left = self._most
        self._at = clock()

    @property
    def _most(self) -> float:
        return 0.0 if self._per_s is None else max(1.0, self._per_s * BURST_S)

    def wait_s(self) -> float:
        """Return the seconds until the next unit is allowed; 0 if it is allowed now."""
        if self._per_s is None:
            return 0.0
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        return max(0.0, (1.0 - self._left) / self._per_s)

    def take(self, units: float) -> None:
        """Count units. A debt of more than a burst is not carried on: the limit is for the long run."""
        if self._per_s is not None:
            self._left = max(self._left - units, -30.0 * self._per_s)


@dataclass(frozen=True, slots=True)
class Client:
    """A client that is known by its token."""

    name: str
    access: tuple[Access, ...]
    pipelines: tuple[str, ...]
    """Patterns of the pipelines that it may read and write; `*` for all."""
    requests: TokenBucket
    bytes: TokenBucket

    def may_use(self, pipeline: str) -> bool:
        """Return whether the client may read and write a pipeline."""
        return any(fnmatchcase(pipeline, pattern) for pattern in self.pipelines)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns; empty for all pipelines."""
        return () if "*" in self.pipelines else self.pipelines


class Clients:
    """The clients of the service.

    Args:
        settings: tokens and limits. Without tokens every client of this machine may do everything.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._known = [(token.digest, _client(token, settings)) for token in settings.tokens]
        self._behind_proxy = settings.trusted_header is not None
        self._anybody = Client(
            "anybody",
            ("read", "write"),
            ALL,
            TokenBucket(settings.requests_per_s),
            TokenBucket(settings.bytes_per_s),
        )

    @property
    def need_tokens(self) -> bool:
        """Whether a client needs a token."""
        return bool(self._known) or self._behind_proxy

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a token, known or not."""
        return any(True for _ in _tokens_in(headers))

    def identified(self, headers: Mapping[str, str]) -> Client:
        """Return the client of a request.

        Raises:
            HttpProblem: 401, no token of the request is known.
        """
        if not self.need_tokens:
            return self._anybody
        found = None
        given = [token_digest(token) for token in _tokens_in(headers)]
        # Every token is compared, so that the time does not tell which one was nearly right.
        for digest, client in self._known:
            for one in given:
                if hmac.compare_digest(digest, one):
                    found = client
        if found is None:
            problem = "the token is not known" if given else "the request has no token"
            raise HttpProblem(401, f"{problem}: send a token of serve.tokens as Authorization: Bearer TOKEN")
        return found

    def admitted(self, headers: Mapping[str, str], wanted: Access) -> Client:
        """Return the client of a request that is within its rights and limits; the request is counted.

        Raises:
            HttpProblem: 401 without a known token, 403 without the right, 429 beyond a limit.
        """
        client = self.identified(headers)
        if wanted not in client.access:
            raise HttpProblem(403, f"the token {client.name!r} may not {wanted}: add {wanted!r} to its access")
        wait_s = max(client.requests.wait_s(), client.bytes.wait_s())
        if wait_s > 0:
            raise HttpProblem(
                429, f"the token {client.name!r} is beyond its limit of requests or bytes", retry_after_s=wait_s
            )
        client.requests.take(1)
        return client


def _client(token: TokenSettings, settings: ServeSettings) -> Client:
    return Client(
        token.name,
        token.access,
        token.pipelines,
        TokenBucket(token.requests_per_s or settings.requests_per_s),
        TokenBucket(token.bytes_per_s or settings.bytes_per_s),
    )


def _tokens_in(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens of a request: a bearer token, both parts of basic authentication, or `x-api-key`.

    Langfuse's SDK sends its public key as the user and its secret key as the password.
    """
    given = headers.get("authorization", "")[:HEADER_MAX_CHARS]
    scheme, _, rest = given.partition(" ")
    if scheme.lower() == "bearer":
        yield rest.strip()
    elif scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return
        yield from (part for part in (password, user) if part)
    key = headers.get("x-api-key", "")[:HEADER_MAX_CHARS]
    if key:
        yield key
