"""Bugs to plant into a role, to show that the checks find them."""

import re
from collections.abc import Callable

from ragtide_aggregator.service import commit
from ragtide_consumers.worker import results
from ragtide_runtime.ownership import lease, owner
from ragtide_runtime.ownership.membership import rebalance
from ragtide_runtime.redis.scripts import Lua


def emit() -> None:
    """Emit whatever XACK returns: two workers that finish the same entry both emit its event."""
    looks = """if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then
    return 'finished_before'
end"""
    _replace(results.DELIVER, lambda script: script.replace(looks, "redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])"))


def fencing() -> None:
    """Commit without looking at token and steps, and never notice that the lease was lost."""
    looks = re.compile(r"^if redis\.call\('GET', KEYS\[1\]\).*?(?=^local at, gone)", re.MULTILINE | re.DOTALL)
    _replace(commit.COMMIT, lambda script: looks.sub("", script))
    _replace(lease.RENEW, lambda _: "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1")
    # The owner does not release the partition to its successor either.
    vars(owner)["rebalance"] = lambda me, owned, partitions: rebalance(me, owned, partitions)._replace(release=0)


PLANTS: dict[str, Callable[[], None]] = {"emit": emit, "fencing": fencing}
"""Each bug by its name."""


def _replace(script: Lua, change: Callable[[str], str]) -> None:
    changed = change(script.text)
    # A script that was rewritten since must not look as if it had the bug.
    if changed == script.text or len(changed) < 40 or "return 'fenced'" in changed:
        raise AssertionError(f"{script.name} has changed: plant the bug into the new one")
    script.text = changed
