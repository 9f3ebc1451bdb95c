"""Explained alerts: when an alert says traffic or system, and whether it is right.

    python benchmarks/explained_alerts.py [--runs 100]

Drifts of known cause as in `mix_shift.py`, seeded: 2 to 12 values of one segment, yes-or-no scores, a fall of the mean
by 0.05 or more, after 5,000 interactions. A rule with the true mean as its baseline and a run length of 10,000 fires,
and the search for its cause looks as in the aggregator. Without a change the alarm is a false one. A name is wrong if
it says that a part is certain which is 0, or that a part is the larger which is not.
"""

import argparse
from typing import Final, NamedTuple

import numpy as np
from mix_shift import CAUSES, Change, Scored, drawn, items, prefixes, truth

from ragtide_aggregator.alerts.cause_search import LOOKS, CauseSearch, MomentsNow, SegmentBefore
from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments, Stretches, stretches
from ragtide_schemas import ChangeCause

BEFORE: Final = 5_000
NAMES: Final = {"mix": "mix", "within all": "within", "within one": "within", "both": "both"}


class Explained(NamedTuple):
    """One alert."""

    cause: ChangeCause | None
    later: int
    """Interactions from the alarm to the explanation; the last look without one."""
    is_right: bool
    is_wrong: bool
    located: bool
    """Whether the segment values of a change within were named, and rightly."""


def _moments(found: Scored, values: int) -> SegmentMoments:
    one = prefixes(found, values, np.array([found.scores.size]))
    return SegmentMoments(one.n[0], one.mean[0], one.m2[0])


def _whole(found: Scored) -> SegmentMoments:
    mean = found.scores.mean(keepdims=True)
    return SegmentMoments(np.array([float(found.scores.size)]), mean, ((found.scores - mean) ** 2).sum(keepdims=True))


def explained(rng: np.random.Generator, cause: str) -> Explained | None:
    """Return how the alert of a drift is explained; None if there is no alarm in time."""
    change = drawn(rng, cause)
    while cause != "none" and change.p1 @ change.m1 > change.p0 @ change.m0 - 0.05:
        change = drawn(rng, cause)
    before = items(rng, BEFORE, change.p0, change.m0, yes_no=True, session=1)
    after = items(rng, 40_000 if cause == "none" else 9_000, change.p1, change.m1, yes_no=True, session=1)
    detector = DetectorTable()
    row = detector.add_row()
    detector.configure(row, limit=float(change.p0 @ change.m0), direction="fall", run_length=10_000)
    zeros = np.zeros(after.scores.size, dtype=np.int64)
    alarms, _ = detector.update(zeros.astype(np.intp), after.scores, zeros)
    if not alarms or alarms[0].position + 1 + LOOKS[-1] > after.scores.size:
        return None
    fired, count = alarms[0].position + 1, change.p0.size
    seen = Scored(np.append(before.segments, after.segments), np.append(before.scores, after.scores))

    def until(n: int) -> Scored:
        return Scored(seen.segments[:n], seen.scores[:n])

    values = tuple(f"v={place}" for place in range(count))
    reference, at_alarm = _moments(before, count), _moments(until(BEFORE + fired), count)
    search = CauseSearch((_whole(before), _whole(until(BEFORE + fired))))
    search.segments["v"] = SegmentBefore("v", values, True, reference, at_alarm)
    for later in LOOKS:
        now = until(BEFORE + fired + later)
        moments = _moments(now, count)
        each = {
            value: SegmentMoments(moments.n[[k]], moments.mean[[k]], moments.m2[[k]]) for k, value in enumerate(values)
        }
        search.look(MomentsNow(_whole(now), {"v": each}, INDEPENDENT, (0.0, 1.0)))
        if search.cause is not None:
            return _judged(change, cause, search.cause, later, stretches(reference, moments))
    return Explained(None, LOOKS[-1], False, False, False)


def _judged(change: Change, cause: str, told: ChangeCause, later: int, found: Stretches) -> Explained:
    true = {name: float(part) for name, part in truth(change, found).items()}
    real = {part for part in ("mix", "within") if abs(true[part]) > 1e-9}
    ends = {"mix": (told.mix_lower, told.mix_upper), "within": (told.within_lower, told.within_upper)}
    certain = {part for part, (lower, upper) in ends.items() if lower > 0 or upper < 0}
    larger = "mix" if abs(true["mix"]) > abs(true["within"]) else "within"
    right = told.verdict == NAMES.get(cause) or (cause == "both" and told.verdict == larger)
    wrong = bool(certain - real) or (told.verdict in ("mix", "within") and told.verdict != larger)
    carrier = None if change.segment is None else (f"v={change.segment}",)
    located = right and told.spread == ("all" if cause == "within all" else "few")
    located &= cause == "within all" or told.carriers == carrier
    return Explained(told, later, right, wrong, located)


def _share(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.0f}%" if flags else "-"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="drifts of each cause")
    runs = parser.parse_args().runs
    print("# Explained alerts: traffic or system\n")
    print("Written by `make explained` (`benchmarks/explained_alerts.py`).\n")
    looks = " | ".join(f"by {look:,}" for look in LOOKS)
    print(f"| cause | alerts | {looks} | named right | part certain | wrong | segments named |")
    print("|---" * (6 + len(LOOKS)) + "|")
    for place, cause in enumerate(CAUSES):
        rng = np.random.default_rng((20261122, 15, place))
        found = [alert for alert in (explained(rng, cause) for _ in range(runs)) if alert is not None]
        by = [_share([alert.cause is not None and alert.later <= look for alert in found]) for look in LOOKS]
        partly = [alert.cause is not None and alert.cause.verdict == "unresolved" for alert in found]
        cells = [
            *by,
            _share([alert.is_right for alert in found]),
            _share(partly),
            _share([alert.is_wrong for alert in found]),
        ]
        located = _share([alert.located for alert in found]) if cause.startswith("within") else "-"
        print(f"| {cause} | {len(found)} | {' | '.join(cells)} | {located} |", flush=True)


if __name__ == "__main__":
    main()
