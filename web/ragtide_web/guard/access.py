"""Tokens: which client may do what, and how much of it; limits on attempts to guess a token."""

import base64
import binascii
import hmac
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from ragtide_runtime.settings.serve import TOKEN_GUESSABLE_CHARS, Access, ServeSettings, token_digest

from .problems import HttpProblem

PER_MINUTE: Final = 20
"""Wrong tokens that an address may send in a minute, in each process."""
BEHIND_PROXY_PER_MINUTE: Final = 200
"""Wrong tokens that a proxy may send in a minute, whatever addresses of clients it states."""
ADDRESSES: Final = 10_000
"""Addresses that are remembered."""
GUESSABLE_CHARS: Final = TOKEN_GUESSABLE_CHARS
"""A token with fewer characters could be guessed: while its address is blocked, it is not even looked at. A longer one
cannot be guessed, so it is never blocked by what others of its address send."""
WINDOW_S: Final = 60.0

BURST_S: Final = 2.0
"""Seconds of a limit that a client may use at once."""
HEADER_MAX_CHARS: Final = 4096
ALL: Final = ("*",)
ANYBODY: Final = "anybody"
"""Name and key of every client of a service without tokens."""


class Attempts:
    """Counts the wrong tokens of each address, on every road: headers, forms, cookies and gRPC.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def blocked(self, addresses: Sequence[str]) -> bool:
        """Return whether one of the addresses of a client has sent too many wrong tokens."""
        return any(count >= limit for (_, count), limit in self._of(addresses))

    def failed(self, addresses: Sequence[str]) -> None:
        """Count a wrong token."""
        for address, ((began, count), _) in zip(addresses, self._of(addresses), strict=True):
            self._known.pop(address, None)
            self._known[address] = began, count + 1
            if len(self._known) > ADDRESSES:
                self._known.popitem(last=False)

    def _of(self, addresses: Sequence[str]) -> list[tuple[tuple[float, int], int]]:
        now, attempts = self._clock(), []
        for place, address in enumerate(addresses):
            began, count = self._known.get(address, (now, 0))
            limit = PER_MINUTE if place == 0 else BEHIND_PROXY_PER_MINUTE
            attempts.append(((now, 0) if now - began >= WINDOW_S else (began, count), limit))
        return attempts


def addresses_of(peer: str, forwarded: str, settings: ServeSettings) -> tuple[str, ...]:
    """Return the addresses to count by: that of the client and, if a trusted proxy stated it, that of the proxy.

    Networks of IPv6 count as one address, because one machine has all addresses of its network.

    Args:
        peer: address of the connection.
        forwarded: value of `X-Forwarded-For`: each proxy adds the address of its client at the end.
        settings: the trusted proxies.

    >>> settings = ServeSettings(trusted_proxies=("10.0.0.5",))
    >>> addresses_of("10.0.0.5", "1.2.3.4", settings), addresses_of("10.0.0.9", "1.2.3.4", settings)
    (('1.2.3.4', 'proxy 10.0.0.5'), ('10.0.0.9',))
    >>> addresses_of("2001:db8::1", "", settings) == addresses_of("2001:db8::2", "", settings)
    True
    """
    if settings.trusts(peer):
        for text in reversed(forwarded[-1000:].split(",")):
            stated = _counted(text.strip())
            if stated is not None and not settings.trusts(text.strip()):
                return stated, f"proxy {peer}"
    return (_counted(peer) or peer,)


def _counted(text: str) -> str | None:
    try:
        ip = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        if not ip.is_loopback:
            return str(IPv6Address(int(ip) >> 64 << 64)) + "/64"
    return str(ip)


class Allowance:
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


class TooManyGuessesProblem(HttpProblem):
    """An address sent too many wrong tokens. Long right ones still pass, because they cannot be guessed."""

    def __init__(self) -> None:
        super().__init__(
            429, "too many wrong tokens came from this address: try again in a minute", retry_after_s=WINDOW_S
        )


@dataclass(frozen=True, slots=True)
class Client:
    """A client that is known by its token."""

    name: str
    access: tuple[Access, ...]
    pipelines: tuple[str, ...]
    """Patterns of the pipelines that it may read and write; `*` for all."""
    requests: Allowance
    bytes: Allowance
    key: str
    """Identifies the client among the requests that are answered now."""

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
        self._known = [
            (
                token.digest,
                Client(
                    token.name,
                    token.access,
                    token.pipelines,
                    Allowance(token.requests_per_s or settings.requests_per_s),
                    Allowance(token.bytes_per_s or settings.bytes_per_s),
                    token.digest.hex(),
                ),
            )
            for token in settings.tokens
        ]
        self._behind_proxy = settings.trusted_header is not None
        self._settings = settings
        self._at_once = max(1, settings.connections // 2)
        self._running: Counter[str] = Counter()
        self.attempts = Attempts()
        self._anybody = Client(
            ANYBODY,
            ("read", "write"),
            ALL,
            Allowance(settings.requests_per_s),
            Allowance(settings.bytes_per_s),
            ANYBODY,
        )

    @property
    def need_tokens(self) -> bool:
        """Whether a client needs a token."""
        return bool(self._known) or self._behind_proxy

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a token, known or not."""
        return any(True for _ in _tokens_in(headers))

    def addresses(self, peer: str | None, headers: Mapping[str, str]) -> Sequence[str]:
        """Return the addresses by which wrong tokens of a request are counted.

        Args:
            peer: address of the connection; None if it has none.
        """
        return addresses_of(peer or "", headers.get("x-forwarded-for", ""), self._settings)

    def admit_guess(self, chars: int, addresses: Sequence[str]) -> None:
        """Let a token or cookie be looked at.

        Raises:
            TooManyGuessesProblem: 429, its address has sent too many wrong ones, and it is short enough to be guessed.
        """
        if not self._may_look(chars, addresses):
            raise TooManyGuessesProblem

    def _may_look(self, chars: int, addresses: Sequence[str]) -> bool:
        return chars >= GUESSABLE_CHARS or not self.attempts.blocked(addresses)

    def wrong_guess(self, addresses: Sequence[str]) -> None:
        """Count a wrong token or cookie.

        Raises:
            TooManyGuessesProblem: 429, its address has sent too many.
        """
        blocked = self.attempts.blocked(addresses)
        self.attempts.failed(addresses)
        if blocked:
            raise TooManyGuessesProblem

    def identified(self, headers: Mapping[str, str], addresses: Sequence[str] = ()) -> Client:
        """Return the client of a request.

        Raises:
            HttpProblem: 401, no token of the request is known; 429, its address has sent too many wrong ones.
        """
        if not self.need_tokens:
            return self._anybody
        match = None
        tokens = list(_tokens_in(headers))
        # Of two tokens, as basic authentication sends, one may be short: the other is looked at.
        self.admit_guess(max((len(token) for token in tokens), default=GUESSABLE_CHARS), addresses)
        sent_digests = [token_digest(token) for token in tokens if self._may_look(len(token), addresses)]
        # Every token is compared, so that the time does not reveal which was nearly right.
        for digest, client in self._known:
            for sent_digest in sent_digests:
                if hmac.compare_digest(digest, sent_digest):
                    match = client
        if match is None:
            if sent_digests:
                self.wrong_guess(addresses)
            problem = "the token is not known" if sent_digests else "the request has no token"
            raise HttpProblem(401, f"{problem}: send a token of serve.tokens as Authorization: Bearer TOKEN")
        return match

    def admitted(self, headers: Mapping[str, str], wanted: Access, addresses: Sequence[str] = ()) -> Client:
        """Return the client of a request that is within its rights and limits; the request is counted.

        Raises:
            HttpProblem: 401 without a known token, 403 without the right, 429 beyond a limit.
        """
        client = self.identified(headers, addresses)
        if wanted not in client.access:
            raise HttpProblem(403, f"the token {client.name!r} may not {wanted}: add {wanted!r} to its access")
        wait_s = max(client.requests.wait_s(), client.bytes.wait_s())
        if wait_s > 0:
            raise HttpProblem(
                429, f"the token {client.name!r} is beyond its limit of requests or bytes", retry_after_s=wait_s
            )
        client.requests.take(1)
        return client

    def hold(self, state: dict[str, Any], key: str) -> None:
        """Count a request as running, until `release`.

        Raises:
            HttpProblem: 429, too many requests of this client are running, event streams included.
        """
        held = state.setdefault("held", [])
        if key in held:
            return
        if self._running[key] >= self._at_once:
            raise HttpProblem(
                429,
                f"{self._at_once:,} requests of this client are running: wait, or raise serve.connections",
                retry_after_s=1,
            )
        self._running[key] += 1
        held.append(key)

    def release(self, state: dict[str, Any]) -> None:
        """Count a request as ended."""
        for key in state.get("held", ()):
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]


def _tokens_in(headers: Mapping[str, str]) -> Iterator[str]:
    authorization = headers.get("authorization", "")[:HEADER_MAX_CHARS]
    scheme, _, rest = authorization.partition(" ")
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
