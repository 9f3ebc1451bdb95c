"""Options of several commands. Every command imports this module, so it imports no Redis and no settings."""

from enum import StrEnum
from typing import Annotated

import typer

from .given_options import Given

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
SegmentsOption = Annotated[bool, typer.Option("--segments", help="Show segment values, too.")]
PipelineOption = Annotated[str | None, typer.Option(help="Only this pipeline.")]


class Role(StrEnum):
    """Roles of a deployment."""

    WORKER = "worker"
    AGGREGATOR = "aggregator"
    RECORDER = "recorder"
    SERVE = "serve"
    NOTIFY = "notify"


def given(context: typer.Context) -> Given:
    """Return the options given before the command."""
    found = context.find_object(Given)
    return found if found is not None else Given()
