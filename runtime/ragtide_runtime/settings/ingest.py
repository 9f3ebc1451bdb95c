"""Settings of traces that become interactions: the table `[ingest]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ragtide_schemas.base import Name

AttributeName = Annotated[str, Field(min_length=1, max_length=200)]


class IngestSettings(BaseModel):
    """Names by which spans of OpenTelemetry become interactions. Attributes that begin with `ragtide.` always win."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    default_pipeline: Name | None = None
    """Pipeline of traces from a service without a name; without it such traces are refused."""
    pipeline_attributes: tuple[AttributeName, ...] = ("openinference.project.name", "service.name")
    """Attributes of a span or its resource that name the pipeline; the first that is present wins."""
    question_keys: tuple[AttributeName, ...] = ()
    """Keys of an input that have the question, tried before the known keys, such as `customer_text`."""
    answer_keys: tuple[AttributeName, ...] = ()
    """Keys of an output that have the answer, tried before the known keys."""
    segments: dict[Name, AttributeName] = Field(default_factory=dict)
    """Segments of the interactions: the attribute of a span or its resource by the name of the segment."""
