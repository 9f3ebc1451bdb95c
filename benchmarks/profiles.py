"""Where the processor time of each stage of `throughput.py` goes, as small pictures.

    python benchmarks/profiles.py benchmarks/measured [--interactions 8000] [--rounds 3]

A timer of processor time interrupts the main thread every millisecond. A sample counts for the room of ragtide or for
the library that the innermost Python frame is in; time in C counts for the frame that calls it. One picture a stage is
written: profile_publish.svg, profile_deliver.svg, profile_aggregate.svg and profile_label.svg.
"""

import argparse
import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import throughput

from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.telemetry.logs import configure_logging

SHOWN = ("publish", "deliver", "aggregate", "label")
LINES = 10
"""Places in a picture; the others are one line."""
INTERVAL_S = 0.001


def place(filename: str) -> str:
    """Return the room or the library that a file belongs to."""
    parts = Path(filename).parts
    for depth, part in enumerate(parts):
        if part == "ragtide" or part.startswith("ragtide_"):
            rooms = parts[depth + 1 : -1]
            return "/".join((part, *rooms[:2]))
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py")
    return parts[-2] if len(parts) > 1 and parts[-2] in ("asyncio", "json", "re", "logging") else "Python"


class Sampler:
    """Counts samples by stage and place."""

    def __init__(self) -> None:
        self.samples: dict[str, Counter[str]] = {}

    @contextmanager
    def sampling(self, stage: str) -> Iterator[None]:
        """Sample the main thread for the body of a `with`."""
        counted = self.samples.setdefault(stage, Counter())

        def sample(_: int, frame: FrameType | None) -> None:
            if frame is not None:
                counted[place(frame.f_code.co_filename)] += 1

        before = signal.signal(signal.SIGPROF, sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


class SampledRound(throughput.Round):
    """A round whose stages are sampled."""

    sampler: Sampler

    async def costs(self, name: str, count: int, body: Callable[[], Awaitable[Any]]) -> None:
        """Measure, and sample the body if its stage is shown."""
        if name in SHOWN and count > throughput.BATCH:
            with self.sampler.sampling(name):
                await super().costs(name, count, body)
        else:
            await super().costs(name, count, body)


def draw(stage: str, counted: Counter[str], us: float, file: Path) -> None:
    """Write the picture of a stage."""
    total = counted.total()
    shares = [(name, number / total) for name, number in counted.most_common(LINES)]
    if (rest := 1 - sum(share for _, share in shares)) > 0.001:
        shares.append(("everything else", rest))
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": stage, "font.family": "sans-serif"})
    _, axes = plt.subplots(figsize=(6.4, 0.5 + 0.28 * len(shares)), layout="constrained")
    names, values = zip(*reversed(shares), strict=True)
    bars = axes.barh(names, [100 * value for value in values], color="#1f77b4", height=0.7)
    axes.bar_label(bars, labels=[f"{us * value:.1f} us" for value in values], padding=3, color="#333333", fontsize=9)
    axes.set(title=f"{stage}: {us:.0f} us of processor an interaction", xlim=(0, 115 * max(values)))
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    plt.savefig(file, metadata={"Date": None})
    plt.close()


async def profile(url: str, data_dir: Path, count: int, rounds: int) -> tuple[Sampler, list[dict[str, Any]]]:
    """Return the samples of every stage, and the costs of every round."""
    SampledRound.sampler = Sampler()
    results = await throughput.measure(count, rounds, url, data_dir, SampledRound)
    return SampledRound.sampler, results


def main() -> None:
    """Sample and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--interactions", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        sampler, results = asyncio.run(profile(server.url, Path(name), arguments.interactions, arguments.rounds))
    numbers = throughput.summary(results)
    for stage in SHOWN:
        draw(stage, sampler.samples[stage], numbers[f"{stage}_us"], arguments.folder / f"profile_{stage}.svg")


if __name__ == "__main__":
    main()
