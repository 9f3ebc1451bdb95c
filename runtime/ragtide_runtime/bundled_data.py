"""Where the data are that come with the code: the language model, the interactions of the demo, the pages.

A tree holds them, and so does what is built from it. The published wheel leaves them to the distribution
`ragtide-data`, which the extra `worker` brings: they are two thirds of it, and an application that only publishes
needs none.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .errors import ConfigurationError

APART: Final = "ragtide_data"
"""The package of the distribution."""


def bundled(included: Path) -> Path:
    """Return the path of data, a file or a folder; nothing is read.

    Args:
        included: its path in the package that reads it. In the distribution it has the same name.

    Raises:
        ConfigurationError: it is not installed.
    """
    if included.exists():
        return included
    package = find_spec(APART)
    if package is None or package.origin is None:
        raise ConfigurationError(
            f"{included.name} is not installed, which comes with ragtide's command line: pip install "
            "'ragtide[worker]', or ragtide-data"
        )
    return Path(package.origin).with_name(included.name)
