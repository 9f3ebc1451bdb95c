"""Opens the recording that a user names."""

from pathlib import Path

from ragtide_runtime.recordings import Recording
from ragtide_runtime.settings.model import Settings


def open_recording(url: str, settings: Settings) -> Recording:
    """Return the recording in a folder or at a URL.

    Raises:
        ConfigurationError: there is none.
    """
    place = str(Path(url).expanduser().absolute()) if "://" not in url else url
    return Recording.open(place, storage_options=settings.recorder.storage_options)
