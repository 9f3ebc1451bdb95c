"""Settings of the recorder: the table `[recorder]`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KindName = Literal["interactions", "metrics", "feedback", "alerts"]
Pattern = Literal["email", "phone", "card"]
"""Patterns that can be removed from texts without a function of your own."""


class RecorderSettings(BaseModel):
    """Streams that are recorded, the place, and the file format."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    url: str | None = None
    """Where to record: a folder, or a URL that fsspec knows (`s3://bucket/folder`); none records nothing."""
    storage_options: dict[str, object] = Field(default_factory=dict)
    """Options of fsspec's file system, such as `{"endpoint_url": ...}`."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """Form of the files: `parquet`, or `jsonl` (JSON Lines, compressed with gzip)."""
    kinds: tuple[KindName, ...] = ("interactions", "metrics", "feedback", "alerts")
    """Streams that are recorded."""
    roll_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds after which entries that were read are written; until then they stay in Redis."""
    roll_entries: Annotated[int, Field(ge=1)] = 50_000
    """Entries of a partition that are written at once at the latest."""
    roll_bytes: Annotated[int, Field(ge=1)] = 67_108_864
    """The same in bytes of JSON."""
    keep_days: Annotated[int, Field(ge=1)] | None = None
    """Whole days, before today, that are kept; None keeps all."""
    redact: tuple[Pattern, ...] = ()
    """Patterns that are removed from texts before they are written: `email`, `phone`, `card`."""
    redact_function: str | None = None
    """A function of your own from text to text, as `module:attribute`; it runs after `redact`."""
    redact_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds redaction of one entry may take; an entry over it is recorded without its texts, and counted."""
