"""A short run of drawn steps on a deployment, and proof that its checks find a lost group."""

import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.chaos.stateful import GROUPS, Driver, drawn, episode

SEED = 7

SOME = 10
"""Steps that are drawn."""

ALWAYS = (*GROUPS, "repartition", "annotate", "give_feedback", "add_again", "kill_redis")
"""Steps that no run leaves out."""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own, whose path may be too long for a Unix socket.
    with tempfile.TemporaryDirectory(prefix="ragtide-stateful-") as name:
        yield Path(name)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


@pytest.mark.heavy
def test_lost_groups_repartitions_annotations_and_kills_change_no_number(folder: Path) -> None:
    chance = random.Random(SEED)
    _, *rest = [*drawn(chance, SOME), *ALWAYS]
    chance.shuffle(rest)
    with ExitStack() as stack:
        driver = Driver(SEED, folder, stack)
        assert [check for check in episode(driver, ["publish", *rest], say) if not check.passed] == []


@pytest.mark.heavy
def test_a_worker_that_takes_an_acknowledgement_as_proof_is_found_out(folder: Path) -> None:
    with ExitStack() as stack:
        driver = Driver(SEED, folder, stack, plant="xack")
        driver.run("publish")
        driver.settle()
        failed = [check.claim for check in episode(driver, ["group_destroyed"], say) if not check.passed]
    assert "every interaction is scored exactly once" in failed
