"""Offline runs: replays and experiments have keys of their own, so that what they do never touches live numbers."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from .base import Count, Metadata, UtcTime, VersionedModel
from .times import utc_now

_RUN_NAME: Final = r"^[A-Za-z0-9_-]{1,48}$"

RunName = Annotated[str, StringConstraints(pattern=_RUN_NAME)]
"""Name of a run with keys of its own: 1 to 48 letters, digits, `_` and `-`."""

_OF_RUN: Final = ".run."


def is_run_name(text: str) -> bool:
    """Return whether a run may have this name."""
    return re.fullmatch(_RUN_NAME, text) is not None


def run_prefix(prefix: str, run: str) -> str:
    """Return the first part of the keys of a run of a deployment.

    >>> run_prefix("ragtide", "may")
    'ragtide.run.may'
    """
    return f"{deployment_prefix(prefix)}{_OF_RUN}{run}"


def run_of(prefix: str) -> str | None:
    """Return the run that a prefix is of; None if it is the deployment's own.

    >>> run_of("ragtide.run.may"), run_of("ragtide")
    ('may', None)
    """
    return prefix.partition(_OF_RUN)[2] or None


def deployment_prefix(prefix: str) -> str:
    """Return the first part of the deployment's keys, whether the prefix is that of one of its runs or its own.

    >>> deployment_prefix("ragtide.run.may"), deployment_prefix("ragtide")
    ('ragtide', 'ragtide')
    """
    return prefix.partition(_OF_RUN)[0]


class RunInfo(VersionedModel):
    """What is known of a run from its beginning: listed under its name among the deployment's runs."""

    run: RunName
    """Its name."""
    kind: Literal["replay", "experiment"]
    """What it is."""
    created_at: UtcTime = Field(default_factory=utc_now)
    """When it began."""
    source: str
    """What it runs over: a recording or a data set."""
    population_size: Count | None = None
    """Number of interactions (of each config) when it is complete."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 1
    """Number of partitions of its keys."""
    splits: dict[str, Annotated[int, Field(ge=2)]] = Field(default_factory=dict)
    """Pipelines that are split over several of them, and over how many."""
    options: Metadata = Field(default_factory=dict)
    """What it was told to do; who goes on with it has to be told the same."""
