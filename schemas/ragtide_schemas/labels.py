"""Labels: the findings of a labeler about an interaction, before any formula."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import Count, WireModel

Entailment = Literal["Entailment", "Neutral", "Contradiction"]
"""RAGChecker's verdicts; only `Entailment` counts as true."""


Claim = str | tuple[str, ...]
"""One claim: a sentence, or RAGChecker's triplet of subject, predicate and object."""


class UnsupportedSpan(WireModel):
    """A part of a response sentence that the documents do not support, as a labeler of tokens marks it."""

    sentence: str
    """Key of the response sentence."""
    start: Count
    """Place of its first character in the sentence."""
    end: Count
    """Place after its last character."""
    probability: Annotated[float, Field(ge=0, le=1)]
    """Probability that it is unsupported."""


class SentenceLabels(WireModel):
    """TRACe labels of one interaction: which document sentences are relevant or used, and which support the response.

    The key of a document sentence is the document's index and letters (`0a`, `0b`, ..., `0z`, `0aa`); the key of a
    response sentence is letters (`a`, `b`, ...). Key lists are stored as the labeler gave them; the profile decides
    about duplicate and unknown keys. Source: Friel et al., RAGBench (arXiv:2407.11005), appendix 7.4.
    """

    relevant: tuple[str, ...] | None
    """Keys of the document sentences that are relevant to the question; None if the labeler gave none."""
    utilized: tuple[str, ...] | None
    """Keys of the document sentences that the response used; None if the labeler gave none."""
    support: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """For each response sentence the document keys (or special keys) that support it; empty for no support."""
    fully_supported: dict[str, bool | None] = Field(default_factory=dict)
    """For each response sentence whether it is fully supported, if the labeler states it."""
    unsupported: tuple[str, ...] | None = None
    """Keys of the unsupported response sentences, if the labeler or data set states them."""
    unsupported_spans: Annotated[tuple[UnsupportedSpan, ...], Field(max_length=1000)] = ()
    """The unsupported parts of response sentences, if the labeler marks them."""
    n_document_sentences: Count
    """Number of sentences in all documents."""
    document_keys: tuple[str, ...] | None = None
    """Keys of all document sentences, if known; other keys in the labels are then dropped and counted."""
    response_keys: tuple[str, ...] | None = None
    """Keys of all response sentences, if known; adherence is then absent if a sentence has no verdict."""

    @model_validator(mode="after")
    def _counts_agree(self) -> Self:
        if self.document_keys is not None and len(self.document_keys) != self.n_document_sentences:
            raise ValueError(
                f"document_keys has {len(self.document_keys)} keys and n_document_sentences is "
                f"{self.n_document_sentences}: give one key per sentence"
            )
        return self


class SentenceProbabilities(WireModel):
    """TRACe labels as probabilities, which the local labeler predicts: a value in [0, 1] per sentence."""

    relevant: tuple[Annotated[float, Field(ge=0, le=1)], ...]
    """For each document sentence, in order, the probability that it is relevant to the question."""
    utilized: tuple[Annotated[float, Field(ge=0, le=1)], ...]
    """For each document sentence the probability that the response used it."""
    supported: tuple[Annotated[float, Field(ge=0, le=1)], ...]
    """For each response sentence the probability that the documents support it."""

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        if len(self.relevant) != len(self.utilized):
            raise ValueError(
                f"relevant has {len(self.relevant)} values and utilized {len(self.utilized)}: "
                "give one of each per document sentence"
            )
        return self


class ClaimLabels(WireModel):
    """RAGChecker labels of one interaction: verdicts whether its claims are entailed by answer, response and chunks.

    There are N response claims, G reference claims and K chunks. Source: Ru et al., RAGChecker (arXiv:2408.08067).
    """

    answer2response: tuple[Entailment, ...] | None = None
    """N verdicts: is response claim i entailed by the reference answer; None without a reference answer."""
    response2answer: tuple[Entailment, ...] | None = None
    """G verdicts: is reference claim j entailed by the response; None without a reference answer."""
    retrieved2answer: tuple[tuple[Entailment, ...], ...] | None = None
    """G rows of K verdicts: is reference claim j entailed by chunk k; None without a reference answer."""
    retrieved2response: tuple[tuple[Entailment, ...], ...]
    """N rows of K verdicts: is response claim i entailed by chunk k."""
    response_claims: tuple[Claim, ...] | None = None
    """The N response claims, if known."""
    reference_claims: tuple[Claim, ...] | None = None
    """The G claims of the reference answer, if known."""

    @model_validator(mode="after")
    def _shapes_agree(self) -> Self:
        of_reference = ("answer2response", "response2answer", "retrieved2answer")
        missing = [name for name in of_reference if getattr(self, name) is None]
        if missing and len(missing) < len(of_reference):
            raise ValueError(
                f"{', '.join(missing)} missing beside {', '.join(sorted(set(of_reference) - set(missing)))}: "
                "give all three, or none of them where there is no reference answer"
            )
        for table, claims in (("retrieved2answer", self.response2answer), ("retrieved2response", self.answer2response)):
            rows = getattr(self, table) or ()
            if rows and claims is not None and len(rows) != len(claims):
                raise ValueError(f"{table} has {len(rows)} rows for {len(claims)} claims: give one row per claim")
        for table, known in (("retrieved2response", self.response_claims), ("response2answer", self.reference_claims)):
            rows = getattr(self, table)
            if known is not None and rows and len(known) != len(rows):
                raise ValueError(f"{table} has {len(rows)} rows for {len(known)} claims: give one row per claim")
        widths = {len(row) for row in (*(self.retrieved2answer or ()), *self.retrieved2response)}
        if len(widths) > 1:
            raise ValueError(f"rows have {sorted(widths)} chunks: give one verdict per chunk in every row")
        return self


Labels = SentenceLabels | SentenceProbabilities | ClaimLabels
"""A labeler's labels of an interaction, before any formula is applied."""
