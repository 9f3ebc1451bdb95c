"""The labeler `nli`: a model of natural language inference decides which sentences the documents entail.

It calls a service with the `/predict` protocol of Hugging Face's Text Embeddings Inference: pairs of premise and
hypothesis in, a score for each label out. The claims of RAGChecker are sentences here. Source: Honovich et al., TRUE
(arXiv:2204.04991), for the task; Ru et al., RAGChecker (arXiv:2408.08067), for the metrics.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, ClaimLabels, Entailment, RagInteraction, SentenceLabels

from ..metrics.ragchecker import RAGCHECKER, ragchecker_metrics
from ..metrics.scores import AbsentReason, nothing_to_label
from ..metrics.trace import TRACE, trace_metrics, withhold_support
from ..text.marks import readable
from ..text.sentences import SPLITTER_ID, CutInteraction, cut, split_sentences
from ..text.splitting import pieces
from .protocol import Labeling
from .remote.services import Services

if TYPE_CHECKING:
    from .remote.http import Ask

PREMISE_TOKENS: Final = 350
"""Most tokens of a premise, by estimate: such models take 512 for premise and hypothesis."""

MOST_PAIRS: Final = 2000
"""Most pairs of premise and hypothesis of one interaction."""

SUPPORTED: Final = ("supported_without_sentence",)
"""Support of a sentence that a whole document entails."""

VERDICTS: Final[dict[str, Entailment]] = {
    "entailment": "Entailment",
    "neutral": "Neutral",
    "not_entailment": "Neutral",
    "contradiction": "Contradiction",
}
"""Verdict by the model's label, in lower case."""


@dataclass(frozen=True, slots=True)
class Question:
    """Texts, and the sentences that they may entail."""

    premises: Sequence[tuple[str, str]]
    """Pieces of the texts; the key of each begins with the number of its text."""
    hypotheses: Sequence[str]
    n_texts: int

    def pairs(self) -> list[tuple[str, str]]:
        """Return every pair of premise and hypothesis."""
        return [(premise, hypothesis) for hypothesis in self.hypotheses for _, premise in self.premises]

    def table(self, verdicts: Iterator[Entailment]) -> tuple[tuple[Entailment, ...], ...]:
        """Return a row for each hypothesis with a verdict for each text, given the verdicts of all pairs.

        A text entails a sentence if one of its pieces entails it.
        """
        rows: list[tuple[Entailment, ...]] = []
        for _ in self.hypotheses:
            row: list[Entailment] = ["Neutral"] * self.n_texts
            for key, _ in self.premises:
                text, verdict = int(key.partition(".")[0]), next(verdicts)
                if verdict == "Entailment" or row[text] == "Neutral":
                    row[text] = verdict
            rows.append(tuple(row))
        return tuple(rows)


