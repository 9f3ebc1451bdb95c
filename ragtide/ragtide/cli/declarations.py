"""The options of every command as data, so that a help, a completion or a mistake imports no command.

`declarations.json` beside this module has them, with defaults and help texts. `make schemas` writes it from the
commands themselves, and a test compares it with them. A command that runs is imported, and parses its options itself.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from .command_groups import SETTINGS, command_group, with_help
from .command_list import COMMANDS

FILE: Final = Path(__file__).with_name("declarations.json")

TYPES: Final[Mapping[str, Any]] = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}

REQUIRED: Final = inspect.Parameter.empty

# As values, because these types are made while the program runs.
_ANNOTATED: Final[Any] = Annotated
_LIST: Final[Any] = list
_LITERAL: Final[Any] = Literal


@cache
def declarations() -> Mapping[str, Any]:
    """Return the declaration of every command, by its name."""
    found: Mapping[str, Any] = json.loads(FILE.read_bytes())
    return found


def declared(name: str, load: Callable[[], Any]) -> Any:
    """Return a command that answers help, completions and mistakes from its declaration; None without a declaration.

    Args:
        name: of the command.
        load: returns the command itself, which parses its arguments again and does the work.
    """
    declaration = declarations().get(name)
    if declaration is None:
        return None
    command = with_help(_command(name, declaration))
    check = command.make_context

    def make_context(info_name: str, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if extra.get("resilient_parsing"):
            return check(info_name, args, parent=parent, **extra)
        # The functions of a declaration do nothing: this shows a page of help, reports a mistake, or does nothing.
        with check(info_name, list(args), parent=parent, **extra) as context:
            command.invoke(context)
        return load().make_context(info_name, args, parent=parent, **extra)

    command.make_context = make_context
    return command


def load_command(name: str) -> Any:
    """Import a command and return it."""
    found = _target(name)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
        command.name = name
        return with_help(command)
    return with_help(_single(name, found))


def _target(name: str) -> Any:
    module, _, attribute = COMMANDS[name].target.partition(":")
    return getattr(import_module(f".{module}", __package__), attribute)


def _single(name: str, function: Callable[..., Any]) -> Any:
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
    made.command(name, context_settings=SETTINGS)(function)
    return typer.main.get_command(made)


def _command(name: str, declaration: Mapping[str, Any]) -> Any:
    """Return the command of a declaration, whose functions do nothing."""
    if "commands" not in declaration:
        return _single(name, _function(declaration))
    group = command_group(declaration["help"], no_args_is_help=declaration["no_args_is_help"])
    if "callback" in declaration:
        group.callback(invoke_without_command=declaration["invoke_without_command"])(_function(declaration["callback"]))
    for child, its_declaration in declaration["commands"].items():
        group.command(child, context_settings=SETTINGS)(_function(its_declaration))
    command = typer.main.get_command(group)
    command.name = name
    return command


def _function(declaration: Mapping[str, Any]) -> Callable[..., None]:

    def does_nothing(**_: Any) -> None:
        pass

    parameters = [_parameter(one) for one in declaration["parameters"]]
    does_nothing.__doc__ = declaration["help"]
    does_nothing.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(does_nothing)["__signature__"] = inspect.Signature(parameters)
    return does_nothing


def _parameter(declaration: Mapping[str, Any]) -> inspect.Parameter:
    kind = TYPES.get(declaration["type"]) or _LITERAL[tuple(declaration["choices"])]
    kind = _LIST[kind] if declaration.get("many") else kind
    make: Any = typer.Argument if declaration["kind"] == "argument" else typer.Option
    told = {name: declaration[name] for name in ("help", "metavar", "min", "max", "hidden") if name in declaration}
    default = declaration.get("default", REQUIRED)
    kind = kind if default is not None else kind | None
    return inspect.Parameter(
        declaration["name"],
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=_ANNOTATED[
            kind if default is not None else kind | None, make(*declaration.get("names", ()), **told)
        ],
    )


def describe_commands() -> dict[str, Any]:
    """Return the declaration of every command, from the commands themselves."""
    return {name: _described(_target(name)) for name in COMMANDS}


def _described(command: Any) -> dict[str, Any]:
    if not isinstance(command, typer.Typer):
        return {"help": inspect.getdoc(command), "parameters": list(_parameters_of(command))}
    found: dict[str, Any] = {"help": command.info.help, "no_args_is_help": bool(command.info.no_args_is_help)}
    callback = command.registered_callback
    if callback is not None and callback.callback is not None:
        found["invoke_without_command"] = bool(callback.invoke_without_command)
        found["callback"] = _described(callback.callback)
    commands = {_named(one): _described(one.callback) for one in command.registered_commands}
    return {**found, "commands": commands}


def _named(command: Any) -> str:
    name: str = command.name or typer.main.get_command_name(command.callback.__name__)
    return name


def _parameters_of(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, *infos = get_args(hints[name]) if get_origin(hints[name]) is Annotated else [hints[name]]
        for info in infos:
            if isinstance(info, OptionInfo | ArgumentInfo):
                yield _parameter_of(name, kind, parameter.default, info)


def _parameter_of(name: str, kind: Any, default: Any, info: OptionInfo | ArgumentInfo) -> dict[str, Any]:
    found = {"name": name, "kind": "argument" if isinstance(info, ArgumentInfo) else "option", **_type_of(kind)}
    # Typer keeps the first name of an option as its default.
    names = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
    if names:
        found["names"] = names
    if default is not REQUIRED:
        found["default"] = default.value if isinstance(default, Enum) else default
    told = {"metavar": info.metavar, "min": info.min, "max": info.max, "hidden": info.hidden or None}
    return {**found, **{name: value for name, value in told.items() if value is not None}, "help": info.help}


def _type_of(kind: Any) -> dict[str, Any]:
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = set(get_args(kind)) - {type(None)}
    if get_origin(kind) is list:
        return {**_type_of(get_args(kind)[0]), "many": True}
    if get_origin(kind) is Literal:
        return {"type": "choice", "choices": list(get_args(kind))}
    if issubclass(kind, Enum):
        return {"type": "choice", "choices": [member.value for member in kind]}
    return {"type": next(name for name, known in TYPES.items() if known is kind)}


def main() -> None:
    """Write the declarations into a file."""
    Path(sys.argv[1]).write_text(f"{json.dumps(describe_commands(), indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
