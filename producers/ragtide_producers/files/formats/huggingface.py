"""Hugging Face data sets, streamed by the library `datasets` from the Hub or read from a folder.

A source contains the arguments of `datasets.load_dataset`:

    hf:rungalileo/ragbench/hotpotqa?split=test      load_dataset("rungalileo/ragbench", "hotpotqa", split="test")
    hf:org/name?config=de&split=dev&revision=v2     load_dataset("org/name", "de", split="dev", revision="v2")
    hf:./folder?split=test                          a folder of load_dataset or save_to_disk
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from ragtide_schemas.suggestions import closest, suggestion

from .record import Format, Record, RecordError, present

PREFIX: Final = "hf:"
"""First characters of such a source."""

_OPTIONS: Final = ("config", "split", "revision")
"""Names of options after the question mark."""

_SAVED: Final = ("state.json", "dataset_dict.json")
"""A folder of `save_to_disk` contains one of these files."""


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A data set, with the selection of its rows."""

    name: str
    """`owner/name` on the Hub, or a folder."""
    config: str | None = None
    """Configuration (subset) of the data set; None for the only one."""
    split: str | None = None
    """Split of the data set; None for the only one."""
    revision: str | None = None
    """Branch, tag or commit on the Hub; None for the newest."""


def is_huggingface(source: str | Path) -> bool:
    """Return whether a source is a Hugging Face data set."""
    return str(source).startswith(PREFIX)


def hub_dataset(source: str) -> HubDataset:
    """Return the data set that a source names.

    >>> hub_dataset("hf:rungalileo/ragbench/hotpotqa?split=test")
    HubDataset(name='rungalileo/ragbench', config='hotpotqa', split='test', revision=None)

    Raises:
        RecordError: the source names no data set, or has an unknown option after the question mark.
    """
    name, _, query = source.removeprefix(PREFIX).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [option for option, value in options.items() if option not in _OPTIONS or not value]
    if not name or unknown or (query and not options):
        wrong = unknown[0] if unknown else query
        meant = closest(wrong, _OPTIONS)
        problem = f"{wrong!r} is no option with a value" if wrong else "the data set has no name"
        problem += f" (did you mean {meant}?)" if meant and wrong != meant else ""
        raise RecordError(f"{problem}: write hf:owner/name/config?split=test, with split, config or revision after ?")
    if not _is_folder(name) and name.count("/") > 1:
        owner, dataset, config = name.split("/", 2)
        return HubDataset(f"{owner}/{dataset}", **{"config": config, **options})
    return HubDataset(name, **options)


class HuggingFace(Format):
    """A data set. That on the Hub is streamed; the file of a saved data set is mapped into memory."""

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place."""
        del named
        return islice(_records(str(place)), start, None)

    def count(self, place: str | Path) -> int | None:
        """Return the number of rows; None if the data set does not state it."""
        rows = _rows(hub_dataset(str(place)))
        if hasattr(rows, "__len__"):
            return len(rows)
        splits = rows.info.splits or {}
        return splits[str(rows.split)].num_examples if str(rows.split) in splits else None

    def digest(self, place: str | Path) -> str:
        """Return an empty text."""
        del place
        return ""


def _records(source: str) -> Iterator[Record]:
    number = 0
    try:
        for row in _rows(hub_dataset(source)):
            number += 1
            yield Record.of(number, present(row))
    except RecordError:
        raise
    except Exception as error:  # noqa: BLE001 - the reader of the data set's files may raise anything
        raise RecordError(
            f"row {number + 1} cannot be read ({_brief(error)}): check whether the data set is complete"
        ) from None


def _rows(dataset: HubDataset) -> Any:
    try:
        import datasets  # noqa: PLC0415 - an extra; only this format needs it
    except ModuleNotFoundError:
        raise RecordError("reading Hugging Face data sets needs datasets: pip install 'ragtide[datasets]'") from None
    folder = Path(dataset.name).expanduser()
    try:
        if any((folder / mark).exists() for mark in _SAVED):
            rows = datasets.load_from_disk(str(folder))
        else:
            name = str(folder) if _is_folder(dataset.name) else dataset.name
            rows = datasets.load_dataset(name, dataset.config, revision=dataset.revision, streaming=True)
    except Exception as error:  # noqa: BLE001 - the network, the Hub, or a file of another kind than its name says
        raise RecordError(
            f"the data set cannot be opened ({_brief(error)}): correct its name or configuration, or check your network"
        ) from None
    return _choose_split(rows, dataset.split)


def _choose_split(splits: Any, split: str | None) -> Any:
    if not isinstance(splits, dict):
        if split is not None:
            raise RecordError(f"the data set has no splits, so it has no split {split!r}: leave split out")
        return splits
    names = ", ".join(splits)
    if split is None and len(splits) != 1:
        raise RecordError(f"the data set has several splits: choose one of {names} with ?split=")
    if split is not None and split not in splits:
        raise RecordError(f"the data set has no split {split!r}{suggestion(split, list(splits))}")
    return splits[split] if split is not None else next(iter(splits.values()))


def _is_folder(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or Path(name).is_dir()


def _brief(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
