"""`/v1/verdict`: whether the new version of a pipeline is worse than the one beside which it serves.

It is read anew for each request, so a rollout tool never sees an older verdict than the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from fastapi import APIRouter, Body, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from ragtide_aggregator.errors import DamagedFieldError, UnknownReleaseError
from ragtide_aggregator.reading.verdicts import VerdictQuestion, read_verdict
from ragtide_schemas.base import describe
from ragtide_schemas.printable import printable
from ragtide_schemas.release import Release
from ragtide_schemas.suggestions import closest

from ..guard.access import Client
from ..guard.admission import Reader
from ..guard.problems import HttpProblem
from ..reading.context import Context, Shared
from .reading import RESPONSES

router = APIRouter(
    tags=["reading"],
    responses={
        **RESPONSES,
        404: {"description": "There is no such pipeline or version, or the token may not read it."},
    },
)

METRICS_MAX: Final = 50
"""Most metrics of a request."""
METADATA_MAX: Final = 100
"""Most entries of the metadata of a webhook."""

MetricText = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Outcome: TypeAlias = Literal["worse", "not_worse"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
PARAMETERS: Final = ("pipeline", "from", "to", "metric", "margin", "alpha", "pass")
"""Names in the metadata of a webhook."""


@dataclass(frozen=True)
class VerdictQuery:
    """The parameters of a verdict."""

    pipeline: Annotated[str | None, Query(min_length=1, max_length=500, description="The pipeline; needed.")] = None
    from_version: Annotated[
        str | None,
        Query(
            alias="from",
            min_length=1,
            max_length=500,
            description="The version that served before: a value of the segment `version`. Without it, that of the "
            "newest release.",
        ),
    ] = None
    to_version: Annotated[
        str | None,
        Query(
            alias="to",
            min_length=1,
            max_length=500,
            description="The new version. Without both versions, that of the newest open release, or else of the last.",
        ),
    ] = None
    metric: Annotated[
        list[MetricText] | None,
        Query(max_length=METRICS_MAX, description="Only this metric; may be repeated. The budget is divided by them."),
    ] = None
    margin: Annotated[
        float | None,
        Query(
            gt=0,
            lt=1e9,
            description="Largest loss that counts as not worse, in the unit of each metric; by default that of the "
            "settings `releases`.",
        ),
    ] = None
    alpha: Annotated[
        float | None,
        Query(gt=0, le=0.5, description="Probability of a wrong verdict over all metrics and looks; by default 0.05."),
    ] = None


class RolloutHook(BaseModel):
    """What a webhook of Flagger sends; other fields are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Annotated[str, Field(max_length=500)] = ""
    """Name of the canary."""
    namespace: Annotated[str, Field(max_length=500)] = ""
    """Its namespace."""
    phase: Annotated[str, Field(max_length=100)] = ""
    """Its phase, such as `Progressing`."""
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=5000)]], Field(max_length=METADATA_MAX)] = Field(
        default_factory=dict
    )
    """Parameters of the verdict as texts, such as `from`, `to` and `pass`; several metrics with commas between them."""


@router.get("/v1/verdict", response_model=Release)
async def get_verdict(shared: Shared, client: Reader, query: Annotated[VerdictQuery, Depends()]) -> Response:
    """Return the verdict on a release, with each metric: difference, interval, margin, answers to go.

    `verdict` is `worse`, `not_worse`, `undecided` or `not_comparable`. It holds at every look.
    """
    try:
        return _encoded(await _release(shared, client, query, is_open=False))
    except UnknownReleaseError as error:
        raise HttpProblem(404, f"{error}") from None


@router.post(
    "/v1/verdict",
    response_model=Release,
    responses={409: {"description": "The verdict is another one, and `detail` states it; or no release is open."}},
)
async def confirm_verdict(
    shared: Shared,
    client: Reader,
    query: Annotated[VerdictQuery, Depends()],
    hook: Annotated[RolloutHook | None, Body()] = None,
    wanted: Annotated[
        Outcome | None, Query(alias="pass", description="The verdict that is answered with 200; needed.")
    ] = None,
) -> Response:
    """Return the verdict if it is the one in `pass`, else 409: for a webhook of a rollout tool that reads the status.

    Parameters may stand in the address or in the metadata of the body. Without versions the newest open release counts.
    It changes nothing, so the access `read` suffices.
    """
    asked, wanted = _joined(query, wanted, {} if hook is None else hook.metadata)
    try:
        release = await _release(shared, client, asked, is_open=True)
    except UnknownReleaseError as error:
        raise HttpProblem(409 if error.what == "release" else 404, f"{error}") from None
    if release.verdict != wanted:
        raise HttpProblem(409, release.sentence)
    return _encoded(release)


def _encoded(release: Release) -> Response:
    return Response(release.model_dump_json(), media_type="application/json")


async def _release(shared: Context, client: Client, query: VerdictQuery, *, is_open: bool) -> Release:
    if query.pipeline is None:
        raise HttpProblem(422, "pipeline is missing: give the name of the pipeline")
    try:
        asked = VerdictQuestion(
            query.pipeline, query.from_version, query.to_version, query.metric or (), query.margin, query.alpha, is_open
        )
        return await read_verdict(shared.deployment, asked, client.may_use)
    except DamagedFieldError:
        raise
    except ValueError as error:
        raise HttpProblem(422, f"{error}") from None


def _joined(query: VerdictQuery, wanted: Outcome | None, metadata: Mapping[str, str]) -> tuple[VerdictQuery, Outcome]:
    """Return the parameters of the address with those of the metadata, and the verdict that passes."""
    for name in metadata:
        # A tool may send more than these, but one that is nearly a parameter is a mistake.
        if name not in PARAMETERS and (meant := closest(name, PARAMETERS)) is not None:
            raise HttpProblem(422, f"metadata.{name} is no parameter; did you mean {meant!r}?")
    texts: dict[str, Any] = {name: text for name, text in metadata.items() if name in PARAMETERS}
    if "metric" in texts:
        texts["metric"] = [name.strip() for name in texts["metric"].split(",")]
    try:
        named = _QUERY.validate_python({name: text for name, text in texts.items() if name != "pass"})
    except ValidationError as error:
        raise HttpProblem(422, f"metadata: {describe(error)}") from None
    verdict, chosen = _once("pass", wanted, texts.get("pass")), dict[str, Any]()
    for name in ("pipeline", "from_version", "to_version", "metric", "margin", "alpha"):
        value = _once(name.removesuffix("_version"), getattr(query, name), getattr(named, name))
        chosen |= {} if value is None else {name: value}
    if verdict not in OUTCOMES:
        problem = (
            "pass is missing" if verdict is None else f"pass is no verdict to wait for: {printable(verdict)[:40]!r}"
        )
        raise HttpProblem(422, f"{problem}: give worse (to roll back) or not_worse (to promote)")
    return VerdictQuery(**chosen), verdict


def _once(name: str, of_query: Any, of_metadata: Any) -> Any:
    if of_query and of_metadata and of_query != of_metadata:
        raise HttpProblem(422, f"{name} differs in the address and in metadata: give it once")
    return of_query or of_metadata or None


_QUERY: Final = TypeAdapter(VerdictQuery)
