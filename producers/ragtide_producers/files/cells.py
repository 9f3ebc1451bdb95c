"""Words in the cells of a table that stand for a missing value."""

from typing import Final

MISSING: Final = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
     "NaN", "NaT", "None", "n/a", "nan", "null", "")
)  # fmt: skip
"""Texts that pandas reads as a missing value."""
MAY_BE_TEXT: Final = frozenset(("#NA", "N/A", "NA", "n/a"))
"""Those of them that are a name elsewhere, such as the country Namibia."""
