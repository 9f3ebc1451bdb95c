"""Loads values of users' modules by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.user_code import contained, described


def attribute_at(origin: str, path: str) -> Any:
    """Return the value of `module:attribute`.

    Raises:
        ConfigurationError: it cannot be loaded; the message begins with the origin.
    """
    return loaded(f"{origin}: {path}", lambda: attribute(path))


def attribute(path: str) -> Any:
    """Return the value of `module:attribute`; any error of the module is raised.

    Raises:
        ValueError: the path has another form.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError("write it as module:attribute")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def loaded(origin: str, load: Callable[[], Any]) -> Any:
    """Return what `load` returns.

    Raises:
        ConfigurationError: it fails; the message begins with the origin.
    """
    try:
        with contained():
            return load()
    except Exception as error:
        raise ConfigurationError(f"{origin} cannot be loaded ({described(error)}): correct or remove it") from error
