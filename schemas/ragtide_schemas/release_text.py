"""A release in words: verdict, metrics, answers and budget, as every screen and every notification shows them. Pure.

The texts are English, in plain text without markup. Names come from outside: each is shortened and escaped.
"""

from typing import Final

from .alert_words import LONGEST_SENTENCE, cut, line, number, percent, short_name, signed, time
from .headline import MeanOfAll
from .release import MetricVerdict, Release, ReleaseEnd, ReleaseEvent, Verdict

VERDICTS: Final[dict[Verdict, str]] = {
    "worse": "worse",
    "not_worse": "not worse",
    "undecided": "undecided",
    "not_comparable": "not comparable",
}
"""Each verdict in words."""

_ENDS: Final[dict[ReleaseEnd, str]] = {
    "traffic": "one of the versions has no traffic any more",
    "time": "its longest time has passed",
}

_MOST_METRICS: Final = 8
"""Most metrics of which a message has a sentence."""

_TITLE_NAME: Final = 32
"""Most characters of a name in a title, which has three names and two numbers."""


def release_title(release: Release, event: ReleaseEvent) -> str:
    """Return what an alert about a release reports, in one line, with both numbers of the metric that decides."""
    pipeline, old, new = (
        cut(short_name(name), _TITLE_NAME) for name in (release.pipeline, release.from_version, release.to_version)
    )
    if event == "release.opened":
        return f"{pipeline}: {new} serves beside {old}"
    verdict = f"{new} is {VERDICTS[release.verdict]}" + (" than" if "worse" in release.verdict else ", compared with")
    if event == "release.ended":
        verdict = f"the release ended: {verdict}"
    metric = deciding(release)
    numbers = (
        "" if metric is None else f" ({short_name(metric.metric)} {_mean(metric.before)} -> {_mean(metric.after)})"
    )
    return f"{pipeline}: {verdict} {old}{numbers}"


def deciding(release: Release) -> MetricVerdict | None:
    """Return the metric that decides the verdict, or the first one; None without metrics."""
    named = (metric for metric in release.metrics if metric.metric == release.decided_by)
    return next(named, next(iter(release.metrics), None))


def metric_sentence(release: Release, metric: MetricVerdict) -> str:
    """Return one metric of a release: both means with their intervals, the difference, and the verdict on it."""
    name = f"{short_name(metric.metric)} by {short_name(metric.labeler)}"
    if metric.verdict == "not_comparable":
        return cut(f"{name} is not comparable: {line(metric.reason or 'the reason is not known')}.", LONGEST_SENTENCE)
    old, new = short_name(release.from_version), short_name(release.to_version)
    means = f"{old} {mean_words(metric.before)}, {new} {mean_words(metric.after)}"
    difference = "nothing is compared yet" if metric.difference is None else f"difference {difference_words(metric)}"
    more = "".join(f"; {words}" for words in (to_go_words(metric), would_see_words(metric)) if words)
    return cut(f"{name}: {means}; {difference}: {VERDICTS[metric.verdict]}{more}.", LONGEST_SENTENCE)


def mean_words(mean: MeanOfAll | None) -> str:
    """Return a mean with its interval and its number of values."""
    if mean is None or mean.estimate is None:
        return "without a value"
    ends = "" if mean.lower is None or mean.upper is None else f"{number(mean.lower)} to {number(mean.upper)}, "
    return f"{number(mean.estimate)} ({ends}n {mean.n:,})"


def difference_words(metric: MetricVerdict) -> str:
    """Return the difference of a metric within the same time, with its interval."""
    ends = (
        "" if metric.lower is None or metric.upper is None else f" ({signed(metric.lower)} to {signed(metric.upper)})"
    )
    return "not known" if metric.difference is None else f"{signed(metric.difference)}{ends}"


def to_go_words(metric: MetricVerdict) -> str:
    """Return how many answers are missing until a verdict on a metric; empty if that is not known, or reached."""
    if metric.answers_to_go is None or metric.verdict != "undecided":
        return ""
    return f"about {metric.answers_to_go:,} answers to go"


def would_see_words(metric: MetricVerdict) -> str:
    """Return which loss would be found in the next hour; empty if that is not known, or a verdict is reached."""
    if metric.would_see is None or metric.verdict != "undecided":
        return ""
    return f"would see a loss of {number(metric.would_see)} in the next hour"


def answers_sentence(release: Release) -> str:
    """Return how many answers both versions gave, and the share of the new one."""
    since = "" if release.opened_at is None else f" since {time(release.opened_at)}"
    share = (
        ""
        if release.share is None
        else f"; {short_name(release.to_version)} gives {percent(release.share)} of them now"
    )
    pace = "" if release.an_hour is None else f", about {number_of_answers(release.an_hour)} an hour"
    old, new = (f"{short_name(name)} {n:,}" for name, n in zip(_names(release), release.n, strict=True))
    return f"Answers{since}: {old}, {new}{share}{pace}."


def number_of_answers(n: float) -> str:
    """Return a number of answers an hour, in whole answers where there are many.

    >>> number_of_answers(1234.5), number_of_answers(2.25)
    ('1,234', '2.2')
    """
    return f"{n:,.0f}" if n >= 10 else f"{n:.1f}"


def budget_sentence(release: Release) -> str:
    """Return what is promised about false verdicts of the whole release."""
    promise = f"a version as good as before is called worse with a probability of at most {percent(release.alpha)}"
    return f"Over all metrics and looks, {promise}."


def end_sentence(release: Release) -> str | None:
    """Return when and why a release ended; None while it is open."""
    if release.ended_at is None:
        return None
    why = "" if release.end is None else f": {_ENDS[release.end]}"
    return f"The release ended {time(release.ended_at)}{why}."


def release_rows(release: Release) -> tuple[tuple[str, str], ...]:
    """Return all facts about a release in the order of reading: the name of each, and a sentence in one line."""
    shown = release.metrics[:_MOST_METRICS]
    more = len(release.metrics) - len(shown)
    rows = [
        ("Verdict", cut(line(release.sentence), LONGEST_SENTENCE)),
        *(("Metric", metric_sentence(release, metric)) for metric in shown),
        ("Metric", f"And {more:,} more." if more else None),
        ("Answers", answers_sentence(release)),
        ("End", end_sentence(release)),
    ]
    return tuple((name, sentence) for name, sentence in rows if sentence)


def release_facts(release: Release, event: ReleaseEvent) -> tuple[tuple[str, str], ...]:
    """Return short facts about a release with their names, for a table."""
    facts = [
        ("Event", event),
        ("Versions", " -> ".join(short_name(name) for name in _names(release))),
        ("Verdict", VERDICTS[release.verdict]),
    ]
    metric = deciding(release)
    if metric is not None:
        facts += [
            ("Metric", short_name(metric.metric)),
            ("Before", mean_words(metric.before)),
            ("After", mean_words(metric.after)),
            ("Difference", difference_words(metric)),
        ]
        facts += [("To go", words)] if (words := to_go_words(metric)) else []
    return tuple(facts)


def _names(release: Release) -> tuple[str, str]:
    return release.from_version, release.to_version


def _mean(mean: MeanOfAll | None) -> str:
    return "-" if mean is None or mean.estimate is None else number(mean.estimate)
