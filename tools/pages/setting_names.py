"""The module with the names of all settings, which a process without the tables of others compares names with."""

from textwrap import fill
from typing import Final

from ragtide_runtime.settings.environment import kind_of
from ragtide_runtime.settings.model import Settings

_HEAD: Final = '''"""Names of all settings, for a process that builds only its own tables. Written by `make schemas`."""

from typing import Final

_NAMES: Final = """
{names}
"""

SETTINGS: Final = tuple(_NAMES.split())
"""Every setting and table, a setting of a table as `table.setting`."""

PAIRS: Final = ({pairs},)
"""Settings whose pairs may have variables of their own, such as `RAGTIDE_SPLITS_SHOP`."""
'''


def setting_names() -> str:
    """Return the text of `ragtide_runtime/settings/names.py`."""
    names, pairs = [], []
    for name, field in Settings.model_fields.items():
        names += [name, *(f"{name}.{inner}" for inner in getattr(field.annotation, "model_fields", ()))]
        pairs += [name] if kind_of(field.annotation) == "pairs" else []
    return _HEAD.format(
        names=fill(" ".join(names), width=120, break_on_hyphens=False),
        pairs=", ".join(f'"{name}"' for name in pairs),
    )
