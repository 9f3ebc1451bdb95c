"""Coefficients of the local labeler, by feature (`features.py`).

Written by `python benchmarks/fit_local_labeler.py RAGBENCH.jsonl --write` from 200 RAGBench rows (Friel et
al., arXiv:2407.11005; Galileo Technologies, CC BY 4.0; labels by GPT-4). Do not edit.
"""

from collections.abc import Mapping
from typing import Final

RELEVANT: Final[Mapping[str, float]] = {
    "constant": -5.5207,
    "question": 1.5035,
    "in_response": 4.0314,
    "words": 1.0071,
    "document_question": -0.9937,
    "document_rank": 1.4440,
    "copied": 1.6505,
}
"""A document sentence is relevant to the question. Fitted with penalty 10."""

UTILIZED: Final[Mapping[str, float]] = {
    "constant": -5.7246,
    "in_response": 3.9128,
    "of_response": 4.2198,
    "words": 0.7868,
    "document_question": -0.7948,
    "document_response": -1.1834,
    "document_rank": 2.8038,
    "document_sentences": -0.5766,
}
"""The response used a document sentence. Fitted with penalty 3."""

SUPPORTED: Final[Mapping[str, float]] = {
    "constant": 1.9971,
    "best": 1.9518,
    "pairs": 0.3875,
    "words": -1.0503,
    "response_best": 3.6523,
    "new_names": -2.9419,
}
"""The documents support a response sentence. Fitted with penalty 3."""

TOGETHERNESS: Final = 0.72
"""Dependence of the sentences of one response: 0 for independent sentences, 1 if all are supported or none is."""
