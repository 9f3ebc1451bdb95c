"""The environments of the applications: each has one library.

`python -m tests.instrumentations.environments` makes all of them, one after another.
"""

import sys
import time
from pathlib import Path
from typing import Final

from tools.environments import ROOT, Environments

ENVIRONMENTS: Final = Environments(
    Path(__file__).parent / "requirements",
    ROOT / ".venv-instrumentations",
    ("--editable", f"{ROOT}[otel]"),
    (ROOT / "pyproject.toml",),
)


def main() -> None:
    """Make every environment, and say how long each took."""
    for name in ENVIRONMENTS.names:
        begun = time.monotonic()
        ENVIRONMENTS.python_of(name)
        sys.stdout.write(f"environment {name}: {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
