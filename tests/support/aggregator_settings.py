"""Settings of an aggregator for tests: short times, and a state without what a test does not ask for."""

from typing import Any

from ragtide_runtime.settings.model import Settings


def aggregator_settings(**changes: Any) -> Settings:
    """Return settings whose state has no windows, no history, no clusters and no rules unless they are given."""
    bare = {
        "aggregator_batch": 50,
        "commit_interval_s": 0.02,
        "lease_s": 0.6,
        "windows": (),
        "lateness_s": 0,
        "history": {"enabled": False},
        "moves": {"enabled": False},
        "releases": {"enabled": False},
        "clusters": {"by": "none"},
        "specimens": {"enabled": False},
        "alert_defaults": False,
    }
    return Settings(**{**bare, **changes})


def changed(settings: Settings, **changes: Any) -> Settings:
    """Return settings with other values."""
    return settings.model_copy(update=changes)
