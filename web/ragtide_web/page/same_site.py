"""Refuses forms that another site sends with the cookie of a user."""

from typing import Final

from fastapi import Request

from ..problems import HttpProblem
from ..proxy import is_own_origin, other_origin, seen

REFUSED: Final = "the form came from another site: open the page of ragtide, and send the form there"


async def same_site(request: Request) -> None:
    """Let a request pass that a page of this service sent, or a client with a token of its own.

    Raises:
        HttpProblem: 403, a page of another site sent it, or a program that says nothing of its origin.
    """
    fetched = request.headers.get("sec-fetch-site")
    if fetched is not None:
        if fetched != "same-origin":
            raise HttpProblem(403, REFUSED)
        return
    origin = request.headers.get("origin")
    if origin is not None:
        host = request.headers.get("host")
        if not is_own_origin(origin, host, seen(request.scope).forwarded_host):
            raise HttpProblem(403, f"the form came from another site: {other_origin(origin, host)}")
        return
    # A browser never adds a token by itself.
    if "authorization" not in request.headers:
        raise HttpProblem(403, "the form names no origin: send it from a browser, or send a token with it")
