"""Where the arrays of the language model are.

A tree holds them, and so does what is built from it. The published wheel leaves them to the distribution
`ragtide-languages`, which the extra `worker` brings: they are two thirds of it, and an application that only publishes
needs none.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ragtide_runtime.errors import ConfigurationError

INCLUDED: Final = Path(__file__).with_name("language_arrays")
"""The folder in this package."""

APART: Final = "ragtide_languages"
"""The package of the distribution."""


def language_folder() -> Path:
    """Return the folder of the arrays; nothing is read.

    Raises:
        ConfigurationError: they are not installed.
    """
    if INCLUDED.is_dir():
        return INCLUDED
    package = find_spec(APART)
    if package is None or package.origin is None:
        raise ConfigurationError(
            "the language model of the labelers is not installed: pip install 'ragtide[worker]', or ragtide-languages"
        )
    return Path(package.origin).parent
