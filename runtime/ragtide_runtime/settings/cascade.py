"""Settings of the cascade, in which a better labeler labels a sample of all interactions: the table `[cascade]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]


class CascadeSettings(BaseModel):
    """The two or three labelers of a cascade, and the samples for those after the first."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    proxy: str = "local"
    """Name of the labeler of all interactions, usually a cheap labeler."""
    reference: str = "judge"
    """Name of the labeler of the sample, usually a better labeler."""
    rate: Share = 0.05
    """Share of the interactions that the reference labels."""
    segment_rates: dict[str, Share] = Field(default_factory=dict)
    """Share by segment value, such as `{"lang=ru" = 0.5}`; of several values the largest share counts."""
    below: dict[str, float] = Field(default_factory=dict)
    """Scores of the proxy below which the reference always labels, such as `{"trace.adherence" = 0.3}`."""
    middle: str = ""
    """Name of a third labeler, between the two, such as `model`; it labels a sample beside that of the reference."""
    middle_rate: Share = 0.2
    """Share of the interactions that the middle labels."""
    middle_below: dict[str, float] = Field(default_factory=dict)
    """Scores of the proxy below which the middle labels every interaction that the reference does not label."""
    salt: str = ""
    """A text that selects the sample; the same text selects the same sample in every process and replay."""
    when_unavailable: Literal["skip", "wait"] = "wait"
    """If the reference or the middle is unavailable: `wait` keeps the interactions that were chosen for it until it
    answers, and publishes all others; `skip` publishes these at once, with its metrics absent for ever."""

    @property
    def labelers(self) -> tuple[str, ...]:
        """Names of the labelers: the proxy, the middle if there is one, the reference."""
        return (self.proxy, self.middle, self.reference) if self.middle else (self.proxy, self.reference)

    @model_validator(mode="after")
    def _the_samples_are_apart(self) -> Self:
        if self.middle and (self.middle in (self.proxy, self.reference) or self.middle == "cascade"):
            raise ValueError(
                f"the middle of a cascade is a third labeler, such as model, and is {self.middle}: set cascade.middle"
            )
        most = max(self.rate, *self.segment_rates.values()) if self.segment_rates else self.rate
        if self.middle and most + self.middle_rate > 1:
            raise ValueError(
                f"middle_rate is {self.middle_rate:g}, and the reference labels up to {most:g}: together at most 1, "
                "because no interaction is in both samples; lower one of them"
            )
        if self.middle_below and not self.middle:
            raise ValueError("middle_below is given without a middle: set cascade.middle, or remove it")
        return self

    @model_validator(mode="after")
    def _two_labelers(self) -> Self:
        if self.proxy == self.reference or "cascade" in (self.proxy, self.reference):
            raise ValueError(
                f"a cascade needs two different labelers, such as local and judge, and has {self.proxy} and "
                f"{self.reference}: set cascade.proxy and cascade.reference"
            )
        return self
