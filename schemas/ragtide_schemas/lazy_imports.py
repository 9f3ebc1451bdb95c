"""Imports the names of a package at their first use, so that unused names cost no import time.

This is the only way in which ragtide imports late. A package states the module of each of its names:

    if TYPE_CHECKING:
        from .alert import Alert  # for type checkers

    __getattr__ = late(__name__, {"Alert": ".alert"})

`from package import Alert` then imports that module alone. A module that needs a name only while a command runs imports
the package, and takes the name from it: `settings.load_settings()`.
"""

from collections.abc import Callable, Mapping
from importlib import import_module


def late(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    Args:
        package: its name.
        homes: the module of each name; a module of the package begins with a dot.
    """

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, package), name)
        setattr(import_module(package), name, value)
        return value

    return load
