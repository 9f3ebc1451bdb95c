"""Settings of the HTTP service and its page: the tables `[serve]` and `[web]`."""

import hashlib
import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from ragtide_schemas.base import Name

TOKEN_MIN_CHARS = 1
TOKEN_MAX_CHARS = 1000
TOKEN_GUESSABLE_CHARS: Final = 16
"""A token with fewer characters could be guessed. An address that other machines reach takes none."""
DEFAULT_PORT: Final = 8080
"""Port of `ragtide serve` without a setting."""

Access = Literal["read", "write", "operate"]
"""`write` sends interactions, feedback and traces; `read` gets estimates, alerts and dead letters, and sees the page;
`operate` gives orders on the page."""


class TokenSettings(BaseModel):
    """A token with which a client may use the HTTP service: a table `[[serve.tokens]]`, or only the token as a text."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Name = "unnamed"
    """Name of the token in logs and metrics."""
    token: SecretStr | None = None
    """The token itself, 16 to 1,000 printable ASCII characters; use 32 or more at random. Only a service that listens
    on this machine alone takes a shorter one."""
    sha256: SecretStr | None = None
    """SHA-256 of the token in hexadecimal, in place of the token, so that the file holds no secret."""
    access: tuple[Access, ...] = ("read", "write")
    """What the token allows: `read`, `write` and `operate` (orders on the page, such as a silence)."""
    pipelines: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = ("*",)
    """Names of the pipelines that the token is for, with `*` and `?` as wildcards."""
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of requests a second, in place of `serve.requests_per_s`."""
    bytes_per_s: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of bytes of bodies a second, in place of `serve.bytes_per_s`."""

    @model_validator(mode="after")
    def _has_one_secret(self) -> Self:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError("a token needs either token or sha256: give one of them")
        if self.token is not None and not (
            TOKEN_MIN_CHARS <= len(self.token.get_secret_value()) <= TOKEN_MAX_CHARS
            and self.token.get_secret_value().isascii()
            and self.token.get_secret_value().isprintable()
        ):
            raise ValueError(f"token must have {TOKEN_MIN_CHARS} to {TOKEN_MAX_CHARS:,} printable ASCII characters")
        if self.sha256 is not None and re.fullmatch("[0-9a-f]{64}", self.sha256.get_secret_value()) is None:
            raise ValueError("sha256 must have 64 hexadecimal digits: ragtide serve --hash-token prints it")
        return self

    @property
    def is_guessable(self) -> bool:
        """Whether the token is short; the length behind a digest is unknown."""
        return self.token is not None and len(self.token.get_secret_value()) < TOKEN_GUESSABLE_CHARS

    @property
    def digest(self) -> bytes:
        """SHA-256 of the token."""
        if self.token is not None:
            return token_digest(self.token.get_secret_value())
        return bytes.fromhex(self.sha256.get_secret_value()) if self.sha256 is not None else b""


def token_digest(token: str) -> bytes:
    """Return the digest by which a token is known."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _token_is_a_table(value: Any) -> Any:
    return {"token": value} if isinstance(value, str) else value


def service_url(text: str) -> str:
    """Return the address of a `ragtide serve` without a slash at its end.

    Raises:
        ValueError: the text is no such address, or has a user or a password; the message does not show it.

    >>> service_url("https://ragtide.example.com/apps/ragtide/")
    'https://ragtide.example.com/apps/ragtide'
    """
    problem = "must begin with http:// or https:// and have no user or password, such as http://127.0.0.1:8080"
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        raise ValueError(problem) from None
    if not known or parts.query or parts.fragment or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError(problem)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _nothing_is_none(value: Any) -> Any:
    return () if value == "" else value


def path_prefix(text: str) -> str:
    """Return a path without a slash at its end; empty for the root.

    Raises:
        ValueError: the text is no path of visible ASCII characters, or has `.` or `..` as a part.

    >>> path_prefix("/apps/ragtide/"), path_prefix("ragtide"), path_prefix("/")
    ('/apps/ragtide', '/ragtide', '')
    """
    parts = [part for part in text.strip().split("/") if part]
    for part in parts:
        if re.fullmatch(r"[A-Za-z0-9._~@:+!*=-]{1,200}", part) is None or part in (".", ".."):
            raise ValueError(
                f"is {text[:200]!r}: give the path alone, such as /ragtide, of letters, digits and . _ ~ @ : + ! * = -"
            )
    if "://" in text or len(text) > 1000:
        raise ValueError(f"is {text[:200]!r}: give the path alone, such as /ragtide, without the site")
    return "".join(f"/{part}" for part in parts)


def _network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text[:200]!r} is no address: give an address such as 10.0.0.7, or a network such as 10.0.0.0/8"
        ) from None
    return text


