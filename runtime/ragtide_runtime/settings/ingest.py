"""Settings of traces that become interactions: the table `[ingest]`."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from ragtide_schemas.base import Name

AttributeName = Annotated[str, Field(min_length=1, max_length=200)]

FROM_KNOWN: Final = "auto"
"""Value of `version_from` that takes the version from the attributes which are known to name it."""
OFF: Final = "off"
"""Value of `version_from` that takes no version from a trace."""


class IngestSettings(BaseModel):
    """Names by which spans of OpenTelemetry become interactions. Attributes that begin with `ragtide.` always win."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default_pipeline: Name | None = None
    """Pipeline of traces from a service without a name; if it is not set, such traces are refused."""
    pipeline_attributes: tuple[AttributeName, ...] = ("openinference.project.name", "service.name")
    """Attributes of a span or its resource that name the pipeline; the first that is present wins."""
    question_keys: tuple[AttributeName, ...] = ()
    """Keys of an input that have the question, tried before the known keys, such as `customer_text`."""
    answer_keys: tuple[AttributeName, ...] = ()
    """Keys of an output that have the answer, tried before the known keys."""
    retrieval_names: tuple[AttributeName, ...] = ()
    """Names of spans or tools whose replies are retrieved documents, such as `handbook`; upper and lower case are the
    same."""
    action_names: tuple[AttributeName, ...] = ()
    """Names of tools whose results are never evidence, such as `book_return`; upper and lower case are the same."""
    arguments: bool = True
    """Whether calls of tools keep what they were asked. Without it, which calls repeat others is not known."""
    segments: dict[Name, AttributeName] = Field(default_factory=dict)
    """Segments of the interactions: the attribute of a span or its resource by the name of the segment."""
    version_from: AttributeName = FROM_KNOWN
    """Attribute of a span or its resource with the version of the application, which becomes the segment `version` of
    interactions without one. `auto` takes `service.version`, else the revision of the source; `off` takes none."""
    history: bool = True
    """Whether the chat messages before the question are the history of an interaction. Turn it off if prompts have
    examples of questions and answers (few-shot), which look the same."""
    settle_s: Annotated[float, Field(ge=0, le=600)] = 2.0
    """Seconds without a new span after which an interaction counts as complete, if all spans above it have arrived."""
    quiet_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds without a new span after which an interaction counts as complete although spans above it are missing."""
    explain_s: Annotated[float, Field(ge=0, le=86_400)] = 3600.0
    """Seconds for which the spans of a trace that is over are kept, so that `ragtide publish explain` can show it; 0
    deletes them at once. Of many traces only the newest are kept: in a partition a sixty-fourth of `traces_bytes`."""
    traces_cap: Annotated[int, Field(ge=1)] = 100_000
    """Maximum number of waiting traces of a partition; further traces are refused, and the client is asked to try
    later."""
    traces_bytes: Annotated[int, Field(ge=1)] = 536_870_912
    """Maximum number of bytes of the stored spans of a partition; further spans are refused, and the client is asked to
    try later."""
