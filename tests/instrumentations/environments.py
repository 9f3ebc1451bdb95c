"""An environment for each library: made when it is first needed, and again when what it needs has changed.

`python -m tests.instrumentations.environments` makes all of them, one after another.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".venv-instrumentations"
REQUIREMENTS: Final = Path(__file__).parent / "requirements"
NAMES: Final = sorted(file.stem for file in REQUIREMENTS.glob("*.txt"))
"""Names of the environments."""


def python_of(name: str) -> Path:
    """Return the Python of an environment, which is made if it is not there.

    Raises:
        RuntimeError: pip cannot install the libraries; the message has its output.
    """
    FOLDER.mkdir(exist_ok=True)
    # Tests run in several processes, and two of them must not make the same environment.
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _made(name)


def _made(name: str) -> Path:
    requirements, place = REQUIREMENTS / f"{name}.txt", FOLDER / name
    python, stamp = place / "bin" / "python", place / "made-for"
    wanted = _digest(requirements, ROOT / "pyproject.toml")
    if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*install, "--requirement", str(requirements), "--editable", f"{ROOT}[otel]"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"pip cannot install {requirements.name}:\n{done.stdout}{done.stderr}")
        stamp.write_text(wanted)
    return python


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join([sys.version.encode(), *(file.read_bytes() for file in files)])).hexdigest()


def main() -> None:
    """Make every environment, and say how long each took."""
    for name in NAMES:
        begun = time.monotonic()
        python_of(name)
        sys.stdout.write(f"environment {name}: {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
