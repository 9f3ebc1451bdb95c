"""Packages that import their names late have every name that they promise, and say which they do not have."""

from importlib import import_module

import pytest
from tests.support.cases import for_each

pytestmark = pytest.mark.pure

PACKAGES = (
    "ragtide_schemas",
    "ragtide_runtime.redis",
    "ragtide_runtime.settings",
    "ragtide_runtime.telemetry",
    "ragtide_producers",
    "ragtide_consumers",
    "ragtide_aggregator",
    "ragtide_offline.experiments",
    "ragtide_offline.gates",
    "ragtide_offline.score",
)


@for_each("name", PACKAGES)
def test_every_promised_name_is_there(name: str) -> None:
    package = import_module(name)
    assert package.__all__
    assert [one for one in package.__all__ if getattr(package, one, None) is None] == []


@for_each("name", PACKAGES)
def test_another_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{name}' has no attribute 'nothing'"):
        _ = import_module(name).nothing
