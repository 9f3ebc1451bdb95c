"""Runs a role as `ragtide ROLE` does, with a clock that can jump, without long waits and, if told to, with a bug.

python -m tests.chaos.role worker [--plant emit]
"""

import argparse
import sys

from tests.chaos import clock


def main() -> None:
    # First of all, because a signal to a process that does not listen yet would end it.
    clock.listen()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("worker", "aggregator"))
    parser.add_argument("--plant")
    arguments = parser.parse_args()

    import ragtide_consumers.labelers.judge.client as judge_client
    import ragtide_consumers.labelers.judge.labeler as judge_labeler
    import ragtide_consumers.labelers.judge.replies as judge_replies
    import ragtide_schemas.times
    from ragtide.cli import run

    clock.jump_in(ragtide_schemas.times, judge_replies)
    # How long a judge that failed is left alone is no setting; the usual half a minute would be long for an outage.
    setattr(judge_labeler, "LOOK_AGAIN_S", 0.5)  # noqa: B010 - final for the type checker
    setattr(judge_client, "FIRST_WAIT_S", 0.05)  # noqa: B010
    if arguments.plant:
        from tests.chaos.plants import PLANTS

        PLANTS[arguments.plant]()
    sys.argv = ["ragtide", arguments.role]
    run()


if __name__ == "__main__":
    main()
