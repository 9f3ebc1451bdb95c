"""Criteria: questions about an answer in a user's own words, each of which becomes a metric. No I/O."""

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import blake2b
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from .base import AnswerModel, Name, Probability, UtcTime, Value, WireInterval, WireModel
from .declared import MetricDeclaration
from .limits import SEGMENTS_MAX
from .metric_definitions import CRITERIA_FAMILY
from .metrics import Bands, Direction, Kind, MetricDefinition, check_bands, check_range
from .printable import STEERING, shortened

CRITERIA_MAX: Final = 50
"""Most criteria of a deployment."""

QUESTION_CHARS: Final = 1_000
"""Most characters of a criterion's question."""

ANSWERS_MAX: Final = 10
"""Most possible answers to a criterion."""

CANNOT_TELL: Final = "cannot_tell"
"""The answer to a criterion if the texts do not decide it: the metric is then absent."""

RULES_VERSION: Final = 1
"""Version of the rules by which a judge answers criteria (`prompts/criteria.en.md` in ragtide_consumers): answers by
other rules are other numbers."""

SCALES: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "yes_no": {"yes": 1.0, "no": 0.0},
        "1-5": {str(number): float(number) for number in range(1, 6)},
    }
)
"""Answers and their values, by the name of the scale."""

Need = Literal["question", "documents", "response", "reference", "history", "calls"]
"""A text that a criterion needs: `reference` is the reference answer, `history` are the earlier turns, `calls` are the
calls of tools in an agent's run."""

_NEEDS_BY_PART: Final[Mapping[str, Need]] = {"answer": "response", "reference_answer": "reference"}
"""Texts that have another name in `parts`."""

SESSION_NEEDS: Final[tuple[Need, ...]] = ("question", "response")
"""Texts that a criterion about a whole session may need: the lines of the user, and those of the system."""

_OWN_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_STEERS: Final = re.compile(f"[{STEERING}]")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if steering := _STEERS.search(line):
        raise ValueError(f"has the control character U+{ord(steering[0]):04X}: remove it")
    return line


def _known_name(name: str) -> str:
    if name in BUILT_IN or _OWN_NAME.fullmatch(name):
        return name
    raise ValueError(
        f"must be lower-case letters, digits and underscores, at most 64, or one of {', '.join(BUILT_IN)}; "
        f"got {shortened(name)!r}"
    )


def folded(answer: str) -> str:
    """Return an answer in the form in which answers are compared.

    >>> folded("Cannot_Tell"), folded("  not  at all ")
    ('cannot tell', 'not at all')
    """
    return " ".join(answer.casefold().replace("_", " ").split())


def _distinct_answers(values: dict[str, float]) -> dict[str, float]:
    forms = [folded(answer) for answer in values]
    for answer, form in zip(values, forms, strict=True):
        if not form:
            raise ValueError("an answer is empty: give each answer a word")
        if form == folded(CANNOT_TELL):
            raise ValueError(f"the answer {answer!r} is always possible and has no value: leave it out")
        if forms.count(form) > 1:
            raise ValueError(f"two answers read {answer!r} alike: give them different words")
    if len(set(values.values())) < 2:
        raise ValueError("all answers have the same value: give at least two values")
    return values


_Answer = Annotated[
    str, StringConstraints(min_length=1, max_length=40, strip_whitespace=True), AfterValidator(_one_line)
]
_Question = Annotated[
    str,
    StringConstraints(min_length=1, max_length=QUESTION_CHARS, strip_whitespace=True),
    AfterValidator(_one_line),
]
_SegmentValues = Annotated[tuple[Name, ...], Field(min_length=1)]

CriterionState = Literal["asked", "paused", "in the settings", "too many", "not possible"]
"""`in the settings`: the settings have the same name; `too many`: there are more than `CRITERIA_MAX`; `not possible`:
this release cannot ask it."""


