"""Lua files: each says what it is for, is run by one typed function, and is composed of what it uses."""

import ast
import re
from pathlib import Path

from tests.support.cases import for_each
from tests.support.modules import product_files

from ragtide_runtime.redis.keys import CheckpointField, OutboxField, ReplayField, TraceField
from ragtide_runtime.redis.scripts import FOLDER, NAMES, Lua

SCRIPTS = sorted(FOLDER.glob("*.lua"))
SHARED = sorted((FOLDER / "shared").glob("*.lua"))


@for_each("path", SCRIPTS)
def test_a_script_begins_with_its_purpose_keys_arguments_and_reply(path: Path) -> None:
    header = path.read_text(encoding="utf-8").partition("\nlocal ")[0]
    assert re.match(r"-- [A-Z].*", header)
    for part in ("-- KEYS: ", "ARGV: ", "-- reply: "):
        assert part in header


def test_every_script_has_exactly_one_typed_call() -> None:
    """Each is named by one `Lua("name")` in the product."""
    named = [
        str(node.args[0].value)
        for path in product_files()
        if "Lua(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Lua"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert sorted(named) == [path.stem for path in SCRIPTS]


def test_every_shared_file_is_used() -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in [*SCRIPTS, *SHARED])
    used = {name for names in re.findall(r"^-- uses: (.*)$", texts, re.MULTILINE) for name in names.split(", ")}
    assert used == {path.stem for path in SHARED}


@for_each("path", SCRIPTS)
def test_a_script_has_what_it_uses(path: Path) -> None:
    text = Lua(path.stem).text
    given = {name for name in NAMES if f"local {name} = " in text}
    assert given == {name for name in NAMES if re.search(rf"\b{name}\b", text)}
    for shared in SHARED:
        functions = re.findall(r"^local function (\w+)", shared.read_text(encoding="utf-8"), re.MULTILINE)
        own = path.read_text(encoding="utf-8")
        if any(re.search(rf"\b{name}\(", own) for name in functions):
            assert all(f"local function {name}(" in text for name in functions)


@for_each("path", [*SCRIPTS, *SHARED])
def test_no_script_spells_the_name_of_a_field(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    fields = [f"'{field}'" for field in (*CheckpointField, *OutboxField, *ReplayField, *TraceField)] + [
        "'data'",
        "'traceparent'",
    ]
    assert [field for field in fields if field in code] == []
