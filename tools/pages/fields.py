"""Every field that users fill in: the page of an application's fields, and the fields of labels and metrics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragtide_schemas.alert_rule import AlertRule
from ragtide_schemas.base import WireModel
from ragtide_schemas.declared import MetricDeclaration
from ragtide_schemas.descriptions import descriptions
from ragtide_schemas.feedback import Feedback
from ragtide_schemas.interaction import AnswerUsage, EarlierTurn, RagInteraction, RetrievedDocument
from ragtide_schemas.labels import ClaimLabels, SentenceLabels
from ragtide_schemas.retrieval_steps import RetrievalStep
from ragtide_web.routes.schema_words import type_in_words

_INTRODUCTION = """\
Every field of an interaction, of feedback and of an alert rule, with its type and an example. Four fields are required:
`pipeline`, `question`, `documents` and `response`. An interaction with the fields that most applications fill in:

```python
from ragtide import RagInteraction

interaction = RagInteraction(
    interaction_id="i-17",
    pipeline="shop",
    question="When was the tower built?",
    documents=[{"id": "tower-3", "text": "The tower was built in 1889.", "score": 0.82}, "It is made of iron."],
    response="It was built in 1889.",
    reference_answer="In 1889.",
    segments={"lang": "en", "plan": "free"},
    session_id="s-81",
    turn=0,
)
assert interaction.documents[1].text == "It is made of iron."
```

`submit` takes the same fields by keyword, and never raises ([Python](python.md)). In a file each line is such
an object ([Files](files.md)), and over HTTP each body ([HTTP](http.md)).

- **Unknown fields** are refused with their name. Put fields of your own into `metadata`.
- **Side values** never cost an answer. Times, UUIDs, decimals, sets, NumPy and pandas values, paths, enums, dataclasses
  and Pydantic models become texts, numbers, lists or objects in `metadata`, segments, ids, `usage`, gold scores and
  covariates. What has no plain meaning there, such as NaN, an object of a class or a number outside its range, is left
  out and counted by name (`interaction.left_out`); of too many or too large values the first, or the smallest, stay.
- **The answer's own texts** (question, documents, response, reference answer) are converted or the item is refused:
  a number is its text, half of a surrogate pair becomes the replacement character, and what a program prints of a
  generator, a coroutine or another object is refused, as is a set of documents, which has no order.
- **Null** in an optional field means that the field is left out: in Python, over HTTP, in files and in a plain
  `XADD`. So does a blank text in an optional field that allows none, and a null or blank entry of `segments` or
  `gold_scores`. A null in a required field is refused with the field's name.

`make schemas` writes this page from the models. [The JSON Schemas](schemas/README.md) say the same to programs."""

_TRANSCRIPT: Final = """\
## Messages of an agent

`messages` (or `conversation`) stands in place of question, documents, response, history and steps: the messages of an
agent's run as its framework has them. `submit`, HTTP, brokers and files take it; a plain `XADD` does not.

```python
from ragtide import load

messages = [
    {"role": "user", "content": "Can I return the lamp?"},
    {"role": "assistant", "tool_calls": [
        {"id": "c1", "function": {"name": "search_policies", "arguments": '{"query": "return lamp"}'}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "Lamps can be returned for 14 days."},
    {"role": "assistant", "content": "Yes, for 14 days."},
]
(run,) = load([{"pipeline": "shop", "messages": messages}])
assert run.documents[0].text == "Lamps can be returned for 14 days."
assert (run.calls[0].name, run.calls[0].query, run.calls[0].round) == ("search_policies", "return lamp", 1)
```

The messages may be those of OpenAI (chat, and items of Responses), Anthropic, Gemini, Bedrock, OpenTelemetry GenAI,
LangChain, LlamaIndex, Haystack, Pydantic AI and Vercel's AI SDK. [An example](../examples/agentic_rag) sends those of
an agent with an MCP server: two commands lead to the alert that names its broken tool.

