"""Sockets of servers: `::` is reached by both families."""

import errno
import socket
from typing import Any

import pytest

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.listening import listening_socket

pytestmark = pytest.mark.pure

HAS_IPV6 = socket.has_dualstack_ipv6()


def reached(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError:
        return False
    return True


def test_the_address_of_everything_answers_ipv4_and_ipv6() -> None:
    with listening_socket("::", 0, "PORT") as listening:
        port = listening.getsockname()[1]
        assert reached("127.0.0.1", port)
        assert reached("localhost", port)
        assert reached("::1", port) == HAS_IPV6


def test_a_machine_without_ipv6_is_reached_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = socket.create_server

    def without_ipv6(address: Any, *, family: int = socket.AF_INET, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return whole(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with listening_socket("::", 0, "PORT") as listening:
        assert reached("127.0.0.1", listening.getsockname()[1])


@pytest.mark.parametrize("host", ["::", "127.0.0.1"])
def test_a_taken_port_is_named_with_its_setting(host: str) -> None:
    with listening_socket(host, 0, "RAGTIDE_HTTP_PORT") as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"{port}.*RAGTIDE_HTTP_PORT"):
            listening_socket(host, port, "RAGTIDE_HTTP_PORT")


def test_an_address_of_one_family_stays_one() -> None:
    with listening_socket("127.0.0.1", 0, "PORT") as listening:
        assert listening.family == socket.AF_INET
