"""Which failures the numbers of the shipped labelers follow, as `benchmarks/corruptions.py --write` found."""

from collections.abc import Mapping
from typing import Final

VERSIONS: Final[Mapping[str, str]] = {}
"""Version of each labeler that was measured."""

SEEN: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]] = {}
"""By labeler and metric: how its numbers follow each kind of failure."""
