"""Public addresses: a destination must not reach this machine or its private network, unless the settings allow it.

The address is checked at the moment of connecting, after the name was resolved. So a name that resolves to a public
address once and to a private address later does not pass.
"""

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from aiohttp import TCPConnector

from ragtide_runtime.outside.certificates import tls_context

# A list of our own, because that of Python's module grows with its patch releases. Sources: IANA's registries of
# special-purpose addresses for IPv4 and IPv6 (RFC 6890 and its updates), and the metadata services of clouds.
_SPECIAL_IPV4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind the NAT of a provider; metadata of Alibaba Cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure answers its virtual machines here
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; metadata of Oracle Cloud
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast by tunnels
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_SPECIAL_IPV6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: benchmarks, ORCHID, drones; Teredo counts as its IPv4 addresses
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Addresses that hold an IPv4 address in their last 32 bits (RFC 6052)."""
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
"""Upper half of the last 64 bits of an address that holds an IPv4 address in its last 32 bits (RFC 5214)."""


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

    >>> [is_public(address) for address in ("93.184.216.34", "169.254.169.254", "::ffff:10.0.0.1", "localhost")]
    [True, False, False, False]
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in _SPECIAL_IPV4)
    inner = _ipv4_inside(parsed)
    if parsed.teredo is None and parsed not in _NAT64 and parsed.ipv4_mapped is None:
        outside = parsed not in _GLOBAL_UNICAST or any(parsed in network for network in _SPECIAL_IPV6)
        if outside:
            return False
    return all(is_public(str(part)) for part in inner)


def _ipv4_inside(address: IPv6Address) -> tuple[IPv4Address, ...]:
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    low = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if address in _NAT64 or low >> 32 in _ISATAP:
        return (IPv4Address(low & 0xFFFF_FFFF),)
    return ()


def check_public(address: str) -> None:
    """Check the address that a connection is about to use.

    Raises:
        PrivateAddressError: it is not public.
    """
    if not is_public(address):
        raise PrivateAddressError


def connector(*, allow_private: bool) -> TCPConnector:
    """Return a connector for HTTP that opens connections to public addresses only, unless private ones are allowed.

    Raises:
        ConfigurationError: a variable of the environment names no certificates.
    """
    return TCPConnector(limit=0, ssl=tls_context(), socket_factory=None if allow_private else _checked_socket)


def _checked_socket(info: Any) -> socket.socket:
    family, kind, protocol, _, address = info
    check_public(str(address[0]))
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    return opened
