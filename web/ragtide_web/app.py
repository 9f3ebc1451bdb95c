"""The application: its routes, its errors, its description."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from ragtide_aggregator.errors import CheckpointError, DamagedFieldError, TooManySegmentsError
from ragtide_runtime import __version__
from ragtide_schemas.printable import printable

from .guard.headers import HEADERS
from .guard.middleware import Guard
from .guard.problems import REDIS_ERRORS, HttpProblem, RedisProblem, answer, drain, redis_is_away
from .guard.proxy import BehindProxy, prefix_of
from .guard.viewers import SESSION_COOKIE, LoginNeededError, cookie_of
from .page.alerts.route import router as alerts
from .page.criteria.route import router as criteria
from .page.dead_letters.route import router as dead_letters
from .page.fleet.route import router as fleet
from .page.items.opinions import router as opinions
from .page.items.route import router as items
from .page.judge.route import router as judge
from .page.label.route import router as label
from .page.live.route import router as live
from .page.login.route import router as login
from .page.pipeline.route import router as pipeline
from .page.rendering import render
from .page.screen_files import own_folders
from .page.screen_files import router as frame
from .page.streams.route import router as streams
from .page.system.route import router as system
from .page.traffic.route import router as traffic
from .reading.context import Context
from .reading.laboratory import PageReader
from .routes import criteria as criteria_api
from .routes import details, health, reading, traces, verdict, writing

DESCRIPTION = (
    "Interactions, feedback and traces of OpenTelemetry come in; estimates, alerts, runs and dead letters go out. "
    "With tokens, send `Authorization: Bearer TOKEN`."
)


SCREENS: Final = (
    frame,
    login,
    live,
    fleet,
    pipeline,
    alerts,
    traffic,
    items,
    opinions,
    label,
    judge,
    criteria,
    dead_letters,
    system,
    streams,
)
"""Routers of the screens, in the order in which they are asked."""

OTHER_SIGNALS: Final = {
    f"/v1/{name}": f"ragtide takes traces, and no {name}: set OTEL_{name.upper()}_EXPORTER=none in the application"
    for name in ("logs", "metrics")
}
"""Answers to exporters that send everything to one address."""


ROUTERS: Final = (
    writing.router,
    traces.router,
    reading.router,
    details.router,
    verdict.router,
    criteria_api.router,
    health.router,
)


def application(context: Context, experiments: PageReader | None) -> ASGIApp:
    """Return the ASGI application of the service."""
    laboratory = context.laboratory
    screens = (*SCREENS, *(() if laboratory is None else laboratory.routers))
    routers = (*ROUTERS, *screens)
    app = _routed(routers)
    app.state.context = context
    app.state.experiments = experiments
    app.state.folders = own_folders(laboratory)
    app.add_exception_handler(HttpProblem, _problem)
    for unreadable in (*REDIS_ERRORS, CheckpointError, DamagedFieldError, TooManySegmentsError):
        app.add_exception_handler(unreadable, _unreadable)
    app.add_exception_handler(LoginNeededError, _login)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unknown)
    context.telemetry.serving(
        route.path
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ()) and route.path.startswith(("/v1/", "/api/"))
    )
    guarded = Guard(app, telemetry=context.telemetry, clients=context.clients)
    paths = (getattr(route, "path", "") for router in routers for route in router.routes)

    async def without_last_slash(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await guarded(scope, receive, send)

    return BehindProxy(without_last_slash, context.settings.serve, (*paths, str(app.openapi_url)))


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document that the service answers at `/openapi.json`."""
    return _described(_routed((*ROUTERS, *SCREENS)))


def _routed(routers: Sequence[APIRouter]) -> FastAPI:
    # The pages that FastAPI offers load scripts from another site, so they are off.
    app = FastAPI(title="ragtide", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    for router in routers:
        app.include_router(router)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # the way that FastAPI documents
    return app


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)  # noqa: S101 - registered for this class
    if isinstance(error, RedisProblem):
        await error.name_cause(request.app.state.context.redis)
    if not _wants_page(request):
        return await answer(request, error)
    if error.close:
        await drain(request)
    page = render(request, None, "problem.html", detail=error.detail, status=error.status)
    page.headers.update(error.headers())
    return page


async def _unreadable(request: Request, error: Exception) -> Response:
    """Return the answer to a request for which Redis cannot be read."""
    is_away = isinstance(error, REDIS_ERRORS)
    return await _problem(request, redis_is_away(error) if is_away else HttpProblem(503, f"{error}"))


async def _login(request: Request, error: Exception) -> Response:
    assert isinstance(error, LoginNeededError)  # noqa: S101 - registered for this class
    redirect = RedirectResponse(error.location, 303, headers=HEADERS)
    if cookie_of(request, SESSION_COOKIE) is not None:  # it is old, and would count as a wrong token again and again
        redirect.delete_cookie(SESSION_COOKIE, path=prefix_of(request) or "/")
    return redirect


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
    problems = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc'][1:])}: {problem['msg']}" for problem in error.errors()[:5]
    )
    detail = printable(problems)[:1000]
    if _wants_page(request):
        return render(request, None, "problem.html", detail=detail, status=422)
    return JSONResponse({"detail": detail}, 422)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    detail = OTHER_SIGNALS.get(request.url.path) or {
        404: f"there is no {printable(request.url.path[:200])}: GET {prefix_of(request)}/openapi.json lists every path",
        405: f"{printable(request.url.path[:200])} does not take {printable(request.method[:20])}",
    }.get(error.status_code, str(error.detail))
    if _wants_page(request):
        return render(request, None, "problem.html", detail=detail, status=error.status_code)
    return JSONResponse({"detail": detail}, error.status_code, headers=dict(error.headers or {}))


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, model in writing.MODELS.items():
            own = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(own.pop("$defs", {}))
            schemas[name] = own
        schemas["AgentRun"] = writing.schema_of_run(schemas["RagInteraction"])
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "basic": {"type": "http", "scheme": "basic", "description": "The token as password, as Langfuse sends it."},
        }
        document["security"] = [{"token": []}, {"basic": []}]
        app.openapi_schema = document
    return app.openapi_schema
