"""Settings of producers: the table `[producer]`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragtide_schemas.base import Probability

Policy = Literal["block", "drop_new", "sample"]
"""Policy of a producer when a stream is full."""

SampleBy = Literal["interaction", "session"]
"""Unit of a sample of the traffic."""

Seconds = Annotated[float, Field(ge=0)]


class ProducerSettings(BaseModel):
    """Behavior of a producer if the stream is full, or Redis is slower than the application."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: Probability = 1.0
    """Share of the interactions that a producer of an application sends, chosen by a hash; estimates use the inverse as
    weight. Commands that publish files send all."""
    sample_by: SampleBy = "interaction"
    """`interaction` chooses each interaction by its id; `session` keeps or leaves out a session as a whole."""
    policy: Policy = "block"
    """If the stream is full, `block` waits for space, `drop_new` drops new interactions; `sample` publishes a falling
    share of them from half the cap on."""
    block_s: Seconds = 30.0
    """Seconds that a blocking publish waits for space in a full stream before it fails."""
    queue: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of interactions that `submit` holds in the process, and of 256 MiB of texts; more are dropped and
    counted."""
    flush_s: Seconds = 5.0
    """Seconds that closing the producer, or the end of the process, waits for interactions that `submit` holds."""
    resend_s: Seconds = 2.0
    """Seconds for which `submit` remembers sent interactions, to send them again if Redis loses them; 0 for never."""
