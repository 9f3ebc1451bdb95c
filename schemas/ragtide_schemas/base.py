"""The base of all wire models: frozen, finite, versioned, strict about unknown fields, with readable errors."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema, from_json, to_json

from .errors import InvalidEntryError, Reason
from .limits import (
    COST_MAX_USD,
    COUNTER_MAX,
    ENTRY_MAX_BYTES,
    LATENCY_MAX_S,
    METADATA_MAX_BYTES,
    NAME_MAX_CHARS,
    PROBABILITY_MIN,
    TIME_MAX,
    TIME_MIN,
    TOKENS_MAX,
    VALUE_MAX,
)
from .opaque import is_opaque
from .plain_values import LeftOut, UnfitError, count_left_out
from .printable import BLANKS, NAME_PATTERN, printable, short_repr, short_value, shortened
from .times import is_zero_time, to_utc

SCHEMA_VERSION = 1
"""The version that this release writes. A release reads this version and all older versions."""


UNSAMPLED: set[str] = {"sampling_probability"}
"""Fields that the JSON of an interaction that was not sampled leaves out, so that its entry stays short."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreRule:
    """A rule about a valid value that Pydantic's core checks, without a call of Python.

    Args:
        schema: accepts the values that follow the rule, and changes none.
        message: describes the rule to the sender of another value.
    """

    schema: CoreSchema
    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the field with the rule after it."""
        rule = core_schema.custom_error_schema(self.schema, custom_error_type="rule", custom_error_message=self.message)
        return core_schema.chain_schema([handler(source), rule])


DIGITS_MAX = 4_300
"""Digits up to which Python and Pydantic read a number."""
_DIGITS = re.compile(rb"\d+")


def small_json(value: dict[str, Any], most: int = METADATA_MAX_BYTES) -> dict[str, Any]:
    """Return an object whose JSON has at most so many bytes.

    Raises: ValueError if it has more, or is no JSON.
    """
    if not value:
        return value
    text = to_json(value)  # a ValueError for half of a pair of surrogates
    size = len(text)
    if size > DIGITS_MAX and any(len(run[0]) > DIGITS_MAX for run in _DIGITS.finditer(text)):
        from_json(text)  # a ValueError for a number of more digits than JSON is read with
    if size > most:
        raise ValueError(f"must be at most {most} bytes of JSON, got {size}; keep large values elsewhere")
    return value


NotBlank = CoreRule(core_schema.str_schema(pattern=f"[^{BLANKS}]"), "must not be empty or only white space")
"""Text with at least one character that is not white space."""

_SURELY_A_TEXT = r"^[^\s<>#\[\](){}@]+\s+[^\s<>#\[\](){}@]"
"""Two words begin no printed object: Pydantic's core sees this without a call of Python."""


def _no_object(text: str) -> str:
    if is_opaque(text):
        raise ValueError
    return text


