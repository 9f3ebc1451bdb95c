"""`/login` and `/logout`; the choice of the theme and of the language."""

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ...context import Shared
from ...problems import HttpProblem
from ..orders import form_of, record_order
from ..rendering import HEADERS, THEME_COOKIE, render
from ..same_site import same_site
from ..viewers import SESSION_COOKIE, Reader, Sessions, Viewer, viewer_of
from ..words import COOKIE, LANGUAGES

YEAR_S: Final = 31_536_000

router = APIRouter(include_in_schema=False)


def seen_elsewhere(location: str, **cookies: str) -> RedirectResponse:
    """Return the answer that leads a browser to another page after a form."""
    answer = RedirectResponse(location, 303, headers=HEADERS)
    for name, value in cookies.items():
        answer.set_cookie(name, value, max_age=YEAR_S, samesite="strict", httponly=True)
    return answer


def local_path(text: str) -> str:
    """Return the path of a page of this service; the first page for anything else.

    >>> local_path("/p/shop?range=1h"), local_path("https://evil.example/"), local_path("//evil.example")
    ('/p/shop?range=1h', '/', '/')
    """
    found = urlsplit(text[:2000])
    safe = text.startswith("/") and not text.startswith(("//", "/\\")) and not found.scheme and not found.netloc
    return text[:2000] if safe and text.isprintable() and "\\" not in text else "/"


@router.get("/login")
async def get_login(request: Request, shared: Shared, next: Annotated[str, Query(max_length=2000)] = "/") -> Response:  # noqa: A002 - name in the address
    """Show the form for a token."""
    if await viewer_of(request, shared) is not None:
        return seen_elsewhere(local_path(next))
    return render(request, None, "login.html", next=local_path(next), problem="")


@router.post("/login", dependencies=[Depends(same_site)])
async def post_login(request: Request, shared: Shared) -> Response:
    """Begin a session."""
    fields = await form_of(request)
    after = local_path(fields.get("next", "/"))
    if not shared.attempts.admit(request.client.host if request.client else ""):
        problem = "too many wrong tokens: try again in a minute"
        return render(request, None, "login.html", status=429, next=after, problem=problem)
    sessions = Sessions(shared.redis, shared.settings)
    token = sessions.token_of(fields.get("token", "")[:1000])
    if token is None or "read" not in token.access:
        problem = "the token is not known" if token is None else "the token may not read: add 'read' to its access"
        return render(request, None, "login.html", status=401, next=after, problem=problem)
    answer = seen_elsewhere(after)
    answer.set_cookie(
        SESSION_COOKIE,
        await sessions.begin(token),
        max_age=int(shared.settings.web.session_s),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https",
    )
    viewer = Viewer(token.name, is_operator=False, sees_texts=False, patterns=(), language=LANGUAGES[0])
    await record_order(shared, viewer, action="login", subject="page")
    return answer


@router.post("/logout", dependencies=[Depends(same_site)])
async def post_logout(request: Request, shared: Shared, viewer: Reader) -> Response:
    """End the session."""
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is not None:
        await Sessions(shared.redis, shared.settings).end(cookie)
        await record_order(shared, viewer, action="logout", subject="page")
    answer = seen_elsewhere("/login")
    answer.delete_cookie(SESSION_COOKIE)
    return answer


@router.post("/look", dependencies=[Depends(same_site)])
async def post_look(request: Request) -> Response:
    """Choose the theme and the language; they are in cookies of the browser."""
    fields: dict[str, Any] = await form_of(request)
    chosen = {}
    if fields.get("theme") in ("auto", "dark", "light"):
        chosen[THEME_COOKIE] = fields["theme"]
    if fields.get("language") in LANGUAGES:
        chosen[COOKIE] = fields["language"]
    if not chosen:
        raise HttpProblem(422, "the form has neither a theme nor a language: load the page again")
    return seen_elsewhere(local_path(fields.get("next", "/")), **chosen)
