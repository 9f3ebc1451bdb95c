"""The finding of `ragtide doctor` about the backend to which results go."""

import asyncio

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.telemetry import OtelSettings

from .finding import Finding

SUBJECT = "otel.results"


async def result_findings(settings: OtelSettings) -> list[Finding]:
    """Return a finding on whether the backend takes the form in which results leave; none if they stay here.

    The backend is asked with a request without results.
    """
    if not settings.results:
        return []
    from ragtide_consumers.worker.result_export import SIGNALS, result_exporter  # noqa: PLC0415 - an import of OTLP

    try:
        exporter = result_exporter(settings)
    except ConfigurationError as error:
        return [Finding("problem", SUBJECT, str(error), "workers do not start with these settings")]
    _, sent = SIGNALS[settings.results_form]
    if refusal := await asyncio.to_thread(exporter.refusal):
        return [
            Finding("problem", SUBJECT, f"{exporter.url} takes no {sent}: {refusal}", "the scores are in Redis alone")
        ]
    return [Finding("ok", SUBJECT, f"{sent} go to {exporter.url}")]
