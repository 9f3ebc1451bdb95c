"""A server that speaks the `/predict` protocol of Text Embeddings Inference: real HTTP, scripted behavior."""

from typing import Any

from ragtide.testing import Reply, ScriptedServer
from ragtide.testing.sentence_labels import shared_words


class NliServer(ScriptedServer):
    """Says that a premise entails a hypothesis that shares all its words, and contradicts one with `not` in it."""

    path = "/predict"

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> Any:
        """Return a score for each label of each pair."""
        return [self.scores(premise, hypothesis) for premise, hypothesis in request["inputs"]]

    @staticmethod
    def scores(premise: str, hypothesis: str) -> list[dict[str, Any]]:
        """Return the scores of one pair, as a cross-encoder gives them: in no fixed order."""
        entailed = shared_words(hypothesis) <= shared_words(premise)
        verdict = "contradiction" if " not " in hypothesis else "entailment" if entailed else "neutral"
        return [
            {"score": 0.9 if label == verdict else 0.05, "label": label}
            for label in ("neutral", "contradiction", "entailment")
        ]
