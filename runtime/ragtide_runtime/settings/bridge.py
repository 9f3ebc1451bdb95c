"""Settings of the bridge to a message broker: the table `[bridge]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

GroupName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")]


class BridgeSettings(BaseModel):
    """Where interactions are taken from, and where alerts, metric events and estimates are sent to."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    source: SecretStr | None = None
    """Topic from which interactions are taken, such as `nats://host/rag.answers`; `otlp+` before it for spans."""
    alerts: SecretStr | None = None
    """Topic to which alerts are sent."""
    events: SecretStr | None = None
    """Topic to which metric events are sent."""
    estimates: SecretStr | None = None
    """Topic to which estimates are sent."""
    group: GroupName = "ragtide-bridge"
    """Name of the consumer at the broker. Bridges of one name share the messages, but with MQTT each has its own."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Maximum number of messages, or of entries of a stream, that are worked on at once."""