IsText = CoreRule(
    core_schema.union_schema(
        [
            core_schema.str_schema(pattern=_SURELY_A_TEXT),
            core_schema.no_info_after_validator_function(_no_object, core_schema.str_schema()),
        ],
        mode="left_to_right",
    ),
    "is what a program prints of an object that is no text: await it, call it, or join its parts, before it is given",
)
"""Text that is not what a program prints of a generator, a coroutine or another object."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS, pattern=NAME_PATTERN), NotBlank]
"""A name or id: 1 to 200 characters, without control characters and line separators, and not only white space."""

SegmentValue = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2 * NAME_MAX_CHARS + 1, pattern=NAME_PATTERN),
    NotBlank,
]
"""One value of a segment as `name=value`, such as `lang=de`; both parts follow the rules of a name."""

Metadata = Annotated[dict[str, JsonValue], AfterValidator(small_json)]
"""Any JSON values, at most 64 KiB. ragtide never interprets them."""

_IN_RANGE = CoreRule(
    core_schema.datetime_schema(ge=TIME_MIN, le=TIME_MAX),
    "must be a time from 1970 to 2200: correct the clock or the unit, or leave the time out",
)

UtcTime = Annotated[AwareDatetime, _IN_RANGE, AfterValidator(to_utc)]
"""A time with a time zone from 1970 to 2200, stored in UTC. A time without a time zone is refused."""

WindowTime = Annotated[AwareDatetime, AfterValidator(to_utc)]
"""An end of a window, which may be outside of the times that an entry may have."""

Probability = Annotated[float, Field(ge=PROBABILITY_MIN, le=1)]
"""Probability with which an interaction is chosen."""

PartOfOne = Annotated[float, Field(ge=0, le=1)]
"""A part of 1."""

Value = Annotated[float, Field(ge=-VALUE_MAX, le=VALUE_MAX)]
"""A score or a gold score, in the unit of its metric."""

Count = Annotated[int, Field(ge=0, le=COUNTER_MAX)]
"""A number of things."""

Size = Annotated[int, Field(ge=1, le=COUNTER_MAX)]
"""The size of a finite run."""

Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Dollars = Annotated[float, Field(ge=0, le=COST_MAX_USD)]
Seconds = Annotated[float, Field(ge=0, le=LATENCY_MAX_S)]


Reader = Callable[[Any, str, LeftOut], Any]
"""Returns a value as its field takes it. It has the value's name, and counts what it leaves out of the value. It raises
UnfitError if the value cannot be read."""


class WireModel(BaseModel):
    """A frozen model of finite values that is stored in one stream entry.

    Encoders of many languages write every field of a class. So an optional field counts as left out if it is null, or
    if it does not allow a blank text or the zero time of Go and .NET and is one. The same holds for each entry of
    `segments` and `gold_scores`. A null in a required field is refused.

    A value that is not valid is read a second time, by the reader of its field. A side value that cannot be read even
    so is left out and counted, because it should not cost the rest. So valid fields cost nothing.
    """

    __slots__ = ("_left_out",)  # no part of the value: equal interactions may have left out different things

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        # An error message may reach a log: it names the field, never the whole input.
        hide_input_in_errors=True,
    )

    max_bytes: ClassVar[int | None] = ENTRY_MAX_BYTES
    """Most bytes of JSON that `decode` accepts; None for no limit."""

    own_readers: ClassVar[Mapping[str, Reader]] = {}
    """Readers of fields without which there is no item: it is refused if one cannot be read."""
    side_readers: ClassVar[Mapping[str, Reader]] = {}
    """Readers of fields whose values are left out if they cannot be read."""

    def __init__(self, /, **fields: Any) -> None:
        """Validate the fields."""
        try:
            self.__pydantic_validator__.validate_python(fields, self_instance=self)
        except ValidationError as error:
            _second_reading(
                type(self),
                fields,
                error,
                lambda kept: self.__pydantic_validator__.validate_python(kept, self_instance=self),
            )

    def shared_with(self, other: type["WireModel"]) -> dict[str, Any]:
        """Return the values of the fields that another model has too, without the version of the contract."""
        values = self.__dict__
        return {name: values[name] for name in _shared_names(type(self), other)}

    @classmethod
    def of_shared(cls, source: "WireModel", given: dict[str, Any]) -> Self:
        """Return the model with the values of the fields that another model has too, and with other values.

        The other model has checked the shared values by the same types, so that only the given values are checked. A
        field in neither has its default.

        Args:
            source: a valid model.
            given: values of fields; they replace those of the other model.

        Raises:
            pydantic.ValidationError: a given value breaks the contract.
        """
        checker, fixed, made, names = _recipe(cls, type(source), tuple(given))
        try:
            checked = checker(given).__dict__
        except ValidationError:
            return cls.model_validate({**source.shared_with(cls), **given})
        values, model = source.__dict__, cls.__new__(cls)
        fields = fixed.copy()
        for name in names:
            fields[name] = values[name]
        for name, make in made:
            fields[name] = make()
        fields |= checked
        _set_attribute(model, "__dict__", fields)
        _set_attribute(model, "__pydantic_fields_set__", {*names, *given})
        _set_attribute(model, "__pydantic_extra__", None)
        _set_attribute(model, "__pydantic_private__", None)
        return model

    # So Pydantic still builds nested models without a call of `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Return the model of a mapping or an object, as Pydantic's method."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            return _second_reading(cls, obj, error, lambda kept: super(WireModel, cls).model_validate(kept, **options))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Return the model of a JSON text, as Pydantic's method."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            try:
                fields = json_value(json_data)
            except ValueError:
                raise error from None
            return _second_reading(
                cls, fields, error, lambda kept: super(WireModel, cls).model_validate_json(to_json(kept), **options)
            )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema, in which fields have descriptions and each optional field may be null."""
        from .descriptions import descriptions  # noqa: PLC0415 - only schemas need it

        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in descriptions(cls).items():
            if name in properties:
                properties[name].setdefault("description", description)
        if handler.mode == "validation":
            for name in properties.keys() & cls.model_fields.keys():
                if not cls.model_fields[name].is_required():
                    properties[name] = _nullable(properties[name])
        return schema

    def __repr__(self) -> str:
        """Return the fields that were given, in bounded length."""
        return short_repr(
            type(self).__name__,
            [(field, value) for field, value in self.__repr_args__() if field in self.model_fields_set],
        )

    def __str__(self) -> str:
        """Return the same as `repr`."""
        return repr(self)

    @property
    def left_out(self) -> LeftOut:
        """How many values this model was given and could not read, by name, such as `metadata.trace`."""
        try:
            return LeftOut(_left_out_of(self))
        except AttributeError:
            return LeftOut()

    @property
    def has_left_out(self) -> bool:
        """Whether this model was given a value that it could not read."""
        try:
            return bool(_left_out_of(self))
        except AttributeError:
            return False

    def with_left_out(self, more: LeftOut) -> Self:
        """Return the model with more values counted as left out."""
        if more:
            object.__setattr__(self, "_left_out", self.left_out + more)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values of some fields, as Pydantic's method."""
        return super().model_copy(update=update, deep=deep).with_left_out(self.left_out)

    def encode(self) -> bytes:
        """Return the model as JSON (UTF-8), without fields that have no value."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Return the model in a payload.

        Raises:
            InvalidEntryError: the payload is not JSON, too large, of an unknown schema version, or a field is invalid.
        """
        fits = cls.max_bytes is None or len(payload) <= cls.max_bytes
        try:
            # Read and checked in one go, because most payloads are valid.
            model: Self = cls.__pydantic_validator__.validate_json(payload if fits else b"")
        except ValidationError:
            # Either it has fields that count as left out, or this way has the reason of the refusal.
            return cls.from_fields(read_json_object(payload, cls.max_bytes))
        return model

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the model with these fields.

        Raises:
            InvalidEntryError: the schema version is unknown, or a field is invalid.
        """
        validate: Callable[[Any], Self] = cls.__pydantic_validator__.validate_python
        try:
            try:
                return validate(fields)
            except ValidationError as error:
                return _second_reading(cls, fields, error, validate)
        except ValidationError as error:
            raise InvalidEntryError(reason_of(error), describe(error)) from error


_left_out_of: Final[Callable[[WireModel], LeftOut]] = WireModel.__dict__["_left_out"].__get__
"""Reads the slot itself, because Pydantic answers for an empty one, in Python."""


@cache
def _shared_names(model: type[WireModel], other: type[WireModel]) -> tuple[str, ...]:
    return tuple(name for name in model.model_fields if name in other.model_fields and name != "schema_version")


_set_attribute: Final = object.__setattr__
"""Sets an attribute of a frozen model."""


class _Recipe(NamedTuple):
    """How a model is made of the shared fields of another model and of given fields."""

    check: Callable[[dict[str, Any]], WireModel]
    """Returns the given fields as a model of these alone."""
    defaults: dict[str, Any]
    """Every field in its order, with its default, or with None where a value follows."""
    made: Sequence[tuple[str, Callable[[], Any]]]
    """Fields whose default is made anew for each model."""
    shared: Sequence[str]
    """Fields that have the values of the other model."""


@cache
def _recipe(model: type[WireModel], source: type[WireModel], given: tuple[str, ...]) -> _Recipe:
    if model.__pydantic_decorators__.model_validators:
        raise TypeError(f"{model.__name__} has rules about several fields, which no part of it can check")
    shared = [name for name in _shared_names(source, model) if name not in given]
    fields = model.model_fields
    parts: dict[str, Any] = {name: (fields[name].annotation, fields[name]) for name in given}
    part: type[WireModel] = create_model(model.__name__, __base__=WireModel, **parts)
    makers: Any = [
        (name, field.default_factory)
        for name, field in fields.items()
        if field.default_factory and name not in given and name not in shared
    ]
    if unknown := [name for name, field in fields.items() if field.is_required() and name not in {*shared, *given}]:
        raise TypeError(f"{', '.join(unknown)}: required, and neither shared nor given")
    defaults = {name: None if field.is_required() else field.default for name, field in fields.items()}
    return _Recipe(part.__pydantic_validator__.validate_python, defaults, makers, shared)


End = TypeVar("End")


class WireInterval(WireModel, Generic[End]):
    """A number with the ends of its interval, as fields of one JSON object."""

    lower: End
    """Lower end of the interval."""
    upper: End
    """Upper end of the interval."""

    ends_follow: ClassVar[str | None] = None
    """The field behind which the ends stand in JSON; None if they are the last fields."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema with the ends in their place; a parent's fields come first otherwise."""
        fields = dict(cls.model_fields)
        ends = {name: fields.pop(name) for name in ("lower", "upper")}
        cls.model_fields.clear()
        for name, field in fields.items():
            cls.model_fields[name] = field
            if name == cls.ends_follow:
                cls.model_fields.update(ends)
        cls.model_fields.update(ends)
        return handler(source)


