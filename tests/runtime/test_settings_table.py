"""The table of settings on docs/reference/settings.md: its sections, and the variables that it names."""

import re

from tools.pages.settings import settings_table

from ragtide_runtime.settings.environment import known_variables


def test_every_variable_of_the_table_is_one_that_the_settings_read() -> None:
    shown = set(re.findall(r"`(RAGTIDE_[A-Z_]+)` \|", settings_table()))
    known = known_variables()
    tables = {name for name in known if any(one.startswith(f"{name}_") for one in shown)}
    assert shown <= known
    assert known - shown <= tables | {"RAGTIDE_SERVICES"}


def test_every_setting_is_in_a_section() -> None:
    table = settings_table()
    assert table.startswith("## Redis\n")
    assert table.count("\n| setting |") == table.count("## ") == 28
