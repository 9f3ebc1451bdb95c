"""The code of docs/otel.md, run as one application with a receiver at the default setting."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.otlp_server import otlp_server

PAGE = Path(__file__).parents[2] / "docs" / "otel.md"

pytestmark = pytest.mark.processes


def test_the_code_of_the_page_sends_a_span_with_pipeline_session_and_user() -> None:
    blocks = re.findall(r"^```python application\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    with otlp_server() as server:
        environment = {**os.environ, "RAGTIDE_OTEL_ENDPOINT": server.url}
        subprocess.run([sys.executable, "-c", "\n".join(blocks)], check=True, timeout=120, env=environment)
        (span,) = server.spans
    assert span.resource["ragtide.pipeline"] == "helpdesk"
    assert (span.attributes["session.id"], span.attributes["user.id"]) == ("s-81", "u-7")
