"""Settings of the page: the table `[web]`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

UserPattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class WebSettings(BaseModel):
    """The page that `ragtide serve` shows beside its API."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    operators: tuple[UserPattern, ...] = ()
    """Names of users of `serve.trusted_header` who may give orders, with `*` and `?` as wildcards; of tokens, `operate`
    in their access decides."""
    texts: Literal["operator", "viewer", "nobody"] = "operator"
    """Users who see questions, documents and answers: operators, all viewers, or nobody."""
    session_s: Annotated[float, Field(ge=60, le=2_592_000)] = 43_200.0
    """Seconds after which a login with a token ends."""
    updates_per_s: Annotated[float, Field(ge=0.1, le=10)] = 4.0
    """Most updates a second that a live page gets."""
    trace_url: Annotated[str, StringConstraints(pattern=r"^https?://.*\{trace_id\}", max_length=2000)] | None = None
    """Address of a trace in your tracing tool, with `{trace_id}` in the place of its id; items link to it."""
