"""A RAG interaction: the question, the retrieved documents, the response, the earlier turns, the covariates."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from uuid import uuid4

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from .base import (
    UNSAMPLED,
    Count,
    Dollars,
    IsText,
    Metadata,
    Name,
    NotBlank,
    Probability,
    Reader,
    Seconds,
    Size,
    Tokens,
    UtcTime,
    Value,
    VersionedModel,
    WireModel,
    is_left_out,
    read_json_object,
)
from .errors import InvalidEntryError, Reason
from .feedback import GoldScores, check_gold_scores, gold_score
from .limits import (
    COVARIATES_MAX,
    DOCUMENT_TEXT_MAX_CHARS,
    DOCUMENTS_MAX,
    GOLD_SCORES_MAX,
    HISTORY_MAX_CHARS,
    HISTORY_TURNS_MAX,
    QUESTION_MAX_CHARS,
    RESPONSE_MAX_CHARS,
    SEGMENTS_MAX,
    TIME_MAX,
    TIME_MIN,
    VALUE_MAX,
)
from .plain_values import LeftOut, UnfitError, count_left_out, unfit
from .retrieval_steps import RetrievalStep, Steps, check_steps
from .times import from_milliseconds, utc_now
from .value_readers import id_text, metadata_values, name_text, named_fields, named_values, own_text, scalar
from .value_readers import sentences as texts

_DocumentText = Annotated[str, StringConstraints(max_length=DOCUMENT_TEXT_MAX_CHARS), NotBlank, IsText]


class RetrievedDocument(WireModel):
    """One document (or chunk) that the retriever returned."""

    id: Name | None = None
    """The document's id in the user's own store."""
    text: _DocumentText
    """The text that the generator got."""
    score: float | None = None
    """The retriever's score, in its own unit."""
    sentences: Annotated[tuple[str, ...], Field(fail_fast=True)] | None = None
    """The sentences of the text, if the producer splits it; ragtide then uses these sentences."""
    metadata: Metadata = Field(default_factory=dict)
    """Further fields of the document."""

    own_readers: ClassVar[Mapping[str, Reader]] = {"text": own_text}
    side_readers: ClassVar[Mapping[str, Reader]] = {
        "id": id_text,
        "score": scalar,
        "sentences": texts,
        "metadata": metadata_values,
    }


