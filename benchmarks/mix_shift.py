"""Traffic or system: how often the split of a change covers the truth at every look, and names the right cause.

    python benchmarks/mix_shift.py [--runs 500]

Seeded. Traffic has 2 to 12 segment values with unequal shares (Dirichlet, 2 each) and means between 0.5 and 0.95;
scores are yes or no, or Beta(8 m, 8 (1 - m)). A change has one cause:

- mix: one segment value takes on 20% to 80% of the traffic, at the cost of all others;
- within all: every mean falls by the same 0.05 to 0.3;
- within one: the mean of one segment value, drawn by its share, falls by 0.1 to 0.45;
- both: the first two together;
- none.

The truth is the split of the true means and shares, in the groups that the reference stretch forms.

Coverage: runs in which the 95% interval ever missed, looked at every 10 items from item 30 to 2,000 since the change.
The reference stretch has 300 to 5,000 items; in the second table it grows beside the other stretch, as when two
pipelines are compared. In the third, items come in sessions of 5 of one segment value, with intraclass correlation 0.2,
and the design effects are given: 1.8 of scores, 5 of segment values. The mean at fixed shares is held at the true
shares of before.

Names: 300 to 10,000 items since the change, 1,000 to 10,000 before. A drift is larger than the stated resolution if
each of its parts that is not 0 is. Its segments are larger if the change within them is larger than their resolution.

After an alarm: the time of the change is the one that the alarm of a detector estimates, so the scores chose it. A rule
with the true mean as its baseline and a run length of 10,000 watches yes-or-no scores, after 5,000 items before. Drifts
move the mean down by 0.05 or more. Without a change the alarm is a false one. A fifth of the runs.
"""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT, DesignEffects, split_change
from ragtide_aggregator.statistics.causes.mix_verdict import MixVerdict, mix_verdict
from ragtide_aggregator.statistics.causes.standardized import standardized_mean
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments, Stretches, stretches
from ragtide_aggregator.statistics.tables.batches import Floats

CAUSES: Final = ("mix", "within all", "within one", "both", "none")
NAMES: Final = {"mix": "mix", "within all": "within", "within one": "within", "both": "both"}
PARTS: Final = ("total", "mix", "within", "mix_minus_within")
FIRST, LAST, EVERY = 30, 2000, 10
SESSION, CORRELATION = 5, 0.2
ALPHA: Final = 0.05
LATER: Final = (0, 200, 1_000)


class Change(NamedTuple):
    """True shares and means before and after a change."""

    p0: Floats
    m0: Floats
    p1: Floats
    m1: Floats
    segment: int | None
    """The only segment value whose mean changed."""


class Scored(NamedTuple):
    """Items in order: the segment value and the score of each."""

    segments: NDArray[np.intp]
    scores: Floats


def drawn(rng: np.random.Generator, cause: str) -> Change:
    """Return a change with a cause."""
    values = int(rng.integers(2, 13))
    p0, m0 = rng.dirichlet(np.full(values, 2.0)), rng.uniform(0.5, 0.95, values)
    p1, m1, segment = p0, m0, None
    if cause in ("mix", "both"):
        taken = rng.uniform(0.2, 0.8)
        p1 = (1 - taken) * p0 + taken * np.eye(values)[rng.integers(values)]
    if cause in ("within all", "both"):
        m1 = m0 - rng.uniform(0.05, 0.3)
    if cause == "within one":
        segment = int(rng.choice(values, p=p0))
        m1 = m0 - rng.uniform(0.1, 0.45) * np.eye(values)[segment]
    return Change(p0, m0, p1, m1, segment)


