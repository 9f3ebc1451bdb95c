"""Reads the chain of manifests of each partition."""

from collections import defaultdict

from .errors import UnreadableRecordingError
from .manifest import FOLDER, Recorded, decode_manifest, fold, is_complete, manifest_of, manifest_path
from .store import Store

TRIES = 3
"""Attempts to read a chain while the recorder replaces manifests."""


def partitions_of(store: Store) -> list[int]:
    """Return the partitions that have manifests."""
    return sorted(_numbers(store))


def recorded(store: Store, partition: int) -> Recorded:
    """Return the recorded state of a partition; it is empty if there is no manifest.

    Raises:
        UnreadableRecordingError: the chain has a gap, or holds a file that is no valid manifest.
    """
    for tries_left in reversed(range(TRIES)):
        numbers = sorted(_numbers(store).get(partition, []))
        first = max((number for number in numbers if is_complete(number)), default=1)
        try:
            return fold(
                partition,
                [
                    decode_manifest(store.read(path), path)
                    for path in (manifest_path(partition, number) for number in numbers if number >= first)
                ],
            )
        except FileNotFoundError as error:  # the recorder has just replaced it
            if not tries_left:
                raise UnreadableRecordingError(f"a manifest vanished while it was read ({error}): read again") from None
    raise AssertionError("not reached")


def replaced(store: Store, partition: int, number: int) -> list[str]:
    """Return the manifests of a partition before a number."""
    return [manifest_path(partition, one) for one in _numbers(store).get(partition, []) if one < number]


def _numbers(store: Store) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for path in store.list(FOLDER):
        known = manifest_of(path)
        if known is not None:
            found[known[0]].append(known[1])
    return found
