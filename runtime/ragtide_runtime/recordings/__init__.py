"""Recordings: what the recorder writes and a replay, or a data person, reads; docs/recording.md has the format."""

from .entry import RecordedEntry
from .errors import UnreadableRecordingError
from .kinds import Kind
from .manifest import RecordedFile
from .recording import Recording

__all__ = ["Kind", "RecordedEntry", "RecordedFile", "Recording", "UnreadableRecordingError"]
