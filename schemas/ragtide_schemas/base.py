"""The base of all wire models: frozen, finite, versioned, strict about unknown fields, with readable errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite, isnan
from typing import Annotated, Any, ClassVar, Self, get_args

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
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, core_schema, from_json, to_json

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
from .printable import BLANKS, NAME_PATTERN, printable, short_repr, shortened
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


def _small_json(value: dict[str, Any]) -> dict[str, Any]:
    if not value:
        return value
    try:
        size = len(to_json(value))
    except ValueError as error:  # lone surrogates cannot be written as UTF-8
        raise ValueError(f"must be writable as UTF-8 JSON ({error})") from None
    if size > METADATA_MAX_BYTES:
        raise ValueError(f"must be at most {METADATA_MAX_BYTES} bytes of JSON, got {size}; keep large values elsewhere")
    return value


NotBlank = CoreRule(core_schema.str_schema(pattern=f"[^{BLANKS}]"), "must not be empty or only white space")
"""Text with at least one character that is not white space."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS, pattern=NAME_PATTERN), NotBlank]
"""A name or id: 1 to 200 characters, without control characters and line separators, and not only white space."""

SegmentValue = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2 * NAME_MAX_CHARS + 1, pattern=NAME_PATTERN),
    NotBlank,
]
"""One value of a segment as `name=value`, such as `lang=de`; both parts follow the rules of a name."""

Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small_json)]
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

Value = Annotated[float, Field(ge=-VALUE_MAX, le=VALUE_MAX)]
"""A score or a gold score, in the unit of its metric."""

Count = Annotated[int, Field(ge=0, le=COUNTER_MAX)]
"""A number of things."""

Size = Annotated[int, Field(ge=1, le=COUNTER_MAX)]
"""The size of a finite run."""

Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Dollars = Annotated[float, Field(ge=0, le=COST_MAX_USD)]
Seconds = Annotated[float, Field(ge=0, le=LATENCY_MAX_S)]


