"""The certificates by which every client of ragtide checks other servers.

By default they are those of this machine and those that the package `certifi` has. `SSL_CERT_FILE`, `SSL_CERT_DIR` and
`REQUESTS_CA_BUNDLE` name others, which then count alone, as with OpenSSL, curl and the library requests.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..errors import ConfigurationError

VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Variables that name a file or a directory of certificates."""
FILES_MAX: Final = 1_000
"""Most files of a directory that are read."""


def tls_context(environment: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Return how a client checks the certificate of a server.

    Args:
        environment: variables; by default those of this process.

    Raises:
        ConfigurationError: a variable names no certificates.
    """
    given = os.environ if environment is None else environment
    named = {name: given[name] for name in VARIABLES if given.get(name)}
    if not named:
        context = ssl.create_default_context()
        try:
            import certifi  # noqa: PLC0415 - it comes with HTTP clients, and not with the package alone
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
        return context
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, value in named.items():
        _load(context, name, value)
    return context


def _load(context: ssl.SSLContext, name: str, value: str) -> None:
    # A directory is searched file by file: OpenSSL would see only files that are named by a hash.
    loaded = 0
    for place in value.split(os.pathsep) if name == "SSL_CERT_DIR" else [value]:
        for path in _files(Path(place)):
            try:
                context.load_verify_locations(path)
                loaded += 1
            except (OSError, ssl.SSLError):  # another file of the directory, such as a key
                continue
    if not loaded:
        raise ConfigurationError(
            f"{name}={value} has no certificates that can be read: name a file in PEM form, or a directory of such "
            "files, or unset it"
        )


def _files(path: Path) -> Iterator[Path]:
    try:
        yield from sorted(path.iterdir())[:FILES_MAX] if path.is_dir() else [path]
    except OSError:
        return
