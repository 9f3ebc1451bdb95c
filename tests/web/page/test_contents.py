"""The routes give a template each of its names, and no other name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import meta, nodes

import ragtide_offline.pages
import ragtide_web
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_web.page.rendering import environment
from ragtide_web.page.screen_files import own_folders

EVERYWHERE = {"done", "now", "parts_of_tabs", "path", "root", "status", "tab", "tabs", "theme", "version", "viewer"}
"""Names that `render` gives to every template."""


def names_of(template: str) -> tuple[set[str], set[str]]:
    """Return the names that a template and the frame around it take, and those that it sets itself."""
    templates = environment((), own_folders(LABORATORY))
    assert templates.loader is not None
    parsed = templates.parse(templates.loader.get_source(templates, template)[0])
    taken = meta.find_undeclared_variables(parsed)
    own = {name.name for name in parsed.find_all(nodes.Name) if name.ctx != "load"}
    own |= {macro.name for macro in parsed.find_all(nodes.Macro)}
    own |= {imported.target for imported in parsed.find_all(nodes.Import)}
    own |= {str(name) for imported in parsed.find_all(nodes.FromImport) for name in imported.names}
    parts = [part.template.value for part in parsed.find_all(nodes.Include) if isinstance(part.template, nodes.Const)]
    if "base.html" in meta.find_referenced_templates(parsed):
        parts.append("base.html")
    for part in parts:
        taken_there, own_there = names_of(part)
        taken |= taken_there - own_there
    return taken, own


def renderings() -> Iterator[tuple[str, set[str | None]]]:
    """Yield the template of each call of `render`, and the names that it gives."""
    for package in (ragtide_web, ragtide_offline.pages):
        for file in Path(*package.__path__).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "render":
                    template = call.args[2]
                    assert isinstance(template, ast.Constant), f"{file}:{call.lineno} names no template"
                    yield str(template.value), {keyword.arg for keyword in call.keywords} - {"status"}


@pytest.mark.parametrize(("template", "given"), [*renderings()])
def test_a_route_gives_a_template_its_names(template: str, given: set[str | None]) -> None:
    taken, own = names_of(template)
    assert taken - given - own - EVERYWHERE == set()
    assert given - taken == set()
