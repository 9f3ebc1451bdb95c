"""Imports the names of a package at their first use, so that unused names cost no import time.

This is the only way in which ragtide imports late. A package states the names of each of its modules, and imports them
for type checkers:

    if TYPE_CHECKING:
        from .alert import Alert as Alert, ChangeCause as ChangeCause

    __getattr__ = late(__name__, {".alert": "Alert ChangeCause"})

`from package import Alert` then imports that module alone. A module that needs a name only while a command runs imports
the package, and takes the name from it: `settings.load_settings()`.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def late(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`, and set its `__all__`.

    Args:
        package: its name.
        names: by module, its names with blanks between them; a module of the package begins with a dot.
    """
    module_of = {name: module for module, listed in names.items() for name in listed.split()}
    this = sys.modules[package]
    this.__dict__["__all__"] = sorted(module_of)

    def load(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(module, package), name)
        setattr(this, name, value)
        return value

    return load
