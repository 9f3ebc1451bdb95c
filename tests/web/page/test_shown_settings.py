"""The settings on the page: every one of them, and no secret."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, SecretStr

from ragtide_runtime.settings.labelers import ServiceSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.notify import DestinationSettings
from ragtide_runtime.settings.serve import TokenSettings
from ragtide_web.page.system.shown_settings import shown_settings, without_secrets

SECRET = "hunter2-hunter2-hunter2"
ADDRESS = f"https://user:{SECRET}@judge.internal/v1?key={SECRET}"


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model of the settings and all models in it."""
    yield model
    for field in model.model_fields.values():
        for inner in _classes(field.annotation):
            yield from models(inner)


def _classes(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _classes(inner)


def secret_fields() -> set[tuple[str, str]]:
    """Return model and name of every setting that is a secret."""
    return {
        (model.__name__, name)
        for model in models(Settings)
        for name, field in model.model_fields.items()
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation)
    }


def filled(model: type[BaseModel]) -> BaseModel:
    """Return a model without checks, with a secret in every secret field and in every text."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation):
            values[name] = SecretStr(SECRET)
        elif field.annotation in (str, str | None) or "url" in name or "endpoint" in name:
            values[name] = ADDRESS
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            values[name] = filled(field.annotation)
        elif not field.is_required():
            values[name] = field.get_default(call_default_factory=True)
    return model.model_construct(**values)


def test_no_secret_and_no_password_of_an_address_is_shown() -> None:
    settings = filled(Settings)
    assert isinstance(settings, Settings)
    found = settings.model_copy(
        update={
            "services": {"nli": filled(ServiceSettings)},
            "serve": settings.serve.model_copy(update={"tokens": (filled(TokenSettings),)}),
            "notify": settings.notify.model_copy(update={"destinations": (filled(DestinationSettings),)}),
            "recorder": settings.recorder.model_copy(update={"storage_options": {"key": SECRET, "any": [SECRET]}}),
        }
    )
    assert str(found.model_dump()).count(SECRET) > 10  # addresses hold it, too
    shown = shown_settings(found)
    assert [one for one in shown if SECRET in str(one)] == []
    text = str([(one.name, one.value) for one in shown])
    for model, name in secret_fields():
        assert name in text, f"{model}.{name} was not tried"
    assert "judge.internal" in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"redis://:{SECRET}@redis.internal:6379/0", "redis://***@redis.internal:6379/0"),
        (f"redis+cluster://u:{SECRET}/@#@a:1,b:2", "redis+cluster://***@a:1,b:2"),
        (f"s3://bucket/folder?secret={SECRET}", "s3://bucket/folder?***"),
        (SecretStr(""), ""),
        ("gpt-5", "gpt-5"),
        (0.5, 0.5),
    ],
)
def test_parts_of_a_value_that_are_hidden(value: object, expected: object) -> None:
    assert without_secrets(value) == expected


def test_every_setting_is_shown_and_those_with_another_value_are_marked() -> None:
    shown = {setting.name: setting for setting in shown_settings(Settings(partitions=3, prefix="shop"))}
    assert (shown["partitions"].value, shown["partitions"].changed) == ("3", True)
    assert (shown["judge.attempts"].value, shown["judge.attempts"].changed) == ("6", False)
    assert {name.partition(".")[0] for name in shown} == set(Settings.model_fields)
    assert any(name.startswith("alerts.") for name in shown)
