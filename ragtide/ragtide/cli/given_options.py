"""The options before the command, as they were given."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragtide_runtime import settings as all_settings

if TYPE_CHECKING:
    from ragtide_runtime.settings import Settings


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
