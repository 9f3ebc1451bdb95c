"""Which failures the numbers of the shipped labelers follow, as `benchmarks/corruptions.py --write` found."""

from collections.abc import Mapping
from typing import Final

VERSIONS: Final[Mapping[str, str]] = {"local": "6-sentencex-1+forms-3"}
"""Version of each labeler that was measured."""

SEEN: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]] = {
    "local": {
        "trace.context_relevance": {
            "sees": ("broken retriever", "wrong documents"),
            "partly": ("half wrong documents",),
        },
        "trace.context_utilization": {
            "sees": ("wrong documents", "wrong answer", "refusal"),
            "partly": ("half wrong documents",),
            "absent for": ("another language",),
        },
        "trace.adherence": {
            "sees": (
                "wrong documents",
                "cut documents",
                "wrong answer",
                "foreign sentence",
                "changed numbers",
                "changed unit or date",
                "negation",
            ),
            "does not see": ("swapped entity",),
            "absent for": ("another language",),
        },
        "trace.supported_fraction": {
            "sees": (
                "wrong documents",
                "cut documents",
                "wrong answer",
                "foreign sentence",
                "changed numbers",
                "changed unit or date",
                "negation",
            ),
            "does not see": ("swapped entity",),
            "absent for": ("another language",),
        },
        "retrieval.match": {"sees": ("broken retriever", "wrong documents", "half wrong documents")},
    }
}
"""By labeler and metric: how its numbers follow each kind of failure."""
