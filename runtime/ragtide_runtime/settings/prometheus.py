"""Settings of the estimates and alerts in `/metrics`: the table `[prometheus]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ragtide_schemas.base import Name


class PrometheusSettings(BaseModel):
    """Which estimates and alerts an aggregator has in `/metrics`, and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    segments: tuple[Name, ...] = ()
    """Names of segments, such as `lang`, whose values have estimates in `/metrics`; whole pipelines always have."""
    windows: tuple[str, ...] | None = None
    """Windows of these estimates: `all` for all time, or names from `windows`; None takes all of them."""
    cap: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Most keys (metrics of a pipeline or a segment value) of a partition with estimates in `/metrics`, whole pipelines
    first, and most firing alerts; `ragtide_quality_left_out` counts the others."""
    interval_s: Annotated[float, Field(gt=0)] = 10.0
    """Least seconds between two computations of these estimates."""