class Criterion(WireModel):
    """A question about an answer, which a judge answers on a scale; the metric is `criteria.NAME`.

    A built-in criterion has a name such as `answer.relevance`, which is also its metric, and brings its own question,
    scale and needs; only `pipelines`, `segments` and `rate` are set.
    """

    name: Annotated[str, AfterValidator(_known_name)]
    """Name of the criterion, such as `asks_back`, or of a built-in criterion, such as `answer.relevance`."""
    question: _Question
    """The question that the judge answers, in any language."""
    scale: Literal["yes_no", "1-5"] | None = None
    """Possible answers: `yes_no` with the values 1 and 0, or `1-5`; None if `values` has them."""
    values: (
        Annotated[dict[_Answer, Value], Field(min_length=2, max_length=ANSWERS_MAX), AfterValidator(_distinct_answers)]
        | None
    ) = None
    """Possible answers of your own with their values, such as `{ good = 1.0, partly = 0.5, bad = 0.0 }`."""
    needs: Annotated[tuple[Need, ...], Field(max_length=6)] = ()
    """Texts without which the question cannot be answered, and by which alone it is answered, beside the earlier turns
    if there are any; empty for all texts that an interaction has, but not its calls, and among which must be a
    response. `parts` is another name of this field, in which the response may be called `answer`."""
    direction: Direction = Direction.HIGHER
    """Direction in which the metric gets better."""
    bands: Bands | None = None
    """Levels of quality: `minimum`, `good`, `excellent`."""
    pipelines: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100)] = ("*",)
    """Shell-style patterns of the names of pipelines."""
    segments: Annotated[dict[Name, _SegmentValues], Field(max_length=SEGMENTS_MAX)] = Field(default_factory=dict)
    """Values of segments, such as `{ lang = ["de", "en"] }`: an interaction must have one value of each segment."""
    rate: Probability = 1.0
    """Share of the interactions, by a hash of the id, about which the question is asked; of sessions, by their id."""
    unit: Literal["answer", "session"] = "answer"
    """What the question is about: one answer, or a whole conversation after its end (`session`)."""

    @model_validator(mode="before")
    @classmethod
    def _of_built_in(cls, fields: Any) -> Any:
        name = fields.get("name") if isinstance(fields, Mapping) else None
        return {**BUILT_IN[name], **fields} if isinstance(name, str) and name in BUILT_IN else fields

    @model_validator(mode="before")
    @classmethod
    def _parts_are_needs(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping) or "parts" not in fields:
            return fields
        if "needs" in fields:
            raise ValueError(
                f"the criterion {shortened(str(fields.get('name')))} has needs and parts: give one of them"
            )
        parts = fields["parts"]
        needs = [_NEEDS_BY_PART.get(part, part) for part in parts] if isinstance(parts, list | tuple) else parts
        return {**{name: value for name, value in fields.items() if name != "parts"}, "needs": needs}

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        brought = BUILT_IN.get(self.name)
        if brought is not None:
            for field in _FIXED:
                if getattr(self, field) != brought.get(field, type(self).model_fields[field].default):
                    raise ValueError(
                        f"{field} of the built-in criterion {self.name} is fixed: leave it out, or use another name"
                    )
        if (self.scale is None) == (self.values is None):
            raise ValueError(
                f'the criterion {self.name} needs either scale ("yes_no" or "1-5") or values, such as '
                "values = { good = 1.0, bad = 0.0 }"
            )
        check_range(self.metric, self.lower, self.upper)
        check_bands(self.metric, self.bands, self.lower, self.upper, self.direction)
        if len(set(self.needs)) < len(self.needs):
            raise ValueError(f"needs of the criterion {self.name} names a text twice: name each text once")
        if self.unit == "session" and (other := [need for need in self.needs if need not in SESSION_NEEDS]):
            raise ValueError(
                f"needs of the criterion {self.name} names {other[0]}, and a whole session has its turns only: name "
                "question (what the user wrote) or response (what the system answered), or leave needs out for both"
            )
        return self

    @property
    def is_built_in(self) -> bool:
        """Whether the criterion comes with ragtide."""
        return self.name in BUILT_IN

    @property
    def is_of_session(self) -> bool:
        """Whether the question is about a whole conversation."""
        return self.unit == "session"

    @property
    def metric(self) -> str:
        """Qualified name of the metric, such as `criteria.asks_back`."""
        return self.name if self.is_built_in else f"{CRITERIA_FAMILY}.{self.name}"

    @property
    def answers(self) -> Mapping[str, float]:
        """Possible answers with their values, in their order, without `cannot_tell`."""
        return self.values if self.values is not None else SCALES[self.scale or ""]

    @property
    def lower(self) -> float:
        """Smallest value of an answer."""
        return min(self.answers.values())

    @property
    def upper(self) -> float:
        """Largest value of an answer."""
        return max(self.answers.values())

    @property
    def version(self) -> str:
        """Digest of everything that an answer depends on: numbers of different versions are never mixed."""
        read = [RULES_VERSION, self.question, list(self.answers.items()), sorted(self.needs), self.unit]
        return blake2b(json.dumps(read, ensure_ascii=False).encode(), digest_size=8).hexdigest()

    def definition(self) -> MetricDefinition:
        """Return the definition of the criterion's metric, for tables and explanations."""
        answers = ", ".join(f"{answer} = {value:g}" for answer, value in self.answers.items())
        return MetricDefinition(
            self.metric, self.lower, self.upper, self.direction, Kind.ALGEBRAIC, self.question,
            "built-in criterion" if self.is_built_in else "your criterion", f"value of the judge's answer: {answers}",
            self.needs or (SESSION_NEEDS if self.is_of_session else ("response",)), self.bands,
            does_not_tell=_DOES_NOT_TELL.get(self.name, ""), related=_RELATED.get(self.name, ()),
        )  # fmt: skip

    def declaration(self) -> MetricDeclaration:
        """Return the declaration of the metric for events."""
        return MetricDeclaration(
            version=self.version,
            lower=self.lower,
            upper=self.upper,
            direction=self.direction,
            kind=Kind.ALGEBRAIC,
            meaning=self.question
            if len(self.question) <= MEANING_CHARS
            else f"{self.question[: MEANING_CHARS - 3]}...",
            bands=self.bands,
        )

    def asked_of_all(self) -> Self:
        """Return the criterion as one that is asked of every interaction; its version stays."""
        return self.model_copy(update={"rate": 1.0, "pipelines": ("*",), "segments": {}})

    def applies(self, pipeline: str, segments: Mapping[str, str]) -> bool:
        """Return whether the question is asked about interactions of a pipeline with these segments.

        >>> criterion = Criterion(name="short", question="Is it short?", scale="yes_no", pipelines=("shop*",))
        >>> criterion.applies("shop-v2", {}), criterion.applies("docs", {})
        (True, False)
        """
        return self.applies_to_pipeline(pipeline) and all(
            segments.get(name) in values for name, values in self.segments.items()
        )

    def applies_to_pipeline(self, pipeline: str) -> bool:
        """Return whether the question is asked about some interactions of a pipeline."""
        return any(fnmatchcase(pipeline, pattern) for pattern in self.pipelines)


