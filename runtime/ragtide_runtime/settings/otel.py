"""Settings of OpenTelemetry: the table `[otel]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Endpoint = Annotated[str, Field(min_length=1, max_length=2000)]


class OtelSettings(BaseModel):
    """Where the spans of applications go."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    endpoint: Endpoint | None = None
    """Address of `ragtide serve`, to which `ragtide.otel.configure` sends the spans of an application (docs/otel.md);
    by default this machine at `serve.port`."""
    token: SecretStr | None = None
    """Token with which an application sends its spans."""
