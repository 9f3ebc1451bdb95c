"""Results as log events `gen_ai.evaluation.result`. Import this module only where OpenTelemetry is installed.

Each event of a result's span becomes a log record of its own: its trace id and span id are those of the span that was
evaluated, and it has the attributes of the result beside those of the score. A log record has no id: interaction,
evaluator with its version, and metric name a score, so a reader that groups by these counts a repeated record once.

Source: OpenTelemetry, semantic conventions for generative AI, "Event: gen_ai.evaluation.result".
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk.trace import ReadableSpan

from ragtide_runtime import __version__

from .result_spans import LABELED_AT, METRIC, OF_RESULT, RESOURCE, SCOPE, SCORE, nanoseconds_of


def encode_events(spans: Sequence[ReadableSpan]) -> ExportLogsServiceRequest:
    """Return the request that sends the scores of results as log events.

    Args:
        spans: the spans of the results.
    """
    scope = InstrumentationScope(name=SCOPE.name, version=__version__)
    logs = ScopeLogs(scope=scope, log_records=[record for span in spans for record in _events(span)])
    resource = Resource(attributes=_pairs(RESOURCE.attributes))
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=resource, scope_logs=[logs])])


def _events(span: ReadableSpan) -> Iterator[LogRecord]:
    evaluated, attributes = span.links[0].context, span.attributes or {}
    of_result = _pairs({name: attributes[name] for name in OF_RESULT})
    observed_ns = nanoseconds_of(datetime.fromisoformat(str(attributes[LABELED_AT])))
    for event in span.events:
        of_score = event.attributes or {}
        yield LogRecord(
            event_name=event.name,
            time_unix_nano=event.timestamp,
            observed_time_unix_nano=observed_ns,
            trace_id=evaluated.trace_id.to_bytes(16, "big"),
            span_id=evaluated.span_id.to_bytes(8, "big"),
            flags=evaluated.trace_flags,
            severity_number=SEVERITY_NUMBER_INFO,
            severity_text="INFO",
            body=AnyValue(string_value=f"{of_score[METRIC]!s} {of_score[SCORE]!s}"),
            attributes=[*_pairs(of_score), *of_result],
        )


def _pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [
        KeyValue(
            key=name, value=AnyValue(string_value=value) if isinstance(value, str) else AnyValue(double_value=value)
        )
        for name, value in attributes.items()
    ]
