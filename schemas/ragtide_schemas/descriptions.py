"""Reads the docstring below each field of a model from its source.

Pydantic can do that while it makes the class (`use_attribute_docstrings`), which takes more than half of the time that
the class takes. Only schemas and pages need the descriptions.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class DescribedModel(BaseModel):
    """A model whose JSON Schema describes each field with the docstring below it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema with the descriptions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in descriptions(cls).items():
            properties[name].setdefault("description", description)
        return schema


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field of a model that has one, those of its parents included."""
    texts: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        # The parent of a generic model with its types has no source of its own.
        if issubclass(parent, BaseModel) and parent is not BaseModel and "[" not in parent.__name__:
            texts |= _in_module(parent.__module__)[parent.__qualname__]
    return {name: texts[name] for name in model.model_fields if name in texts}


@cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    """Return the descriptions in each class of a module, by its qualified name."""
    return dict(_classes(ast.parse(getsource(sys.modules[name])), ""))


def _classes(parent: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, _fields(node)
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt):
            yield from _classes(node, prefix)


def _fields(definition: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
