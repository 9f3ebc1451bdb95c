"""Removes files of a recording: left over by a killed step, replaced by a complete manifest, or too old."""

from datetime import date

from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.manifest import FAR, FOLDER, Recorded, RecordedFile, replaced, step_of
from ragtide_runtime.recordings.store import TEMPORARY, Store


def remove_left_overs(store: Store, recorded: Recorded) -> int:
    """Remove files that a killed step left, and return their number.

    No later manifest can name these files, because the number of their step is taken.
    """
    named = {file.path for file in recorded.files}
    removed = 0
    for kind in EntryKind:
        for path in [*store.list(kind.value), *store.list(f"{kind.value}-unreadable")]:
            step = step_of(path)
            if step is None or path in named:
                continue
            partition, number = step
            if partition == recorded.partition and number <= recorded.number:
                store.remove(path)
                removed += 1
    for path in store.list(FOLDER):
        if path.endswith(TEMPORARY) and path.startswith(f"{FOLDER}/.p{recorded.partition}-"):
            store.remove(path)
    return removed


def remove_replaced(store: Store, partition: int, number: int) -> None:
    """Remove manifests before a number, which a complete manifest replaces; later ones stay for current readers."""
    for path in replaced(store, partition, number):
        store.remove(path)


def files_before(recorded: Recorded, cutoff: date) -> list[RecordedFile]:
    """Return the files of days before a day, without files that have no day."""
    return [file for file in recorded.files if file.day < cutoff != FAR]
