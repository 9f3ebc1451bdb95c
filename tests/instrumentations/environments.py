"""An environment for each library: made when it is first needed, and again when what it needs has changed."""

import hashlib
import shutil
import subprocess
import sys
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
