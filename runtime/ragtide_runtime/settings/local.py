"""Settings of the local labeler: the table `[local]`."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def expanded(path: Path) -> Path:
    """Return a whole path.

    Raises:
        ValueError: it begins with `~`, and this user has no home directory.
    """
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~, but no home directory is known: write the whole path") from None


class LocalSettings(BaseModel):
    """The local labeler."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: Annotated[Path, AfterValidator(expanded)] | None = None
    """File that `ragtide fit` wrote, which corrects the shipped model for your interactions; its digest is part of the
    labeler's version. None uses the shipped model alone."""
