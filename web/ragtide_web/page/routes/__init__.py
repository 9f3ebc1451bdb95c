"""The routes of the screens."""

from typing import Final

from . import dead_letters, fleet, judge, live, login, static, system

ROUTERS: Final = (
    static.router,
    login.router,
    live.router,
    fleet.router,
    dead_letters.router,
    judge.router,
    system.router,
)
"""Routers of the page, in the order in which they are asked."""
