"""Workspaces: each replay and experiment has Redis keys of its own, so it never changes live estimates."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from .base import Count, Metadata, UtcTime, VersionedModel
from .times import utc_now

_NAME: Final = r"^[A-Za-z0-9_-]{1,48}$"

WorkspaceName = Annotated[str, StringConstraints(pattern=_NAME)]
"""Name of a workspace: 1 to 48 letters, digits, `_` and `-`."""


def is_workspace_name(text: str) -> bool:
    """Return whether a workspace may have this name."""
    return re.fullmatch(_NAME, text) is not None


class Workspace(VersionedModel):
    """The entry of a workspace in the deployment's list, which is written when the replay or experiment begins."""

    run: WorkspaceName
    """Name of the workspace, and the field `run` of the interactions that are labeled in it."""
    kind: Literal["replay", "experiment"]
    """The kind of offline eval."""
    created_at: UtcTime = Field(default_factory=utc_now)
    """Time of the beginning."""
    source: str
    """The recording or data set of the eval."""
    population_size: Count | None = None
    """Number of interactions (of each config) in the complete eval."""
    redacted: Count | None = None
    """Number of recorded interactions, in the files that it reads, whose texts redaction changed before they were
    recorded; None unless it labels again."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 1
    """Number of partitions of the workspace."""
    splits: dict[str, Annotated[int, Field(ge=2)]] = Field(default_factory=dict)
    """Sharding factors of split pipelines."""
    options: Metadata = Field(default_factory=dict)
    """Options of the eval; a process that continues the eval must have the same options."""
