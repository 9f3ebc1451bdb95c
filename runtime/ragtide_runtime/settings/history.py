"""Settings of the history of estimates: the table `[history]`."""

from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from ragtide_schemas.alert_rule import Duration, duration_ms

SegmentName = Annotated[str, StringConstraints(min_length=1, max_length=256)]

MOST_PANES: Final = 20_000
"""Most closed panes of one series and length: more would make its list in Redis too long to read at once."""


class HistorySettings(BaseModel):
    """How long means of the past are kept, and of which keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = True
    """Whether aggregators keep the history of pipelines (docs/history.md)."""
    fine: Duration = "5m"
    """Length of the panes of event time for which moments are kept, such as `5m`."""
    fine_for: Duration = "2d"
    """Time for which these panes are kept."""
    coarse: Duration = "1h"
    """Length of the panes that are kept for longer: a whole number of `fine`."""
    coarse_for: Duration = "60d"
    """Time for which these panes are kept; a series without a new pane for so long is deleted."""
    segments: tuple[SegmentName, ...] = ()
    """Names of segments, such as `version`, whose values have series of their own."""
    series_max: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """Most series of a partition; the scores of further keys have no history."""

    @property
    def fine_panes(self) -> int:
        """Number of fine panes that are kept."""
        return duration_ms(self.fine_for) // duration_ms(self.fine)

    @property
    def coarse_panes(self) -> int:
        """Number of coarse panes that are kept."""
        return duration_ms(self.coarse_for) // duration_ms(self.coarse)

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        fine, coarse = duration_ms(self.fine), duration_ms(self.coarse)
        if coarse <= fine or coarse % fine:
            raise ValueError(
                f"coarse is {self.coarse}, which is not a multiple of fine = {self.fine}: choose coarse such as 1h "
                "with fine such as 5m"
            )
        for name, number in (("fine", self.fine_panes), ("coarse", self.coarse_panes)):
            length, kept = getattr(self, name), getattr(self, f"{name}_for")
            if not 1 <= number <= MOST_PANES:
                raise ValueError(
                    f"{name}_for is {kept}, which is {number:,} panes of {length}, and 1 to {MOST_PANES:,} are "
                    f"possible: change {name}_for or {name}"
                )
        if duration_ms(self.coarse_for) < duration_ms(self.fine_for):
            raise ValueError(
                f"coarse_for is {self.coarse_for}, shorter than fine_for = {self.fine_for}: make it longer"
            )
        return self
