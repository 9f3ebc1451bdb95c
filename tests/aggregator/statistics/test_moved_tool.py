"""Which tool of an agent moved by itself: each is certain to have moved, certainly as before, or open."""

from collections.abc import Mapping

import numpy as np
import pytest

from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT
from ragtide_aggregator.statistics.causes.moved_step import MovedSteps, StepNumber, moved_steps
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments

TOOLS: Mapping[str, Mapping[str, float]] = {
    "search": {"called": 0.5, "yield": 0.5, "relevant": 0.7, "used": 0.6, "failed": 0.02},
    "orders": {"called": 0.4, "yield": 0.4, "relevant": 0.6, "used": 0.6, "failed": 0.02},
    "fetch": {"relevant": 0.6, "failed": 0.02},
    "book": {"failed": 0.05},
}
"""Share of the runs that begin with a tool, and means; `fetch` is only called later, and `book` looks for nothing."""

CALLED_AT_ALL = {"search": 0.7, "orders": 0.6, "fetch": 0.4, "book": 0.3}
Changes = Mapping[tuple[str, str], float]
SEARCH_WORSE: Changes = {("search", "yield"): -0.25, ("search", "relevant"): -0.25}
ORDERS_WORSE: Changes = {("orders", "yield"): -0.25, ("orders", "relevant"): -0.25}
FETCH_WORSE: Changes = {("fetch", "relevant"): -0.3}


def _moments(tool: str, quantity: str, mean: float, runs: int, rng: np.random.Generator) -> SegmentMoments:
    n = {"called": runs, "yield": int(TOOLS[tool].get("called", 0) * runs)}.get(
        quantity, int(CALLED_AT_ALL[tool] * runs)
    )
    is_yield = quantity == "yield"
    values = rng.beta(3 * mean, 3 * (1 - mean), n) if is_yield else (rng.random(n) < mean).astype(float)
    mean_of = values.mean(keepdims=True)
    return SegmentMoments(np.array([float(n)]), mean_of, ((values - mean_of) ** 2).sum(keepdims=True))


def _share(n: float, share: float) -> SegmentMoments:
    return SegmentMoments(*(np.array([number]) for number in (float(n), share, n * share * (1 - share))))


def steps_of(
    changes: Changes,
    *,
    runs: int = 3_000,
    without: tuple[str, ...] = (),
    calls: Mapping[str, float] | None = None,
    labeled: float = 1.0,
    asked: float = 0.7,
    focus: float | None = None,
) -> MovedSteps:
    """Return what is certain after changes.

    Args:
        changes: of the means of tools.
        runs: before, and since.
        without: tools that the agent does not have.
        calls: part of the calls since of some tools that stays.
        labeled: share of the runs since that have labels.
        asked: share of the runs since with a call of the search, in which it was 0.7 before.
        focus: mean since of the generator's focus, which was 0.7 before; None without a generator.
    """
    rng = np.random.default_rng(5)
    numbers = []
    if focus is not None:
        numbers.append(StepNumber("generator", "generator", "focus", _share(runs, 0.7), _share(runs, focus)))
    for tool, quantities in TOOLS.items():
        for quantity, mean in quantities.items() if tool not in without else ():
            left = 1.0 if calls is None or quantity == "called" else calls.get(tool, 1.0)
            before = _moments(tool, quantity, mean, runs, rng)
            since = _moments(tool, quantity, mean + changes.get((tool, quantity), 0.0), runs, rng)
            kept = np.floor(since.n * left)
            since = SegmentMoments(kept, since.mean, since.m2 * left)
            if quantity == "called":
                of_runs = (_share(runs, CALLED_AT_ALL[tool]), _share(runs, asked if tool == "search" else 0.6))
                numbers.append(StepNumber(tool, "tool", "asked", *of_runs))
                since = _share(labeled * runs, float(since.mean[0]))
            numbers.append(StepNumber(tool, "tool", quantity, before, since))  # type: ignore[arg-type]
    return moved_steps(numbers, confidence=0.95, looks=5, effects=INDEPENDENT)


def named(changes: Changes, *, without: tuple[str, ...] = ()) -> tuple[set[str], set[str]]:
    """Return the tools that moved, and those that may have."""
    steps = steps_of(changes, without=without)
    moved, possible = ({component.step for component in of} for of in (steps.moved, steps.possible))
    assert moved | possible | {step.step for step in steps.unmoved} == TOOLS.keys() - set(without)
    return moved, possible