_ABOUT_FIELD = ("default", "description", "title")


def _nullable(schema: JsonSchemaValue) -> JsonSchemaValue:
    kinds: list[JsonSchemaValue] = schema.get("anyOf", [])
    if any(kind.get("type") == "null" for kind in kinds):
        return schema
    kind = {name: value for name, value in schema.items() if name not in _ABOUT_FIELD}
    about = {name: schema[name] for name in _ABOUT_FIELD if name in schema}
    return {"anyOf": [*(kinds if kind.keys() == {"anyOf"} else [kind]), {"type": "null"}], **about}


_NAMED_VALUES = frozenset({"gold_scores", "segments"})
"""Fields of which each entry is optional."""


_Model = TypeVar("_Model", bound=WireModel)


def _second_reading(
    model: type[_Model], fields: Any, error: ValidationError, validate: Callable[[Any], _Model]
) -> _Model:
    left_out = LeftOut()
    kept = _read_again(model, fields, (), left_out)
    if kept is fields:
        raise error
    try:
        return validate(kept).with_left_out(left_out)
    except ValidationError as second:
        rest = _without_wrong(model, kept, second, left_out)
        if rest is None:
            raise
    return validate(rest).with_left_out(left_out)


def _read_again(model: type[WireModel], fields: Any, place: tuple[str | int, ...], left_out: LeftOut) -> Any:
    if not isinstance(fields, Mapping):
        return fields
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        field = model.model_fields.get(name)
        if field is not None and not field.is_required() and is_left_out(value):
            continue
        inner = (*place, name)
        if name in _NAMED_VALUES and isinstance(value, Mapping) and any(map(is_left_out, value.values())):
            value = {key: item for key, item in value.items() if not is_left_out(item)}  # noqa: PLW2901
        try:
            if (reader := model.own_readers.get(name) or model.side_readers.get(name)) is not None:
                value = reader(value, _named(inner), left_out)  # noqa: PLW2901
        except UnfitError as error:
            if name in model.own_readers:
                raise _refused(model, inner, value, str(error)) from None
            count_left_out(left_out, _named(inner))
            continue
        nested = None if field is None else _model_in(field.annotation)
        kept[name] = value if nested is None else _inside(nested, value, inner, left_out)
    same = len(kept) == len(fields) and all(kept[name] is value for name, value in fields.items())
    return fields if same else kept


