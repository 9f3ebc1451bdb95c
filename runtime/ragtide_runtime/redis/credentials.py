"""Adds user, password and certificates to the URL of a Redis. The settings import it, so it imports no client."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def with_credentials(url: str, *, username: str | None, password: str | None, parameters: Mapping[str, str]) -> str:
    """Return a URL with further parameters, and with a user name and password unless it has its own."""
    scheme, separator, rest = url.partition("://")
    if (username or password) and "@" not in rest.partition("?")[0]:
        rest = f"{quote(username or '', safe='')}:{quote(password or '', safe='')}@{rest}"
    if parameters:
        rest += ("&" if "?" in rest else "?") + urlencode(parameters)
    return scheme + separator + rest
