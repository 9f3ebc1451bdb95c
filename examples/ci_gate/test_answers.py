"""The gate as tests: `pytest examples/ci_gate`, in the folder with answers.jsonl. The fixture comes with ragtide."""

import pytest

from ragtide import Summary, score
from ragtide.pytest_plugin import RagtideGate


@pytest.fixture(scope="module")
def scored() -> Summary:
    """Return the scores of the answers, for all tests of this file."""
    return score("answers.jsonl", labeler="local")


def test_answers_are_supported_by_their_documents(ragtide_gate: RagtideGate, scored: Summary) -> None:
    """An undecided gate fails this test: too few answers to say that it is good enough."""
    ragtide_gate(scored, "trace.adherence < 0.8", "trace.adherence.n < 20")


def test_the_search_finds_what_was_asked_for(ragtide_gate: RagtideGate, scored: Summary) -> None:
    """An undecided gate skips this test, so that only a sure loss stops a merge."""
    ragtide_gate(scored, "retrieval.match < 0.4", undecided="skip")
