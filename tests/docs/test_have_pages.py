"""The pages of frameworks and backends: `make instrumentations` runs each block that needs a heavy library."""

import re

import pytest
import yaml
from tests.instrumentations.applications import APPLICATIONS, code_of
from tests.instrumentations.environments import ENVIRONMENTS
from tests.support.doc_pages import blocks_of, page_text, tagged_block

pytestmark = pytest.mark.pure

PAGES = ("haystack", "langchain", "langfuse-phoenix", "llamaindex")


def blocks() -> dict[str, str]:
    """Return the code of all blocks by page and name."""
    return {
        f"{page}: {block.tag}": block.code
        for page in PAGES
        for block in blocks_of(page_text(page))
        if block.language == "python"
    }


def test_every_block_is_run_by_make_instrumentations() -> None:
    assert len(blocks()) >= 6
    run = "\n".join(code_of(application) for application in APPLICATIONS)
    assert [name for name, code in blocks().items() if code not in run] == []


def test_every_block_compiles_and_names_its_environment() -> None:
    for name, code in blocks().items():
        compile(code, name, "exec")
        assert name.partition(": ")[2].split()[0] in ENVIRONMENTS.names


def test_what_a_page_installs_is_in_the_environment() -> None:
    wanted = "\n".join(file.read_text("utf-8") for file in ENVIRONMENTS.requirements.glob("*.txt"))
    for page in PAGES:
        for package in re.findall(r"pip install 'ragtide\[otel\]' (\S+)", page_text(page)):
            assert package in wanted


def test_the_collector_sends_every_span_to_both() -> None:
    found = yaml.safe_load(tagged_block(page_text("langfuse-phoenix"), "collector"))
    traces = found["service"]["pipelines"]["traces"]
    assert set(traces["exporters"]) == set(found["exporters"])
    assert set(traces["receivers"]) == set(found["receivers"])
    assert "ragtide" in found["exporters"]["otlphttp/ragtide"]["endpoint"]