def _named(place: tuple[str | int, ...]) -> str:
    return ".".join(part for part in place if isinstance(part, str))


def _refused(model: type[WireModel], place: tuple[str | int, ...], value: Any, why: str) -> ValidationError:
    # Not as a template: braces in the message stay as they are.
    error = PydanticCustomError(UNFIT, "{why}", {"why": why})
    return ValidationError.from_exception_data(model.__name__, [{"type": error, "loc": place, "input": value}])


def _without_wrong(model: type[WireModel], fields: Any, error: ValidationError, left_out: LeftOut) -> Any:
    right = dict(fields)
    copied: set[tuple[str | int, ...]] = set()
    for place in dict.fromkeys(_side_places(model, right, error)):
        if place is None:
            return None
        parent: Any = right
        for depth, part in enumerate(place[:-1], 1):
            if place[:depth] not in copied:
                copied.add(place[:depth])
                parent[part] = dict(parent[part]) if isinstance(parent[part], Mapping) else list(parent[part])
            parent = parent[part]
        parent.pop(place[-1], None)
        count_left_out(left_out, _named(place))
    return right


def _side_places(model: type[WireModel], fields: Any, error: ValidationError) -> Iterator[tuple[str | int, ...] | None]:
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        kind: type[WireModel] | None = model
        value: Any = fields
        place: tuple[str | int, ...] = ()
        for part in detail["loc"]:
            place = (*place, part)
            value = value[part] if _has(value, part) else None
            if kind is None or isinstance(part, int):
                continue
            if part in kind.side_readers:
                beyond = detail["loc"][len(place) : len(place) + 1]
                yield (*place, *beyond) if beyond and isinstance(value, dict) and beyond[0] in value else place
                break
            field = kind.model_fields.get(part)
            kind = None if field is None else _model_in(field.annotation)
        else:
            yield None


