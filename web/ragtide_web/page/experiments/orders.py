"""Forms of an experiment's screen: the command that a form means. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from ragtide_offline.experiments.drafts import named_by, shown_value
from ragtide_schemas import describe
from ragtide_schemas.experiments import DRIVER, RACE, Command

OPERATIONS: Final = ("stop", "resume", "clone", "delete")
"""Orders of the screen; limits have a command line only."""
PARAMETER: Final = "parameter."
"""Begin of the name of a field with the value of a parameter."""
PARAMETERS_MAX: Final = 60
"""Most parameters of a form; `ragtide experiment` clones a config with more."""
VALUES_MAX: Final = 50
"""Most values of a parameter that a form suggests."""


class FormError(ValueError):
    """A form means no command; the message is a sentence for the field that is wrong."""


def command_of(
    fields: Mapping[str, str], *, by: str, reason: str, parameters: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> Command:
    """Return the command that a form means.

    Args:
        fields: of the form.
        by: name of the user.
        reason: of the user.
        parameters: of the config in the form.
        grid: values of each parameter among all configs.

    Raises:
        FormError: a field is wrong.
    """
    op = fields.get("order", "")
    if op not in OPERATIONS:
        raise FormError(f"there is no order {op[:40]!r}: load the page again")
    # The names of the race and the driver stand for their decisions.
    author = f"{by} (page)" if by in (RACE, DRIVER) else by
    given: dict[str, Any] = {"op": op, "config": fields.get("config", ""), "by": author, "reason": reason}
    if op == "resume":
        given["keep"] = fields.get("keep") == "yes"
    if op == "clone":
        changed = changes_of(fields, parameters, grid)
        given |= {"parameters": changed, "clone": fields.get("clone") or named_by({**parameters, **changed})}
    try:
        return Command(**given)
    except ValidationError as error:
        raise FormError(describe(error)) from None


def changes_of(
    fields: Mapping[str, str], parameters: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return the parameters of a form that differ from those of the config.

    Raises:
        FormError: a value is no JSON, or no parameter differs.
    """
    changed = {}
    for field, text in fields.items():
        name = field.removeprefix(PARAMETER)
        if name == field or (name in parameters and text == shown_value(parameters[name])):
            continue
        if name not in grid:
            raise FormError(f"there is no parameter {name[:60]!r}: load the page again")
        if not text and name not in parameters:
            continue
        changed[name] = value_of(name, text, grid[name])
    if not changed:
        raise FormError("no parameter is changed: give at least one another value")
    return changed


def value_of(name: str, text: str, known: Sequence[Any]) -> Any:
    """Return the value that a text in a form means.

    A text that is the value of another config means that value. Otherwise it is a text if all known values are texts,
    and JSON if none is.

    Raises:
        FormError: the text is no JSON.

    >>> value_of("top_k", "8", [2, 4]), value_of("style", "8", ["short"]), value_of("cut", "true", [False])
    (8, '8', True)
    """
    for value in known:
        if shown_value(value) == text:
            return value
    if all(isinstance(value, str) for value in known):
        return text
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if any(isinstance(value, str) for value in known):
            return text
        raise FormError(
            f"{name} is not JSON (got {text[:60]!r}): give a value such as {shown_value(known[0])[:60]}"
        ) from None
