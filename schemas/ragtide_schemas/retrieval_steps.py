"""Retrieval steps of an interaction: which retriever or reranker returned which documents. No I/O."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from .base import Count, WireModel
from .limits import DOCUMENTS_MAX
from .printable import shortened

STEPS_MAX: Final = 16
"""Retrieval steps of one interaction; each has metrics of its own."""

STEP_NAME_CHARS: Final = 64
"""Characters of the name of a step, which is a part of names of metrics."""

StepKind = Literal["retriever", "reranker"]
"""Whether a step finds documents, or chooses among the documents that were found."""

_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{STEP_NAME_CHARS - 1}}}")
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def step_name(text: str) -> str | None:
    """Return a text, such as the name of a span, as the name of a step; None if nothing of it may be in a name.

    >>> step_name("BM25 Retriever"), step_name("VectorStoreRetriever.retrieve"), step_name("検索")
    ('bm25_retriever', 'vector_store_retriever_retrieve', None)
    """
    # Only the beginning can be in a name; the rest of a long text costs nothing.
    name = _NO_NAME.sub("_", _HUMP.sub("_", text[: 4 * STEP_NAME_CHARS]).lower()).strip("_")
    name = name.lstrip("0123456789_")[:STEP_NAME_CHARS].rstrip("_")
    return name or None


def _metric_safe(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    meant = step_name(name)
    such = "" if meant is None else f", such as {meant}"
    raise ValueError(
        f"is {shortened(name)!r}: give lower-case letters, digits and underscores, at most {STEP_NAME_CHARS}, "
        f"beginning with a letter{such}"
    )


class RetrievalStep(WireModel):
    """One retriever or reranker of an interaction, with the documents that it returned.

    Only documents that reached the generator have sentences with labels. Of the others a step has two counts.
    """

    name: Annotated[str, AfterValidator(_metric_safe)]
    """Name of the step in its metrics, such as `bm25`: lower-case letters, digits and underscores, at most 64."""
    kind: StepKind
    """`retriever` finds documents; `reranker` chooses among the documents that retrievers found."""
    documents: Annotated[tuple[Count, ...], Field(max_length=DOCUMENTS_MAX)]
    """Indexes, from 0, of the `documents` of the interaction that the step returned, best first."""
    returned: Count | None = None
    """Number of all documents that the step returned, whether or not they reached the generator."""
    shared: Count | None = None
    """Of a retriever: number of the returned documents that another retriever of the interaction returned, too."""

    @model_validator(mode="after")
    def _counts_agree(self) -> Self:
        if len(set(self.documents)) < len(self.documents):
            raise ValueError(f"documents of the step {self.name} repeats an index: give each document once")
        if self.returned is not None and self.returned < len(self.documents):
            raise ValueError(
                f"returned of the step {self.name} is {self.returned}, and documents has {len(self.documents)} of "
                "them: count every document that the step returned"
            )
        if self.shared is not None and self.shared > (self.returned or 0):
            raise ValueError(
                f"shared of the step {self.name} is {self.shared}, and returned is {self.returned}: give the number "
                "of all returned documents, which is no smaller"
            )
        return self


def check_steps(steps: tuple[RetrievalStep, ...] | None, n_documents: int) -> None:
    """Check the steps of an interaction.

    Args:
        n_documents: number of its documents.

    Raises: ValueError if two steps have one name, or a step has a document that the interaction lacks.
    """
    names = [step.name for step in steps or ()]
    for step in steps or ():
        if names.count(step.name) > 1:
            raise ValueError(f"two steps are named {step.name}: join them, or give each a name of its own")
        beyond = [index for index in step.documents if index >= n_documents]
        if beyond:
            raise ValueError(
                f"the step {step.name} has the document {beyond[0]}, and there are {n_documents}: give indexes of "
                "documents, from 0, and leave out documents that did not reach the generator"
            )


def _none_if_empty(steps: tuple[RetrievalStep, ...] | None) -> tuple[RetrievalStep, ...] | None:
    return steps or None


Steps = Annotated[
    Annotated[tuple[RetrievalStep, ...], Field(max_length=STEPS_MAX)] | None, AfterValidator(_none_if_empty)
]
"""Retrieval steps in their order; an empty list counts as not given."""
