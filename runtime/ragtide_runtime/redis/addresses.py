"""Parses the URL of a Redis: a single server, a cluster, or a master that sentinels name."""

from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from redis.connection import SSLConnection, parse_url

SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
)
"""Schemes of URLs: `rediss` is TLS; `+cluster` and `+sentinel` name several nodes, separated by commas."""

SENTINEL_TIMEOUT_S: Final = 2.0
"""Seconds that a sentinel has to answer before the next sentinel is asked."""

SENTINEL_PORT: Final = 26379
REDIS_PORT: Final = 6379

ENCODED: Final = "characters such as @ / # ? : % in a password are percent-encoded in a URL (@ is %40)"
"""The hint for a password in a URL."""

Node = tuple[str, int]


class AddressError(ValueError):
    """A URL is not the address of a Redis; the message quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of Redis, and the options to connect to it."""

    kind: Literal["single", "cluster", "sentinel"]
    nodes: tuple[Node, ...]
    """First nodes of the cluster, or the sentinels; empty for a single server, whose URL names its host."""
    url: str
    """URL of a single server; for a cluster or sentinels a URL that holds only the options, with a placeholder host."""
    master: str = ""
    """Name by which the sentinels know the master."""

    @property
    def uses_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.url.startswith("rediss://")

    def tls_options(self) -> dict[str, Any]:
        """Return the options with which a client of a single server checks the host name of a certificate.

        The URL overrides them: `?ssl_check_hostname=false` switches the check off.
        """
        return {"ssl_check_hostname": True} if self.uses_tls else {}

    def options(self) -> dict[str, Any]:
        """Return the options of redis-py's clients for a cluster or sentinels, without the nodes."""
        options: dict[str, Any] = _parsed(self.url)
        for name in ("host", "port", "path", "sentinel_username", "sentinel_password"):
            options.pop(name, None)
        connection = options.pop("connection_class", None)
        if connection is not None and issubclass(connection, SSLConnection):
            options["ssl"] = True
            options.setdefault("ssl_check_hostname", True)
        if self.kind == "cluster" and not options.get("db"):
            options.pop("db", None)
        return options

    def sentinel_options(self) -> dict[str, Any]:
        """Return the options of connections to the sentinels themselves; sentinels have their own users."""
        options = _parsed(self.url)
        own = {"username": options.get("sentinel_username"), "password": options.get("sentinel_password")}
        timeouts = {"socket_connect_timeout": SENTINEL_TIMEOUT_S, "socket_timeout": SENTINEL_TIMEOUT_S}
        tls = {name: value for name, value in self.options().items() if name.startswith("ssl")}
        return {name: value for name, value in own.items() if value is not None} | timeouts | tls


def address_of(url: str) -> Address:
    """Return the address in a URL.

    `redis://`, `rediss://` and `unix://` are redis-py's own. `redis+cluster://user:password@host:port,host:port`
    names some nodes of a cluster, `redis+sentinel://host:port,host:port/master?db=0` some sentinels and the master's
    name. Parameters after `?` are redis-py's, such as `ssl_ca_certs`; `sentinel_username` and `sentinel_password` are
    for the sentinels.

    >>> address_of("redis+sentinel://a:26379,b/shop").nodes
    (('a', 26379), ('b', 26379))

    Raises:
        AddressError: the URL has none of these forms, or a password in it is not percent-encoded.
        TypeError: redis-py cannot read a parameter.
        ValueError: the same; the message may quote the URL with its password.
    """
    if "#" in url or any("@" in part for part in _parts_after_user(url)):
        # What follows these characters would be taken for a host, a path or a parameter.
        raise AddressError("a user or password in it is not percent-encoded")
    whole_scheme, _, rest = url.partition("://")
    scheme, _, kind = whole_scheme.partition("+")
    if whole_scheme not in SCHEMES:
        raise AddressError("its scheme is unknown")
    if not kind:
        parts = urlsplit(url)
        if scheme == "unix" and parts.netloc not in ("", "localhost") and not parts.netloc.endswith("@"):
            raise AddressError("a path of a socket begins with /, as in unix:///path, and a password is encoded")
        named = parts.path if scheme == "unix" else parts.hostname and (parts.port or True)
        if not named:
            raise AddressError("it names no host")
        _parsed(url)
        return Address("single", (), url)
    # urlsplit does not know several hosts.
    rest, _, query = rest.partition("?")
    netloc, _, path = rest.partition("/")
    user, _, hosts = netloc.rpartition("@")
    nodes = tuple(_node(part, SENTINEL_PORT if kind == "sentinel" else REDIS_PORT) for part in hosts.split(","))
    path = path.strip("/")
    master = path if kind == "sentinel" else ""
    if kind == "sentinel" and (not master or "/" in master):
        raise AddressError("it does not name the master of the sentinels")
    if kind == "cluster" and path not in {"", "0"}:
        raise AddressError("a cluster has database 0 only")
    # The host `-` is a placeholder: the client connects to the nodes instead.
    plain = f"{scheme}://{user}@-" if user else f"{scheme}://-"
    address = Address("cluster" if kind == "cluster" else "sentinel", nodes, f"{plain}?{query}", master)
    address.options()
    return address


def _parts_after_user(url: str) -> tuple[str, ...]:
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    _, slash, path = rest.partition("/")
    # The path of a socket may have any character; it begins with the slash, or follows the user.
    place = () if scheme == "unix" else (slash + path,)
    return (*place, *(part.partition("=")[0] for part in query.split("&")))


def _parsed(url: str) -> dict[str, Any]:
    return dict(parse_url(url))  # type: ignore[no-untyped-call]  # untyped in redis-py


def _node(text: str, default_port: int) -> Node:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise AddressError("it has a node without a host")
    return parts.hostname, parts.port or default_port
