"""Hugging Face data sets, read as they come, by the library `datasets`: from the Hub or from a folder.

A source is what `datasets.load_dataset` is given, written in one word:

    hf:rungalileo/ragbench/hotpotqa?split=test      load_dataset("rungalileo/ragbench", "hotpotqa", split="test")
    hf:org/name?config=de&split=dev&revision=v2     load_dataset("org/name", "de", split="dev", revision="v2")
    hf:./folder?split=test                          a folder that load_dataset or save_to_disk knows
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from .record import Record, RecordError, present

PREFIX: Final = "hf:"
"""How such a source begins."""

_OPTIONS: Final = ("config", "split", "revision")
"""Names that may stand behind the question mark."""

_SAVED: Final = ("state.json", "dataset_dict.json")
"""A folder made by `save_to_disk` holds one of these files."""


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A data set, and the rows to read from it."""

    name: str
    """`owner/name` on the Hub, or a folder."""
    config: str | None = None
    """Configuration (subset) of the data set; None for the only one."""
    split: str | None = None
    """Split of the data set; None for the only one."""
    revision: str | None = None
    """Branch, tag or commit on the Hub; None for the newest."""


def is_huggingface(source: str | Path) -> bool:
    """Return whether a source is a Hugging Face data set rather than a file."""
    return str(source).startswith(PREFIX)


def hub_dataset(source: str) -> HubDataset:
    """Return the data set that a source names.

    >>> hub_dataset("hf:rungalileo/ragbench/hotpotqa?split=test")
    HubDataset(name='rungalileo/ragbench', config='hotpotqa', split='test', revision=None)

    Raises:
        RecordError: it names no data set, or has an unknown option behind the question mark.
    """
    name, _, query = source.removeprefix(PREFIX).partition("?")
    said = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [option for option, value in said.items() if option not in _OPTIONS or not value]
    if not name or unknown or (query and not said):
        what = unknown[0] if unknown else query
        problem = f"it says {what!r}" if what else "it names no data set"
        raise RecordError(f"{problem}: write hf:owner/name/config?split=test, with split, config or revision behind ?")
    if not _is_folder(name) and name.count("/") > 1:
        owner, dataset, config = name.split("/", 2)
        return HubDataset(f"{owner}/{dataset}", **{"config": config, **said})
    return HubDataset(name, **said)


def records(source: str | Path) -> Iterator[Record]:
    """Yield every row; of a data set on the Hub nothing is kept, of a saved one the file is mapped into memory.

    Raises:
        RecordError: `datasets` is not installed, there is no such data set, configuration or split, or a row of it
            cannot be read.
    """
    number = 0
    try:
        for row in _rows(hub_dataset(str(source))):
            number += 1
            fields = present(row)
            yield Record(number, fields, json.dumps(fields, sort_keys=True, default=str).encode())
    except RecordError:
        raise
    except Exception as error:  # noqa: BLE001 - the reader of the data set's files may raise anything
        raise RecordError(
            f"row {number + 1} cannot be read ({_brief(error)}): see whether the data set is whole"
        ) from None


def count(source: str | Path) -> int | None:
    """Return the number of rows where the data set says it, else None.

    Raises:
        RecordError: as `records`.
    """
    which = hub_dataset(str(source))
    rows = _rows(which)
    if hasattr(rows, "__len__"):
        return len(rows)
    splits = rows.info.splits or {}
    return splits[str(rows.split)].num_examples if str(rows.split) in splits else None


def _rows(which: HubDataset) -> Any:
    """Return a `Dataset` or `IterableDataset`."""
    try:
        import datasets  # noqa: PLC0415 - an extra; only this format needs it
    except ModuleNotFoundError:
        raise RecordError("reading Hugging Face data sets needs datasets: pip install 'ragtide[datasets]'") from None
    folder = Path(which.name).expanduser()
    try:
        if any((folder / mark).exists() for mark in _SAVED):
            found = datasets.load_from_disk(str(folder))
        else:
            name = str(folder) if _is_folder(which.name) else which.name
            found = datasets.load_dataset(name, which.config, revision=which.revision, streaming=True)
    except Exception as error:  # noqa: BLE001 - the network, the Hub, or a file of another kind than its name says
        raise RecordError(
            f"it cannot be opened ({_brief(error)}): correct its name or configuration, or see whether you are online"
        ) from None
    return _split(found, which.split)


def _split(found: Any, split: str | None) -> Any:
    """Return the rows of a split, or of the only one."""
    if not isinstance(found, dict):
        if split is not None:
            raise RecordError(f"it has no splits, but split={split} is asked for: leave split out")
        return found
    names = ", ".join(found)
    if split is None and len(found) != 1:
        raise RecordError(f"it has several splits: choose one of {names} with ?split=")
    if split is not None and split not in found:
        raise RecordError(f"it has no split {split!r}: choose one of {names}")
    return found[split] if split is not None else next(iter(found.values()))


def _is_folder(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or Path(name).is_dir()


def _brief(error: Exception) -> str:
    """Return the first line of the message of a foreign error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