MEANING_CHARS: Final = 200
"""Most characters of a question in the declaration of its metric, which every event has."""

BUILT_IN: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "answer.relevance": {
            "question": "Does the response answer the question that was asked? Whether the answer is correct does not "
            "matter here.",
            "values": {"fully": 1.0, "partly": 0.5, "not at all": 0.0},
            "needs": ("question", "response"),
        },
        "answer.refused": {
            "question": "Does the response decline to answer, or say that it cannot answer, instead of answering?",
            "scale": "yes_no",
            "needs": ("question", "response"),
            "direction": Direction.LOWER,
        },
        "answer.correctness": {
            "question": "Does the response say the same as the reference answer about what was asked? Further "
            "details that do not contradict the reference answer do not matter.",
            "values": {"correct": 1.0, "partly correct": 0.5, "wrong": 0.0},
            "needs": ("question", "response", "reference"),
        },
        "answer.contradiction": {
            "question": "Does the response contradict itself, or contradict an earlier turn of the conversation?",
            "scale": "yes_no",
            "needs": ("response",),
            "direction": Direction.LOWER,
        },
    }
)
"""What each built-in criterion brings, by its name."""

_DOES_NOT_TELL: Final[Mapping[str, str]] = {
    "answer.relevance": "Whether the answer is correct or supported: a wrong answer to the question scores 1.",
    "answer.refused": "Whether a refusal was right: the documents may not have held the answer.",
    "answer.correctness": "Whether the answer is supported by the documents, or correct where the reference is wrong.",
    "answer.contradiction": "Whether the response contradicts the documents: trace.adherence is about that.",
}

_RELATED: Final[Mapping[str, tuple[str, ...]]] = {
    "answer.relevance": ("trace.context_relevance", "trace.adherence"),
    "answer.refused": ("response.empty", "answer.relevance"),
    "answer.correctness": ("ragchecker.f1", "trace.adherence"),
    "answer.contradiction": ("trace.adherence",),
}


_FIXED: Final = ("question", "scale", "values", "needs", "direction", "bands", "unit")


def built_in_criteria() -> tuple[Criterion, ...]:
    """Return the criteria that come with ragtide, with their default settings."""
    return tuple(Criterion.model_validate({"name": name}) for name in BUILT_IN)


class CriterionNumber(WireInterval[float | None], AnswerModel):
    """The present estimate of a criterion in one pipeline, by one labeler."""

    pipeline: str
    """The pipeline."""
    labeler: str
    """Name of the labeler."""
    version: str
    """Version of the question that was asked."""
    is_present: bool
    """Whether it is the present question; an older version has numbers of its own."""
    asked: int
    """Answers of which it was asked."""
    answered: int
    """Answers that have a value."""
    cannot_tell: int
    """Answers whose texts do not decide it, as the judge says."""
    estimate: float | None
    """The mean; null without values."""

    @property
    def other_absent(self) -> int:
        """Answers that failed for another reason."""
        return self.asked - self.answered - self.cannot_tell


class ListedCriterion(AnswerModel):
    """A criterion with its state and its numbers."""

    criterion: Criterion
    """The criterion, of the patterns of pipelines only those that the reader may see."""
    metric: str
    """Its metric."""
    version: str
    """Version of its question."""
    source: str
    """`settings`, or `store` for one that an operator wrote."""
    state: CriterionState
    """Whether it is asked, or why not."""
    by: str | None
    """Person who wrote or changed it last; null for one of the settings."""
    at: UtcTime | None
    """Time of the last change; null for one of the settings."""
    numbers: tuple[CriterionNumber, ...]
    """Its numbers, those of the present question first."""
    rule: str = ""
    """A rule that watches it, in TOML."""
