"""The code of docs/connect/opentelemetry.md, run as one application with a receiver at the default setting."""

import os
import subprocess
import sys

import pytest
from tests.support.doc_pages import blocks_of, page_text
from tests.support.otlp_server import otlp_server

pytestmark = pytest.mark.processes


def test_the_code_of_the_page_sends_a_span_for_each_question_with_pipeline_session_and_user() -> None:
    blocks = [block.code for block in blocks_of(page_text("opentelemetry")) if block.tag == "application"]
    assert len(blocks) == 3
    with otlp_server() as server:
        environment = {**os.environ, "RAGTIDE_OTEL_ENDPOINT": server.url}
        subprocess.run([sys.executable, "-c", "\n".join(blocks)], check=True, timeout=120, env=environment)
        plain, span = server.spans
    assert {one.resource["ragtide.pipeline"] for one in (plain, span)} == {"helpdesk"}
    assert plain.trace_id != span.trace_id
    assert (span.attributes["session.id"], span.attributes["user.id"]) == ("s-81", "u-7")
