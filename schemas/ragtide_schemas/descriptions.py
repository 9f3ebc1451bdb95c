"""Reads the docstring below each field of a model from its source.

Pydantic can do that while it makes the class (`use_attribute_docstrings`), which takes more than half of the time that
the class takes. Only schemas and pages need the descriptions.
"""

import ast
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field of a model that has one, those of its parents included."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        # The parent of a generic model with its types has no source of its own.
        if issubclass(parent, BaseModel) and parent is not BaseModel and "[" not in parent.__name__:
            found |= _own(parent)
    return {name: found[name] for name in model.model_fields if name in found}


def _own(model: type[BaseModel]) -> dict[str, str]:
    (definition,) = ast.parse(dedent(getsource(model))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - for the type
    return {
        field.target.id: cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
