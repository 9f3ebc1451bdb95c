"""What a tool is asked, and how it returns the records of the HTTP API."""

from collections.abc import Awaitable, Callable
from inspect import Parameter, signature
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from ragtide_runtime.service_client import ServiceClient
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Headline
from ragtide_schemas.alert_text import alert_text
from ragtide_schemas.criterion import ListedCriterion

NAME_CHARS: Final = 500
"""Most characters of a name in the arguments of a tool."""

Text = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
OnlyPipeline = Annotated[Text | None, Field(description="Only this pipeline.")]
Limit = Annotated[int, Field(ge=1, le=100)]

NUMBER: Final = {
    *("pipeline", "segment", "metric", "estimate", "lower", "upper", "confidence", "n", "state", "coverage"),
    *("direction", "lowest", "highest", "would_see", "rules"),
}
"""Fields of a headline that a model reads; the others are said in words."""
ALERT: Final = {"alert_id", "severity", "pipeline", "segment", "metric", "rule", "fired_at", "resolved_at"}
"""Fields of an alert in a line."""


Tool = Callable[..., Awaitable[dict[str, Any]]]
"""A function of the client of the service, and by keyword of what a model asks. Its docstring is for the model."""


def arguments_of(tool: Tool) -> type[BaseModel]:
    """Return the model of the arguments of a tool: the parameters of its function that are given by keyword."""
    fields: dict[str, Any] = {
        parameter.name: (parameter.annotation, ... if parameter.default is Parameter.empty else parameter.default)
        for parameter in signature(tool).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }
    return create_model(tool.__name__, __config__=ConfigDict(extra="forbid", hide_input_in_errors=True), **fields)


def fields_of(record: BaseModel, **options: Any) -> dict[str, Any]:
    """Return the fields of a record, without those that have their default: nearly all of them are null."""
    return record.model_dump(mode="json", exclude_defaults=True, **options)


def number_fields(headline: Headline) -> dict[str, Any]:
    """Return the one number of a metric that counts now, with its interval, and what is to be said about it."""
    words = {
        "range": headline.range_text,
        "state_in_words": headline.state_text,
        "judge": headline.judge_text,
        "labeler": headline.labeler_text,
        "rests_on": headline.coverage_text,
    }
    return fields_of(headline, include=NUMBER) | {name: sentence for name, sentence in words.items() if sentence}


def alert_fields(alert: Alert) -> dict[str, Any]:
    """Return an alert in a line, with its title: what fell or rose, where, from what to what."""
    text = alert_text(alert)
    return fields_of(alert, include=ALERT) | {"state": text.state, "title": text.title}


async def with_asked_criteria(service: ServiceClient, settings: Settings) -> Settings:
    """Return settings whose `judge.criteria` also have those that operators stored and that are asked.

    Raises:
        ServiceError: the service does not answer, or refuses.
    """
    listed = await service.get("/v1/criteria", _CRITERIA)
    asked = [*settings.judge.criteria, *(row.criterion for row in listed if row.state == "asked")]
    criteria = tuple({criterion.name: criterion for criterion in reversed(asked)}.values())[::-1]
    return settings.model_copy(update={"judge": settings.judge.model_copy(update={"criteria": criteria})})


_CRITERIA: Final = TypeAdapter(list[ListedCriterion])