def _has(value: Any, part: str | int) -> bool:
    return part in value if isinstance(value, Mapping) else isinstance(part, int) and isinstance(value, list | tuple)


def is_left_out(value: object) -> bool:
    """Return whether a value counts as left out where it is not allowed: null, a blank text, or the zero time.

    The null of pandas is one, too.
    """
    if isinstance(value, str):
        return not value.strip(" \t\r\n") or is_zero_time(value)
    return value is None or is_zero_time(value) or type(value).__name__ in {"NaTType", "NAType"}


def _model_in(annotation: object) -> type[WireModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _inside(model: type[WireModel], value: Any, place: tuple[str | int, ...], left_out: LeftOut) -> Any:
    if isinstance(value, list | tuple):
        inner = [_read_again(model, item, (*place, index), left_out) for index, item in enumerate(value)]
        return value if all(new is old for new, old in zip(inner, value, strict=True)) else inner
    if isinstance(value, Mapping) and not value.keys() & model.model_fields.keys():
        return {key: _read_again(model, item, (*place, key), left_out) for key, item in value.items()}
    return _read_again(model, value, place, left_out)


class AnswerModel(WireModel):
    """A record of an answer of the HTTP service, whose readers ignore fields that they do not know.

    So a release may add a field to an answer, and clients of the release before go on reading it. Entries of streams
    and bodies of requests stay strict: there an unknown field is a mistake of the sender.
    """

    model_config = ConfigDict(extra="ignore")


class VersionedModel(WireModel):
    """A wire model that is a stream entry by itself, and so has a version."""

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION, strict=True)] = SCHEMA_VERSION
    """Version of the contract in which this payload was written."""


