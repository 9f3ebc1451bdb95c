"""Labels by sentence: the answers of a scripted judge."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragtide_consumers.labelers.judge.plain_answers import in_lines

from .judge_prompt import JudgePrompt


@dataclass(frozen=True)
class Labels:
    """Replies with labels: these, and labels by shared words for every sentence without one.

    By shared words a response sentence is supported by each document sentence with half of its words of more than
    three letters, and a document sentence that supports one is relevant and utilized.
    """

    supported: Mapping[str, bool] = field(default_factory=dict)
    """Whether the documents support a response sentence."""
    relevant: Mapping[str, bool] = field(default_factory=dict)
    """Whether a document sentence helps to answer the question."""
    utilized: Mapping[str, bool] = field(default_factory=dict)
    """Whether the response uses a document sentence."""
    entailed: Mapping[str, bool] = field(default_factory=dict)
    """Whether every source entails a claim, or none. A scripted judge takes each sentence as one claim."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Answer to a criterion, by its question; by default its first possible answer."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason of the answer to a criterion, by its question, if the prompt asks for reasons."""
    prompt_tokens: int | None = None
    """Tokens of the prompt in the reply's usage; by default one for every four characters."""
    completion_tokens: int | None = None
    """Tokens of the answer in the reply's usage; by default one for every four characters."""

    @property
    def sentences(self) -> frozenset[str]:
        """Every sentence that has a label here."""
        return frozenset().union(self.supported, self.relevant, self.utilized, self.entailed)

    def named(self, prompt: JudgePrompt) -> frozenset[str]:
        """Return the sentences of a prompt that have a label here."""
        marked = {**self.relevant, **self.utilized}
        return frozenset(
            [
                *(sentence for sentence in prompt.response.values() if sentence in self.supported),
                *(sentence for sentence in prompt.documents.values() if sentence in marked),
                *(claim for claim in prompt.claims.values() if claim in self.entailed),
            ]
        )

    def answer(self, prompt: JudgePrompt) -> str:
        """Return the answer to a prompt, in the form that the prompt asks for.

        Raises:
            ValueError: the prompt asks for no labels of ragtide's judge.
        """
        if prompt.kind == "other":
            raise ValueError("the prompt is none of ragtide's judge: script its answer with `Says`")
        fields = self._fields(prompt)
        return in_lines(prompt.kind, fields) if prompt.in_lines else json.dumps(fields)

    def _fields(self, prompt: JudgePrompt) -> dict[str, object]:
        answers: dict[str, object] = {}
        for key, asked in prompt.criteria.items():
            answer = self.answers.get(asked.question, asked.answers[0])
            reason = self.reasons.get(asked.question, "scripted")
            answers[key] = {"reason": reason, "answer": answer} if prompt.wants_reasons else answer
        criteria: dict[str, object] = {"criteria": answers} if answers else {}
        if prompt.kind == "trace":
            return self._trace(prompt) | criteria
        if prompt.kind == "criteria":
            return criteria
        if prompt.kind == "claims":
            return {
                "response_claims": _sentences(prompt.texts.get("RESPONSE", "")),
                "reference_claims": _sentences(prompt.texts.get("REFERENCE", "")),
            }
        return {"verdicts": self._verdicts(prompt)}

    def _trace(self, prompt: JudgePrompt) -> dict[str, object]:
        words = {key: shared_words(sentence) for key, sentence in prompt.documents.items()}
        support = {key: self._support(sentence, words) for key, sentence in prompt.response.items()}
        used = {key for keys in support.values() for key in keys}
        return {
            "relevance_explanation": "shared words",
            "all_relevant_sentence_keys": _keys_of_sentences(prompt.documents, self.relevant, used),
            "overall_supported_explanation": "shared words",
            "overall_supported": all(support.values()),
            "sentence_support_information": [
                {
                    "response_sentence_key": key,
                    "explanation": "shared words",
                    "supporting_sentence_keys": keys,
                    "fully_supported": bool(keys),
                }
                for key, keys in support.items()
            ],
            "all_utilized_sentence_keys": _keys_of_sentences(prompt.documents, self.utilized, used),
        }

    def _support(self, sentence: str, documents: Mapping[str, frozenset[str]]) -> list[str]:
        scripted = self.supported.get(sentence)
        if scripted is False:
            return []
        mine = shared_words(sentence)
        keys = [key for key, words in documents.items() if len(mine & words) >= max(1, len(mine) // 2)]
        return keys or (["supported_without_sentence"] if scripted else [])

    def _verdicts(self, prompt: JudgePrompt) -> list[dict[str, object]]:
        sources = {key: shared_words(text) for key, text in prompt.sources.items()}
        verdicts: list[dict[str, object]] = []
        for key, claim in prompt.claims.items():
            # A claim is not checked against the text that it was taken from.
            others = {source: words for source, words in sources.items() if source != ("R" if key[0] == "r" else "A")}
            scripted = self.entailed.get(claim)
            mine = shared_words(claim)
            entailing = [
                source for source, words in others.items() if (mine <= words if scripted is None else scripted)
            ]
            verdicts.append({"claim": key, "entailed_by": entailing, "contradicted_by": []})
        return verdicts


def shared_words(text: str) -> frozenset[str]:
    """Return the words of more than three letters, in lower case."""
    return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) > 3)


def _keys_of_sentences(sentences: Mapping[str, str], scripted: Mapping[str, bool], otherwise: set[str]) -> list[str]:
    return [key for key, sentence in sentences.items() if scripted.get(sentence, key in otherwise)]


def _sentences(text: str) -> list[str]:
    return [piece.strip() for piece in re.split(r"(?<=[.!?])\s+", text) if piece.strip()]
