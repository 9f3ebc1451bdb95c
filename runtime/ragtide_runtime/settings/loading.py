"""Reads settings from their sources, the strongest first: arguments, environment, files of secrets, the TOML file.

A process builds the settings that it reads. A wrong value in a table of other processes does not stop it, and a name
that no process knows does.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import ConfigurationError
from .environment import secret_files, unknown_variables, values_of_variables, with_stronger
from .names import SETTINGS
from .toml_file import read_toml, settings_file

Read = TypeVar("Read", bound=BaseModel)
"""Settings of a process: all of them, or the part that it reads."""

log: Final = logging.getLogger("ragtide.settings")

_warned: set[str] = set()
"""Warnings about unknown variables that this process has logged; each is logged once."""


def values_of_sources(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a model's settings from all sources, not yet validated.

    Args:
        model: the settings.
        given: the arguments.

    Raises:
        ConfigurationError: a source cannot be read.
    """
    _, content = read_toml(settings_file())
    of_others = content.keys() & set(SETTINGS) - model.model_fields.keys()
    values = {name: value for name, value in content.items() if name not in of_others}
    for variables in (secret_files(), os.environ):
        values = with_stronger(values, values_of_variables(model, variables))
    return with_stronger(values, given)


def warn_of_unknown_variables() -> None:
    """Log the variables that are no settings, for an application: a typo must not keep it from starting.

    The variable may belong to a newer release or to another program. Roles and commands of ragtide refuse one that is
    probably a misspelt setting.
    """
    _warn(
        f"{sentence}; it is ignored here, but ragtide's commands refuse it" if near else sentence
        for sentence, near in unknown_variables()
    )


def refuse_unknown_variables() -> None:
    """Log a variable that is far from every setting, as it may be the user's own.

    Raises:
        ConfigurationError: a variable is probably a misspelt setting.
    """
    unknown = unknown_variables()
    misspelt = [variable.sentence for variable in unknown if variable.near]
    if misspelt:
        raise ConfigurationError(f"settings: {'; '.join(misspelt)}")
    _warn(variable.sentence for variable in unknown)


def check_named_file() -> None:
    """Raise a ConfigurationError if `RAGTIDE_CONFIG` names a file that is not there."""
    named = os.environ.get("RAGTIDE_CONFIG")
    if named is not None and not Path(named).is_file():
        raise ConfigurationError(f"RAGTIDE_CONFIG names {named}, which is not a file: correct the path or unset it")


def explained_settings(model: type[Read], overrides: Mapping[str, object]) -> Read:
    """Return settings from all sources.

    Raises:
        ConfigurationError: a setting is wrong; the message names variable or line, field, value and remedy.
    """
    try:
        return model(**overrides)
    except ValidationError as error:
        from .errors import Explainer  # noqa: PLC0415 - only a mistake needs it

        text, _ = read_toml(settings_file())
        variables = {**secret_files(), **os.environ}
        explained = Explainer(model, settings_file(), text, given=overrides, environment=variables).explain(error)
        raise ConfigurationError(f"settings: {explained}") from None
    except ValueError as error:
        raise ConfigurationError(f"settings cannot be read: {error}; correct the variable or the file") from None


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        if sentence not in _warned:
            _warned.add(sentence)
            log.warning("%s", sentence)
