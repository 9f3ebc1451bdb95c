"""`/deployments`: other deployments on one page."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ragtide_schemas.details import FederatedDeployment

from ...guard.problems import HttpProblem
from ...guard.viewers import Reader, Viewer, sees_all_pipelines
from ...reading.context import Context, Shared
from ..rendering import PageContent, render
from .screen import ShownDeployment, shown_deployments

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class DeploymentsContent(PageContent):
    """The screen of other deployments."""

    template = "deployments.html"
    deployments: Sequence[ShownDeployment]
    """Those that do not answer first, then the worst ones."""


async def federated(shared: Context, viewer: Viewer) -> list[FederatedDeployment]:
    """Return the deployments of `serve.federate`, in its order.

    Raises:
        HttpProblem: 403, the user may see some pipelines only; 404, the settings name no deployment.
    """
    sees_all_pipelines(viewer)
    if shared.federation is None:
        raise HttpProblem(404, "the settings name no other deployment: set serve.federate")
    return await shared.federation.read()


@router.get("/deployments")
async def get_deployments(request: Request, shared: Shared, viewer: Reader) -> Response:
    """Show the deployments, the worst first."""
    return render(request, viewer, DeploymentsContent(shown_deployments(await federated(shared, viewer))))
