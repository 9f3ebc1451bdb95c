"""The AsyncAPI document of all streams and messages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, RECORD_GROUP, TRACEPARENT_FIELD, Streams
from ragtide_schemas import Alert, DeadLetter, Dropped, Estimate, Feedback, MetricEvent, RagInteraction
from ragtide_schemas.base import SCHEMA_VERSION
from ragtide_schemas.experiments import Begun, Command, Completed, Execution, Look, Paused

_DESCRIPTION: Final = (
    f"The Redis streams of a ragtide deployment. The field `{DATA_FIELD.decode()}` of an entry is a message as JSON. "
    "Other fields of the entry are described as headers. `XADD` from any language publishes a message. "
    "The number of the partition stands in braces in each key, so that a cluster keeps all keys of a partition in one "
    "slot. A workspace (of a replay or an experiment) has keys of its own: their prefix is `{prefix}.run.{workspace}`."
)


@dataclass(frozen=True, slots=True)
class DescribedStream:
    """A stream, its messages, and the components that add and read them."""

    summary: str
    messages: Sequence[type[BaseModel]] = ()
    written_by: Sequence[str] = ()
    read_by: Sequence[str] = ()
    traced: bool = False
    """Whether entries may carry a trace context."""


STREAMS: Final[Mapping[str, DescribedStream]] = {
    "interactions": DescribedStream(
        f"Interactions to be labeled. Workers read them in the consumer group `{LABEL_GROUP}`.",
        [RagInteraction],
        ["producer", "bridge", "replay", "experiment driver"],
        ["worker", "recorder"],
        traced=True,
    ),
    "metrics": DescribedStream(
        "Scores of labeled interactions. An entry with `unit` `tick` has no scores: the aggregator adds it to end the "
        "sessions of a pipeline whose traffic stopped; other readers skip it.",
        [MetricEvent],
        ["worker", "aggregator"],
        ["aggregator", "recorder", "bridge"],
        traced=True,
    ),
    "feedback": DescribedStream(
        "Gold scores that come after their interaction.", [Feedback], ["producer"], ["aggregator", "recorder"]
    ),
    "estimates": DescribedStream(
        "Estimates of whole pipelines over all time, at most one entry for each in `estimates_interval_s`.",
        [Estimate],
        ["aggregator"],
        ["bridge", "client"],
    ),
    "alerts": DescribedStream(
        "Alerts: an entry when one fires, is explained, or resolves. Each subscriber has a group.",
        [Alert],
        ["aggregator"],
        ["alert subscriber", "recorder", "bridge"],
    ),
    "dead-letters": DescribedStream(
        "Entries that could not be used, with the reason.", [DeadLetter], ["worker", "aggregator", "bridge"], ["client"]
    ),
    "experiment": DescribedStream(
        "The log of an experiment: its plan, every command, every comparison point and its end.",
        [Begun, Command, Look, Paused, Completed],
        ["experiment driver", "experiment control"],
        ["experiment driver", "experiment control"],
    ),
    "executions": DescribedStream(
        "The outcome of each call of an experiment: the id of the answer, or the failure.",
        [Execution],
        ["experiment driver"],
        ["experiment driver"],
    ),
}
"""The streams of a partition by the last part of their key. Only the workspace of an experiment has the last two."""

DROPPED: Final = DescribedStream("Counts of interactions that were dropped before they were labeled, by reason.")
"""The hash `dropped` of a partition."""


def key_of(name: str) -> str:
    """Return the key of a stream with the usual prefix, and `p` for the number of the partition."""
    key: str = getattr(Streams("ragtide", 0), name.replace("-", "_"))
    return key.replace("{0}", "{p}")


@cache
def asyncapi_document() -> dict[str, Any]:
    """Return the AsyncAPI 3.0 document of every stream, its messages, and the components that add and read them."""
    models = list(dict.fromkeys(model for stream in STREAMS.values() for model in stream.messages))
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "ragtide", "version": f"schema version {SCHEMA_VERSION}", "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, stream) for name, stream in STREAMS.items()} | {"dropped": _dropped()},
        "operations": dict(_operations()),
        "components": {
            "messages": {model.__name__: _message(model) for model in models},
            "schemas": schemas["$defs"],
            "parameters": {
                "prefix": {"description": "First part of every key: the setting `prefix`.", "default": "ragtide"},
                "partition": {"description": "Number of the partition, from 0.", "default": "0"},
            },
        },
    }


def _channel(name: str, stream: DescribedStream) -> dict[str, Any]:
    return {
        **_keyed(name),
        "summary": stream.summary,
        "messages": {model.__name__: {"$ref": f"#/components/messages/{model.__name__}"} for model in stream.messages},
        "x-redis": {"type": "stream", "field": DATA_FIELD.decode()},
    }


def _dropped() -> dict[str, Any]:
    counts = {reason.value: {"type": "integer", "minimum": 0} for reason in Dropped}
    payload = {"type": "object", "properties": counts}
    return {
        **_keyed("dropped"),
        "summary": DROPPED.summary,
        "messages": {"Dropped": {"name": "Dropped", "payload": payload}},
        "x-redis": {"type": "hash"},
    }


def _keyed(name: str) -> dict[str, Any]:
    parameters = {parameter: {"$ref": f"#/components/parameters/{parameter}"} for parameter in ("prefix", "partition")}
    key: str = getattr(Streams("{prefix}", 0), name.replace("-", "_"))
    return {"address": key.replace("{0}", "{{partition}}"), "parameters": parameters}


def _message(model: type[BaseModel]) -> dict[str, Any]:
    traced = any(stream.traced for stream in STREAMS.values() if model in stream.messages)
    context = {"type": "string", "description": "W3C trace context."}
    headers = {"headers": {"type": "object", "properties": {TRACEPARENT_FIELD.decode(): context}}} if traced else {}
    summary = (model.__doc__ or "").partition("\n")[0]
    return {
        "name": model.__name__,
        "summary": summary,
        **headers,
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
    }


def _operations() -> Iterable[tuple[str, dict[str, Any]]]:
    for name, stream in STREAMS.items():
        for action, components in (("send", stream.written_by), ("receive", stream.read_by)):
            for component in components:
                verb = "adds" if action == "send" else "reads"
                summary = f"The {component} {verb} {name}."
                if (component, action) == ("recorder", "receive"):
                    summary = f"{summary} The group `{RECORD_GROUP}` keeps entries until they are recorded."
                operation = {
                    "action": action,
                    "channel": {"$ref": f"#/channels/{name}"},
                    "summary": summary,
                    "tags": [{"name": component}],
                }
                yield f"{component} {verb} {name}".replace(" ", "_").replace("-", "_"), operation
