"""The page of the Python API, from its docstrings."""

import inspect
from collections.abc import Mapping
from typing import Final

import ragtide

NAME: Final = "api.md"

_INTRODUCTION = """\
`make schemas` writes this page from the docstrings of `ragtide.__all__`. These names are the public face of ragtide;
everything else may change without notice. `from ragtide import NAME` loads a name when it is first used, so an
application that only publishes loads no NumPy. `help(ragtide.NAME)` shows arguments and errors."""

_TITLES: Final[Mapping[str, tuple[str, str]]] = {
    "ragtide_producers": ("Publish", "producers.md"),
    "ragtide_schemas": ("Messages", "interaction.md"),
    "ragtide_consumers": ("Score, and receive alerts", "own-labeler.md"),
    "ragtide_aggregator": ("Read and compute", "statistics.md"),
    "ragtide_offline": ("Offline", "experiments.md"),
    "ragtide_runtime": ("Recordings and errors", "recording.md"),
}
"""Title of the names of each package, and the page that explains most of them."""

_PAGES: Final[Mapping[str, str]] = {
    "Absent": "metrics.md",
    "AbsentReason": "metrics.md",
    "Alert": "alerts.md",
    "AlertSubscriber": "subscribing.md",
    "ClaimLabels": "label-fields.md",
    "ConfigurationError": "settings.md",
    "CustomMetric": "metrics.md",
    "DeadLetter": "dead-letters.md",
    "Deployment": "architecture.md",
    "Direction": "metrics.md",
    "DriftDetector": "drift.md",
    "Dropped": "producers.md",
    "Elimination": "racing.md",
    "Estimate": "statistics.md",
    "GateResult": "gates.md",
    "InvalidEntryError": "dead-letters.md",
    "Item": "offline.md",
    "Kind": "metrics.md",
    "LocalLabeler": "local-labeler.md",
    "MetricDeclaration": "label-fields.md",
    "MetricDefinition": "metrics.md",
    "MetricEvent": "delivery.md",
    "MetricScores": "metrics.md",
    "PairedComparison": "comparing.md",
    "Race": "racing.md",
    "RaceStanding": "racing.md",
    "RagtideError": "troubleshooting.md",
    "RedisUnavailable": "redis.md",
    "SentenceLabels": "label-fields.md",
    "Summary": "notebooks.md",
    "estimates": "notebooks.md",
    "gate": "gates.md",
    "hashed_user_id": "security.md",
    "items_of": "offline.md",
    "load": "notebooks.md",
    "ragchecker_metrics": "metrics.md",
    "read_items": "offline.md",
    "score": "notebooks.md",
    "trace_metrics": "metrics.md",
}
"""The page that explains a name, where it is not that of its package."""


def api_page() -> str:
    """Return the page of all public names, with a sentence and a link for each."""
    parts = ["# The Python API", _INTRODUCTION]
    public = [name for name in ragtide.__all__ if name != "__version__"]
    for package, (title, page) in _TITLES.items():
        rows = [_row(name, page) for name in public if _package(name) == package]
        parts += [f"## {title}", "\n".join(["| name | | explained in |", "|---|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _package(name: str) -> str:
    home: str = getattr(ragtide, name).__module__
    return home.partition(".")[0]


def _row(name: str, page: str) -> str:
    value = getattr(ragtide, name)
    shown = f"`{name}()`" if inspect.isfunction(value) else f"`{name}`"
    meaning = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    page = _PAGES.get(name, page)
    return f"| {shown} | {meaning} | [{page}]({page}) |"
