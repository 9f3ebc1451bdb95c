"""`GET /judge`: dollars, calls, share judged and agreement of the judge and of services."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ragtide_aggregator.errors import CheckpointError
from ragtide_offline.agreement.kept import LEAST_ITEMS

from ...context import Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..rendering import render
from ..viewers import Reader
from .reading import read_endpoints
from .screen import ROWS, pipeline_usage
from .worth import agreement_rows, gold_error_rows, self_consistency_rows

router = APIRouter(include_in_schema=False)


@router.get("/judge")
async def get_judge(request: Request, shared: Shared, viewer: Reader) -> Response:
    """Show the judge and the services that labelers call."""
    try:
        # Dollars and calls are of the whole deployment.
        endpoints = None if viewer.patterns else await read_endpoints(shared.redis, shared.deployment, shared.settings)
        overview = [one for one in await shared.deployment.overview() if viewer.may_use(one.pipeline)]
        paired = await shared.paired.read()
        kappas = await shared.kappas.read()
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except CheckpointError as error:
        raise HttpProblem(503, f"{error}") from None
    return render(
        request,
        viewer,
        "judge.html",
        endpoints=endpoints,
        usage=pipeline_usage(overview),
        paired=paired,
        agreement=agreement_rows(one for one in paired.value or () if viewer.may_use(one.pipeline)),
        kappas=kappas,
        kappa_rows=[one for one in kappas.value or () if viewer.may_use(one.pipeline)][:ROWS],
        least_items=LEAST_ITEMS,
        consistency=self_consistency_rows(overview),
        errors=gold_error_rows(overview),
    )