def items(rng: np.random.Generator, n: int, shares: Floats, means: Floats, *, yes_no: bool, session: int) -> Scored:
    """Return items; of a session the segment value is the same, and scores repeat with `CORRELATION`."""
    segments = np.repeat(rng.choice(shares.size, -(-n // session), p=shares), session)[:n]
    m = means[segments]
    scores = (rng.random(n) < m) * 1.0 if yes_no else rng.beta(8 * m, 8 * (1 - m))
    if session > 1:
        # With this probability an item has the score of its session, else one of its own.
        first = np.repeat(scores[::session], session)[:n]
        scores = np.where(rng.random(n) < np.sqrt(CORRELATION), first, scores)
    return Scored(segments, np.asarray(scores, dtype=np.float64))


def prefixes(found: Scored, values: int, looks: NDArray[np.intp]) -> SegmentMoments:
    """Return the moments of the first items, at every look; shape (looks, values)."""
    has = found.segments[:, None] == np.arange(values)
    n, total, square = (
        np.cumsum(has * factor, axis=0)[looks - 1]
        for factor in (1.0, found.scores[:, None], found.scores[:, None] ** 2)
    )
    mean = total / np.maximum(n, 1)
    return SegmentMoments.of(n, np.clip(mean, 0, 1), np.maximum(square - n * mean**2, 0))


def truth(change: Change, found: Stretches) -> dict[str, Floats]:
    """Return the true parts, in the groups of the reference stretch."""
    pooled = found.pooled

    def grouped(shares: Floats, means: Floats) -> tuple[Floats, Floats]:
        last = np.where(pooled, shares, 0.0).sum(axis=-1, keepdims=True)
        mean = np.where(pooled, shares * means, 0.0).sum(axis=-1, keepdims=True) / np.maximum(last, 1e-12)
        own = np.where(pooled, 0.0, shares)
        return np.concatenate([own, last], -1), np.concatenate([np.broadcast_to(means, own.shape), mean], -1)

    p0, m0 = grouped(change.p0, change.m0)
    p1, m1 = grouped(change.p1, change.m1)
    mix = (p1 * np.where(found.known, m0, m1)).sum(axis=-1) - (p0 * m0).sum(axis=-1)
    within = (p1 * np.where(found.known, m1 - m0, 0.0)).sum(axis=-1)
    return {"total": mix + within, "mix": mix, "within": within, "mix_minus_within": mix - within}


def missed(rng: np.random.Generator, cause: str, *, grows: bool, session: int) -> dict[str, bool]:
    """Return for one run which intervals ever missed."""
    change = drawn(rng, cause)
    looks = np.arange(FIRST, LAST + 1, EVERY)
    before = looks * rng.choice([1, 2]) if grows else np.array([int(np.exp(rng.uniform(np.log(300), np.log(5000))))])
    effects = DesignEffects(1 + (SESSION - 1) * CORRELATION, SESSION) if session > 1 else INDEPENDENT
    yes_no = bool(rng.random() < 0.5)
    reference, since = (
        prefixes(items(rng, int(at[-1]), p, m, yes_no=yes_no, session=session), p.size, at)
        for at, p, m in ((before, change.p0, change.m0), (looks, change.p1, change.m1))
    )
    found = stretches(reference, since)
    parts, true = split_change(found, alpha=ALPHA, effects=effects), truth(change, found)
    result = {
        name: bool(np.any(np.abs(getattr(parts, name).estimate - true[name]) > getattr(parts, name).half_width))
        for name in PARTS
    }
    fixed = standardized_mean(since, change.p0, alpha=ALPHA, design_effect=effects.scores)
    held = float(change.p0 @ change.m1)
    result["fixed shares"] = bool(np.any((fixed.lower > held) | (fixed.upper < held)))
    return result


class Named(NamedTuple):
    """A drift that was to be named."""

    cause: str
    verdict: str
    right: bool
    is_larger: bool
    """Than the stated resolution."""
    wrong: bool
    """Whether a part was called certain that is 0."""
    spread_right: bool | None
    """Whether the segments were named right; None if the verdict was not about them, or wrong."""
    spread_is_larger: bool
    spread_wrong: bool


def named(rng: np.random.Generator, cause: str) -> Named:
    """Return how one drift was named."""
    change = drawn(rng, cause)
    yes_no = bool(rng.random() < 0.5)
    sizes = rng.integers((1000, 300), 10_001)
    reference, since = (
        prefixes(items(rng, int(n), p, m, yes_no=yes_no, session=1), p.size, np.array([n]))
        for n, p, m in zip(sizes, (change.p0, change.p1), (change.m0, change.m1), strict=True)
    )
    found = stretches(*(SegmentMoments(moments.n[0], moments.mean[0], moments.m2[0]) for moments in (reference, since)))
    verdict = mix_verdict(found, confidence=1 - ALPHA)
    true = truth(change, found)
    sized = [abs(float(true[part])) for part in ("mix", "within") if abs(float(true[part])) > 1e-9]
    certain = {"mix": {"mix"}, "within": {"within"}, "both": {"mix", "within"}}.get(verdict.verdict, set())
    real = {part for part in ("mix", "within") if abs(float(true[part])) > 1e-9}
    right = verdict.verdict == NAMES[cause] if cause in NAMES else not certain
    spread_right, spread_larger, spread_wrong = _spread(verdict, change, cause, abs(float(true["within"])))
    return Named(
        cause,
        verdict.verdict,
        right,
        bool(sized) and min(sized) > verdict.resolution,
        bool(certain - real),
        spread_right,
        spread_larger,
        spread_wrong,
    )


def _spread(verdict: MixVerdict, change: Change, cause: str, size: float) -> tuple[bool | None, bool, bool]:
    if verdict.verdict != "within" or verdict.spread is None or cause not in ("within all", "within one"):
        return None, False, False
    found = verdict.spread
    if cause == "within all":
        right = found.spread == "all"
    else:
        right = found.spread == "few" and found.carriers == (change.segment,)
    return right, size > found.resolution, not right and found.spread is not None


def drifts(runs: int) -> list[Named]:
    """Return how so many drifts of each cause were named."""
    rng = np.random.default_rng((20261122, 9))
    return [named(rng, cause) for _ in range(runs) for cause in CAUSES]


class AtAlarm(NamedTuple):
    """The verdicts on one drift whose time an alarm estimated, so many items after the alarm as in `LATER`."""

    cause: str
    verdicts: tuple[str, ...]
    larger: str
    """The larger of the two true parts."""


def after_alarm(rng: np.random.Generator, cause: str) -> AtAlarm | None:
    """Return how a drift is named after its alarm; None if there is no alarm in time."""
    change = drawn(rng, cause)
    while cause != "none" and change.p1 @ change.m1 > change.p0 @ change.m0 - 0.05:
        change = drawn(rng, cause)
    before = items(rng, 5_000, change.p0, change.m0, yes_no=True, session=1)
    after = items(rng, 40_000 if cause == "none" else 6_000, change.p1, change.m1, yes_no=True, session=1)
    detector = DetectorTable()
    row = detector.add_row()
    detector.configure(row, limit=float(change.p0 @ change.m0), direction="fall", run_length=10_000)
    zeros = np.zeros(after.scores.size, dtype=np.int64)
    alarms, _ = detector.update(zeros.astype(np.intp), after.scores, zeros)
    if not alarms or alarms[0].position + 1 + LATER[-1] > after.scores.size:
        return None
    alarm = alarms[0]
    start = alarm.position + 1 - alarm.change_n
    since = Scored(after.segments[start:], after.scores[start:])
    reference = prefixes(before, change.p0.size, np.array([5_000]))
    looks = prefixes(since, change.p0.size, np.array([alarm.change_n + later for later in LATER]))
    found = [_one(reference, looks, place) for place in range(len(LATER))]
    true = truth(change, found[0])
    larger = "mix" if abs(true["mix"]) > abs(true["within"]) else "within"
    return AtAlarm(cause, tuple(mix_verdict(stretch).verdict for stretch in found), larger)


def _one(reference: SegmentMoments, looks: SegmentMoments, place: int) -> Stretches:
    return stretches(
        SegmentMoments(reference.n[0], reference.mean[0], reference.m2[0]),
        SegmentMoments(looks.n[place], looks.mean[place], looks.m2[place]),
    )


def alarm_table(runs: int) -> Iterator[str]:
    """Yield the lines of the table of names after an alarm."""
    yield "| cause | items after the alarm | alarms | named right | only the larger part | unresolved | named wrong |"
    yield "|---|---|---|---|---|---|---|"
    for place, cause in enumerate(CAUSES):
        rng = np.random.default_rng((20261122, 10, place))
        found = [alarm for alarm in (after_alarm(rng, cause) for _ in range(runs)) if alarm is not None]
        for number, later in enumerate(LATER):
            verdicts = [alarm.verdicts[number] for alarm in found]
            right = [NAMES.get(cause, "neither") == verdict for verdict in verdicts]
            larger = [cause == "both" and alarm.larger == alarm.verdicts[number] for alarm in found]
            unresolved = [verdict == "unresolved" for verdict in verdicts]
            wrong = [not any(each) for each in zip(right, larger, unresolved, strict=True)]
            shares = " | ".join(_share(each) for each in (right, larger, unresolved, wrong))
            yield f"| {cause} | {later:,} | {len(verdicts)} | {shares} |"


def _share(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.1f}%" if flags else "-"


def coverage_table(runs: int) -> Iterator[str]:
    """Yield the lines of the tables of coverage."""
    kinds = (
        ("The reference stretch is fixed", False, 1),
        ("The reference stretch grows as well", True, 1),
        (f"Sessions of {SESSION}, correlation {CORRELATION}, design effects given", False, SESSION),
    )
    for number, (title, grows, session) in enumerate(kinds):
        yield f"\n{title}:\n"
        yield "| cause | " + " | ".join([part.replace("_", " ") for part in PARTS] + ["mean at fixed shares"]) + " |"
        yield "|---" * (len(PARTS) + 2) + "|"
        for place, cause in enumerate(CAUSES):
            rng = np.random.default_rng((20261122, number, place))
            found = [missed(rng, cause, grows=grows, session=session) for _ in range(runs)]
            yield f"| {cause} | " + " | ".join(_share([misses[name] for misses in found]) for name in found[0]) + " |"


def names_table(runs: int) -> Iterator[str]:
    """Yield the lines of the table of names."""
    yield "| cause | larger than the resolution | of these named right | of all named right | a part that is 0 named |"
    yield "|---|---|---|---|---|"
    found = drifts(runs)
    for cause in (*CAUSES, "all"):
        own = [case for case in found if cause in ("all", case.cause)]
        larger = [case for case in own if case.is_larger]
        yield (
            f"| {cause} | {len(larger):,} of {len(own):,} | {_share([case.right for case in larger])} | "
            f"{_share([case.right for case in own])} | {_share([case.wrong for case in own])} |"
        )
    yield "\nThe segments of a change within segments:\n"
    yield "| cause | larger than the resolution | of these named right | of all named right | named wrong |"
    yield "|---|---|---|---|---|"
    for cause in ("within all", "within one"):
        own = [case for case in found if case.cause == cause and case.spread_right is not None]
        larger = [case for case in own if case.spread_is_larger]
        yield (
            f"| {cause} | {len(larger):,} of {len(own):,} | {_share([bool(case.spread_right) for case in larger])} | "
            f"{_share([bool(case.spread_right) for case in own])} | {_share([case.spread_wrong for case in own])} |"
        )


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="runs of each cause")
    runs = parser.parse_args().runs
    print("# Traffic or system: the split of a change\n")
    print("Written by `make mixshift` (`benchmarks/mix_shift.py`).\n")
    print(f"## Runs of {runs:,} in which the 95% interval ever missed")
    print(*coverage_table(runs), sep="\n")
    print(f"\n## Names of {runs:,} drifts of each cause\n")
    print(*names_table(runs), sep="\n")
    print("\n## Names after an alarm, which estimated the time of the change\n")
    print(*alarm_table(max(runs // 5, 1)), sep="\n")


if __name__ == "__main__":
    main()
