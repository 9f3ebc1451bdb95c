"""The pipeline of the experiment: it answers with the first words of the only document."""

from random import Random
from typing import Any


def answer(question: str, words: int) -> dict[str, Any]:
    """Return the document and its first words."""
    document = f"The {question.rsplit(maxsplit=1)[-1].rstrip('?')} was built in stone and finished in 1889."
    return {"documents": [document], "response": " ".join(document.split()[:words]), "cost_usd": 0.001 * words}


def measure(item: Any, answer: Any) -> dict[str, float]:
    """Return a score that is higher for longer responses, and the same for the same item and response."""
    n_words = len(answer.response.split())
    return {"right": min(max(n_words / 8 + Random(item.question + answer.response).gauss(0, 0.1), 0.0), 1.0)}
