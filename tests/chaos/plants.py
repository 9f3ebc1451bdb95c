"""Bugs to plant into a role, to show that the checks find them."""

import re
from collections.abc import Callable

from ragtide_aggregator.checkpoint import commit
from ragtide_consumers.worker import results
from ragtide_runtime.ownership import owner, ownership
from ragtide_runtime.ownership.owner import rebalance
from ragtide_runtime.redis.scripts import Lua


def emit() -> None:
    """Emit whether an entry is finished or not: two workers that finish the same entry both emit its event."""
    looks = re.compile(r"^    if not finish\(.*?^    end\n.*?^    end\n", re.MULTILINE | re.DOTALL)
    _replace(results.DELIVER, lambda script: looks.sub("    finish(GROUP, entry.id, 3, 4)\n", script))


def xack() -> None:
    """Take XACK alone as the proof that an entry was not finished: a group that is set back emits again."""
    looks = re.compile(r"^    if not finish\(.*?^    end\n.*?^    end\n", re.MULTILINE | re.DOTALL)
    trusts = "    if redis.call('XACK', KEYS[1], GROUP, entry.id) == 0 then return 'finished_before' end\n"
    marks = "    redis.call('ZADD', KEYS[3], string.match(entry.id, '^%d+'), entry.id)\n"
    _replace(results.DELIVER, lambda script: looks.sub(lambda _: trusts + marks, script))


def fencing() -> None:
    """Commit without looking at token and steps, and never notice that the lease was lost."""
    looks = re.compile(r"^if redis\.call\('GET', KEYS\[1\]\).*?(?=^local at, gone)", re.MULTILINE | re.DOTALL)
    _replace(commit.COMMIT, lambda script: looks.sub("", script))
    _replace(ownership.RENEW, lambda _: "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1")
    # The owner does not release the partition to its successor either.
    vars(owner)["rebalance"] = lambda me, owned, partitions: rebalance(me, owned, partitions)._replace(release=0)


PLANTS: dict[str, Callable[[], None]] = {"emit": emit, "xack": xack, "fencing": fencing}
"""Each bug by its name."""


def _replace(script: Lua, change: Callable[[str], str]) -> None:
    changed = change(script.text)
    # A script that was rewritten since must not look as if it had the bug.
    if changed == script.text or len(changed) < 40 or "return 'fenced'" in changed:
        raise AssertionError(f"{script.name} has changed: plant the bug into the new one")
    script.text = changed
