"""The explanation of a change in a few words, for a message or below a table."""

from ..intervals.intervals import Interval
from .explained_change import ExplainedChange

MOST_NAMED = 2
"""Segment values that a sentence names, at most."""


def in_words(change: ExplainedChange) -> str:
    """Return the verdict in a few words, such as `mostly mix: more lang=de (12% to 31%)`."""
    if change.verdict == "mix":
        return f"mostly mix: {_mix(change)}"
    if change.verdict == "within":
        return _within(change)
    if change.verdict == "both":
        return f"both: mix {change.mix.estimate:+.3f}, {_mix(change)}; {_within(change)} {change.within.estimate:+.3f}"
    if change.verdict == "neither":
        return f"neither: mix and change within segments are both smaller than {change.min_effect:.3g}"
    return _unresolved(change)


def _unresolved(change: ExplainedChange) -> str:
    if _sign(change.mix):
        other = f"change within segments ({change.within.lower:+.3f} to {change.within.upper:+.3f})"
        return f"mix {change.mix.estimate:+.3f}, {_mix(change)}; not resolved: {other}"
    if _sign(change.within):
        other = f"change of the mix ({change.mix.lower:+.3f} to {change.mix.upper:+.3f})"
        return f"{_within(change)} {change.within.estimate:+.3f}; not resolved: {other}"
    return f"not resolved: this much data can name a change of {change.resolution:.2g} or more"


def _mix(change: ExplainedChange) -> str:
    way = 1 if change.mix.estimate > 0 else -1
    segments = sorted(
        (segment for segment in change.segments if way * segment.mix > 0), key=lambda segment: -abs(segment.mix)
    )
    kept = [segment for segment in segments[:MOST_NAMED] if abs(segment.mix) >= abs(segments[0].mix) / 2]
    texts = []
    for segment in kept:
        before, after = segment.share[0].estimate, segment.share[1].estimate
        digits = 0 if round(100 * before) != round(100 * after) else 1
        more = "more" if after > before else "less"
        texts.append(f"{more} {segment.name} ({100 * before:.{digits}f}% to {100 * after:.{digits}f}%)")
    return " and ".join(texts)


def _within(change: ExplainedChange) -> str:
    carriers = [segment for segment in change.segments if segment.is_carrier]
    named = " and ".join(
        f"{carrier.name} ({carrier.mean[0]:.3g} to {carrier.mean[1]:.3g})" for carrier in carriers[:MOST_NAMED]
    )
    more = len(carriers) - MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    if change.spread == "few":
        return f"within {named}"
    if change.spread == "all":
        return "within all segments" + (f", most in {named}" if carriers else "")
    return "within segments" + (f", most in {named}" if carriers else "")


def _sign(part: Interval[float, float]) -> int:
    return int(part.lower > 0) - int(part.upper < 0)
