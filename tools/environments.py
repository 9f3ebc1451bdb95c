"""Environments for libraries that ragtide does not depend on: made when needed, and anew when their needs change."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
        self.folder.mkdir(parents=True, exist_ok=True)
        # Tests run in several processes, and two of them must not make the same environment.
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._made(name, python)

    def _made(self, name: str, python: str) -> Path:
        requirements, place = self.requirements / f"{name}.txt", self.folder / name
        made, stamp = place / "bin" / "python", place / "made-for"
        version = subprocess.run([python, "--version"], check=True, capture_output=True).stdout
        wanted = _digest(version, *(file.read_bytes() for file in (requirements, *self.files)))
        if not (made.exists() and stamp.exists() and stamp.read_text() == wanted):
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([python, "-m", "venv", str(place)], check=True)
            install = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run(
                [*install, *self.options, "--requirement", str(requirements)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"pip cannot install {requirements.name}:\n{done.stdout}{done.stderr}")
            stamp.write_text(wanted)
        return made


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()
