"""The settings, from the environment and a TOML file, with error messages that name field, value and remedy."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .model import (
        Settings as Settings,
        load_settings as load_settings,
        load_settings_to_write as load_settings_to_write,
    )

__getattr__ = late(
    __name__,
    {
        ".model": "Settings load_settings load_settings_to_write",
    },
)