class NliLabeler:
    """Scores support and RAGChecker metrics by entailment, and gives no labels of relevance and utilization."""

    name: Final = "nli"
    metrics: Final = (
        "trace.adherence",
        "trace.supported_fraction",
        *(name for name in METRICS if name.startswith(RAGCHECKER)),
    )

    def __init__(self, settings: Settings, services: Services) -> None:
        self._profile, self._claim_profile = settings.profile, settings.claim_profile
        self._service = services.open("nli", "/predict")
        self.profile = f"{settings.profile}+{settings.claim_profile}"
        self.version = f"{self._service.model}/nli.1/{SPLITTER_ID}"
        self.aclose = self._service.aclose

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the scores of one interaction.

        Raises:
            LabelerUnavailable: the service cannot be called now.
        """
        nothing = nothing_to_label(interaction)
        if nothing is not None:
            return Labeling({}, dict.fromkeys(self.metrics, str(nothing)))
        return await self._service.label(interaction, self.metrics, lambda ask: self._label_sentences(interaction, ask))

    async def _label_sentences(self, interaction: RagInteraction, ask: "Ask") -> Labeling:
        sentences = cut(interaction)
        reference = interaction.reference_answer
        claims = [*map(readable, sentences.response)]
        reference_claims = [] if reference is None else split_sentences(reference)
        documents = _premises([document.text for document in interaction.documents])
        questions = [Question(documents, [*claims, *reference_claims], len(interaction.documents))]
        if reference is not None:
            questions.append(Question(_premises([reference]), claims, 1))
            questions.append(Question(_premises([interaction.response]), reference_claims, 1))
        if sum(len(question.pairs()) for question in questions) > MOST_PAIRS:
            return Labeling({}, dict.fromkeys(self.metrics, str(AbsentReason.TOO_LONG)))
        verdicts = iter(await self._ask_verdicts([pair for question in questions for pair in question.pairs()], ask))
        by_documents, *others = [question.table(verdicts) for question in questions]
        of_response, of_reference = others or (None, None)
        labels = ClaimLabels(
            answer2response=None if of_response is None else tuple(row[0] for row in of_response),
            response2answer=None if of_reference is None else tuple(row[0] for row in of_reference),
            retrieved2answer=None if reference is None else by_documents[len(claims) :],
            retrieved2response=by_documents[: len(claims)],
        )
        return self._scored(sentences, labels)

    async def _ask_verdicts(self, pairs: Sequence[tuple[str, str]], ask: "Ask") -> list[Entailment]:
        n = self._service.settings.batch
        verdicts: list[Entailment] = []
        for start in range(0, len(pairs), n):
            batch = pairs[start : start + n]
            verdicts += await ask({"inputs": batch, "truncate": True}, partial(_read_verdicts, n=len(batch)))
        return verdicts

    def _scored(self, sentences: CutInteraction, labels: ClaimLabels) -> Labeling:
        supported = ["Entailment" in row for row in labels.retrieved2response]
        keys = sentences.response_keys
        support = SentenceLabels(
            relevant=None,
            utilized=None,
            support={key: SUPPORTED if yes else () for key, yes in zip(keys, supported, strict=True)},
            fully_supported=dict(zip(keys, supported, strict=True)),
            n_document_sentences=len(sentences.document_keys),
            document_keys=sentences.document_keys,
            response_keys=keys,
        )
        metrics = trace_metrics(support, profile=self._profile)
        scores, absent = (withhold_support(metrics) if sentences.refuses else metrics).by_qualified_name(TRACE)
        absent = {
            name: str(AbsentReason.NOT_LABELED if reason == AbsentReason.INCOMPLETE_LABELS else reason)
            for name, reason in absent.items()
        }
        claim_scores, claim_absent = ragchecker_metrics(labels, profile=self._claim_profile).by_qualified_name(
            RAGCHECKER
        )
        return Labeling(
            scores | claim_scores, absent | claim_absent, labels=(support, labels), splitter=sentences.splitter
        )


def _premises(texts: Sequence[str]) -> list[tuple[str, str]]:
    return pieces([(str(number), readable(text)) for number, text in enumerate(texts) if text.strip()], PREMISE_TOKENS)


def _read_verdicts(reply: Any, n: int) -> list[Entailment]:
    """Return the verdict of each pair of a batch: the label with the highest score.

    Raises: ValueError, TypeError or LookupError if the reply has another form.

    >>> _read_verdicts([[{"label": "ENTAILMENT", "score": 0.9}, {"label": "NEUTRAL", "score": 0.1}]], 1)
    ['Entailment']
    """
    if len(reply) != n:
        raise ValueError(f"the reply has {len(reply)} results for {n} pairs")
    names = [str(max(labels, key=lambda label: float(label["score"]))["label"]).lower() for labels in reply]
    unknown = next((name for name in names if name not in VERDICTS), None)
    if unknown is not None:
        raise ValueError(f"the label {unknown[:50]} is none of {', '.join(VERDICTS)}: serve a model of entailment")
    return [VERDICTS[name] for name in names]