def read_json_object(payload: bytes, max_bytes: int | None = ENTRY_MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in a payload.

    Args:
        payload: UTF-8 JSON.
        max_bytes: most bytes; None for no limit.

    Raises:
        InvalidEntryError: the payload is too large, not JSON (see `json_value`), or not an object.
    """
    if max_bytes is not None and len(payload) > max_bytes:
        raise InvalidEntryError(
            Reason.TOO_LARGE,
            f"the entry has {len(payload)} bytes; the limit is {max_bytes}: send fewer or shorter documents",
        )
    try:
        value = json_value(payload)
    except ValueError as error:
        remedy = "write the number as a text" if "number out of range" in str(error) else "send one UTF-8 JSON object"
        raise InvalidEntryError(Reason.NOT_JSON, f"the entry is not valid JSON: {error}; {remedy}") from None
    if not isinstance(value, dict):
        names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
        kind = names.get(type(value), "number")
        raise InvalidEntryError(
            Reason.INVALID, f"the entry is a JSON {kind}; send one JSON object with the schema's fields"
        )
    return value


def json_value(text: str | bytes | bytearray) -> Any:
    """Return the value of a JSON text, in which half of a pair of surrogates, NaN and Infinity are read, too.

    Programs write these although JSON does not have them. What they are worth depends on the field.

    Raises:
        ValueError: the text is not JSON, or has more than 200 levels.
    """
    try:
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        try:
            value = json.loads(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise error from None
    # Each release of Python takes another depth; `from_json` takes this one.
    level = [value]
    for _ in range(JSON_LEVELS_MAX + 1):
        if not (level := [part for item in level for part in _parts(item)]):
            return value
    raise ValueError(f"it has more than {JSON_LEVELS_MAX} levels")


def _parts(value: object) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


JSON_LEVELS_MAX: Final = 200
"""Most levels of a JSON text."""


ERRORS_TOLD = 10
"""Most errors in one message."""

UNFIT = "unfit"
"""Type of the error of a value that has no plain meaning; its message says what the value is."""

_SECRETS = frozenset({"api_key", "destinations", "redis_password", "storage_options", "user_id", "user_id_salt"})
"""Fields whose value is never shown, and the table `destinations`, of which no value is shown."""

_REMEDIES = {
    "extra_forbidden": "is not a field of this schema: correct its name or move it into metadata",
    "finite_number": "must be a finite number: leave the value out when it is unknown",
    "missing": "is missing: add it",
    "string_type": "must be a string",
    "timezone_aware": "has no time zone: add an offset such as Z or +02:00",
    "too_short": "is empty: give at least one",
    "tuple_type": "must be a list",
}


def reason_of(error: ValidationError) -> Reason:
    """Return the reason code of a validation error."""
    for detail in error.errors(include_url=False, include_input=False):
        if detail["loc"] == ("schema_version",) and detail["type"] in {"less_than_equal", "greater_than_equal"}:
            return Reason.UNKNOWN_SCHEMA_VERSION
        if detail["type"] in {"string_too_long", "too_long"}:
            return Reason.TOO_LARGE
    return Reason.INVALID


def describe(error: ValidationError) -> str:
    """Return a validation error in one line: each field, its mistake, and the remedy."""
    details = error.errors(include_url=False)
    # A list with a bad item is also reported as too short; only the error of the item is described.
    parents = {loc[:length] for loc in (detail["loc"] for detail in details) for length in range(1, len(loc))}
    mistakes = [_describe_one(detail) for detail in details if detail["loc"] not in parents]
    more = f"; and {len(mistakes) - ERRORS_TOLD} more" if len(mistakes) > ERRORS_TOLD else ""
    return printable("; ".join(mistakes[:ERRORS_TOLD]) + more)


def _describe_one(detail: ErrorDetails) -> str:
    field, kind = shortened(".".join(str(part) for part in detail["loc"])), detail["type"]
    message = detail["msg"].removeprefix("Value error, ")
    if not field:  # a rule about several fields, whose message names them
        return message
    if kind == "missing":
        return f"{field} {_REMEDIES[kind]}"
    remedy = _REMEDIES.get(kind, message[:1].lower() + message[1:])
    if kind == "string_pattern_mismatch" and detail.get("ctx", {}).get("pattern") == NAME_PATTERN:
        remedy = "has a control character, a bidirectional control or a line separator: take it out"
    elif kind == "too_short" and detail.get("ctx", {}).get("min_length", 1) > 1:
        remedy = f"is too short: give at least {detail['ctx']['min_length']}"
    elif kind == "string_pattern_mismatch":
        remedy = "has a wrong form: see ragtide docs interaction"
    if may_hold_a_secret(detail) or kind == UNFIT:
        return f"{field} {remedy}"
    value = detail["input"]
    got = shortened(short_value(value.isoformat() if isinstance(value, datetime) else value))
    if field == "schema_version" and kind in {"less_than_equal", "greater_than_equal"}:
        return f"schema_version {got} is unknown (1 to {SCHEMA_VERSION}): upgrade ragtide or send an older version"
    return f"{field} {remedy} (got {got})"


def may_hold_a_secret(detail: ErrorDetails) -> bool:
    """Return whether an error shows a whole object, such as the judge's settings, or a secret itself."""
    whole = isinstance(detail["input"], Mapping) or detail["type"] in {"model_type", "dict_type"}
    return whole or any(str(part) in _SECRETS for part in detail["loc"])
