"""How far the numbers of the shipped labelers move with each failure, as `benchmarks/corruptions.py --write` found."""

from collections.abc import Mapping
from typing import Final

VERSIONS: Final[Mapping[str, str]] = {"local": "6-sentencex-1+forms-3"}
"""Version of each labeler that was measured."""

SLOPES: Final[Mapping[str, Mapping[str, Mapping[str, tuple[float, float, float, int]]]]] = {
    "local": {
        "trace.context_relevance": {
            "broken retriever": (0.189, 0.144, 0.265, 200),
            "wrong documents": (0.22, 0.161, 0.307, 200),
            "half wrong documents": (0.073, 0.058, 0.09, 179),
            "cut documents": (-0.048, -0.074, -0.033, 200),
            "wrong answer": (0.031, -0.01, 0.068, 200),
            "foreign sentence": (-0.032, -0.045, -0.016, 200),
            "changed numbers": (0.004, 0.002, 0.006, 78),
            "changed unit or date": (-0.001, -0.01, 0.006, 48),
            "swapped entity": (-0.005, -0.017, 0.001, 176),
            "negation": (-0.012, -0.015, -0.01, 192),
            "general knowledge": (-0.017, -0.024, -0.013, 200),
            "refusal": (0.097, 0.027, 0.172, 200),
            "irrelevant documents": (0.423, 0.278, 0.51, 2393),
        },
        "trace.context_utilization": {
            "broken retriever": (-0.011, -0.039, 0.01, 200),
            "wrong documents": (0.183, 0.128, 0.263, 200),
            "half wrong documents": (0.057, 0.037, 0.075, 179),
            "cut documents": (-0.032, -0.053, -0.01, 200),
            "wrong answer": (0.187, 0.134, 0.247, 200),
            "foreign sentence": (0.008, -0.001, 0.015, 200),
            "changed numbers": (0.024, 0.01, 0.041, 78),
            "changed unit or date": (0.02, 0.011, 0.029, 48),
            "swapped entity": (0.001, -0.008, 0.007, 176),
            "negation": (-0.024, -0.027, -0.02, 192),
            "general knowledge": (0.013, 0.011, 0.016, 200),
            "refusal": (0.188, 0.117, 0.264, 200),
            "unused documents": (0.63, 0.421, 0.806, 2483),
        },
        "trace.adherence": {
            "broken retriever": (0.043, 0.02, 0.065, 190),
            "wrong documents": (0.455, 0.281, 0.566, 193),
            "half wrong documents": (0.102, 0.074, 0.149, 175),
            "cut documents": (0.148, 0.102, 0.203, 193),
            "wrong answer": (0.532, 0.313, 0.714, 187),
            "foreign sentence": (0.343, 0.134, 0.62, 193),
            "changed numbers": (0.193, 0.13, 0.249, 77),
            "changed unit or date": (0.142, 0.106, 0.181, 47),
            "swapped entity": (0.013, 0.005, 0.023, 171),
            "negation": (0.17, 0.082, 0.271, 185),
            "general knowledge": (0.251, 0.141, 0.361, 193),
            "unsupported claims": (0.085, 0.024, 0.168, 2468),
        },
        "trace.supported_fraction": {
            "broken retriever": (0.035, 0.028, 0.044, 190),
            "wrong documents": (0.404, 0.227, 0.536, 193),
            "half wrong documents": (0.081, 0.049, 0.126, 175),
            "cut documents": (0.117, 0.075, 0.18, 193),
            "wrong answer": (0.491, 0.274, 0.705, 187),
            "foreign sentence": (0.198, 0.063, 0.365, 193),
            "changed numbers": (0.171, 0.093, 0.23, 77),
            "changed unit or date": (0.133, 0.101, 0.169, 47),
            "swapped entity": (0.012, 0.004, 0.021, 171),
            "negation": (0.12, 0.079, 0.157, 185),
            "general knowledge": (0.153, 0.069, 0.246, 193),
        },
        "retrieval.match": {
            "broken retriever": (0.507, 0.412, 0.729, 200),
            "wrong documents": (0.51, 0.396, 0.707, 200),
            "half wrong documents": (0.213, 0.139, 0.296, 179),
            "cut documents": (0.097, 0.07, 0.122, 200),
            "wrong answer": (0.0, 0.0, 0.0, 200),
            "foreign sentence": (0.0, 0.0, 0.0, 200),
            "changed numbers": (0.0, 0.0, 0.0, 78),
            "changed unit or date": (0.0, 0.0, 0.0, 48),
            "swapped entity": (0.0, 0.0, 0.0, 176),
            "negation": (0.0, 0.0, 0.0, 192),
            "general knowledge": (0.0, 0.0, 0.0, 200),
            "refusal": (0.0, 0.0, 0.0, 200),
        },
    }
}
"""By labeler, metric and failure: slope, its lower and upper end, and the number of rows."""
