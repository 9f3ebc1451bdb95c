"""Settings of the recorder: the table `[recorder]`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KindName = Literal["interactions", "metrics", "feedback", "alerts"]
Pattern = Literal["email", "phone", "card"]
"""Built-in patterns that can be removed from texts."""


class RecorderSettings(BaseModel):
    """Streams that are recorded, the place, and the file format."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    url: str | None = None
    """Place of the recording: a folder, or a URL that fsspec knows (`s3://bucket/folder`)."""
    storage_options: dict[str, object] = Field(default_factory=dict)
    """Options of fsspec's file system, such as `{"endpoint_url": ...}`."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """Format of the files: `parquet`, or `jsonl` (JSON Lines, compressed with gzip)."""
    kinds: tuple[KindName, ...] = ("interactions", "metrics", "feedback", "alerts")
    """Streams that are recorded."""
    roll_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds after which entries that were read are written; until then they stay in Redis."""
    roll_entries: Annotated[int, Field(ge=1)] = 50_000
    """Number of entries of a partition after which they are written earlier."""
    roll_bytes: Annotated[int, Field(ge=1)] = 67_108_864
    """Bytes of JSON of a partition after which its entries are written earlier."""
    keep_days: Annotated[int, Field(ge=1)] | None = None
    """Number of whole days before today that are kept; None keeps all days."""
    redact: tuple[Pattern, ...] = ()
    """Patterns that are removed from texts before they are written: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of yours from text to text, as `module:attribute`; it runs after `redact`."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that redaction of one entry may take; an entry that takes longer is recorded without its texts."""
