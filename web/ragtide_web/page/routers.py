"""The routes of all screens."""

from typing import Final

from .alerts.route import router as alerts
from .dead_letters.route import router as dead_letters
from .experiments.route import router as experiments
from .fleet.route import router as fleet
from .frame.route import router as frame
from .items.opinions import router as opinions
from .items.route import router as items
from .judge.route import router as judge
from .label.route import router as label
from .live.route import router as live
from .login.route import router as login
from .pipeline.route import router as pipeline
from .system.route import router as system

ROUTERS: Final = (
    frame,
    login,
    live,
    fleet,
    pipeline,
    alerts,
    items,
    opinions,
    experiments,
    label,
    judge,
    dead_letters,
    system,
)
"""Routers of the page, in the order in which they are asked."""
