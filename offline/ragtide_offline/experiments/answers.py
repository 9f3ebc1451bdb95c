"""Answers of a target: reads the forms that a target may return, and makes the published interaction. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_producers.files.items import Item
from ragtide_producers.given_fields import with_transcript
from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.experiments import OWN_SCORES, Config, Plan
from ragtide_schemas.limits import COST_MAX_USD
from ragtide_schemas.plain_values import LeftOut
from ragtide_schemas.suggestions import unknown

from .errors import AnswerError

_FIELDS: Final = (
    "documents", "response", "prompt_tokens", "completion_tokens", "cost_usd", "metadata", "steps", "steps_left_out",
)  # fmt: skip

TOKENS_MOST: Final = 1_000_000_000
"""Most tokens of one answer. A larger count is an error of the target, and would reach the token limit at once."""

COST_MOST_USD: Final = 1_000_000
"""Most US dollars of one answer."""

SHOWN_CHARS: Final = 60
"""Most characters shown of a wrong value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A config's answer to a question.

    Attributes:
        documents: retrieved documents, best first: texts, or objects with `text` and optional `id`, `score`,
            `metadata`.
        response: text of the answer.
        prompt_tokens: tokens of the prompts.
        completion_tokens: tokens of the completions.
        cost_usd: cost in US dollars.
        metadata: further fields, stored with the interaction.
        steps: calls of tools of an agent, retrievers and rerankers, as in an interaction.
        steps_left_out: calls of the agent that are not in `steps`.
    """

    documents: Sequence[Any]
    response: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Any] = ()
    steps_left_out: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return self.prompt_tokens + self.completion_tokens


def answer_from(value: object) -> Answer:
    """Return the answer in the value of a target: an `Answer`, a pair, or an object with its fields.

    The object may have `messages` in place of documents, response and steps: those of an agent's run. What is left out
    of them is counted in the metadata, as `left_out`.

    Raises:
        AnswerError: the value has another form, or a field of a wrong type.
    """
    if isinstance(value, Answer):
        answer = value
    elif isinstance(value, Mapping):
        value = _without_messages(value)
        for name in value:
            if name not in _FIELDS:
                raise AnswerError(unknown("field of an answer", str(name), _FIELDS))
        if not {"documents", "response"} <= value.keys():
            raise AnswerError(
                f"the answer has the fields {', '.join(map(str, value)) or '(none)'}: give documents, response (or "
                f"messages), and optionally {', '.join(_FIELDS[2:])}"
            )
        answer = Answer(**value)
    elif isinstance(value, tuple | list) and len(value) == 2:
        answer = Answer(documents=value[0], response=value[1])
    else:
        raise AnswerError(f"the answer is {type(value).__name__}: return (documents, response) or a ragtide.Answer")
    if isinstance(answer.documents, str) or not isinstance(answer.documents, Sequence):
        raise AnswerError(f"documents is {type(answer.documents).__name__}: give a list of texts")
    if isinstance(answer.steps, str) or not isinstance(answer.steps, Sequence):
        raise AnswerError(f"steps is {type(answer.steps).__name__}: give a list of steps, or leave it out")
    for name, count in (("prompt_tokens", answer.prompt_tokens), ("completion_tokens", answer.completion_tokens)):
        whole = not isinstance(count, bool) and (
            isinstance(count, int) or (isinstance(count, float) and count % 1 == 0)
        )
        if not (whole and 0 <= count <= TOKENS_MOST):
            raise AnswerError(f"{name} is {_short_text(count)}: give a whole number from 0 to {TOKENS_MOST:,}")
    cost = answer.cost_usd
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= COST_MOST_USD:
        raise AnswerError(f"cost_usd is {_short_text(cost)}: give a number from 0 to {COST_MOST_USD:,}")
    return answer


def _without_messages(value: Mapping[str, Any]) -> Mapping[str, Any]:
    left_out = LeftOut()
    try:
        # The question and the turns before it are those of the item.
        read = with_transcript({**value, "question": "", "history": ()}, left_out)
    except InvalidEntryError as error:
        raise AnswerError(error.detail) from None
    fields = {name: read[name] for name in read if name in value or name in _FIELDS}
    return {**fields, "metadata": {**fields.get("metadata", {}), "left_out": dict(left_out)}} if left_out else fields


def _short_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def interaction_id_of(index: int) -> str:
    """Return the interaction id of the answers to an item, by its index in the order of items.

    >>> interaction_id_of(12)
    'item-12'
    """
    return f"item-{index}"


def interaction_of(
    plan: Plan,
    config: Config,
    index: int,
    *,
    item: Item,
    answer: Answer,
    scores: Mapping[str, float],
    latency_s: float | None = None,
) -> RagInteraction:
    """Return the interaction in which a config's answer is published.

    Args:
        config: that answered.
        item: that was answered.
        answer: the answer. Counts and a cost of 0 are those of a target that does not state them.
        latency_s: seconds of the call; None if it was not measured.

    Raises:
        AnswerError: the answer cannot be scored.
    """
    metadata = {**item.metadata, **answer.metadata, "item_id": item.item_id}
    if scores:
        metadata[OWN_SCORES] = dict(scores)
    try:
        return RagInteraction.from_fields(
            {
                "interaction_id": interaction_id_of(index),
                "pipeline": config.name,
                "question": item.question,
                "documents": _fields_of_models(answer.documents),
                "steps": _fields_of_models(answer.steps) or None,
                "steps_left_out": answer.steps_left_out,
                "response": answer.response,
                "reference_answer": item.reference_answer,
                "segments": dict(item.segments),
                "cluster": item.cluster,
                "history": item.history,
                "usage": {
                    "latency_s": latency_s,
                    "prompt_tokens": answer.prompt_tokens or None,
                    "completion_tokens": answer.completion_tokens or None,
                    "cost_usd": min(answer.cost_usd, COST_MAX_USD) or None,
                },
                "run": plan.run,
                "population_size": plan.population_size,
                "source": "experiment",
                "metadata": metadata,
            }
        )
    except InvalidEntryError as error:
        raise AnswerError(f"the answer cannot be scored: {error.detail}") from None


def _fields_of_models(values: Sequence[Any]) -> list[Any]:
    return [value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value for value in values]


def context_chars(interaction: RagInteraction) -> int:
    """Return the number of characters of all documents of an interaction."""
    return sum(len(document.text) for document in interaction.documents)
