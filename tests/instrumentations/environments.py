"""The environments of the applications: each has one library, and `node` has the packages of npm.

`python -m tests.instrumentations.environments` makes all of them, one after another.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tools.environments import ROOT, Environments, NodePackages

ENVIRONMENTS: Final = Environments(
    Path(__file__).parent / "requirements",
    ROOT / ".venv-instrumentations",
    ("--editable", f"{ROOT}[otel]"),
    (ROOT / "pyproject.toml",),
)

NODE: Final = Path(__file__).parent / "node"
NODE_PACKAGES: Final = NodePackages(NODE / "package.json", ROOT / ".venv-instrumentations" / "node")


def main() -> None:
    """Make every environment, and say how long each took."""
    makers: dict[str, Callable[[], Path]] = {"node": NODE_PACKAGES.modules}
    makers |= {name: partial(ENVIRONMENTS.python_of, name) for name in ENVIRONMENTS.names}
    for name, make in makers.items():
        begun = time.monotonic()
        make()
        sys.stdout.write(f"environment {name}: {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
