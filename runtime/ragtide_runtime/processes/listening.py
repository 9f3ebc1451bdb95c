"""The socket at which a server of this process is reached, by IPv6, IPv4 or both."""

import errno
import socket
from typing import Final

from ..errors import ConfigurationError

ALL_ADDRESSES: Final = "::"
"""The host that stands for all addresses of the machine, of both families."""

_WITHOUT_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def listening_socket(host: str, port: int, setting: str) -> socket.socket:
    """Return a socket that listens at an address.

    Args:
        host: name or address; `::` takes connections of IPv6 and IPv4, and those of IPv4 where the machine has no IPv6.
        port: 0 for any free port.
        setting: environment variable of the port, for the error.

    Raises:
        ConfigurationError: the address cannot be used, for example because another process has the port.
    """
    try:
        if host == ALL_ADDRESSES:
            listening = _listen_everywhere(port)
        else:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_, first = addresses[0]
            listening = socket.create_server((str(first[0]), port), family=family, backlog=1024)
    except OSError as error:
        address = f"[{host}]" if ":" in host else host
        raise ConfigurationError(
            f"cannot serve on {address}:{port} ({error.strerror or error}): set {setting} to a free port, or to "
            "0 for any"
        ) from None
    # asyncio sets this option only on sockets that name their protocol. An accepted socket has the options of this
    # socket. Without the option, the body of an answer waits 40 ms for the acknowledgment of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _listen_everywhere(port: int) -> socket.socket:
    try:
        return socket.create_server((ALL_ADDRESSES, port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    except (OSError, ValueError) as error:  # a ValueError: no socket of this system takes both
        if isinstance(error, OSError) and error.errno not in _WITHOUT_IPV6:
            raise
        return socket.create_server(("0.0.0.0", port), backlog=1024)  # noqa: S104 - asked for
