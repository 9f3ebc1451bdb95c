"""Settings of OpenTelemetry and Prometheus: the tables `[otel]` and `[prometheus]`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from ragtide_schemas.base import Name

Endpoint = Annotated[str, Field(min_length=1, max_length=2000)]


class OtelSettings(BaseModel):
    """Where the spans of applications go, and the results of workers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: Endpoint | None = None
    """Address of `ragtide serve`, to which `ragtide.otel.configure` sends the spans of an application
    (docs/connect/opentelemetry.md); by default this machine at `serve.port`."""
    token: SecretStr | None = None
    """Token with which an application sends its spans."""
    results: bool = False
    """Whether workers send each result into the trace of its interaction (docs/connect/opentelemetry.md)."""
    results_form: Literal["log_events", "span"] = "log_events"
    """Form in which results leave: `log_events`, an event `gen_ai.evaluation.result` for each score; or `span`, one
    span for each result, for backends that take traces alone, such as Phoenix, Langfuse and Tempo."""
    results_endpoint: Endpoint | None = None
    """Address of the backend, with its path: `/v1/logs` for log events, `/v1/traces` for spans; by default that of
    `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    results_headers: SecretStr | None = None
    """Headers for that address as `name=value,name=value`, such as its key; by default `OTEL_EXPORTER_OTLP_HEADERS`,
    if the address is from the environment, too."""


class PrometheusSettings(BaseModel):
    """Which estimates and alerts an aggregator has in `/metrics`, and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    segments: tuple[Name, ...] = ()
    """Names of segments, such as `lang`, whose values have estimates in `/metrics`; whole pipelines always have."""
    windows: tuple[str, ...] | None = None
    """Windows of these estimates: `all` for all time, or names from `windows`; None takes all of them."""
    cap: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Maximum number of keys (metrics of a pipeline or a segment value) of a partition with estimates in `/metrics`,
    whole pipelines first, and of firing alerts there; `ragtide_quality_left_out` counts the others."""
    interval_s: Annotated[float, Field(gt=0)] = 10.0
    """Minimum number of seconds between two computations of these estimates."""
