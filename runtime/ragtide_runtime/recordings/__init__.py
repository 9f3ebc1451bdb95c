"""The files of a recording, which the recorder writes and replays read. docs/offline/recording.md has the format."""

from .entries import EntryKind, RecordedEntry, UnreadableRecordingError
from .manifest import RecordedFile
from .recording import Recording

__all__ = ["EntryKind", "RecordedEntry", "RecordedFile", "Recording", "UnreadableRecordingError"]
