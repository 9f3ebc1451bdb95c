"""The files of a recording, which the recorder writes and replays read. docs/recording.md has the format."""

from .entry import RecordedEntry
from .entry_kinds import EntryKind
from .errors import UnreadableRecordingError
from .manifest import RecordedFile
from .recording import Recording

__all__ = ["EntryKind", "RecordedEntry", "RecordedFile", "Recording", "UnreadableRecordingError"]