- **The run** is the last question that a call or an answer follows. Messages before it are the history. A run without
  an answer has an empty response, and an answer without a call has no documents.
- **Rounds.** Calls of one message are of one round, and so are calls before the first result. A handoff to another
  agent is no call. A call that is repeated with its id and arguments counts once.
- **Documents** are those in the results. A result that only says that something was done (`ok`, a number, a status,
  "has been booked") is no document. A result without a list of documents, such as a row of a table, is one document.
- **Failures.** The error of a call without a result is `no_result`. A result without a call is a call without a round.
- **Limits.** The first 64 calls are kept, `steps_left_out` counts the others, and the documents of all calls stay, up
  to 500. A text is cut after 1,000,000 characters. `left_out` counts what was cut.
- **A field beside `messages` wins.** In files the messages are read if no column has documents."""


_NOTES: Final[Mapping[type[WireModel], str]] = {
    RagInteraction: "",
    RetrievedDocument: "In `documents` of an interaction; a string is a document with this text.",
    RetrievalStep: "In `steps` of an interaction ([steps of retrieval](metrics.md#steps-of-retrieval), [calls of "
    "tools](metrics.md#calls-of-tools)).",
    EarlierTurn: "In `history` of an interaction ([History](python.md#history)).",
    AnswerUsage: "In `usage` of an interaction. Each number has a metric, such as `answer.latency_s` "
    "([Numbers of the answer](metrics.md#numbers-of-the-answer)).",
    Feedback: "[How to send feedback](python.md#feedback).",
    AlertRule: "In `ragtide.toml` as `[[alerts]]`; [Alerts](alerts.md) has complete rules.",
    SentenceLabels: "Labels of sentences, from a labeler of your own or stored in a file.",
    ClaimLabels: "Labels of claims, from a labeler of your own or stored in a file of RAGChecker.",
    MetricDeclaration: "In `declared` of a metric event ([metrics of your own](metrics.md#metrics-of-your-own)).",
}

EXAMPLES: Final[Mapping[type[WireModel], Mapping[str, Any]]] = {
    RagInteraction: {
        "schema_version": 1,
        "interaction_id": "i-17",
        "pipeline": "shop",
        "occurred_at": "2026-11-22T18:00:00Z",
        "question": "When was it built?",
        "documents": [{"text": "Built in 1889."}],
        "response": "In 1889.",
        "response_sentences": ["In 1889."],
        "reference_answer": "It was built in 1889.",
        "gold_scores": {"trace.adherence": 1.0},
        "segments": {"lang": "en"},
        "session_id": "s-81",
        "turn": 1,
        "unit": "session",
        "history": [{"question": "What is the tower?", "response": "A landmark."}],
        "user_id": "alice",
        "cluster": "batch-7",
        "usage": {"latency_s": 1.2, "cost_usd": 0.004},
        "covariates": {"difficulty": 0.3},
        "steps": [{"name": "bm25", "kind": "retriever", "documents": [0]}],
        "steps_left_out": 9,
        "run": "nightly-12",
        "population_size": 500,
        "sampling_probability": 0.1,
        "source": "sdk",
        "metadata": {"model": "m-2"},
    },
    RetrievedDocument: {
        "id": "tower-3",
        "text": "Built in 1889.",
        "score": 0.82,
        "sentences": ["Built in 1889."],
        "metadata": {"page": 4},
    },
    RetrievalStep: {
        "name": "search",
        "kind": "tool",
        "documents": [0, 2],
        "returned": 20,
        "shared": 6,
        "round": 1,
        "query": "return a lamp",
        "arguments": {"order": 7},
        "error": "timeout",
        "latency_s": 0.4,
    },
    EarlierTurn: {"question": "What is the tower?", "response": "A landmark."},
    AnswerUsage: {
        "latency_s": 1.2,
        "prompt_tokens": 1800,
        "completion_tokens": 160,
        "cost_usd": 0.004,
        "retrieval_latency_s": 0.15,
    },
    Feedback: {
        "schema_version": 1,
        "pipeline": "shop",
        "interaction_id": "i-17",
        "gold_scores": {"trace.adherence": 0.0},
        "given_at": "2026-11-22T18:05:00Z",
        "annotator": "ann",
        "inclusion_probability": 0.05,
        "metadata": {"comment": "wrong year"},
    },
    AlertRule: {
        "name": "adherence-drift",
        "kind": "drift",
        "metric": "trace.adherence",
        "statistic": "kappa",
        "threshold": 0.8,
        "direction": "fall",
        "pipeline": "shop-*",
        "labeler": "judge",
        "segment": "lang",
        "adjust": "lang",
        "target": 0.8,
        "quantile": 0.95,
        "covariate": "question_length",
        "baseline": 0.85,
        "baselines": {"de": 0.8, "en": 0.9},
        "baseline_spread": 0.2,
        "baseline_window": "1d",
        "season": "week",
        "learn_n": 500,
        "min_effect": 0.05,
        "hysteresis": 0.02,
        "run_length": 20000,
        "resolve_run_length": 1000,
        "severity": "page",
    },
    SentenceLabels: {
        "relevant": ["0a", "0b"],
        "utilized": ["0a"],
        "support": {"a": ["0a"]},
        "fully_supported": {"a": True},
        "unsupported": [],
        "unsupported_spans": [{"sentence": "a", "start": 3, "end": 7, "probability": 0.9}],
        "n_document_sentences": 2,
        "document_keys": ["0a", "0b"],
        "response_keys": ["a"],
    },
    ClaimLabels: {
        "answer2response": ["Entailment"],
        "response2answer": ["Neutral"],
        "retrieved2answer": [["Entailment"]],
        "retrieved2response": [["Entailment"]],
        "response_claims": ["The tower was built in 1889."],
        "reference_claims": [["tower", "built in", "1889"]],
    },
    MetricDeclaration: {
        "version": "2",
        "lower": 0,
        "upper": 10,
        "direction": "higher",
        "kind": "algebraic",
        "meaning": "Politeness, as a person rated it.",
        "bands": {"minimum": 4, "good": 6, "excellent": 8},
        "edges": [2, 4, 6, 8],
    },
}
"""An example of each field that users fill in, by model."""


def interaction_page() -> str:
    """Return the page of the fields that an application fills in."""
    models: list[type[WireModel]] = [
        RagInteraction, RetrievedDocument, RetrievalStep, EarlierTurn, AnswerUsage, Feedback, AlertRule,
    ]  # fmt: skip
    parts = ["# Fields of an interaction", _INTRODUCTION, _TRANSCRIPT, *_tables("##", models)]
    return "\n\n".join(parts) + "\n\nNext: [Reading the screen](screen.md)\n"


def labels_part() -> str:
    """Return the fields that a labeler or a metric of a user's own fills in."""
    return "\n\n".join(_tables("###", (SentenceLabels, ClaimLabels, MetricDeclaration)))


def _tables(level: str, models: Sequence[type[WireModel]]) -> Iterator[str]:
    for model in models:
        yield f"{level} {model.__name__}"
        if _NOTES[model]:
            yield _NOTES[model]
        yield _table(model)


def _table(model: type[WireModel]) -> str:
    schema = model.model_json_schema()
    meanings = descriptions(model)
    lines = ["| field | type | meaning | example |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        kind = type_in_words(schema["properties"][name], schema.get("$defs", {}))
        required = ", **required**" if field.is_required() else ""
        meaning = " ".join(meanings.get(name, "").split())
        example = json.dumps(EXAMPLES[model][name], ensure_ascii=False)
        lines.append(f"| `{name}` | {kind}{required}{_default(field.default)} | {meaning} | `{example}` |")
    return "\n".join(lines)


def _default(value: Any) -> str:
    value = getattr(value, "value", value)
    return f", default `{value}`" if isinstance(value, (bool, int, float, str)) and value != "" else ""
