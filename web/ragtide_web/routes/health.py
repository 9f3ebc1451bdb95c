"""`GET /healthz`, `/readyz` and `/metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ragtide_runtime.settings.serve import is_loopback

from ..guard.admission import client_of
from ..reading.context import Context, Shared

router = APIRouter(tags=["operation"])


@router.get("/healthz", responses={503: {"description": "A loop is stuck: restart the process."}})
async def healthz(shared: Shared) -> JSONResponse:
    """Return whether a restart would not help."""
    report = shared.endpoints.alive()
    return JSONResponse(report.as_dict(), 200 if report.ok else 503)


@router.get("/readyz", responses={503: {"description": "The process does not do its work now."}})
async def readyz(shared: Shared) -> JSONResponse:
    """Return whether the process does its work now."""
    report = shared.endpoints.ready()
    return JSONResponse(report.as_dict(), 200 if report.ok else 503)


@router.get("/metrics", response_class=Response, responses={401: {"description": "The token is not known."}})
async def metrics(request: Request, shared: Shared) -> Response:
    """Return the metrics for Prometheus; other machines need a token that may read.

    A token for some pipelines sees the estimates and alerts of these pipelines, and no numbers of the deployment. If
    the service has tokens, a client of this machine without one sees no pipelines, because a proxy in front of the
    service is a client of this machine, too.
    """
    may_see, deployment = _visible(request, shared)
    accept = request.headers.get("accept", "")
    body, content_type = await shared.endpoints.metrics(accept, may_see=may_see, deployment=deployment)
    return Response(body, headers={"content-type": content_type})


def _visible(request: Request, shared: Context) -> tuple[Callable[[str], bool] | None, bool]:
    clients = shared.clients
    if is_loopback(shared.settings.serve.host) and not clients.has_token(request.headers):
        return ((lambda _: False) if clients.need_tokens else None), True
    client = client_of(request, shared, "read")
    return (client.may_use, False) if client.patterns else (None, True)
