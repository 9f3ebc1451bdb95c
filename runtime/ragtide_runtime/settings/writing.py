"""Writes settings into the TOML file. Everything else in it stays: comments, order, and settings of the operator.

A text is changed line by line, read again, and compared with what it must mean. A file in which that fails, such as one
with a table inside braces, is refused as it is.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigurationError
from .environment import PREFIX
from .errors import line_of
from .toml_file import read_toml

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def variable_of(name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable_of("judge.model")
    'RAGTIDE_JUDGE_MODEL'
    """
    return f"{PREFIX}{name}".replace(".", "_").upper()


def write_settings(
    file: Path, values: Mapping[str, object], tables: Mapping[str, Sequence[Mapping[str, object]]] | None = None
) -> None:
    """Write settings into a file, which may be missing. A reader sees the file before or after the change.

    Args:
        file: the TOML file; of a link, the file that it leads to is written.
        values: by name, such as `labeler` or `judge.model`. They are no secrets.
        tables: tables to add to lists, such as rules by `alerts`.

    Raises:
        ConfigurationError: an environment variable is stronger than a new value, the file cannot be read or written, or
            it has a form in which the settings cannot be added.
    """
    for name in [*values, *(tables or ())]:
        variable = variable_of(name)
        if variable in {given.upper() for given in os.environ}:
            raise ConfigurationError(
                f"{variable} is set in the environment, which is stronger than {file}: unset it, and try again"
            )
    text, _ = read_toml(file)
    try:
        changed = with_settings(text, values, tables or {})
    except ValueError:
        raise ConfigurationError(
            f"{file} has a form in which {', '.join([*values, *(tables or ())])} cannot be added: write tables as "
            "[judge] and lists of tables as [[alerts]], or name another file in RAGTIDE_CONFIG"
        ) from None
    _replace(file.resolve(), changed)


def with_settings(text: str, values: Mapping[str, object], tables: Mapping[str, Sequence[Mapping[str, object]]]) -> str:
    r"""Return the text of a TOML file with other values of settings, and with further tables.

    Args:
        text: TOML.
        values: texts, numbers, and lists and tables of these, by name.
        tables: to add to lists of tables.

    Raises:
        ValueError: the text has a form that this function cannot change.

    >>> print(with_settings('# ours\nlabeler = "local"  # for now\n', {"labeler": "cascade"}, {}), end="")
    # ours
    labeler = "cascade"  # for now
    """
    wanted = tomllib.loads(text)
    lines = text.removesuffix("\n").split("\n")
    for name, value in values.items():
        *table, key = name.split(".", 1)
        place = wanted.setdefault(table[0], {}) if table else wanted
        if not isinstance(place, dict):
            raise ValueError(f"{table[0]} is no table")  # noqa: TRY004 - of the text
        if place.get(key) == value:
            continue
        if key in place:
            _replace_value(lines, (*table, key), place[key], value)
        elif table:
            _add_to_table(lines, table[0], f"{_key(key)} = {_value(value)}")
        else:
            _add_at_top(lines, f"{_key(key)} = {_value(value)}")
        place[key] = value
    for name, further in tables.items():
        for fields in further:
            lines += ["", f"[[{name}]]", *(f"{_key(key)} = {_value(value)}" for key, value in fields.items())]
            wanted.setdefault(name, []).append(dict(fields))
    changed = "\n".join(lines).lstrip("\n") + "\n"
    if tomllib.loads(changed) != wanted:
        raise ValueError("the text has another form")
    return changed


def _replace_value(lines: list[str], path: tuple[str, ...], before: object, value: object) -> None:
    number = line_of("\n".join(lines), path)
    line = "" if number is None else lines[number - 1]
    start, sign, rest = line.partition("=")
    ends = [*(match.start() for match in re.finditer("#", rest)), len(rest)]
    end = next((end for end in ends if _is_value(rest[:end], before)), None)
    if number is None or not sign or end is None:
        raise ValueError(f"the value of {'.'.join(path)} is not on a line of its own")
    spaces = rest[:end][len(rest[:end].rstrip()) :]
    lines[number - 1] = f"{start}{sign} {_value(value)}{spaces}{rest[end:]}"


def _is_value(text: str, value: object) -> bool:
    try:
        return tomllib.loads(f"value = {text}") == {"value": value}
    except tomllib.TOMLDecodeError:
        return False


def _add_to_table(lines: list[str], table: str, line: str) -> None:
    header = next((number for number, each in enumerate(lines) if re.match(rf"\s*\[\s*{table}\s*\]", each)), None)
    if header is None:
        lines += ["", f"[{table}]", line]
        return
    end = header + 1
    while end < len(lines) and lines[end].strip() and not lines[end].lstrip().startswith("["):
        end += 1
    lines.insert(end, line)


def _add_at_top(lines: list[str], line: str) -> None:
    header = next((number for number, each in enumerate(lines) if each.lstrip().startswith("[")), None)
    if header is None:
        lines.append(line)
        return
    while header and lines[header - 1].lstrip().startswith("#"):  # a comment above a table belongs to it
        header -= 1
    lines[header:header] = [line, ""]


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(str(name))} = {_value(member)}' for name, member in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_value(member) for member in value)}]"
    # TOML has the texts, numbers, true and false of JSON, but no halves of a letter and no bare DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _replace(file: Path, text: str) -> None:
    before: Any = file.read_bytes() if file.is_file() else b""
    if b"\r\n" in before:
        text = text.replace("\n", "\r\n")
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            new.write_text(text, encoding="utf-8", newline="")
            if before:
                shutil.copymode(file, new)
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written ({error.strerror}): make it writable, or name another file in RAGTIDE_CONFIG"
        ) from None
