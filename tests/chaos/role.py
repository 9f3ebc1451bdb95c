"""Runs a role as `ragtide ROLE` does, with a clock that can jump, without long waits and, if told to, with a bug.

Arguments: worker [--plant emit]
"""

import argparse
import sys

from tests.chaos import clock


def main() -> None:
    # First of all, because a signal to a process that does not listen yet would end it.
    clock.listen()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("worker", "aggregator", "notify"))
    parser.add_argument("--plant")
    arguments = parser.parse_args()

    import ragtide_consumers.labelers.remote.endpoint as remote_endpoint
    import ragtide_consumers.labelers.remote.replies as remote_replies
    import ragtide_schemas.times
    from ragtide.cli import run
    from ragtide_runtime.telemetry import outages

    clock.jump_in(ragtide_schemas.times, remote_replies)
    # The first wait after a failed call is no setting; the usual half a second would be long for an outage.
    setattr(remote_endpoint, "FIRST_WAIT_S", 0.05)  # noqa: B010 - final for the type checker
    # An owner that was paused tells by a log line that it found its connection cut, however soon after another outage.
    setattr(outages, "AFTERSHOCK_S", 0.0)  # noqa: B010 - final for the type checker
    if arguments.plant:
        from tests.chaos.plants import PLANTS

        PLANTS[arguments.plant]()
    sys.argv = ["ragtide", arguments.role]
    run()
