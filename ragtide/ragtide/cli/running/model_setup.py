"""Sets up the labeler `model` for a command: a model of the Hub or of a folder is shown, downloaded and measured."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from redis.asyncio import Redis
from rich.text import Text

from ragtide_consumers.labelers.models.files import model_files
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_offline.benchmark.bundled_slopes import BundledSlopes
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.measured_slopes import read_slopes, store_slopes
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas.slopes import NEAR_ZERO, Slope, SlopesByMetric

from ..printing import Column, err, fitted, warn
from ..printing.estimates import short_name
from .progress import interruptible, progress_bar
from .redis import with_redis

MODEL: Final = "model"
"""Name of the labeler."""

SETTING: Final = "models.support"

if TYPE_CHECKING:
    from ragtide_consumers.labelers.models.hub import HubModel
    from ragtide_consumers.labelers.models.hub_listing import HubListing

LINE_EVERY_S: Final = 1.0
"""Seconds between two lines of progress where the output is no terminal."""


def chosen_model(settings: Settings, place: str, *, may_download: bool = False) -> tuple[str, str]:
    """Return `models.support` and `models.support_file` of a model, after a download if it is not on this machine.

    Args:
        settings: of the command.
        place: a folder, or owner and name on the Hub, perhaps with `@` and a revision.
        may_download: whether the user has agreed to a download; otherwise the terminal asks.

    Raises:
        ConfigurationError: there is no such model, it cannot be used, or nobody agreed to the download.
    """
    from ragtide_consumers.labelers.models.hub import cached_model, is_hub_name  # noqa: PLC0415 - a client of HTTP
    from ragtide_consumers.labelers.models.loading import cache_of  # noqa: PLC0415 - as above

    configure_logging("error")  # what happens is printed here
    models = settings.models
    stated = models.support_file if "support_file" in models.model_fields_set else ""
    if not is_hub_name(place):
        return place, _show_folder(settings, place, stated)
    known = cached_model(place, stated, cache_of(settings))
    if known is not None:
        _say(f"{known.repository} is on this machine, at commit {known.commit}")
    else:
        known = asyncio.run(_from_hub(settings, place, stated, may_download=may_download))
    return f"{known.repository}@{known.commit}", known.file


def _show_folder(settings: Settings, place: str, stated: str) -> str:
    from ragtide_consumers.labelers.models.hub_listing import USUAL_FILES  # noqa: PLC0415 - a client of HTTP
    from ragtide_consumers.labelers.models.loading import check_support  # noqa: PLC0415 - as above

    folder = Path(place).expanduser()
    file = stated or next((file for file in USUAL_FILES if (folder / file).is_file()), USUAL_FILES[0])
    files = model_files(place, file, setting=SETTING)
    check_support(files.config, settings.models, files.name)
    license_file = next(iter(sorted(folder.glob("LICENSE*"))), None)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    _say(f"{folder}: {megabytes(size)}, license: {license_file.name if license_file else 'none in the folder'}")
    return file


async def _from_hub(settings: Settings, place: str, stated: str, *, may_download: bool) -> "HubModel":
    from ragtide_consumers.labelers.models.hub import download  # noqa: PLC0415 - a client of HTTP
    from ragtide_consumers.labelers.models.hub_listing import hub_listing  # noqa: PLC0415 - as above
    from ragtide_consumers.labelers.models.loading import cache_of, check_support  # noqa: PLC0415 - as above

    listing, config = await hub_listing(place, settings.models, SETTING)
    model = listing.model(stated, SETTING)
    check_support(config, settings.models, f"{SETTING} = {place!r}")
    size = listing.bytes_of(model)
    labels = [label for _, label in sorted((config.id2label or {}).items())]
    for line in _listing_lines(listing, model, size, labels):
        _say(line)
    cache = cache_of(settings)
    _agree(listing, size, cache, may_download=may_download)
    with _progress("downloading", size) as show:
        loaded: dict[str, int] = {}

        def follow(file: str, count: int) -> None:
            loaded[file] = count
            show(sum(loaded.values()), megabytes)

        folder = await download(model, settings.models, cache, SETTING, follow)
    _say(f"downloaded into {folder}; later starts need no network")
    return model


def _listing_lines(listing: "HubListing", model: "HubModel", size: int | None, labels: Sequence[str]) -> Iterator[str]:
    yield f"{listing.repository}, commit {listing.commit}"
    yield f"  license: {listing.license or 'none is stated: ask the author before you use it'}"
    yield f"  size: {megabytes(size)} ({model.file} with its tokenizer)"
    if labels:
        yield f"  labels: {', '.join(labels)[:200]}"
    others = [f"{name} {megabytes(listing.sizes[name])}" for name in listing.onnx_files if name != model.file]
    if others:
        yield f"  other files ({SETTING}_file): {', '.join(others[:6])}"


def _agree(listing: "HubListing", size: int | None, cache: Path, *, may_download: bool) -> None:
    if may_download:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{SETTING} = {listing.repository!r} is not on this machine, and a download of {megabytes(size)} under the "
            f"license {listing.license or '(none is stated)'} was not agreed to: give --yes"
        )
    if not typer.confirm(f"Download it into {cache}?", err=True):
        _say("nothing was downloaded")
        raise typer.Exit(1)


def measure_model(settings: Settings) -> None:
    """Measure the labeler of the settings on the bundled rows, print rate and slopes, and store the slopes.

    A version whose slopes are stored is not measured again. After Ctrl-C nothing is stored.

    Raises:
        ConfigurationError: the labeler cannot be used.
        RedisUnavailable: the slopes cannot be read or stored.
    """
    version = asyncio.run(_version(settings))
    name = MODEL, version

    async def stored(redis: Redis, _handle: object) -> SlopesByMetric | None:
        return (await read_slopes(redis, settings.prefix)).get(name)

    known = with_redis(settings, stored)
    if known is not None:
        _say("its slopes are those of an earlier measurement on the bundled rows:")
        print_slopes(known)
        return
    measured = BundledSlopes(settings.model_copy(update={"labeler": MODEL, "evaluators": ()}))
    with interruptible(lambda: "The model is on this machine, and not measured yet: give the same command again."):
        asyncio.run(_run(measured, settings))
    warn(*measured.problems)
    if not measured.slopes:
        raise ConfigurationError(
            f"{SETTING} = {settings.models.support!r} gave no score of any bundled row: use another model"
        )
    print_slopes(measured.slopes)

    async def store(redis: Redis, _handle: object) -> None:
        await store_slopes(redis, settings.prefix, *name, measured.slopes)

    with_redis(settings, store)


async def _version(settings: Settings) -> str:
    async with labeler_of(settings.model_copy(update={"labeler": MODEL, "evaluators": ()}), None) as labeler:
        return labeler.version


async def _run(measured: BundledSlopes, settings: Settings) -> None:
    _say("measuring the model on the bundled rows, before it scores your answers:")
    async with AsyncExitStack() as stack:
        show, said = None, False
        async with aclosing(measured.run()) as steps:
            async for left in steps:
                if left is not None and not said:
                    said = True
                    _say(_rate_line(measured, left + 1, settings))
                    show = stack.enter_context(_progress("measuring", left + 1))
                    begun = measured.labeled - 1
                if show is not None:
                    show(measured.labeled - begun, str)


def _rate_line(measured: BundledSlopes, left: int, settings: Settings) -> str:
    rate = measured.rate or 0.0
    return (
        f"  it labels {rate:,.1f} answers a second here (models.threads = {settings.models.threads}); its slopes need "
        f"{left:,} more, about {left / max(rate, 1e-9):,.0f} s"
    )


def print_slopes(slopes: SlopesByMetric) -> None:
    """Print how far each metric falls with each failure, with the interval."""
    by_failure: dict[str, dict[str, Slope]] = {}
    for metric, of_metric in slopes.items():
        for slope in of_metric:
            by_failure.setdefault(slope.failure, {})[metric] = slope
    rows = list(by_failure.items())

    def cell(metric: str) -> Callable[[tuple[str, dict[str, Slope]]], Text]:
        def text(row: tuple[str, dict[str, Slope]]) -> Text:
            slope = row[1].get(metric)
            if slope is None:
                return Text("")
            shown = f"{slope.slope:.2f} ({slope.lower:.2f} to {slope.upper:.2f})"
            return Text(shown, style="" if slope.is_seen else "bright_black")

        return text

    columns: list[Column[tuple[str, dict[str, Slope]]]] = [Column("failure", lambda row: row[0])]
    columns += [
        Column(short_name(metric), cell(metric), right=True, yields=len(slopes) - place)
        for place, metric in enumerate(slopes)
    ]
    columns.append(Column("rows", lambda row: f"{max(slope.rows for slope in row[1].values()):,}", right=True))
    err.print(fitted(columns, rows, err.width))
    _say(
        "fall of the mean per unit of the share of answers with the failure: 1 follows it exactly, below "
        f"{NEAR_ZERO:g} it is not seen"
    )


def megabytes(count: int | None) -> str:
    """Return a number of bytes in megabytes.

    >>> megabytes(87_200_000), megabytes(None)
    ('87.2 MB', 'an unknown size')
    """
    return "an unknown size" if count is None else f"{count / 1e6:,.1f} MB"


_Shown = Callable[[int, Callable[[int], str]], None]
# Shows how much is done, in the words of a function.


@contextmanager
def _progress(title: str, total: int | None) -> Iterator[_Shown]:
    """Draw a bar; where the output is no terminal, print at most a line a second."""
    last = [float("-inf")]

    def line(done: int, text: Callable[[int], str]) -> None:
        if (now := time.monotonic()) - last[0] >= LINE_EVERY_S or done == total:
            last[0] = now
            _say(f"{title}: {text(done)}{'' if total is None else f' of {text(total)}'}")

    if not err.is_terminal:
        yield line
        return
    with progress_bar(title, total) as bar:
        yield lambda done, text: bar(done, text(done))


def _say(line: str) -> None:
    err.print(line, markup=False, highlight=False, soft_wrap=True)
