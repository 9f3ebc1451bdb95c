"""Settings of the cascade, in which a better labeler labels a sample of all interactions: the table `[cascade]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]


class CascadeSettings(BaseModel):
    """The two labelers of a cascade, and the sample for the second."""

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
    salt: str = ""
    """A text that selects the sample; the same text selects the same sample in every process and replay."""
    when_unavailable: Literal["skip", "wait"] = "skip"
    """If the reference is unavailable: `skip` publishes the proxy's scores with the reference's metrics absent."""

    @model_validator(mode="after")
    def _two_labelers(self) -> Self:
        if self.proxy == self.reference or "cascade" in (self.proxy, self.reference):
            raise ValueError(
                f"a cascade needs two different labelers, such as local and judge, and has {self.proxy} and "
                f"{self.reference}: set cascade.proxy and cascade.reference"
            )
        return self
