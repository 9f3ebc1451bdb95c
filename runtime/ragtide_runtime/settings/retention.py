"""Settings of what is kept: the tables `[recorder]`, `[specimens]` and `[history]`."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from ragtide_schemas.alert_rule import Duration, duration_ms

KindName = Literal["interactions", "metrics", "feedback", "alerts"]
Pattern = Literal["email", "phone", "card"]
"""Built-in patterns that can be removed from texts."""


class RecorderSettings(BaseModel):
    """Streams that are recorded, the place, and the file format."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str | None = None
    """Place of the recording: a folder, or a URL that fsspec knows (`s3://bucket/folder`)."""
    storage_options: dict[str, object] = Field(default_factory=dict)
    """Options of fsspec's file system, such as `{"endpoint_url": ...}`."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """Format of the files: `parquet`, or `jsonl` (JSON Lines, compressed with gzip)."""
    kinds: tuple[KindName, ...] = ("interactions", "metrics", "feedback", "alerts")
    """Streams that are recorded."""
    roll_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds after which entries that were read are written to files, or earlier at 50,000 entries or 64 MiB of JSON;
    until then they stay in Redis."""
    keep_days: Annotated[int, Field(ge=1)] | None = None
    """Number of whole days before today that are kept; None keeps all days."""
    redact: tuple[Pattern, ...] = ()
    """Patterns that are removed from texts before they are written: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that redaction of one entry may take; an entry that takes longer is recorded without its texts."""


class SpecimenSettings(BaseModel):
    """Items that are kept with their texts: which, how many, and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    """Whether workers keep specimens: items with redacted texts, labels and scores (docs/live/items.md)."""
    offline: bool = False
    """Whether specimens are also kept of replays, experiments and interactions with a `run`."""
    keep_s: Annotated[float, Field(ge=1, le=31_536_000)] = 604_800.0
    """Seconds after which a specimen is deleted."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of the interactions that is kept as a uniform sample, chosen by a hash of the id."""
    sample_n: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Maximum number of specimens of the sample of a pipeline; the latest stay."""
    newest_n: Annotated[int, Field(ge=0, le=1_000)] = 100
    """Number of the newest specimens that are kept of a pipeline, whatever their scores; with much traffic a worker
    keeps one a second. 0 keeps none."""
    worst_n: Annotated[int, Field(ge=1, le=50)] = 10
    """Number of the worst specimens of each metric and labeler of a pipeline."""
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Maximum number of specimens of a pipeline; the oldest are deleted first."""
    bytes: Annotated[int, Field(ge=262_144)] = 33_554_432
    """Maximum number of bytes of the specimens of a pipeline; the oldest are deleted first."""
    redact: tuple[Pattern, ...] = ("email", "phone", "card")
    """Patterns that are removed from texts before they are stored: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`, in a process of its own."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 5.0
    """Seconds that this function may take for one interaction; if it takes longer, the interaction is not kept."""


SegmentName = Annotated[str, StringConstraints(min_length=1, max_length=256)]

MOST_PANES: Final = 20_000
"""Most closed panes of one series and length: more would make its list in Redis too long to read at once."""


RECENT_PANES: Final = 720
"""Recent panes that are kept of a series: an hour, by default."""


class HistorySettings(BaseModel):
    """Series of past means: their keys, their lengths, and how long they are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether aggregators keep the history of pipelines (docs/live/history.md)."""
    fine: Duration = "5m"
    """Length of the panes of event time for which moments are kept, such as `5m`. The last twelve of them are kept in
    sixtieths, too."""
    fine_for: Duration = "2d"
    """Time for which these panes are kept."""
    coarse: Duration = "1h"
    """Length of the panes that are kept for longer: a whole number of `fine`."""
    coarse_for: Duration = "60d"
    """Time for which these panes are kept; a series without a new pane for so long is deleted."""
    segments: tuple[SegmentName, ...] = ()
    """Names of segments, such as `version`, whose values have series of their own. The metric of an alert rule on a
    segment has them without being named."""
    series_max: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """Maximum number of series of a partition; the scores of further keys have no history."""

    @property
    def recent_ms(self) -> int:
        """Milliseconds of a recent pane: a sixtieth of a fine one."""
        return duration_ms(self.fine) // 60

    @property
    def panes(self) -> int:
        """Number of panes of all lengths that a full series has."""
        return RECENT_PANES + self.fine_panes + self.coarse_panes

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
