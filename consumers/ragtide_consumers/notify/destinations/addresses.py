"""Public addresses: a destination must not reach this machine or its private network, unless the settings allow it.

The address is checked at the moment of connecting, after the name was resolved. So a name that resolves to a public
address once and to a private address later does not pass.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from aiohttp import TCPConnector

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Addresses that hold an IPv4 address in their last 32 bits (RFC 6052)."""


class PrivateAddressError(OSError):
    """A connection to an address that is not public was refused."""

    def __init__(self) -> None:
        # One text for every address: aiohttp raises the first of several errors only if all have the same text.
        super().__init__(
            "its address is not public: correct it, or set notify.allow_private = true if it is in your own network"
        )


def is_public(address: str) -> bool:
    """Return whether an IP address is public: not of this machine, a private network, or the metadata of a cloud.

    An IPv6 address that holds an IPv4 address counts as that address.

    >>> [is_public(one) for one in ("93.184.216.34", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1%eth0", "localhost")]
    [True, False, False, False, False]
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        inner = _ipv4_inside(found)
        if inner is None:
            return found in _GLOBAL_UNICAST and found.is_global
        found = inner
    return found.is_global and not found.is_multicast and not found.is_reserved


def _ipv4_inside(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def check_public(address: str) -> None:
    """Check the address that a connection is about to use.

    Raises:
        PrivateAddressError: it is not public.
    """
    if not is_public(address):
        raise PrivateAddressError


def connector(*, allow_private: bool) -> TCPConnector:
    """Return a connector for HTTP that opens connections to public addresses only, unless private ones are allowed."""
    return TCPConnector(limit=0, socket_factory=None if allow_private else _checked_socket)


def _checked_socket(info: Any) -> socket.socket:
    """Return a socket for one resolved address; each connection of aiohttp begins here."""
    family, kind, protocol, _, address = info
    check_public(str(address[0]))
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    return opened
