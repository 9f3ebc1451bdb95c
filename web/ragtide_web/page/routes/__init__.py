"""The routes of the screens."""

from typing import Final

from . import (
    alerts,
    dead_letters,
    experiments,
    fleet,
    items,
    judge,
    label,
    live,
    login,
    opinions,
    pipelines,
    static,
    system,
)

ROUTERS: Final = (
    static.router,
    login.router,
    live.router,
    fleet.router,
    pipelines.router,
    alerts.router,
    items.router,
    opinions.router,
    experiments.router,
    label.router,
    judge.router,
    dead_letters.router,
    system.router,
)
"""Routers of the page, in the order in which they are asked."""
