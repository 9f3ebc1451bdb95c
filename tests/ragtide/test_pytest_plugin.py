"""The fixture `ragtide_gate` in a test run of its own."""

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.processes

TESTS = """
ROWS = [
    {
        "interaction_id": str(number), "pipeline": "shop", "question": "When was it built?",
        "documents": ["The tower was built in 1889."], "response": "The tower was built in 1889.",
    }
    for number in range(30)
]

def test_passes(ragtide_gate):
    summary = ragtide_gate(ROWS, "trace.adherence.mean < 0.1", "trace.adherence.n < 30", labeler="local")
    assert summary.to_frame is not None

def test_fails(ragtide_gate):
    ragtide_gate(ROWS, "trace.adherence.n < 100", labeler="local")

def test_undecided_fails(ragtide_gate):
    ragtide_gate(ROWS, "trace.adherence.difference < 0", baseline=ROWS, labeler="local")

def test_undecided_skips(ragtide_gate):
    ragtide_gate(ROWS, "trace.adherence.difference < 0", baseline=ROWS, labeler="local", undecided="skip")

def test_undecided_passes(ragtide_gate):
    ragtide_gate(ROWS, "trace.adherence.difference < 0", baseline=ROWS, labeler="local", undecided="pass")

def test_nothing_never_passes(ragtide_gate):
    ragtide_gate([], "trace.adherence < 0", labeler="local", undecided="pass")

def test_nothing_is_never_skipped(ragtide_gate):
    ragtide_gate([], "trace.adherence < 0", labeler="local", undecided="skip")
"""


def test_a_gate_passes_fails_and_skips_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-rA")
    result.assert_outcomes(passed=2, failed=4, skipped=1)
    result.stdout.fnmatch_lines(["*fail: trace.adherence.n < 100*", "*30 is below 100*"], consecutive=False)
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_plugin_loads_nothing_before_the_fixture_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_is_loaded():
            assert not {"numpy", "pydantic", "redis", "faststream", "ragtide_offline"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
