"""Headers of every answer, and the cookie of the sentence that says what an order did."""

from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, urlsplit

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every screen: no script or style inside of the page, nothing from other sites, no frame, no copy kept."""
DONE_COOKIE: Final = "ragtide_done"
DONE_S: Final = 300
"""Seconds for which a sentence about an order is shown again when its page is loaded again."""


def done_in(location: str) -> str:
    """Return the sentence in the address of a screen that says what an order did; empty without one."""
    return dict(parse_qsl(urlsplit(location).query)).get("done", "")


def done_digest(text: str) -> str:
    """Return what the cookie has of a sentence: a link from elsewhere has no such cookie, so it shows nothing."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
