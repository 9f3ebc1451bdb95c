"""Settings of the local labeler: the table `[local]`."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def _expanded(path: Path) -> Path:
    return path.expanduser().absolute()


class LocalSettings(BaseModel):
    """The local labeler."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: Annotated[Path, AfterValidator(_expanded)] | None = None
    """File that `ragtide fit` wrote, which corrects the shipped model for your interactions; its digest is part of the
    labeler's version. None uses the shipped model alone."""
