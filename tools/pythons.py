"""Lists the Pythons of this machine that ragtide supports: the oldest patch release, or the newest of the other lines.

Runs before any environment exists, by any Python: `python3 tools/pythons.py oldest`. `others` leaves out the line of
the Python that runs it, which is that of `make test`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/hostedtoolcache/Python/*/x64/bin", "~/.pyenv/versions/*/bin")
NAME = re.compile(r"python3(\.[0-9]+)?")


def lowest_version(root: Path = ROOT) -> tuple[int, ...]:
    """Return the lowest version that pyproject.toml allows."""
    found = re.search(r'^requires-python = ">=([0-9.]+)"', (root / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit("pyproject.toml has no requires-python that begins with >=")
    return tuple(map(int, found[1].split(".")))


def version_of(path: Path) -> "tuple[int, ...] | None":
    """Return the version of an interpreter that can make environments; None for any other file."""
    asked = "import sys, ensurepip; print(*sys.version_info[:3], sys.version_info.releaselevel)"
    try:
        done = subprocess.run([str(path), "-c", asked], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    *numbers, level = done.stdout.split() or [""]
    return tuple(map(int, numbers)) if done.returncode == 0 and level == "final" else None


def installed() -> "dict[tuple[int, ...], Path]":
    """Return the supported Pythons, by version; the first place wins."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for place in PLACES:
        root, _, pattern = str(Path(place).expanduser()).partition("/*")
        folders += sorted(Path(root).glob("*" + pattern)) if pattern else [Path(root)]
    found: dict[tuple[int, ...], Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3*")):
            version = version_of(path) if NAME.fullmatch(path.name) else None
            if version is not None and version >= lowest_version():
                found.setdefault(version, path)
    return found


def main(wanted: str) -> None:
    """Print the paths, a line each.

    Raises:
        SystemExit: no supported Python is here, or `wanted` is neither `oldest` nor `others`.
    """
    found = installed()
    if wanted not in ("oldest", "others") or not found:
        raise SystemExit("usage: python3 tools/pythons.py oldest|others, where a supported Python is installed")
    if wanted == "oldest":
        print(found[min(found)])
    else:
        newest = {version[:2]: path for version, path in sorted(found.items())}
        newest.pop(sys.version_info[:2], None)
        print("\n".join(map(str, newest.values())))


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
