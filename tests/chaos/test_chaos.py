"""A short chaos run with every kind of fault, and proof that its checks find the bugs they are made for."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.faults import KINDS, Fault, plan
from tests.chaos.running import Options, Run, run
from tests.chaos.traffic import Traffic, traffic

SEED = 20_260_101

SOME = 1000
"""Interactions of the short run."""

FEW = 400
"""Interactions of a run with a planted bug."""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own, whose path may be too long for a Unix socket.
    with tempfile.TemporaryDirectory(prefix="ragtide-chaos-") as name:
        yield Path(name)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def failed(done: Run, things: Traffic) -> list[str]:
    return [check.claim for check in done.checks(things, None) if not check.passed]


def test_faults_of_every_kind_leave_no_trace_in_scores_estimates_alerts_and_dead_letters(folder: Path) -> None:
    things, faults = traffic(SOME, SEED), plan(SEED, 12, SOME)
    assert {fault.kind for fault in faults} == set(KINDS)
    say(f"seed {SEED}")
    quiet = run(Options(interactions=SOME, seed=SEED, workers=2, aggregators=1), things, folder / "quiet", say)
    assert [check for check in quiet.checks(things, None) if not check.passed] == []
    chaos = run(Options(interactions=SOME, seed=SEED, faults=faults), things, folder / "chaos", say)
    say(str(chaos.counts()))
    assert chaos.faults.total() == 12
    assert [check for check in chaos.checks(things, quiet.outcome) if not check.passed] == []


@pytest.mark.heavy
def test_a_worker_that_emits_without_looking_at_its_acknowledgement_is_found_out(folder: Path) -> None:
    """A worker is paused for longer than the idle time: it and another worker finish the same entries."""
    faults = [Fault("pause_worker", after=FEW * share // 8, seconds=2.0, choice=0.0) for share in (1, 3, 5)]
    options = Options(interactions=FEW, seed=SEED, faults=faults, plant="emit", workers=2, aggregators=1)
    things = traffic(FEW, SEED)
    assert "every valid interaction is scored exactly once" in failed(run(options, things, folder / "run", say), things)


@pytest.mark.heavy
def test_an_aggregator_that_commits_without_fencing_is_found_out(folder: Path) -> None:
    """An owner is paused for longer than its lease, and resumes beside its successor; alerts come later."""
    faults = [Fault("pause_owner", after=FEW * share // 8, seconds=1.6, choice=0.0) for share in (1, 2)]
    options = Options(interactions=FEW, seed=SEED, faults=faults, plant="fencing", workers=1)
    things = traffic(FEW, SEED)
    found = failed(run(options, things, folder / "run", say), things)
    assert "every owner paused beyond its lease is refused afterwards" in found
