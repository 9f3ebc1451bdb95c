"""The table of settings on docs/reference/settings.md: its sections, and the variables that it names."""

import re

from tools.pages.settings import settings_table

from ragtide_runtime.settings.environment import fields_of
from ragtide_runtime.settings.model import Settings


def test_every_variable_of_the_table_is_one_that_the_settings_read() -> None:
    shown = set(re.findall(r"`(RAGTIDE_[A-Z_]+)` \|", settings_table()))
    tables = {name for name, field in fields_of(Settings) if any(one.startswith(f"{name}_") for one in shown)}
    known = {name for name, _ in fields_of(Settings)}
    assert shown <= known
    assert known - shown <= tables | {"RAGTIDE_SERVICES"}


def test_every_setting_is_in_a_section() -> None:
    table = settings_table()
    assert table.startswith("## Redis\n")
    assert table.count("\n| setting |") == table.count("## ") == 27
