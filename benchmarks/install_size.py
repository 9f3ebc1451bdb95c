"""The size of an installation for each extra, from the files of the installed distributions; nothing is downloaded.

    python benchmarks/install_size.py

It follows the requirements of pyproject.toml and of each distribution, with their markers, in this environment. A size
is the sum of the files that a distribution has installed, without bytecode: pip writes bytecode besides, and whole
blocks of the disk take more. An extra whose distributions are not installed here is left out.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from hatch_build import FILES, packed_pages  # noqa: E402 - of this tree, and in no package

PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = PYPROJECT["project"]
SOURCES: Final[list[str]] = PYPROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]
EXTRAS: Final[Mapping[str, list[str]]] = PROJECT["optional-dependencies"]
NOT_SHOWN: Final = {"all", "dev"}
MB: Final = 1_000_000
LARGEST: Final = 12
"""Distributions shown of an installation."""


def closure(requirements: Iterable[str]) -> dict[str, Distribution]:
    """Return every distribution that requirements need, by its name.

    Raises:
        PackageNotFoundError: one of them is not installed.
    """
    waiting = [Requirement(line) for line in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    found: dict[str, Distribution] = {}
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name == PROJECT["name"]:
            waiting += [Requirement(line) for extra in extras for line in EXTRAS[extra]]
            continue
        found[name] = distribution(name)
        waiting += _needed(found[name], extras)
    return found


def _needed(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Yield what a distribution needs in this environment, with extras of it."""
    for text in of.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def size_of(one: Distribution) -> int:
    """Return the bytes of the files of a distribution, without bytecode."""
    paths = [Path(str(one.locate_file(file))) for file in one.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def own_size() -> int:
    """Return the bytes of ragtide itself as published: without its data."""
    packages = (path for source in SOURCES for path in (ROOT / source).glob("ragtide*/**/*"))
    apart = {file for name in FILES for file in (ROOT / name, *(ROOT / name).glob("*"))}
    return sum(path.stat().st_size for path in {*packages} - apart if path.is_file() and path.suffix != ".pyc")


def data_size() -> int:
    """Return the bytes of `ragtide-data`, which the extra `worker` brings."""
    files = (file for name in FILES for file in (ROOT / name, *(ROOT / name).glob("*")))
    return sum(file.stat().st_size for file in files if file.is_file()) + len(packed_pages(ROOT / "docs"))


def has_labelers(extras: str) -> bool:
    """Return whether extras bring the extra `worker`."""
    waiting, seen = extras.split(","), set[str]()
    while waiting:
        extra = waiting.pop()
        seen.add(extra)
        own = (Requirement(line) for line in EXTRAS.get(extra, ()))
        waiting += [more for line in own if line.name == PROJECT["name"] for more in line.extras - seen]
    return "worker" in seen


def main() -> None:
    """Measure and print."""
    core = closure(PROJECT["dependencies"])
    own = own_size()
    print("# The size of an installation\n")
    print("Written by `make install-size` (`benchmarks/install_size.py`): files without bytecode, on this machine.")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(
        f"Python {version}, {sys.platform}. ragtide itself has {own / MB:.1f} MB, and its data "
        f"(ragtide-data: the language model, the demo, the pages) {data_size() / MB:.1f} MB.\n"
    )
    print("| installation | MB | distributions | the largest |\n|---|---|---|---|")
    shown = ["", *(extra for extra in EXTRAS if extra not in NOT_SHOWN), "service,embedded"]
    for extras in shown:
        name = f"ragtide[{extras}]" if extras else "ragtide"
        try:
            found = core | closure([f"{PROJECT['name']}[{extras}]"] if extras else [])
        except PackageNotFoundError as missing:
            print(f"| `{name}` | not measured: {missing.name} is not installed | | |")
            continue
        sizes = sizes_of(found)
        largest = ", ".join(f"{package} {size / MB:.0f}" for package, size in list(sizes.items())[:3])
        ours = own + (data_size() if has_labelers(extras) else 0)
        print(f"| `{name}` | {(sum(sizes.values()) + ours) / MB:.0f} | {len(sizes)} | {largest} |")
    print("\n## The largest distributions of `ragtide[service,embedded]`\n\n| distribution | MB |\n|---|---|")
    for package, size in list(sizes.items())[:LARGEST]:
        print(f"| {package} | {size / MB:.1f} |")
    rest = list(sizes.values())[LARGEST:]
    print(f"| {len(rest)} others | {sum(rest) / MB:.1f} |")


def sizes_of(found: Mapping[str, Distribution]) -> dict[str, int]:
    """Return the bytes of each distribution, the largest first."""
    sizes = {name: size_of(installed) for name, installed in found.items()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    main()
