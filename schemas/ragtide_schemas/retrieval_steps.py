"""Steps of an interaction: which retriever, reranker or call of a tool returned which documents. No I/O."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator

from .base import Count, Reader, Seconds, WireModel, small_json
from .limits import DOCUMENTS_MAX, ROUNDS_MAX, STEPS_MAX
from .plain_values import LeftOut, UnfitError
from .printable import shortened
from .value_readers import metadata_values, own_text, scalar

STEP_NAMES_MAX: Final = 16
"""Names of the steps of one interaction; each has metrics of its own."""

QUERY_MAX_CHARS: Final = 2_000
"""Characters of the text that a call was asked with."""

ARGUMENTS_MAX_BYTES: Final = 4_096
"""Bytes of the JSON of the arguments of a call."""

STEP_NAME_CHARS: Final = 64
"""Characters of the name of a step, which is a part of names of metrics."""

StepKind = Literal["retriever", "reranker", "tool"]
"""Whether a step finds documents, chooses among the documents that were found, or is a call that an agent made."""

OF_CALLS: Final = ("round", "query", "arguments", "error", "latency_s")
"""Fields that only calls have."""

_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{STEP_NAME_CHARS - 1}}}")
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLASS: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_.]{{0,{STEP_NAME_CHARS - 1}}}")


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


def _error_kind(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the kind of an error: of a message `error`, because a message may hold texts of users."""
    del name, left_out
    if isinstance(value, BaseException):
        value = type(value).__name__
    kind = step_name(value) if isinstance(value, str) and _CLASS.fullmatch(value) else None
    return None if value is False else kind or "error"


def _whole_arguments(value: Any, name: str, left_out: LeftOut) -> Any:
    """Return the arguments as JSON values, all or none: with parts of them different calls would look the same."""
    missing = LeftOut()
    fields = metadata_values(value, name, missing)
    if missing:
        raise UnfitError(f"has values without a plain meaning: {', '.join(missing)}")
    del left_out
    return fields


class RetrievalStep(WireModel):
    """One step of an interaction, with the documents that it returned: a retriever, a reranker, or a call of a tool.

    Only documents that reached the generator have sentences with labels. Of the others a step has two counts. A call
    without `documents` and `returned` did something else than look for documents, such as a booking.
    """

    name: Annotated[str, AfterValidator(_metric_safe)]
    """Name of the step in its metrics, such as `bm25`: lower-case letters, digits and underscores, at most 64."""
    kind: StepKind
    """`retriever` finds documents; `reranker` chooses among the documents that retrievers found; `tool` is a call that
    an agent made, and may come several times with one name."""
    documents: Annotated[tuple[Count, ...], Field(max_length=DOCUMENTS_MAX)] = ()
    """Indexes, from 0, of the `documents` of the interaction that the step returned, best first. Only a call may leave
    it out."""
    returned: Count | None = None
    """Number of all documents that the step returned, whether or not they reached the generator: 0 if it looked for
    documents and found none."""
    shared: Count | None = None
    """Of a retriever: number of the returned documents that another retriever of the interaction returned, too."""
    round: Annotated[int, Field(ge=1, le=ROUNDS_MAX)] | None = None
    """Of a call: its round, from 1. Calls of one round were made without the results of each other."""
    query: Annotated[str, StringConstraints(max_length=QUERY_MAX_CHARS)] | None = None
    """Of a call: the one text that it was asked with."""
    arguments: Annotated[dict[str, JsonValue], AfterValidator(partial(small_json, most=ARGUMENTS_MAX_BYTES))] | None = (
        None
    )
    """Of a call: its arguments, at most 4 KiB of JSON, in place of `query`."""
    error: Annotated[str, StringConstraints(pattern=f"^{_NAME.pattern}$")] | None = None
    """Of a call that failed: the kind of its error, such as `timeout`, and never its message."""
    latency_s: Seconds | None = None
    """Of a call: its seconds."""

    side_readers: ClassVar[Mapping[str, Reader]] = {
        "round": scalar,
        "query": own_text,
        "arguments": _whole_arguments,
        "error": _error_kind,
        "latency_s": scalar,
    }

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

    @model_validator(mode="after")
    def _only_calls_have_the_fields_of_calls(self) -> Self:
        if self.kind != "tool":
            given = next((name for name in OF_CALLS if getattr(self, name) is not None), None)
            if given is not None:
                raise ValueError(
                    f"{given} of the {self.kind} {self.name} belongs to a call: give it the kind tool, or leave it out"
                )
            if "documents" not in self.model_fields_set:
                raise ValueError(
                    f"documents of the {self.kind} {self.name} is missing: give a list, which may be empty"
                )
        elif self.query is not None and self.arguments is not None:
            raise ValueError(f"the call {self.name} has query and arguments: give one of them")
        elif self.error is not None and (self.documents or self.returned):
            raise ValueError(
                f"the call {self.name} has the error {self.error} and returned documents: leave one of them out"
            )
        return self

    @property
    def looked_for_documents(self) -> bool:
        """Whether it is known that the step looked for documents, whether or not it found some."""
        return bool(self.documents) or self.returned is not None


def check_steps(steps: tuple[RetrievalStep, ...] | None, left_out: int | None, n_documents: int) -> None:
    """Check the steps of an interaction.

    Args:
        left_out: number of calls that are not among the steps.
        n_documents: number of its documents.

    Raises: ValueError if steps that are no calls have one name, there are too many names, the rounds of calls fall, a
        step has a document that the interaction lacks, or there is no call of which others could be left out.
    """
    if left_out is not None and not any(step.kind == "tool" for step in steps or ()):
        raise ValueError(
            f"steps_left_out is {left_out}, and steps has no call: give the first {STEPS_MAX} calls, or leave it out"
        )
    if steps is None:
        return
    kinds: dict[str, StepKind] = {}
    last = 1
    for step in steps:
        before = kinds.get(step.name)
        kinds[step.name] = step.kind
        if before not in (None, step.kind):
            raise ValueError(f"{step.name} is a {before} and a {step.kind}: give each a name of its own")
        if before is not None and before != "tool":
            raise ValueError(f"two steps are named {step.name}: join them, or give each a name of its own")
        if step.round is not None and step.round < last:
            raise ValueError(
                f"the call {step.name} has the round {step.round} after the round {last}: give the calls in their order"
            )
        last = step.round or last
        beyond = [index for index in step.documents if index >= n_documents]
        if beyond:
            raise ValueError(
                f"the step {step.name} has the document {beyond[0]}, and there are {n_documents}: give indexes of "
                "documents, from 0, and leave out documents that did not reach the generator"
            )
    if len(kinds) > STEP_NAMES_MAX:
        raise ValueError(
            f"steps has {len(kinds)} names, and at most {STEP_NAMES_MAX} are allowed: give tools of one kind one name"
        )


def _none_if_empty(steps: tuple[RetrievalStep, ...] | None) -> tuple[RetrievalStep, ...] | None:
    return steps or None


Steps = Annotated[
    Annotated[tuple[RetrievalStep, ...], Field(max_length=STEPS_MAX)] | None, AfterValidator(_none_if_empty)
]
"""Steps in their order; an empty list counts as not given."""
