"""The criteria that the deployment asks, as its HTTP service lists them."""

from collections.abc import Iterable
from typing import Final

from pydantic import TypeAdapter

from ragtide_runtime.service_client import ServiceClient
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion, ListedCriterion

_CRITERIA: Final = TypeAdapter(list[ListedCriterion])


async def with_asked_criteria(service: ServiceClient, settings: Settings) -> Settings:
    """Return settings whose `judge.criteria` also have those that operators stored and that are asked.

    Raises:
        ServiceError: the service does not answer, or refuses.
    """
    listed = await service.get("/v1/criteria", _CRITERIA)
    criteria = _distinct([*settings.judge.criteria, *(each.criterion for each in listed if each.state == "asked")])
    return settings.model_copy(update={"judge": settings.judge.model_copy(update={"criteria": criteria})})


def _distinct(criteria: Iterable[Criterion]) -> tuple[Criterion, ...]:
    found: dict[str, Criterion] = {}
    for criterion in criteria:
        found.setdefault(criterion.name, criterion)
    return tuple(found.values())
