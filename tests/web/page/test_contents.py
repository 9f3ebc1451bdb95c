"""The routes give a template each of its names, no other name, and values with the attributes that it reads."""

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import GenericAlias, ModuleType, NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import pytest
from jinja2 import meta, nodes

import ragtide_offline.pages
import ragtide_web
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_web.guard.viewers import Viewer
from ragtide_web.page.rendering import environment
from ragtide_web.page.screen_files import own_folders

EVERYWHERE = {"done", "now", "parts_of_tabs", "path", "root", "status", "tab", "tabs", "theme", "version", "viewer"}
"""Names that `render` gives to every template."""


def names_of(template: str) -> tuple[set[str], set[str]]:
    """Return the names that a template and the frame around it take, and those that it sets itself."""
    templates = environment(own_folders(LABORATORY))
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


# The rest of this module reads the types of values from annotations. A value without an annotation is not checked.

Types = Mapping[str, Any]
"""Annotation of each name; None for a value of unknown type."""


def kinds_of(hint: Any) -> list[Any]:
    """Return the members of a union but None, without what `Annotated` adds; nothing for an unknown type."""
    if hasattr(hint, "__metadata__"):
        return kinds_of(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        members = [kinds_of(member) for member in get_args(hint) if member is not NoneType]
        return [kind for member in members for kind in member] if all(members) else []
    return [hint] if inspect.isclass(get_origin(hint) or hint) and hint is not object else []


def either(*hints: Any) -> Any:
    kinds = [kinds_of(hint) for hint in hints if hint is not NoneType]
    return Union[tuple(kind for known in kinds for kind in known)] if kinds and all(kinds) else None  # noqa: UP007


def hints_of(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(getattr(thing, "__func__", thing))
    except (NameError, TypeError):  # a name that only the type checker imports, or a C function
        return {}


def attribute(hint: Any, name: str) -> tuple[bool, Any]:
    """Return whether a value may have an attribute, and its type; of an unknown type, True and None."""
    found = []
    for kind in kinds_of(hint):
        cls = get_origin(kind) or kind
        own = inspect.getattr_static(cls, name, None)
        if issubclass(cls, Mapping):
            return True, None
        if isinstance(own, property):
            found.append(hints_of(own.fget).get("return"))
        elif name in (fields := hints_of(cls)):
            known = dict(zip(getattr(cls, "__parameters__", ()), get_args(kind), strict=False))
            variables = getattr(fields[name], "__parameters__", ())
            found.append(fields[name][tuple(known.get(each, Any) for each in variables)] if variables else fields[name])
        elif own is not None:
            found.append(None)
    return bool(found) or not kinds_of(hint), either(*found)


def result(function: Any, owner: Any) -> Any:
    hint = function if inspect.isclass(function) else hints_of(function).get("return")
    return owner if hint is Self else hint


def element(hint: Any, place: int = 0) -> Any:
    """Return the type of what a loop takes of a value; of a tuple with a type for each place, that of a place."""
    elements = []
    for kind in kinds_of(hint):
        parts = get_args(kind)
        if not parts or not issubclass(get_origin(kind) or kind, Iterable):
            return None
        elements.append(
            parts[min(place, len(parts) - 1)] if get_origin(kind) is tuple and Ellipsis not in parts else parts[0]
        )
    return either(*elements)


def type_in_route(node: ast.AST | None, types: Types, module: ModuleType) -> Any:
    kind = None
    match node:
        case ast.Name(id=name):
            kind = types.get(name)
        case ast.Await(value=value):
            kind = type_in_route(value, types, module)
        case ast.Attribute(value=value, attr=name):
            kind = attribute(type_in_route(value, types, module), name)[1]
        case ast.IfExp(body=body, orelse=other):
            kind = either(type_in_route(body, types, module), type_in_route(other, types, module))
        case ast.Constant(value=None):
            kind = NoneType
        case ast.Call(func=ast.Name(id=name)):
            kind = result(getattr(module, name, None), None)
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            owner = type_in_route(value, types, module) or getattr(module, getattr(value, "id", ""), None)
            kind = result(getattr(get_origin(owner) or owner, name, None), owner)
        case ast.ListComp(
            elt=ast.Name(id=name), generators=[ast.comprehension(target=ast.Name(id=target), iter=values)]
        ):
            kind = element(type_in_route(values, types, module)) if name == target else None
            kind = None if kind is None else GenericAlias(list, (kind,))
    return kind


def rendered() -> Iterator[tuple[str, Types]]:
    """Yield the template of each call of `render`, and the types of what it gives."""
    for package in (ragtide_web, ragtide_offline.pages):
        for file in Path(*package.__path__).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            path = file.relative_to(Path(*package.__path__)).with_suffix("").parts
            for function in (
                node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
            ):
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                calls = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "render"]
                module = importlib.import_module(".".join((package.__name__, *path))) if calls else inspect
                types: dict[str, Any] = dict(hints_of(getattr(module, function.name, None)))
                for node in ast.walk(function) if calls else ():
                    pairs: list[tuple[ast.AST, ast.AST | None]] = []
                    match node:
                        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                            pairs = [*zip(names, values, strict=True)]
                        case (
                            ast.Assign(targets=[ast.Name() as name], value=value)
                            | ast.NamedExpr(target=name, value=value)
                        ):
                            pairs = [(name, value)]
                    for target, assigned in pairs:
                        if isinstance(target, ast.Name):
                            kind = type_in_route(assigned, types, module)
                            types[target.id] = either(types[target.id], kind) if target.id in types else kind
                for call in calls:
                    given = {keyword.arg: type_in_route(keyword.value, types, module) for keyword in call.keywords}
                    yield str(getattr(call.args[2], "value", "")), {str(name): kind for name, kind in given.items()}


def type_in_template(node: nodes.Node | None, types: Types) -> Any:
    match node:
        case nodes.Name(name=name):
            return types.get(name)
        case nodes.Getattr(node=value, attr=name):
            return attribute(type_in_template(value, types), name)[1]
        case nodes.CondExpr(expr1=first, expr2=second):
            return either(type_in_template(first, types), type_in_template(second, types))
        case nodes.Getitem(node=value, arg=nodes.Slice()) | nodes.Filter(name="sort" | "reverse" | "list", node=value):
            return type_in_template(value, types)
        case nodes.Getitem(node=value):
            kinds = kinds_of(type_in_template(value, types))
            return either(*(get_args(kind)[-1] if get_args(kind) else None for kind in kinds))
    return None


def wrong_reads(node: nodes.Node, types: Types) -> Iterator[tuple[str, bool]]:
    """Yield each attribute that a template reads of a value of known type, and whether such a value has it."""
    if isinstance(node, nodes.Getattr) and kinds_of(type_in_template(node.node, types)):
        yield f"line {node.lineno}: {node.attr}", attribute(type_in_template(node.node, types), node.attr)[0]
    if isinstance(node, nodes.For):
        kind = element(type_in_template(node.iter, types))
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        for place, target in enumerate(targets):
            known = element(kind, place) if len(targets) > 1 else kind
            own = {name.name: known if name is target else None for name in target.find_all(nodes.Name)}
            types = {**types, **({target.name: known} if isinstance(target, nodes.Name) else own)}
    elif isinstance(node, nodes.Macro):
        types = {**types, **{argument.name: None for argument in node.args}}
    elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
        types = {**types, node.target.name: None}
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Assign) and isinstance(child.target, nodes.Name):
            types = {**types, child.target.name: type_in_template(child.node, types)}
        yield from wrong_reads(child, types)


def test_a_template_reads_attributes_that_the_values_of_its_route_have() -> None:
    templates = environment(own_folders(LABORATORY))
    assert templates.loader is not None
    reads = []
    for template, types in rendered():
        parsed = templates.parse(templates.loader.get_source(templates, template)[0])
        reads += [(template, read, exists) for read, exists in wrong_reads(parsed, {**types, "viewer": Viewer})]
    assert [(template, read) for template, read, exists in reads if not exists] == []
    assert len(reads) > 200, "too few types are known for this test to show anything"
