"""The stored form of a state, from its declared types: values to what JSON holds, and back. No I/O.

A dataclass is an object with its fields, a NamedTuple a list in their order, a set a sorted list, an array the base64
of its bytes. What is read is written to the same bytes: a field is stored under its own name, in its declared order.
A field that the constructor does not take is not stored.
"""

import base64
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel

from ragtide_schemas import Alert, StepCause

from ..statistics.means.segment_moments import SegmentMoments

LEFT_OUT: Final = {"left_out": True}
"""Metadata of a field that is stored only if it differs from its default."""


class StoredForm(NamedTuple):
    """How values of one type are stored."""

    dump: Callable[[Any], Any]
    """Returns a value as JSON can hold it."""
    read: Callable[[Any], Any]
    """Returns the value that `dump` returned."""


class InOrder:
    """Base of a dataclass that is stored as a list of its fields."""

    __slots__ = ()


def of_array(kind: str, *shape: int) -> StoredForm:
    """Return the form of arrays of a kind of numbers and a shape, of which one length may be -1."""
    return StoredForm(
        lambda array: base64.b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode(),
        lambda text: np.frombuffer(base64.b64decode(text), kind).reshape(shape).copy(),
    )


_MOMENTS: Final = of_array("<f8", 3, -1)
FORMS: Final[dict[Any, StoredForm]] = {
    SegmentMoments: StoredForm(
        lambda moments: _MOMENTS.dump(np.stack([moments.n, moments.mean, moments.m2])),
        lambda text: SegmentMoments(*_MOMENTS.read(text)),
    ),
    # Without `called` as releases store it that do not know it.
    StepCause: StoredForm(
        lambda cause: cause.model_dump(mode="json", exclude={"called"} if cause.called is None else None),
        StepCause.model_validate,
    ),
    # The alert of a rule is about no release.
    Alert: StoredForm(lambda alert: alert.model_dump(mode="json", exclude={"release"}), Alert.model_validate),
}
"""Forms of types that other rooms declare."""

_PLAIN: Final = StoredForm(lambda value: value, lambda value: value)


@cache
def form_of(kind: Any) -> StoredForm:
    """Return the form of a type; of `Annotated[type, form]` that form."""
    args = get_args(kind)
    if kind in FORMS:
        return FORMS[kind]
    if get_origin(kind) is Annotated:
        return next(form for form in args[1:] if isinstance(form, StoredForm))
    if get_origin(kind) is UnionType:
        (inner,) = (form_of(arg) for arg in args if arg is not NoneType)
        return StoredForm(*(_unless_none(function) for function in inner))
    if get_origin(kind) in (dict, list, tuple, frozenset):
        return _collection_form(get_origin(kind), args)
    return _record_form(kind) if isinstance(kind, type) else _PLAIN


def attributes_of(owner: type, names: tuple[str, ...]) -> dict[str, StoredForm]:
    """Return the forms of attributes that a class declares with their types."""
    hints = get_type_hints(owner, include_extras=True)
    return {name: form_of(hints[name]) for name in names}


def _unless_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _collection_form(origin: Any, args: tuple[Any, ...]) -> StoredForm:
    if origin is dict:
        key, value = args[0], form_of(args[1])
        return StoredForm(
            lambda collection: {str(name): value.dump(item) for name, item in collection.items()},
            lambda collection: {key(name): value.read(item) for name, item in collection.items()},
        )
    if origin is tuple and args[-1] is not Ellipsis:
        items = [form_of(arg) for arg in args]
        return StoredForm(
            lambda collection: [item.dump(value) for item, value in zip(items, collection, strict=True)],
            lambda collection: tuple(item.read(value) for item, value in zip(items, collection, strict=True)),
        )
    item = form_of(args[0])
    in_order = sorted if origin is frozenset else list
    return StoredForm(
        lambda collection: [item.dump(value) for value in in_order(collection)],
        lambda collection: origin(item.read(value) for value in collection),
    )


def _record_form(kind: Any) -> StoredForm:
    if issubclass(kind, BaseModel):
        return StoredForm(lambda value: value.model_dump(mode="json"), kind.model_validate)
    if not is_dataclass(kind) and not hasattr(kind, "_fields"):
        return _PLAIN
    declared = [field for field in fields(kind) if field.init] if is_dataclass(kind) else []
    forms = attributes_of(kind, tuple(field.name for field in declared) or kind._fields)
    if not declared or issubclass(kind, InOrder):
        return StoredForm(
            lambda value: [form.dump(getattr(value, name)) for name, form in forms.items()],
            lambda items: kind(*(form.read(item) for form, item in zip(forms.values(), items, strict=True))),
        )
    defaults = {field.name: field.default for field in declared if field.metadata.get("left_out")}

    def dump(value: Any) -> dict[str, Any]:
        items = {name: getattr(value, name) for name in forms}
        return {
            name: forms[name].dump(item)
            for name, item in items.items()
            if name not in defaults or item != defaults[name]
        }

    def read(items: dict[str, Any]) -> Any:
        known = {name: form for name, form in forms.items() if name in items or name not in defaults}
        return kind(**{name: form.read(items[name]) for name, form in known.items()})

    return StoredForm(dump, read)