@lru_cache(maxsize=1024)
def _is_within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        client = ip_address(address)
    except ValueError:
        return False
    if isinstance(client, IPv6Address) and client.ipv4_mapped is not None:  # a socket for both kinds of addresses
        client = client.ipv4_mapped
    return any(client in ip_network(network) for network in networks)


class ServeSettings(BaseModel):
    """The HTTP service: its address, its tokens and its limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Address to listen on: `::` is every address, IPv6 and IPv4; `0.0.0.0` every IPv4 address. Without tokens only an
    address of this machine is allowed."""
    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port; 0 takes a free port and logs it. Unless a port is set, `ragtide serve` uses 8080, and `ragtide up` 8080 or
    the next free port."""
    grpc_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port for traces over gRPC, such as 4317; None serves none, 0 takes a free port and logs it. It needs the extra
    `grpc`."""
    tokens: Annotated[
        tuple[Annotated[TokenSettings, BeforeValidator(_token_is_a_table)], ...], BeforeValidator(_nothing_is_none)
    ] = ()
    """Tokens of the clients: `[[serve.tokens]]` in the TOML file; in the environment JSON, or tokens with commas."""
    trusted_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,99}$")] | None = None
    """Header in which a proxy such as oauth2-proxy names the user of the page, such as `X-Forwarded-User`; None trusts
    no header."""
    root_path: Annotated[str, AfterValidator(path_prefix)] = ""
    """Path below which a reverse proxy serves the page and the API, such as `/ragtide`; empty for the root of its site.
    The proxy may strip it or keep it."""
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ("127.0.0.1", "::1")
    """Addresses or networks of the proxies whose headers are trusted: `serve.trusted_header`, `X-Forwarded-Prefix`,
    `X-Forwarded-Host` and `X-Forwarded-For`."""
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of requests of one token a second, in each process; None for no limit."""
    bytes_per_s: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of decompressed bytes of the bodies of one token a second, in each process; None for no limit."""
    body_bytes: Annotated[int, Field(ge=1024)] = 20_971_520
    """Maximum number of bytes of a body as it is sent. Lines of NDJSON are read one by one, and together have no
    limit."""
    bodies_bytes: Annotated[int, Field(ge=1024)] = 268_435_456
    """Maximum number of bytes of all bodies in memory while they are received, and as many while they are decoded.
    Further requests wait, or get 429."""
    connections: Annotated[int, Field(ge=1)] = 1000
    """Maximum number of connections at once, of one token half of them. A new connection replaces one that is idle;
    while all are busy, further requests get 503. Health requests are always answered."""

    def trusts(self, address: str) -> bool:
        """Return whether the headers of a client are trusted as those of a proxy."""
        return _is_within(address, self.trusted_proxies)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [token.name for token in self.tokens if token.name != "unnamed"]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tokens has two tokens named {name!r}: give each token a name of its own")
        return self

    @model_validator(mode="after")
    def _is_protected(self) -> Self:
        if not self.tokens and self.trusted_header is None and not is_loopback(self.host):
            raise ValueError(
                f"host is {self.host!r} and there are no tokens, so every machine could read and write: set "
                "serve.tokens, or listen on 127.0.0.1"
            )
        short = next((token for token in self.tokens if token.is_guessable), None)
        if short is not None and not is_loopback(self.host):
            raise ValueError(
                f"host is {self.host!r}, and serve.tokens has the token {short.name!r} with fewer than "
                f"{TOKEN_GUESSABLE_CHARS} characters, which could be guessed: take 32 characters at random"
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether an address is one of this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


UserPattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class WebSettings(BaseModel):
    """The page that `ragtide serve` shows beside its API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operators: tuple[UserPattern, ...] = ()
    """Names of users, from `serve.trusted_header`, who may act on the page (acknowledge, silence, retry), with `*` and
    `?` as wildcards. A user with a token may act if the token's access has `operate`."""
    texts: Literal["operator", "viewer", "nobody"] = "operator"
    """Users who see questions, documents and answers: operators, all viewers, or nobody."""
    session_s: Annotated[float, Field(ge=60, le=2_592_000)] = 43_200.0
    """Seconds after which a login with a token ends."""
    trace_url: Annotated[str, StringConstraints(pattern=r"^https?://.*\{trace_id\}", max_length=2000)] | None = None
    """Address of a trace in your tracing tool, with `{trace_id}` in the place of its id; items link to it."""


class McpSettings(BaseModel):
    """`ragtide mcp` and `ragtide release --url`: the service whose numbers they read, and with which token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: Annotated[str, StringConstraints(min_length=1, max_length=2000)] = f"http://127.0.0.1:{DEFAULT_PORT}"
    """Address of `ragtide serve`, with its path below a reverse proxy."""
    token: SecretStr | None = None
    """Token of `serve.tokens` with the access `read`; it decides which pipelines and texts they see."""
