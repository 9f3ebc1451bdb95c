"""The windows of the settings; whoever reads them imports no NumPy."""

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from ..statistics.tables.windows import Window, window


def windows_of(settings: Settings) -> tuple[Window, ...]:
    """Return the windows of the settings.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """
    try:
        return tuple(window(text) for text in dict.fromkeys(settings.windows))
    except ValueError as error:
        raise ConfigurationError(f"windows: {error}") from None
