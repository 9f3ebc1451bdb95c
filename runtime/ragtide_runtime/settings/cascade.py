"""Settings of the cascade, which sends a sample of all interactions to a better labeler: the table `[cascade]`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]


class CascadeSettings(BaseModel):
    """The two labelers of a cascade, and the sample that the second one sees."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    proxy: str = "local"
    """Labeler of all interactions, by name: a cheap one."""
    reference: str = "judge"
    """Labeler of the sample, by name: a better one."""
    rate: Share = 0.05
    """Share of the interactions that is sent to the reference."""
    segment_rates: dict[str, Share] = Field(default_factory=dict)
    """Share by segment value, such as `{"lang=ru" = 0.5}`; an interaction in several has the largest."""
    below: dict[str, float] = Field(default_factory=dict)
    """Scores of the proxy below which an interaction is always sent, such as `{"trace.adherence" = 0.3}`."""
    salt: str = ""
    """Another text draws another sample; the same text draws the same, in every process and replay."""
    when_unavailable: Literal["skip", "wait"] = "skip"
    """When the reference cannot be asked: publish the proxy's scores alone, its own counted as absent, or wait."""

    @model_validator(mode="after")
    def _two_labelers(self) -> Self:
        if self.proxy == self.reference or "cascade" in (self.proxy, self.reference):
            raise ValueError(
                f"a cascade is of two different labelers, such as local and judge, and not of {self.proxy} and "
                f"{self.reference}: set cascade.proxy and cascade.reference"
            )
        return self
