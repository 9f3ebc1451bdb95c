"""Settings of OpenTelemetry: the table `[otel]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Endpoint = Annotated[str, Field(min_length=1, max_length=2000)]


class OtelSettings(BaseModel):
    """Where the spans of applications go, and the results of workers as spans."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    endpoint: Endpoint | None = None
    """Address of `ragtide serve`, to which `ragtide.otel.configure` sends the spans of an application (docs/otel.md);
    by default this machine at `serve.port`."""
    token: SecretStr | None = None
    """Token with which an application sends its spans."""
    results: bool = False
    """Whether workers send each result as a span into the trace of its interaction (docs/otel_results.md)."""
    results_endpoint: Endpoint | None = None
    """Address of the backend that has the traces, with its path; by default that of `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    results_headers: SecretStr | None = None
    """Headers for that address as `name=value,name=value`, such as its key; by default `OTEL_EXPORTER_OTLP_HEADERS`,
    if the address is from the environment, too."""
