"""Logs, traces, Prometheus metrics and health checks of a role."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .logs import configure_logging as configure_logging

__getattr__ = late(
    __name__,
    {
        ".logs": "configure_logging",
    },
)
