"""`/t`: the newest scored answers of the pipelines."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_schemas.printable import printable

from ...guard.problems import HttpProblem
from ...guard.viewers import Reader
from ...reading.context import Shared
from ...reading.item_lists import lasting
from ..rendering import PageContent, render
from .screen import SHOWN, TrafficChoice, TrafficRows, traffic

READ_MOST: Final = 500
"""Most answers that are read, the newest, before those that do not match are left out."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class TrafficContent(PageContent):
    """The newest scored answers."""

    template = "traffic.html"
    found: TrafficRows
    chosen: TrafficChoice
    pipelines: Sequence[str]
    """Pipelines with kept answers."""
    query: Mapping[str, str]
    """Fields of an item's address: the list that its neighbours are from."""
    choices: Mapping[str, object]
    """Fields of the address of another page."""
    enabled: bool
    """Whether the newest answers are kept."""
    newest_n: int
    keep: str
    """How long answers are kept, in words."""
    unreadable: str | None
    """A sentence about items that cannot be read; None without any."""


@router.get("/t")
async def get_traffic(
    *,
    request: Request,
    shared: Shared,
    viewer: Reader,
    pipeline: Annotated[str, Query(max_length=1000, description="Only this pipeline.")] = "",
    metric: Annotated[str, Query(max_length=1000, description="Metric of `below` and `above`.")] = "",
    below: Annotated[str, Query(max_length=30, description="Only scores below this number.")] = "",
    above: Annotated[str, Query(max_length=30, description="Only scores above this number.")] = "",
    segment: Annotated[str, Query(max_length=1000, description="Only this segment value, such as `lang=de`.")] = "",
    labeler: Annotated[str, Query(max_length=1000, description="Only scores of this labeler.")] = "",
    page: Annotated[int, Query(ge=1, le=READ_MOST // SHOWN, description="Page of the list, from 1.")] = 1,
) -> Response:
    """Show the newest scored answers."""
    chosen = TrafficChoice(pipeline, metric, _number("below", below), _number("above", above), segment.strip(), labeler)
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    names = [name for name in await kept.pipelines() if viewer.may_use(name)]
    wanted = [name for name in names if pipeline in ("", name)]
    specimens = await kept.newest(wanted, READ_MOST if chosen.narrows else min(page * SHOWN + 1, READ_MOST))
    settings = shared.settings.specimens
    content = TrafficContent(
        found=traffic(specimens, chosen, page),
        chosen=chosen,
        pipelines=names,
        query={"list": "newest"},
        choices={name: value for name, value in asdict(chosen).items() if value not in ("", None)},
        enabled=settings.enabled and settings.newest_n > 0,
        newest_n=settings.newest_n,
        keep=lasting(settings.keep_s),
        unreadable=kept.unreadable.warning(),
    )
    return render(request, viewer, content)


def _number(name: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise HttpProblem(422, f"{name} is {printable(text)!r}, which is no number: give one such as 0.5")
    return value
