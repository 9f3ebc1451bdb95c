"""Environments for libraries that ragtide does not depend on: made when needed, and anew when their needs change."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Environments:
    """An environment for each file of requirements of a folder; the file's name is the name of the environment."""

    requirements: Path
    folder: Path
    """Where the environments are made."""
    options: Sequence[str] = ()
    """Further arguments of `pip install`."""
    files: Sequence[Path] = ()
    """Further files on which all environments depend."""

    @property
    def names(self) -> list[str]:
        """Names of the environments."""
        return sorted(file.stem for file in self.requirements.glob("*.txt"))

    def python_of(self, name: str, python: str = sys.executable) -> Path:
        """Return the Python of an environment, which is made if it is not there.

        Args:
            name: of the environment.
            python: with which it is made.

        Raises:
            RuntimeError: pip cannot install the libraries; the message has its output.
        """
        requirements, place = self.requirements / f"{name}.txt", self.folder / name
        made = place / "bin" / "python"
        version = subprocess.run([python, "--version"], check=True, capture_output=True).stdout
        wanted = _digest(version, *(file.read_bytes() for file in (requirements, *self.files)))

        def make() -> None:
            subprocess.run([python, "-m", "venv", str(place)], check=True)
            install = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _install([*install, *self.options, "--requirement", str(requirements)], requirements)

        _make_once(made, place, wanted, make)
        return made


@dataclass(frozen=True)
class NodePackages:
    """The packages of npm in a `package.json`, installed for the Node.js of this machine."""

    package: Path
    folder: Path
    """Where they are installed."""

    def modules(self) -> Path:
        """Return the folder `node_modules` with the packages, which are installed if they are not there.

        Raises:
            RuntimeError: there is no npm, or it cannot install the packages; the message has its output.
        """
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("there is no npm on PATH: make programs installs it")

        def make() -> None:
            self.folder.mkdir(parents=True)
            shutil.copy(self.package, self.folder)
            options = ["--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(self.folder)]
            _install([npm, "install", *options], self.package)

        made = self.folder / "node_modules"
        _make_once(made, self.folder, _digest(self.package.read_bytes()), make)
        return made


def _make_once(made: Path, place: Path, wanted: str, make: Callable[[], None]) -> None:
    """Make a folder with something in it, unless the same is there already."""
    place.parent.mkdir(parents=True, exist_ok=True)
    stamp = place / "made-for"
    # Tests run in several processes, and two of them must not make the same environment.
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made.exists() and stamp.exists() and stamp.read_text() == wanted):
            shutil.rmtree(place, ignore_errors=True)
            make()
            stamp.write_text(wanted)


def _install(command: Sequence[str], wanted: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} cannot install {wanted.name}:\n{done.stdout}{done.stderr}")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()
