"""Decides for each address whether it is reached through a proxy, as curl and Go do.

`HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name proxies, `NO_PROXY` names hosts that are reached directly; a name in
lower case counts first. An entry of `NO_PROXY` is

- `*`, which stands for every host;
- a name, with its subdomains: `corp.example`, or `.corp.example`; `*.corp.example` stands for the subdomains only;
- an address, `10.0.0.7`, `::1` or `[::1]`, or a network, `10.0.0.0/8` or `fd00::/8`, for hosts that are written as
  addresses;
- one of these, but for a network, with a port: `host:8443`, `[::1]:8443`.
"""

import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import ConfigurationError

PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
"""Usual ports by scheme."""


class Proxy(NamedTuple):
    """A proxy, and the variable that names it."""

    url: str
    """Its address with its name and password; for the client only."""
    shown: str
    """Its address without them, for messages."""
    variable: str
    """Variable of the environment that names it."""

    @property
    def login(self) -> tuple[str, str] | None:
        """Name and password; None without."""
        parts = urlsplit(self.url)
        return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))

    def __repr__(self) -> str:
        """Return the proxy without its password."""
        return f"Proxy({self.shown}, {self.variable})"


def proxy_of(url: str, environment: Mapping[str, str] | None = None) -> Proxy | None:
    """Return the proxy through which an address is reached; None if it is reached directly.

    Args:
        url: address with http or https.
        environment: variables; by default those of this process.

    Raises:
        ConfigurationError: the variable names no proxy of HTTP.

    >>> given = {"HTTPS_PROXY": "http://me:secret@proxy:3128", "NO_PROXY": "10.0.0.0/8,*.corp,[::1],judge:8443"}
    >>> proxy_of("https://api.example/v1", given)
    Proxy(http://proxy:3128, HTTPS_PROXY)
    >>> [proxy_of(url, given) for url in ("https://10.1.2.3/", "https://a.corp/", "https://[::1]/", "https://judge:8443")]
    [None, None, None, None]
    """
    given = os.environ if environment is None else environment
    parts = urlsplit(url)
    names = [f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in given:  # a CGI program: a client can set HTTP_PROXY by a header
        names = [name for name in names if name != "HTTP_PROXY"]
    variable = next((name for name in names if given.get(name, "").strip()), None)
    if variable is None or is_direct(url, given):
        return None
    return _proxy(variable, given[variable].strip())


def is_direct(url: str, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether `NO_PROXY` names the host of an address."""
    given = os.environ if environment is None else environment
    parts = urlsplit(url)
    host, port = _plain(parts.hostname or ""), parts.port or PORTS.get(parts.scheme)
    entries = given.get("no_proxy") or given.get("NO_PROXY") or ""
    return any(_matches(entry, host, port) for entry in entries.lower().replace(",", " ").split())


def through(proxy: Proxy | None) -> str:
    """Return the words about a proxy at the end of a message about a failure; nothing without a proxy."""
    return "" if proxy is None else f" (through the proxy {proxy.shown} of {proxy.variable}; see NO_PROXY)"


def _proxy(variable: str, value: str) -> Proxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        port = parts.port
    except ValueError:
        parts, port = SplitResult("", "", "", "", ""), None
    if parts.scheme not in PORTS or not parts.hostname:
        kind = f" ({parts.scheme})" if parts.scheme and parts.scheme not in PORTS else ""
        raise ConfigurationError(
            f"{variable} names no proxy of HTTP{kind}: write http://HOST:PORT, or name hosts without one in NO_PROXY"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    login = parts.netloc.rpartition("@")[0]
    return Proxy(shown.replace("://", f"://{login}@", 1) if login else shown, shown, variable)


def _matches(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _is_in_network(entry.replace("[", "").replace("]", ""), host)
    name, wanted_port = _split(entry)
    if wanted_port is not None and wanted_port != port:
        return False
    address = _address(_plain(name))
    if address is not None:
        return address == _address(host)
    if name.startswith("*."):
        return host.endswith(_plain(name[1:])) and _address(host) is None
    name = _plain(name.removeprefix("."))
    return bool(name) and (host == name or (host.endswith(f".{name}") and _address(host) is None))


def _split(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, int(rest[1:]) if rest.startswith(":") and rest[1:].isdecimal() else None
    name, colon, port = entry.rpartition(":")
    if not colon or ":" in name or not port.isdecimal():
        return entry, None
    return name, int(port)


def _is_in_network(entry: str, host: str) -> bool:
    address = _address(host)
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    return address is not None and address.version == network.version and address in network


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _plain(host: str) -> str:
    host = host.lower().rstrip(".")
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host
