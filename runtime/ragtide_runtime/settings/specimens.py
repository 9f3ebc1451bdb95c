"""Settings of specimens: the table `[specimens]`."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .recorder import Pattern


class SpecimenSettings(BaseModel):
    """Which items are kept with their texts, how long, and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    enabled: bool = True
    """Whether workers keep specimens: items with redacted texts, labels and scores (docs/items.md)."""
    offline: bool = False
    """Whether specimens are also kept of replays, experiments and interactions with a `run`."""
    keep_s: Annotated[float, Field(ge=1, le=31_536_000)] = 604_800.0
    """Seconds after which a specimen is deleted."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of the interactions that is kept as a uniform sample, chosen by a hash of the id."""
    sample_n: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Most specimens of the sample of a pipeline; the latest stay."""
    judged_n: Annotated[int, Field(ge=0, le=100_000)] = 200
    """Most specimens of a pipeline that chance drew for the judge of a cascade; the latest stay. 0 keeps none."""
    worst_n: Annotated[int, Field(ge=1, le=50)] = 10
    """Number of the worst specimens of each metric and labeler of a pipeline."""
    beyond_n: Annotated[int, Field(ge=1, le=100_000)] = 50
    """Most specimens of a pipeline beyond the line of a rule with `target` or `baseline`; the latest stay."""
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Most specimens of a pipeline; the oldest make room."""
    bytes: Annotated[int, Field(ge=1_024)] = 33_554_432
    """Most bytes of the specimens of a pipeline; the oldest make room."""
    partition_bytes: Annotated[int, Field(ge=1_024)] = 1_073_741_824
    """Most bytes of the specimens of a partition; beyond it no further specimen is kept."""
    item_bytes: Annotated[int, Field(ge=1_024, le=4_194_304)] = 262_144
    """Characters of the texts of an interaction, and bytes of a stored specimen, above which none is kept."""
    redact: tuple[Pattern, ...] = ("email", "phone", "card")
    """Patterns that are removed from texts before they are stored: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`, in a process of its own."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 5.0
    """Seconds that this function may take for one interaction; an interaction that takes longer is not kept."""

    @model_validator(mode="after")
    def _one_fits(self) -> Self:
        for name, most in (("bytes", self.bytes), ("partition_bytes", self.partition_bytes)):
            if self.item_bytes > most:
                raise ValueError(
                    f"item_bytes is {self.item_bytes} and {name} is {most}, so the largest specimen would not fit: "
                    f"lower item_bytes or raise {name}"
                )
        return self
