"""The content of a screen has the values of its template: none is missing, and none is for nothing."""

from dataclasses import fields

import pytest
from jinja2 import meta, nodes

import ragtide_web.app  # noqa: F401 - the contents of all screens
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_web.page.rendering import PageContent, environment
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


# A class with slots has a twin without them, which came first.
CONTENTS = {content.__name__: content for content in PageContent.__subclasses__()}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_content_has_the_names_of_its_template(content: type[PageContent]) -> None:
    given = {field.name for field in fields(content)}
    taken, own = names_of(content.template)
    assert taken - given - own - EVERYWHERE == set()
    assert given - taken == set()
