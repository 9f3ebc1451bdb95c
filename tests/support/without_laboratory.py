"""A plugin of pytest: `ragtide_offline` cannot be imported, as if the laboratory were not installed."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "ragtide_offline"


class Absent:
    """Finds no module of the laboratory."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] == PACKAGE:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


sys.meta_path.insert(0, Absent())