@pytest.mark.parametrize(
    ("changes", "moved", "possible"),
    [
        pytest.param({}, set(), set(), id="nothing"),
        pytest.param(SEARCH_WORSE, {"search"}, {"fetch"}, id="a tool, after which the agent asks a later tool others"),
        pytest.param(
            {**SEARCH_WORSE, **FETCH_WORSE}, {"search"}, {"fetch"}, id="a later tool may only have followed"
        ),
        pytest.param(FETCH_WORSE, {"fetch"}, set(), id="a later tool, with all first ones as before"),
        pytest.param({("search", "failed"): 0.4}, {"search"}, {"fetch"}, id="more calls fail"),
        pytest.param({("fetch", "failed"): 0.4}, {"fetch"}, set(), id="more calls of a later tool fail"),
        pytest.param({("book", "failed"): 0.4}, {"book"}, set(), id="more bookings fail"),
        pytest.param(
            {**SEARCH_WORSE, **ORDERS_WORSE}, set(), {"search", "orders", "fetch"}, id="both, as with harder questions"
        ),
        pytest.param(
            {("search", "failed"): 0.4, ("orders", "failed"): 0.4}, {"search", "orders"}, {"fetch"}, id="both fail"
        ),
        pytest.param(
            {**SEARCH_WORSE, ("orders", "failed"): 0.4}, {"orders"}, {"search", "fetch"},
            id="one fails, and none is left to compare the other with",
        ),
        pytest.param(
            {**SEARCH_WORSE, ("search", "called"): 0.3, ("orders", "called"): -0.3}, set(), {"search", "fetch"},
            id="a tool that gets other questions",
        ),
        pytest.param(
            {**SEARCH_WORSE, ("orders", "called"): 0.2}, set(), {"search", "fetch"},
            id="other topics, with which more runs begin with another tool",
        ),
    ],
)  # fmt: skip
def test_the_tools_that_moved_and_those_that_may_have(changes: Changes, moved: set[str], possible: set[str]) -> None:
    assert named(changes) == (moved, possible)


def test_a_tool_is_named_as_the_whole_cause_only_if_every_other_tool_is_as_before() -> None:
    assert named(SEARCH_WORSE, without=("fetch",)) == ({"search"}, set())
    assert named(SEARCH_WORSE, without=("fetch", "orders")) == (set(), {"search"})


def test_a_small_fall_is_named_by_comparison_with_a_tool_that_is_as_before_and_not_if_all_fell() -> None:
    less = {("search", "yield"): -0.1, ("search", "relevant"): -0.1}
    assert named(less, without=("fetch",)) == ({"search"}, set())
    all_less = {**less, ("orders", "yield"): -0.1, ("orders", "relevant"): -0.1}
    assert named(all_less, without=("fetch",)) == (set(), {"search", "orders"})


def test_a_tool_whose_relevant_results_are_no_longer_used_is_named_and_not_said_to_be_as_before() -> None:
    unused = {("search", "used"): -0.4}
    assert named(unused, without=("fetch",)) == ({"search"}, set())
    assert named({**unused, ("orders", "used"): -0.4}, without=("fetch",)) == (set(), {"search", "orders"})


def test_a_small_fall_that_only_all_calls_show_is_named_if_no_tool_of_the_first_round_fell() -> None:
    less = {("search", "yield"): -0.02, ("search", "relevant"): -0.12}
    assert named(less, without=("fetch",)) == ({"search"}, set())
    assert named({**less, **ORDERS_WORSE}, without=("fetch",)) == ({"orders"}, set())


@pytest.mark.parametrize(("asked", "moved"), [(0.7, ("search",)), (0.4, ())])
def test_runs_without_labels_are_no_other_tools_that_runs_begin_with(asked: float, moved: tuple[str, ...]) -> None:
    changes = {**SEARCH_WORSE, ("search", "called"): -0.3}
    assert steps_of(changes, without=("fetch",)).moved == ()
    steps = steps_of(changes, without=("fetch",), labeled=0.6, asked=asked)
    assert tuple(step.step for step in steps.moved) == moved
    assert (steps.called, {step.kind for step in steps.unmoved}) == ((), set())


def test_other_tools_that_runs_begin_with_are_said_beside_the_tools() -> None:
    steps = steps_of({("search", "called"): -0.3, ("orders", "called"): 0.2}, without=("fetch",))
    assert [(change.step, change.quantity) for change in steps.called] == [("search", "called"), ("orders", "called")]
    assert (steps.moved, steps.possible) == ((), ())
    assert all(change.quantity != "called" for change in steps.evidence)


def test_a_tool_that_certainly_few_runs_call_is_left_out_and_one_that_few_have_called_so_far_is_open() -> None:
    few = steps_of(SEARCH_WORSE, without=("book",), calls={"fetch": 0.005})
    assert {step.step for step in (*few.moved, *few.possible, *few.unmoved)} == {"search", "orders"}
    new = steps_of({}, runs=150, without=("book",), calls={"fetch": 0.5})
    assert "fetch" in {step.step for step in new.possible}


def test_the_first_change_of_a_tool_that_moved_comes_first() -> None:
    first, *_ = steps_of({**SEARCH_WORSE, ("book", "failed"): 0.4}).evidence
    assert (first.step, first.quantity) == ("search", "yield")
    assert first.upper < 0


def test_the_generator_of_an_agent_is_named_if_no_tool_explains_that_its_answers_lost_the_question() -> None:
    assert {component.step for component in steps_of({}, focus=0.3).moved} == {"generator"}
    steps = steps_of({("search", "failed"): 0.4}, focus=0.3)  # runs give up, because the search fails
    assert {component.step for component in steps.moved} == {"search"}
    assert "generator" in {component.step for component in steps.possible}
