"""Decides from the state of an experiment which entries its log needs next. No clock, no I/O."""

from collections.abc import Iterator
from typing import Final

from ragtide_aggregator.statistics.comparisons.racing import Elimination
from ragtide_schemas.experiments import DRIVER, RACE, Command, Completed, Evidence, LogEntry, Look, Paused

from .state import ExperimentState

E_VALUE_MAX: Final = 1e300
"""Largest e-value in an entry, because JSON has no infinity."""


def race_decision(state: ExperimentState) -> list[LogEntry]:
    """Return the next comparison point with the stops of the race, or the end; empty while results are missing."""
    running = [status.config.name for status in state.running]
    if state.completed or not running:
        return []
    first, last = (0 if state.all_compared else state.compared), state.next_look()
    if not all(state.results.complete(name, item) for name in running for item in range(first, last)):
        return []
    if state.all_compared:
        return [Completed()]
    eliminations = [] if state.race is None else state.race.try_look(last, state.scores_of(range(first, last)))
    stops = [_stop(state, elimination) for elimination in eliminations]
    one_is_left = len(running) - len(stops) == 1 and len(state.configs) > 1 and not state.plan.race.finish
    return [Look(item=last), *stops, *([Completed()] if one_is_left else [])]


def driver_decision(state: ExperimentState) -> list[LogEntry]:
    """Return stops of configs whose calls keep failing, or a pause at a limit; empty to continue."""
    if state.paused is not None or state.completed:
        return []
    stops: list[LogEntry] = list(_failure_stops(state))
    if stops:
        return stops
    reason = state.limits.reached(state.results.cost_usd, state.results.tokens)
    if not state.running:
        reason = "every config is stopped: resume or clone a config to continue"
    return [] if reason is None else [Paused(reason=reason)]


def _stop(state: ExperimentState, elimination: Elimination) -> Command:
    assert state.race is not None  # noqa: S101 - for the type checker: the race eliminated a config
    loser, leader, plan = state.race.names[elimination.place], state.race.names[elimination.by], state.plan
    difference = elimination.difference
    evidence = Evidence(
        by=leader,
        n=elimination.n,
        item=elimination.item,
        difference=difference.estimate,
        lower=difference.lower,
        upper=difference.upper,
        e_value=min(elimination.evidence, E_VALUE_MAX),
        alpha=elimination.alpha,
        margin=plan.race.margin,
    )
    better = "higher" if plan.higher_is_better else "lower"
    reason = (
        f"after {elimination.n} items {leader} is {abs(difference.estimate):.3f} {better} in {plan.metric}: {loser} "
        f"is at most {plan.race.margin:g} better, at an error probability of {elimination.alpha:.2g}"
    )
    return Command(op="stop", config=loser, by=RACE, reason=reason, evidence=evidence)


def _failure_stops(state: ExperimentState) -> Iterator[Command]:
    for status in state.running if state.plan.same_failures else []:
        failures = state.results.failures_in_a_row.get(status.config.name, [])
        resumed = status.last if status.last is not None and status.last.op == "resume" else None
        count = sum(resumed is None or failure.at > resumed.at for failure in failures)
        if count >= state.plan.same_failures:
            reason = f"{count} calls in a row failed with the same error: {failures[-1].failure}"
            yield Command(op="stop", config=status.config.name, by=DRIVER, reason=reason)
