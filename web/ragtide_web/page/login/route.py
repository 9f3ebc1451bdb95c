"""`/login` and `/logout`; the choice of the theme."""

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ...guard.access import TooManyGuessesProblem
from ...guard.admission import addresses_of_request
from ...guard.headers import HEADERS, done_in
from ...guard.orders import form_of, record_order, same_site
from ...guard.problems import HttpProblem
from ...guard.proxy import prefix_of, seen
from ...guard.viewers import SESSION_COOKIE, Reader, Sessions, Viewer, cookie_of, viewer_of
from ...reading.context import Shared
from ..rendering import THEME_COOKIE, render

NextPath = Annotated[str, Query(max_length=2000, description="Path of the page after the login.")]
YEAR_S: Final = 31_536_000

router = APIRouter(include_in_schema=False)


def seen_elsewhere(request: Request, location: str, max_age: int = YEAR_S, **cookies: str) -> RedirectResponse:
    """Return the answer that leads a browser to another page after a form, with cookies for this service alone."""
    answer = RedirectResponse(location, 303, headers=HEADERS)
    view = seen(request.scope)
    for name, value in cookies.items():
        answer.set_cookie(
            name,
            value,
            max_age=max_age,
            path=view.prefix or "/",
            samesite="strict",
            httponly=True,
            secure=view.is_https,
        )
    return answer


def local_path(text: str, prefix: str = "") -> str:
    """Return the path of a page of this service without the prefix; the first page for anything else.

    >>> local_path("/p/shop?range=1h"), local_path("https://evil.example/"), local_path("//evil.example")
    ('/p/shop?range=1h', '/', '/')
    >>> local_path("/ragtide/a", "/ragtide"), local_path("/ragtide//evil.example", "/ragtide")
    ('/a', '/')
    """
    text = text[:2000]
    if prefix and text.startswith((f"{prefix}/", f"{prefix}?")):
        text = text[len(prefix) :]
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    if done_in(text):  # the sentence of an order comes from the order, never from a link
        text = parts.path
    safe = text.startswith("/") and not text.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return text if safe and text.isprintable() and "\\" not in text else "/"


@router.get("/login")
async def get_login(request: Request, shared: Shared, next: NextPath = "/") -> Response:  # noqa: A002 - name in the address
    """Show the form for a token."""
    try:
        viewer = await viewer_of(request, shared)
    except TooManyGuessesProblem:  # of old or wrong cookies: a right token still passes
        viewer = None
    if viewer is not None:
        return seen_elsewhere(request, local_path(next, prefix_of(request)))
    return render(request, None, "login.html", next=local_path(next, prefix_of(request)), problem="")


@router.post("/login", dependencies=[Depends(same_site)])
async def post_login(request: Request, shared: Shared) -> Response:
    """Begin a session."""
    fields = await form_of(request)
    after = local_path(fields.get("next", "/"), prefix_of(request))
    sessions = Sessions(shared.redis, shared.settings)
    sent, addresses = fields.get("token", "")[:1000], addresses_of_request(request, shared)
    try:
        shared.clients.admit_guess(len(sent), addresses)
        token = sessions.token_of(sent)
        if token is None:
            shared.clients.wrong_guess(addresses)
    except TooManyGuessesProblem as error:
        return render(request, None, "login.html", next=after, problem=error.detail, status=429)
    if token is None or "read" not in token.access:
        problem = "the token is not known" if token is None else "the token may not read: add 'read' to its access"
        return render(request, None, "login.html", next=after, problem=problem, status=401)
    cookie = {SESSION_COOKIE: await sessions.begin(token)}
    answer = seen_elsewhere(request, after, int(shared.settings.web.session_s), **cookie)
    viewer = Viewer(token.name, is_operator=False, sees_texts=False, patterns=())
    await record_order(shared, viewer, action="login", subject="page")
    return answer


@router.post("/logout", dependencies=[Depends(same_site)])
async def post_logout(request: Request, shared: Shared, viewer: Reader) -> Response:
    """End the session."""
    cookie = cookie_of(request, SESSION_COOKIE)
    if cookie is not None:
        await Sessions(shared.redis, shared.settings).end(cookie)
        await record_order(shared, viewer, action="logout", subject="page")
    answer = seen_elsewhere(request, "/login")
    answer.delete_cookie(SESSION_COOKIE, path=prefix_of(request) or "/")
    return answer


@router.post("/look", dependencies=[Depends(same_site)])
async def post_look(request: Request) -> Response:
    """Choose the theme; it is in a cookie of the browser."""
    fields: dict[str, Any] = await form_of(request)
    theme = fields.get("theme")
    if theme not in ("auto", "dark", "light"):
        raise HttpProblem(422, "the form has no theme: load the page again")
    return seen_elsewhere(request, local_path(fields.get("next", "/"), prefix_of(request)), **{THEME_COOKIE: theme})
