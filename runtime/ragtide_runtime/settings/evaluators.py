"""Settings of the evaluators: the tables `[[evaluators]]`, each a labeler for a part of the traffic."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from .labelers import CascadeSettings, JudgeSettings, LocalSettings, ModelsSettings

SHARED_LIMITS = ("max_in_flight", "requests_per_minute", "tokens_per_minute")
"""Limits of a judge that the processes of a worker divide among them."""

SPEND_LIMITS = ("spend_per_hour_usd", "spend_per_day_usd")


class JudgeOverrides(JudgeSettings):
    """Settings of the judge that an evaluator has instead of those in `[judge]`."""

    @model_validator(mode="after")
    def _a_repeat_needs_verdicts(self) -> Self:
        return self  # checked with the table that it changes, as below

    @model_validator(mode="after")
    def _has_something_to_judge(self) -> Self:
        return self

    @model_validator(mode="after")
    def _a_grammar_is_of_lines(self) -> Self:
        return self


class CascadeOverrides(CascadeSettings):
    """Settings of the cascade that an evaluator has instead of those in `[cascade]`."""

    @model_validator(mode="after")
    def _the_samples_are_apart(self) -> Self:
        return self

    @model_validator(mode="after")
    def _two_labelers(self) -> Self:
        return self


class ModelsOverrides(ModelsSettings):
    """Settings of the models that an evaluator has instead of those in `[models]`."""

    @model_validator(mode="after")
    def _windows_move_on(self) -> Self:
        return self


EvaluatorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,47}$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SegmentName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EvaluatorSettings(BaseModel):
    """A labeler for a part of the traffic."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    name: EvaluatorName
    """Name of the evaluator. It determines the draw: with another name `rate` chooses other interactions."""
    labeler: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    """Its labeler, as in the setting `labeler`."""
    pipelines: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    """Shell-style patterns of the pipelines that it scores."""
    segments: dict[SegmentName, Annotated[tuple[SegmentName, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Segment values that it scores, by segment, such as `{ lang = ["de", "en"] }`: an interaction must have one of the
    values of every segment named here. Empty scores all."""
    rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of these interactions that it scores, chosen by a hash of the id: every worker chooses the same ones."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Name of its judge's model, in place of `judge.model`."""
    judge: JudgeOverrides | None = None
    """Settings that replace those of `[judge]` for it. With a spend limit of its own it has an account of its own."""
    cascade: CascadeOverrides | None = None
    """Settings that replace those of `[cascade]` for it."""
    local: LocalSettings | None = None
    """Settings that replace those of `[local]` for it."""
    models: ModelsOverrides | None = None
    """Settings that replace those of `[models]` for it."""

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.model is not None and self.judge is not None and "model" in self.judge.model_fields_set:
            raise ValueError(f"evaluator {self.name!r} has model and judge.model: write one of them")
        return self

    def takes_pipeline(self, pipeline: str) -> bool:
        """Return whether it scores interactions of a pipeline."""
        return any(fnmatchcase(pipeline, pattern) for pattern in self.pipelines)

    def takes(self, pipeline: str, segments: Mapping[str, str]) -> bool:
        """Return whether an interaction of a pipeline with these segments is one that it draws from."""
        return self.takes_pipeline(pipeline) and all(
            segments.get(name) in values for name, values in self.segments.items()
        )

    def takes_all_of(self, other: "EvaluatorSettings") -> bool:
        """Return whether it surely takes every interaction that another evaluator takes."""
        pipelines = all(any(_covers(mine, pattern) for mine in self.pipelines) for pattern in other.pipelines)
        return pipelines and all(
            name in other.segments and set(other.segments[name]) <= set(values)
            for name, values in self.segments.items()
        )

    @property
    def has_own_account(self) -> bool:
        """Whether its judge has spend limits of its own."""
        return self.judge is not None and any(name in self.judge.model_fields_set for name in SPEND_LIMITS)

    @property
    def has_own_criteria(self) -> bool:
        """Whether its judge asks criteria of its own, and none of the store."""
        return self.judge is not None and "criteria" in self.judge.model_fields_set

    @property
    def account(self) -> str:
        """Name of the account of its judge: with spend limits of its own, one of its own."""
        return f"judge_{self.name.replace('-', '_')}" if self.has_own_account else "judge"

    def tables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each table that it overrides, with the values that are given."""
        for table in ("judge", "cascade", "local", "models"):
            given: BaseModel | None = getattr(self, table)
            values = {} if given is None else {name: getattr(given, name) for name in given.model_fields_set}
            if table == "judge" and self.model is not None:
                values["model"] = self.model
            if values:
                yield table, values


def _covers(pattern: str, other: str) -> bool:
    """Return whether every pipeline of another pattern surely matches a pattern.

    >>> _covers("*", "shop*"), _covers("sh*", "shop*"), _covers("shop*", "shop"), _covers("shop?", "shop*")
    (True, True, True, False)
    """
    if pattern == other:
        return True
    if not is_pattern(other):
        return fnmatchcase(other, pattern)
    return pattern.endswith("*") and not is_pattern(pattern[:-1]) and other.startswith(pattern[:-1])


def is_pattern(name: str) -> bool:
    """Return whether a name of a pipeline is a shell-style pattern."""
    return any(character in name for character in "*?[")


def replaced(table: BaseModel, values: Mapping[str, Any]) -> BaseModel:
    """Return a table of settings with other values, checked as a whole.

    Raises:
        ValueError: the values do not go together with those of the table.
    """
    whole = {name: getattr(table, name) for name in type(table).model_fields}
    try:
        return type(table).model_validate({**whole, **values})
    except ValidationError as error:
        raise ValueError(
            "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
        ) from None
