"""Names by which the spans of a deployment become interactions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ragtide_runtime.settings.producers import IngestSettings
from ragtide_runtime.user_ids import UserIds

from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingOptions:
    """How spans become interactions."""

    pipeline_attributes: tuple[str, ...] = IngestSettings().pipeline_attributes
    """Attributes of a span or of its resource that name the pipeline, the surest first."""
    default_pipeline: str | None = None
    """Name for traces of a service without a name."""
    question_keys: tuple[str, ...] = QUESTION_KEYS
    answer_keys: tuple[str, ...] = ANSWER_KEYS
    segments: Mapping[str, str] = field(default_factory=dict)
    """Attribute of a span or of its resource, by the name of the segment."""

    retrieval_names: frozenset[str] = frozenset()
    """Names of spans and tools that are retrievals, in lower case."""
    history: bool = True
    """Whether the chat messages before the question are earlier turns; an explicit history always is."""

    user_ids: UserIds = field(default_factory=lambda: UserIds(hashed=False))
    """Pseudonyms in place of the ids of users."""

    @classmethod
    def of(cls, settings: IngestSettings, user_ids: UserIds | None = None) -> Self:
        """Return the options of the settings: their keys come before the known keys."""
        return cls(
            pipeline_attributes=settings.pipeline_attributes,
            default_pipeline=settings.default_pipeline,
            question_keys=(*settings.question_keys, *QUESTION_KEYS),
            answer_keys=(*settings.answer_keys, *ANSWER_KEYS),
            segments=settings.segments,
            retrieval_names=frozenset(name.lower() for name in settings.retrieval_names),
            history=settings.history,
            user_ids=user_ids or UserIds(hashed=False),
        )
