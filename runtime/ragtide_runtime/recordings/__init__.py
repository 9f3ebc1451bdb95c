"""Recordings: the recorder writes them; replays and data scientists read them. docs/recording.md has the format."""

from .entry import RecordedEntry
from .errors import UnreadableRecordingError
from .kinds import Kind
from .manifest import RecordedFile
from .recording import Recording

__all__ = ["Kind", "RecordedEntry", "RecordedFile", "Recording", "UnreadableRecordingError"]
