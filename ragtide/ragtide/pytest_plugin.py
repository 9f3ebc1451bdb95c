"""The pytest plugin: the fixtures `ragtide_gate`, `ragtide_redis` and `ragtide_judge`.

docs/offline/gates.md, "pytest", describes the first, and "Tests of your application" there the other two.

pytest loads this module in every test run of an environment with ragtide, so it imports the rest at the first use.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from ragtide_offline.score.summary import Summary
    from ragtide_schemas import RagInteraction

    from .testing import ScriptedJudge


class RagtideGate:
    """Scores interactions and checks conditions; the value of the fixture `ragtide_gate`."""

    def __call__(
        self,
        data: "Summary | str | Path | Iterable[RagInteraction | Mapping[str, Any]]",
        *fail_if: str,
        baseline: "Summary | str | Path | Iterable[RagInteraction | Mapping[str, Any]] | None" = None,
        undecided: Literal["fail", "skip", "pass"] = "fail",
        **options: Any,
    ) -> "Summary":
        """Return the summary of the scores; fail the test if a condition holds.

        Args:
            data: interactions, a file of them, or a summary of `ragtide.score`.
            fail_if: conditions, such as `trace.adherence < 0.8`.
            baseline: other answers to the same questions, with the same interaction ids, for `.difference`.
            undecided: whether an undecided condition fails, skips or passes the test; without values it never passes.
            options: of `ragtide.score`, such as `labeler="local"`.
        """
        __tracebackhide__ = True
        from ragtide_offline.gates.documents import gate_lines  # noqa: PLC0415 - see the module's docstring
        from ragtide_offline.gates.summary_gate import gate  # noqa: PLC0415
        from ragtide_schemas.suggestions import unknown  # noqa: PLC0415

        if undecided not in ("fail", "skip", "pass"):
            raise ValueError(f"undecided: {unknown('choice', undecided, ('fail', 'skip', 'pass'))}")
        summary = _summary(data, options)
        before = None if baseline is None else _summary(baseline, options)
        policy = "undecided" if undecided == "skip" else undecided
        result = gate(summary, *fail_if, baseline=before, undecided=policy)
        text = "\n".join([*gate_lines(result), *summary.problems[:5]])
        if result.outcome == "fail" or summary.problems:
            pytest.fail(text, pytrace=False)
        if result.outcome == "undecided":
            open_scopes = [
                scope for condition in result.conditions for scope in condition.scopes if scope.outcome == "undecided"
            ]
            if undecided == "skip" and all(scope.measured for scope in open_scopes):
                pytest.skip(text)
            pytest.fail(text, pytrace=False)
        return summary


def _summary(data: Any, options: Mapping[str, Any]) -> "Summary":
    from ragtide_offline.score.interface import score  # noqa: PLC0415 - see the module's docstring
    from ragtide_offline.score.summary import Summary  # noqa: PLC0415

    return data if isinstance(data, Summary) else score(data, **options)


@pytest.fixture
def ragtide_redis() -> Iterator[str]:
    """Yield the URL of an empty Redis that ends with the test (docs/offline/gates.md)."""
    from .testing import embedded_redis  # noqa: PLC0415 - see the module's docstring

    with embedded_redis() as url:
        yield url


@pytest.fixture
def ragtide_judge() -> Iterator["ScriptedJudge"]:
    """Yield a judge whose answers the test writes; it ends with the test (docs/offline/gates.md)."""
    from .testing import ScriptedJudge  # noqa: PLC0415 - see the module's docstring

    with ScriptedJudge() as judge:
        yield judge


@pytest.fixture
def ragtide_gate() -> RagtideGate:
    """Return a function that scores interactions and fails the test if a condition holds (docs/offline/gates.md)."""
    return RagtideGate()
