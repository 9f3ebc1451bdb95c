"""Options of several commands, and those before the command. Every command imports it, so it imports no settings."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtide_runtime import settings as all_settings

if TYPE_CHECKING:
    from ragtide_runtime.settings import Settings

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


@dataclass(frozen=True, slots=True)
class Given:
    """The options given before the command."""

    redis_url: str | None = None
    prefix: str | None = None
    data_dir: Path | None = None
    partitions: int | None = None

    def settings(self, **more: object) -> "Settings":
        """Return the settings; these options, and `more` options of the command, override environment and file."""
        given = {
            "redis_url": self.redis_url,
            "prefix": self.prefix,
            "data_dir": self.data_dir,
            "partitions": self.partitions,
            **more,
        }
        return all_settings.load_settings(**{name: value for name, value in given.items() if value is not None})


def given(context: typer.Context) -> Given:
    """Return the options given before the command."""
    found = context.find_object(Given)
    return found if found is not None else Given()
