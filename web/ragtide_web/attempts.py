"""Limits attempts to guess a token."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from ragtide_runtime.settings.serve import TOKEN_GUESSABLE_CHARS, ServeSettings

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
        now, found = self._clock(), []
        for place, address in enumerate(addresses):
            began, count = self._known.get(address, (now, 0))
            limit = PER_MINUTE if place == 0 else BEHIND_PROXY_PER_MINUTE
            found.append(((now, 0) if now - began >= WINDOW_S else (began, count), limit))
        return found


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
    """Return an address in the form in which it is counted; None for anything else."""
    try:
        found = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        if not found.is_loopback:
            return str(IPv6Address(int(found) >> 64 << 64)) + "/64"
    return str(found)
