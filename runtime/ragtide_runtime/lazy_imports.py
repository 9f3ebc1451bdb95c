"""Imports the names of a package at their first use, so that unused names cost no import time."""

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def late(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    Args:
        package: its name.
        homes: the module of each name, relative to the package.
    """

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, package), name)
        setattr(modules[package], name, value)
        return value

    return load
