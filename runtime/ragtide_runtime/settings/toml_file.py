"""The TOML file of the settings: where it is, its text and its content."""

import os
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError


def settings_file() -> Path:
    """Return the path of the settings' file, which may be missing."""
    return Path(os.environ.get("RAGTIDE_CONFIG", "ragtide.toml"))


def read_toml(file: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its content; both are empty if there is no such file.

    Raises:
        ConfigurationError: it cannot be read, or is not TOML.
    """
    if not file.is_file():
        return "", {}
    import tomllib  # noqa: PLC0415 - an application seldom has a file

    try:
        text = file.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} cannot be read: it is not TOML: {error}; correct that line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}; correct the path or save it as UTF-8") from None