def _text_is_a_document(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


_Document = Annotated[
    RetrievedDocument,
    BeforeValidator(_text_is_a_document, json_schema_input_type=RetrievedDocument | _DocumentText),
]


class EarlierTurn(WireModel):
    """One earlier question of a conversation, with its response."""

    question: Annotated[str, StringConstraints(max_length=HISTORY_MAX_CHARS), NotBlank]
    """The question of the user."""
    response: Annotated[str, StringConstraints(max_length=HISTORY_MAX_CHARS)] = ""
    """The response to it; empty if there was none."""

    own_readers: ClassVar[Mapping[str, Reader]] = {"question": own_text, "response": own_text}


class AnswerUsage(WireModel):
    """Time, tokens and cost of one answer, as the application measured them. What is not known is left out, never 0."""

    latency_s: Seconds | None = None
    """Seconds from the question to the whole response."""
    prompt_tokens: Tokens | None = None
    """Tokens that all model calls of the answer read, those from a cache included."""
    completion_tokens: Tokens | None = None
    """Tokens that all model calls of the answer wrote."""
    cost_usd: Dollars | None = None
    """US dollars of all model calls of the answer."""
    retrieval_latency_s: Seconds | None = None
    """Seconds in which at least one retriever or reranker worked."""

    side_readers: ClassVar[Mapping[str, Reader]] = dict.fromkeys(
        ("latency_s", "prompt_tokens", "completion_tokens", "cost_usd", "retrieval_latency_s"), scalar
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: object) -> object:
        if isinstance(value, bool):
            # Pydantic turns this error into that of the field.
            raise ValueError("is a truth value, and must be a number: leave it out when it is unknown")  # noqa: TRY004
        return value


def _bounded(turns: tuple[EarlierTurn, ...] | None) -> tuple[EarlierTurn, ...] | None:
    size = sum(len(turn.question) + len(turn.response) for turn in turns or ())
    if size > HISTORY_MAX_CHARS:
        raise ValueError(
            f"has {size:,} characters; at most {HISTORY_MAX_CHARS:,} are allowed: send only the last turns"
        )
    return turns or None


History = Annotated[
    Annotated[tuple[EarlierTurn, ...], Field(max_length=HISTORY_TURNS_MAX, fail_fast=True)] | None,
    AfterValidator(_bounded),
]
"""Earlier turns, oldest first; an empty list counts as not given."""


def usable(value: object) -> bool:
    """Return whether a value is a number that a covariate may have."""
    # A whole number may be too large for a float, so the bound comes first.
    return isinstance(value, (int, float)) and abs(value) <= VALUE_MAX and isfinite(value)


Covariates = Annotated[
    Annotated[dict[Name, Value], Field(max_length=COVARIATES_MAX)] | None,
    AfterValidator(lambda covariates: covariates or None),
]
"""Number by name; an empty object counts as not given."""


def _documents(value: Any) -> Any:
    kind = type(value)
    if kind is list or kind is tuple or value is None:
        if value is not None and len(value) > DOCUMENTS_MAX:  # before each of them is looked at
            sizes = {"field_type": "Tuple", "max_length": DOCUMENTS_MAX, "actual_length": len(value)}
            raise PydanticKnownError("too_long", sizes)
        return value
    if isinstance(value, str):
        if value.lstrip()[:1] in {"[", "{"}:
            raise ValueError("is a text that begins a list or an object: give the list itself, not as a text")
        return [value] if value.strip() else value
    if isinstance(value, Set):
        raise ValueError("is a set, which has no order: give a list, best first")  # noqa: TRY004 - as below
    if hasattr(kind, "tolist") and hasattr(kind, "__array__"):
        return value.tolist()
    if isinstance(value, Iterator):
        raise ValueError(unfit(value))  # noqa: TRY004 - Pydantic turns this error into that of the field
    return value


COVARIATES_READER: Final = named_values(scalar, COVARIATES_MAX)


def _read_documents(value: Any, name: str, left_out: LeftOut) -> Any:
    try:
        value = _documents(value)
    except ValueError:
        return value  # the rule of the field refuses it again
    if not isinstance(value, list | tuple):
        return value
    # A number is no document: it may be an id, or a place in an index.
    return [own_text(item, name, left_out) if isinstance(item, str | bytes | Enum) else item for item in value]


def _read_history(value: Any, name: str, left_out: LeftOut) -> Any:
    if not isinstance(value, list | tuple):
        return value
    kept = last_turns(value)
    if len(kept) < len(value):
        count_left_out(left_out, name, len(value) - len(kept))
    return kept


class RagInteraction(VersionedModel):
    """One question, the documents retrieved for it, and the response: the unit that is scored.

    An empty list of documents (nothing was retrieved) and an empty response (such as a refusal) are everyday outcomes.
    Such an interaction is counted, and its other metrics are absent with the reason. A document without a text is
    refused, because the keys of sentences contain the index of the document.
    """

    interaction_id: Name = Field(default_factory=lambda: uuid4().hex)
    """Unique in its pipeline; publishing the same id again within the dedupe window adds no entry."""
    pipeline: Name
    """The RAG pipeline (application, version, variant) that answered; each pipeline has its own estimates."""
    occurred_at: UtcTime = Field(default_factory=utc_now)
    """Time of the response, with a time zone, from 1970 to 2200. The zero time `0001-01-01T00:00:00Z`, which Go and
    .NET write for a time that was never set, counts as not given."""
    question: Annotated[str, StringConstraints(max_length=QUESTION_MAX_CHARS), NotBlank, IsText]
    """The question of the user."""
    documents: Annotated[tuple[_Document, ...], Field(max_length=DOCUMENTS_MAX), BeforeValidator(_documents)]
    """The retrieved documents, best first, or an empty list; a string is a document with this text, in the list or
    alone."""
    response: Annotated[str, StringConstraints(max_length=RESPONSE_MAX_CHARS), IsText]
    """The pipeline's response; an empty text, or only white space, means that there was no response."""
    response_sentences: Annotated[tuple[str, ...], Field(fail_fast=True)] | None = None
    """The sentences of the response, if the producer splits it; ragtide then uses these sentences."""
    reference_answer: Annotated[str, StringConstraints(max_length=RESPONSE_MAX_CHARS), NotBlank, IsText] | None = None
    """The right answer, if it is known."""
    gold_scores: GoldScores = Field(default_factory=dict)
    """Gold scores of this response by metric (`trace.adherence`), from people or a judge that they trust."""
    segments: Annotated[dict[Name, Name], Field(max_length=SEGMENTS_MAX)] = Field(default_factory=dict)
    """Slices to estimate separately, such as `{"lang": "de"}`; use few different values."""
    session_id: Name | None = None
    """Id of the session (conversation) that the question belongs to."""
    turn: Count | None = None
    """Number of this answer in its session, such as 0 for the first."""
    unit: Literal["session"] | None = None
    """`session` for a whole conversation, which workers make of its turns after its end; absent for an answer."""
    history: History = None
    """Earlier turns of the conversation, oldest first, of which the last are kept: at most 20, with 100,000 characters
    together. They give the meaning of a question such as "And for children?"."""
    user_id: Name | None = None
    """Id of the user who asked; a hash is stored instead, unless `hash_user_ids` is off."""
    cluster: Name | None = None
    """Name of a group of answers that depend on each other, such as those of a batch, a customer or a document."""
    usage: AnswerUsage | None = None
    """Time, tokens and cost of the answer, such as `{"latency_s": 1.2, "cost_usd": 0.004}`. Each has a metric."""
    covariates: Covariates = None
    """Numbers that are known before the answer, by name, such as `{"difficulty": 0.3}`; kept with the scores."""
    steps: Steps = None
    """Retrievers, rerankers and calls of tools in their order, with the documents that each returned; each name gets
    metrics of its own. At most 16 names."""
    steps_left_out: Annotated[Count, AfterValidator(lambda number: number or None)] | None = None
    """Number of calls of an agent beyond the first 64, which are not in `steps`."""
    run: Name | None = None
    """Name of the offline run; absent in live traffic."""
    population_size: Size | None = None
    """Number of interactions in the whole run, if it is finite and known."""
    sampling_probability: Probability = 1.0
    """Probability with which the interaction was kept from the traffic; its weight is the inverse. 1 if all traffic is
    sent."""
    source: Name | None = None
    """Source of the interaction, such as `sdk`, a file's name, or a trace exporter."""
    metadata: Metadata = Field(default_factory=dict)
    """Further fields; stored, never interpreted."""

    own_readers: ClassVar[Mapping[str, Reader]] = {
        "pipeline": own_text,
        "run": own_text,
        "question": own_text,
        "documents": _read_documents,
        "response": own_text,
        "reference_answer": own_text,
        "history": _read_history,
        "population_size": scalar,
        "sampling_probability": scalar,
    }
    side_readers: ClassVar[Mapping[str, Reader]] = {
        **dict.fromkeys(("interaction_id", "session_id", "user_id", "cluster", "source"), id_text),
        "response_sentences": texts,
        "gold_scores": named_values(gold_score, GOLD_SCORES_MAX),
        "segments": named_values(name_text, SEGMENTS_MAX),
        "turn": scalar,
        "steps_left_out": scalar,
        "usage": named_fields,
        "covariates": COVARIATES_READER,
        "metadata": metadata_values,
    }

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.population_size is not None and self.run is None:
            raise ValueError("population_size without run: name the finite run it is the size of")
        check_gold_scores(self.gold_scores)
        check_steps(self.steps, self.steps_left_out, len(self.documents))
        return self

    @property
    def is_session(self) -> bool:
        """Whether it is a whole conversation, and not one answer."""
        return self.unit == "session"

    @property
    def calls(self) -> tuple[RetrievalStep, ...]:
        """The calls of tools among its steps, in their order; empty without an agent."""
        return tuple(step for step in self.steps or () if step.kind == "tool")

    @property
    def nothing_retrieved(self) -> bool:
        """Whether the retriever returned no document."""
        return not self.documents

    @property
    def no_response(self) -> bool:
        """Whether the response is empty or only white space."""
        return not self.response.strip()

    def encode(self) -> bytes:
        """Return the model as JSON (UTF-8), without fields that have no value, and without a probability of 1."""
        left_out = UNSAMPLED if self.sampling_probability == 1.0 else None
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude=left_out)

    @classmethod
    def from_entry(cls, entry_id: str, payload: bytes) -> Self:
        """Return the interaction in a stream entry of any client.

        A plain `XADD` may leave out `interaction_id` and `occurred_at`. They are then taken from the entry's id
        (`entry-<id>`, and its milliseconds), so that every delivery of the entry gives the same interaction.

        Raises:
            InvalidEntryError: the payload is not an interaction; the message names field, value and remedy.
        """
        fields = read_json_object(payload)
        if "interaction_id" in fields and "occurred_at" in fields:
            validate: Callable[[Any], Self] = cls.__pydantic_validator__.validate_python
            try:
                return validate(fields)  # most entries are as a producer wrote them
            except ValidationError:
                pass  # either a field counts as left out, or this way has the reason of the refusal
        left_out = LeftOut()
        fields = with_id(fields, f"entry-{entry_id}", left_out)
        if is_left_out(fields.get("occurred_at")):
            fields["occurred_at"] = time = _time_of(entry_id)
            if time is None:
                raise InvalidEntryError(
                    Reason.INVALID, f"occurred_at is missing: add it, because the entry's id {entry_id} is not a time"
                )
        return cls.from_fields(fields).with_left_out(left_out)