class WireModel(BaseModel):
    """A frozen model of finite values that is stored in one stream entry.

    Encoders of many languages write every field of a class. So an optional field counts as left out if it is null, or
    if it does not allow a blank text or the zero time of Go and .NET and is one. The same holds for each entry of
    `segments` and `gold_scores`. A null in a required field is refused.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        # An error message may reach a log: it names the field, never the whole input.
        hide_input_in_errors=True,
    )

    max_bytes: ClassVar[int | None] = ENTRY_MAX_BYTES
    """Most bytes of JSON that `decode` accepts; None for no limit."""

    def __init__(self, /, **fields: Any) -> None:
        """Validate the fields."""
        try:
            self.__pydantic_validator__.validate_python(fields, self_instance=self)
        except ValidationError as error:
            self.__pydantic_validator__.validate_python(_given(type(self), fields, error), self_instance=self)

    # So Pydantic still builds nested models without a call of `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Return the model of a mapping or an object, as Pydantic's method."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            return super().model_validate(_given(cls, obj, error), **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Return the model of a JSON text, as Pydantic's method."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            if any(detail["type"] == "json_invalid" for detail in error.errors(include_url=False)):
                raise
            return super().model_validate_json(to_json(_given(cls, from_json(json_data), error)), **options)

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
            found: Self = cls.__pydantic_validator__.validate_json(payload if fits else b"")
        except ValidationError:
            # Either it has fields that count as left out, or this way has the reason of the refusal.
            return cls.from_fields(read_json_object(payload, cls.max_bytes))
        return found

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
                return validate(_given(cls, fields, error))
        except ValidationError as error:
            raise InvalidEntryError(reason_of(error), describe(error)) from None


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


def _given(model: type[WireModel], fields: Any, error: ValidationError) -> Any:
    """Return fields without those that count as left out.

    It is called for fields that are not valid, so that valid fields cost nothing.

    Raises:
        ValidationError: the error that was given, because no field counts as left out.
    """
    found = _without_left_out(model, fields)
    if found is fields:
        raise error
    return found


def _without_left_out(model: type[WireModel], fields: Any) -> Any:
    """Return fields, and those of models in them, without the optional fields that count as left out."""
    if not isinstance(fields, Mapping):
        return fields
    found: dict[str, Any] = {}
    for name, value in fields.items():
        field = model.model_fields.get(name)
        if field is not None and not field.is_required() and is_left_out(value):
            continue
        if name in _NAMED_VALUES and isinstance(value, Mapping) and any(map(is_left_out, value.values())):
            found[name] = {key: item for key, item in value.items() if not is_left_out(item)}
        elif field is not None and (nested := _model_in(field.annotation)) is not None:
            found[name] = _inside(nested, value)
        else:
            found[name] = value
    same = len(found) == len(fields) and all(found[name] is value for name, value in fields.items())
    return fields if same else found


def is_left_out(value: object) -> bool:
    """Return whether a value counts as left out where it is not allowed: null, a blank text, or the zero time."""
    return value is None or is_zero_time(value) or (isinstance(value, str) and not value.strip(" \t\r\n"))


def _model_in(annotation: object) -> type[WireModel] | None:
    """Return the model of a field that is a model, or has several of one kind; None for another field."""
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _inside(model: type[WireModel], value: Any) -> Any:
    if isinstance(value, list | tuple):
        found = [_without_left_out(model, item) for item in value]
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found
    if isinstance(value, Mapping) and not value.keys() & model.model_fields.keys():
        return {key: _without_left_out(model, item) for key, item in value.items()}
    return _without_left_out(model, value)


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
        InvalidEntryError: the payload is too large, not UTF-8 JSON (NaN and lone surrogates are not), or not an object.
    """
    if max_bytes is not None and len(payload) > max_bytes:
        raise InvalidEntryError(
            Reason.TOO_LARGE,
            f"the entry has {len(payload)} bytes; the limit is {max_bytes}: send fewer or shorter documents",
        )
    try:
        value = from_json(payload, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise InvalidEntryError(Reason.NOT_JSON, _why_not_json(payload, error)) from None
    if not isinstance(value, dict):
        raise InvalidEntryError(
            Reason.INVALID, f"the entry is a JSON {_json_type(value)}; send one JSON object with the schema's fields"
        )
    return value


def _why_not_json(payload: bytes, error: ValueError) -> str:
    try:
        place = place_of_no_number(from_json(payload, allow_inf_nan=True))
    except ValueError:
        place = None
    if place is not None:
        return f"{place}, which JSON does not have: send null for an unknown value, or leave it out"
    return f"the entry is not valid JSON: {error}; send one UTF-8 JSON object"


def place_of_no_number(value: Any) -> str | None:
    """Return the first number in a value that is not finite, with its place, such as `a.0.b is NaN`; None without one.

    >>> place_of_no_number({"scores": [0.5, float("nan")]})
    'scores.1 is NaN'
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        place, found = waiting.pop()
        if isinstance(found, float) and not isfinite(found):
            name = "NaN" if isnan(found) else "Infinity" if found > 0 else "-Infinity"
            return f"{shortened(place)} is {name}"
        inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
        waiting.extend((f"{place[:200]}.{key}" if place else str(key), item) for key, item in reversed(list(inner)))
    return None


def _json_type(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


ERRORS_TOLD = 10
"""Most errors in one message."""

_SECRETS = frozenset(
    {"api_key", "destinations", "federate", "redis_password", "storage_options", "user_id", "user_id_salt"}
)
"""Fields whose value is never shown, and tables (`destinations`, `federate`) of which no value is shown."""

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
    found = [_describe_one(detail) for detail in details if detail["loc"] not in parents]
    more = f"; and {len(found) - ERRORS_TOLD} more" if len(found) > ERRORS_TOLD else ""
    return printable("; ".join(found[:ERRORS_TOLD]) + more)


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
    if may_hold_a_secret(detail):
        return f"{field} {remedy}"
    value = detail["input"]
    shown = shortened(repr(value.isoformat() if isinstance(value, datetime) else value))
    if field == "schema_version" and kind in {"less_than_equal", "greater_than_equal"}:
        return f"schema_version {shown} is unknown (1 to {SCHEMA_VERSION}): upgrade ragtide or send an older version"
    return f"{field} {remedy} (got {shown})"


def may_hold_a_secret(detail: ErrorDetails) -> bool:
    """Return whether an error shows a whole object, such as the judge's settings, or a secret itself."""
    whole = isinstance(detail["input"], Mapping) or detail["type"] in {"model_type", "dict_type"}
    return whole or any(str(part) in _SECRETS for part in detail["loc"])
