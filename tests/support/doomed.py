"""Runs a role that sends itself a signal in the middle of its work, so that no test races with it.

python -m tests.support.doomed worker|aggregator|sessions|ticks --calls 20 --when before|after [--signal KILL|TERM]

The signal comes at a call, counted from 1, that commits results (worker), a step (aggregator), the end of a session
(sessions, in a worker) or the ticks of silent pipelines (ticks, in an aggregator): just before it or just after it.
"""

import argparse
import os
import signal
import sys
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("worker", "aggregator", "sessions", "ticks"))
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--when", choices=("before", "after"), default="before")
    parser.add_argument("--signal", choices=("KILL", "TERM"), default="KILL")
    arguments = parser.parse_args()

    from ragtide.cli import run
    from ragtide_aggregator.checkpoint.commit import Committer
    from ragtide_aggregator.service import ticks
    from ragtide_consumers.worker.results import ResultCommitter
    from ragtide_runtime.redis import session_turns

    owner: Any
    owner, name = {
        "worker": (ResultCommitter, "commit"),
        "aggregator": (Committer, "commit"),
        "sessions": (session_turns, "run_script"),
        "ticks": (ticks, "run_script"),
    }[arguments.role]
    work = getattr(owner, name)
    calls = 0

    def die() -> None:
        os.kill(os.getpid(), signal.Signals[f"SIG{arguments.signal}"])

    async def doomed(self: Any, *given: Any) -> Any:
        nonlocal calls
        if arguments.role == "sessions" and given[0].lua is not session_turns.END:
            return await work(self, *given)
        calls += 1
        if calls == arguments.calls and arguments.when == "before":
            die()
        done = await work(self, *given)
        if calls == arguments.calls and arguments.when == "after":
            die()
        return done

    setattr(owner, name, doomed)
    sys.argv = ["ragtide", "aggregator" if arguments.role in {"aggregator", "ticks"} else "worker"]
    run()


if __name__ == "__main__":
    main()