def _time_of(entry_id: str) -> datetime | None:
    try:
        time = from_milliseconds(int(entry_id.partition("-")[0]))
    except (ValueError, OverflowError, OSError):
        return None
    return time if TIME_MIN <= time <= TIME_MAX else None


_TEXTS: Final = tuple(EarlierTurn.model_fields)


def last_turns(turns: Sequence[Any]) -> list[Any]:
    """Return the last turns that an interaction may have; older turns are left out.

    A turn that alone is too long is left out with all turns before it.

    >>> last_turns([{"question": "Is it new?", "response": "x" * 100_000}, {"question": "Why?", "response": ""}])
    [{'question': 'Why?', 'response': ''}]

    Args:
        turns: mappings or `EarlierTurn`, oldest first. A turn of another type has no length: validation refuses it.
    """
    kept: list[Any] = []
    size = 0
    for turn in reversed(turns):
        texts = [turn.get(name) if isinstance(turn, Mapping) else getattr(turn, name, None) for name in _TEXTS]
        size += sum(len(text) for text in texts if isinstance(text, str))
        if size > HISTORY_MAX_CHARS or len(kept) == HISTORY_TURNS_MAX:
            break
        kept.append(turn)
    return kept[::-1]


def with_id(fields: Mapping[str, Any], interaction_id: str, left_out: LeftOut) -> dict[str, Any]:
    """Return the fields of an interaction with an id in place of none, or of one that is no id.

    Args:
        interaction_id: the same whenever these fields come again.
        left_out: counts a value that is no id.
    """
    own_id = fields.get("interaction_id")
    if not is_left_out(own_id):
        try:
            id_text(own_id, "interaction_id", left_out)
        except UnfitError:
            count_left_out(left_out, "interaction_id")
        else:
            return dict(fields)
    return {**fields, "interaction_id": interaction_id}
