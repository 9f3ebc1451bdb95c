"""The option `--map`, and the line that says which columns were read as which fields."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from ragtide_producers.files.columns import TARGETS
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import unknown

_MAP: Final = "--map"

MapOption = Annotated[
    list[str] | None,
    typer.Option(_MAP, help="Columns of fields that have other names, such as documents=contexts,response=answer."),
]


def columns_of(given: Sequence[str] | None) -> dict[str, str]:
    """Return the column of each mapped field."""
    found: dict[str, str] = {}
    for pair in (pair for one in given or () for pair in one.split(",")):
        field, _, column = (part.strip() for part in pair.partition("="))
        if not field or not column:
            raise typer.BadParameter(
                f"{shortened(pair)!r} is not FIELD=COLUMN, such as documents=contexts", param_hint=_MAP
            )
        if field not in TARGETS:
            raise typer.BadParameter(unknown("field", field, TARGETS), param_hint=_MAP)
        if field in found:
            raise typer.BadParameter(f"{field} is mapped twice: give one column", param_hint=_MAP)
        found[field] = column
    return found


def columns_line(taken: Mapping[str, str]) -> str:
    """Return a line about the fields that were read from columns with other names; empty if there are none."""
    listed = ", ".join(f"{field} from {shortened(column)}" for field, column in taken.items())
    return f"columns: {listed}" if listed else ""
