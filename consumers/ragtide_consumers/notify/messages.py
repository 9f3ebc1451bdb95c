"""Writes what people read about alerts: a title, a few sentences, facts and a link. Pure.

A message says what changed, from what to what, since when, where the change is concentrated, how sure that is, and
what to look at. It holds no texts of interactions. Names come from outside: each is shortened and escaped.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ragtide_schemas import Alert, ChangeCause, SegmentShare
from ragtide_schemas.diagnosis import DIAGNOSED_N, enough_for_advice
from ragtide_schemas.metric_definitions import METRICS
from ragtide_schemas.printable import printable

from .notification import Notification

LONGEST_TITLE: Final = 150
"""Most characters of a title: as many as Slack's header has."""

LONGEST_SENTENCE: Final = 600
"""Most characters of a sentence."""

LONGEST_NAME: Final = 80
"""Most characters of a name from outside, such as a segment value."""

MOST_ALERTS: Final = 10
"""Most alerts of a group that a message lists."""

MOST_ADVICE: Final = 3
"""Most sentences of advice in a message."""

MOST_SHARES: Final = 3
"""Most segment values whose shares a message states."""

MOST_INTERACTIONS: Final = 3
"""Most ids of interactions in a message."""


@dataclass(frozen=True, slots=True)
class NotificationText:
    """A message about alerts, in plain text without markup."""

    title: str
    """One line, at most `LONGEST_TITLE` characters."""
    sentences: tuple[str, ...]
    """In the order of reading; each is one line."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names with values, such as `("Normal", "0.853")`; empty for a group."""
    link: str | None = None
    """Address of the page of the alert."""

    @property
    def plain(self) -> str:
        """The message below its title as plain text."""
        lines = [*self.sentences]
        if self.facts:
            lines += ["", *(f"{name}: {value}" for name, value in self.facts)]
        if self.link:
            lines += ["", self.link]
        return "\n".join(lines)


def message_text(notification: Notification) -> NotificationText:
    """Return the message for people about a notification."""
    if notification.status == "test":
        return NotificationText("Test message of ragtide", ("This is a test: no alert fires.",), link=notification.url)
    if notification.status == "summary":
        return _summary(notification)
    if len(notification.alerts) == 1:
        return _single(notification, notification.alerts[0])
    return _group(notification)


def headline(alert: Alert) -> str:
    """Return what happened to one alert, in a line without a date."""
    if alert.observed is None or alert.baseline is None:
        return _cut(f"{scope(alert)}: {_line(alert.message)}", LONGEST_TITLE)
    if alert.status == "resolved":
        return _cut(f"{_subject(alert)} is back: {_number(alert.observed)}", LONGEST_TITLE)
    observed, baseline = _number(alert.observed), _number(alert.baseline)
    if alert.baseline_source == "target":
        side = "below" if alert.direction == "fall" else "above"
        return _cut(f"{_subject(alert)} is {side} its target {baseline}: {observed}", LONGEST_TITLE)
    verb = "fell" if alert.direction == "fall" else "rose"
    return _cut(f"{_subject(alert)} {verb} from {baseline} to {observed}", LONGEST_TITLE)


def scope(alert: Alert) -> str:
    """Return pipeline and segment value of an alert, shortened."""
    pipeline = "all pipelines" if alert.pipeline == "*" else short_name(alert.pipeline)
    return f"{pipeline}, {short_name(alert.segment)}" if alert.segment else pipeline


def short_name(name: str) -> str:
    """Return a name from outside, shortened, without control characters and links."""
    return _cut(without_links(printable(name[: 2 * LONGEST_NAME])), LONGEST_NAME)


def without_links(text: str) -> str:
    """Return a text in which no program of a reader finds an address to make a link of.

    >>> without_links("see https://evil.example or www.evil.example")
    'see https[:]//evil.example or www[.]evil.example'
    """
    return re.sub(r"(?i)\bwww\.", lambda found: f"{found[0][:3]}[.]", text.replace("://", "[:]//"))


def facts_of(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Return the facts of one alert, for a table."""
    found = [("Pipeline", "all pipelines" if alert.pipeline == "*" else short_name(alert.pipeline))]
    if alert.segment:
        found.append(("Segment", short_name(alert.segment)))
    found += [("Metric", short_name(alert.metric)), ("Rule", f"{short_name(alert.rule)} ({alert.severity})")]
    if alert.observed is not None:
        interval = ""
        if alert.observed_lower is not None and alert.observed_upper is not None:
            interval = f" ({_number(alert.observed_lower)} to {_number(alert.observed_upper)})"
        found.append(("Now", f"{_number(alert.observed)}{interval} over {alert.observed_n or 0:,} interactions"))
    if alert.baseline is not None:
        found.append(("Normal", f"{_number(alert.baseline)} ({alert.baseline_source or 'given'})"))
    if alert.began_at is not None:
        found.append(("Began", f"about {_time(alert.began_at)}"))
    found.append(("Fired", _time(alert.fired_at)))
    if alert.resolved_at is not None:
        found.append(("Resolved", _time(alert.resolved_at)))
    if alert.labeler:
        found.append(("Labeler", short_name(alert.labeler)))
    if alert.run:
        found.append(("Run", short_name(alert.run)))
    return tuple(found)


def advice(alerts: Iterable[Alert]) -> tuple[str, ...]:
    """Return the diagnoses that the alerts carry, without repetition.

    An alert gives no advice from fewer than 30 interactions, nor while the interval of its mean is the whole range of
    the metric.
    """
    found = dict.fromkeys(
        _cut(_line(sentence), LONGEST_SENTENCE) for alert in alerts if advises(alert) for sentence in alert.diagnosis
    )
    return tuple(found)[:MOST_ADVICE]


def advises(alert: Alert) -> bool:
    """Return whether an alert has enough data for advice: since the change, or since the alert once it is explained."""
    if alert.status == "explained" and alert.cause is not None and alert.cause.n_since >= DIAGNOSED_N:
        return True
    definition = METRICS.get(alert.metric)
    value_range = (-math.inf, math.inf) if definition is None else (definition.lower, definition.upper)
    return enough_for_advice(alert.observed_n, alert.observed_lower, alert.observed_upper, value_range)


def guarantee(alert: Alert) -> str | None:
    """Return how sure an alert is, in a sentence; None for an alert without statistics."""
    if alert.false_discovery_rate is not None:
        return f"At most {100 * alert.false_discovery_rate:.3g}% of all alarms are false, on average."
    if alert.run_length is not None:
        counted = "gold scores" if alert.quantity == "kappa" else "interactions"
        return f"At most one false alarm in {alert.run_length:,.0f} {counted}, on average."
    return None


def concentration(cause: ChangeCause) -> tuple[str, ...]:
    """Return where a change is concentrated, in sentences: other traffic, other answers, or not known."""
    name = short_name(cause.segment)
    verdict = {
        "mix": f"The traffic changed, and not the answers to the same kind of traffic (by {name}).",
        "within": f"The answers changed for the same kind of traffic (by {name}).",
        "both": f"Both the traffic and the answers changed (by {name}).",
        "neither": f"Neither other traffic nor other answers explain the change (by {name}).",
        "unresolved": f"It is not known yet whether the traffic or the answers changed (by {name}).",
    }[cause.verdict]
    found = [verdict, _cut(f"In detail: {_line(cause.text)}.", LONGEST_SENTENCE)]
    found += [_share(share) for share in cause.shares[:MOST_SHARES]]
    if cause.carriers and cause.verdict in {"within", "both"}:
        named = ", ".join(short_name(carrier) for carrier in cause.carriers[:3])
        more = f" and {len(cause.carriers) - 3} more" if len(cause.carriers) > 3 else ""
        found.append(f"It is concentrated in {named}{more}.")
    elif cause.spread == "all":
        found.append(f"All values of {name} changed.")
    found.append(
        f"Other traffic explains {cause.mix:+.3f} ({cause.mix_lower:+.3f} to {cause.mix_upper:+.3f}) and other answers "
        f"{cause.within:+.3f} ({cause.within_lower:+.3f} to {cause.within_upper:+.3f}), {100 * cause.confidence:.3g}% "
        f"sure, from {cause.n_before:,} interactions before and {cause.n_since:,} since."
    )
    return tuple(found)


def _share(share: SegmentShare) -> str:
    now, before = f"{100 * share.since:.3g}%", f"{100 * share.before:.3g}%"
    text = (
        f"{short_name(share.value)} is {now} of the traffic since the alert ({100 * share.since_lower:.3g}% to "
        f"{100 * share.since_upper:.3g}%), and was {before} before ({100 * share.before_lower:.3g}% to "
        f"{100 * share.before_upper:.3g}%)"
    )
    if share.mean_before is None or share.mean_since is None:
        return f"{text}."
    return f"{text}; its mean went from {_number(share.mean_before)} to {_number(share.mean_since)}."


def _single(notification: Notification, alert: Alert) -> NotificationText:
    prefix = {"explained": "Cause known: ", "resolved": "Resolved: "}.get(notification.status, "")
    if notification.status == "firing" and notification.repeat:
        prefix = "Still firing: "
    title = headline(alert)
    sentences: list[str] = []
    if alert.observed is None:
        message = _line(alert.message)
        if not title.endswith(message):
            sentences.append(_cut(message, LONGEST_SENTENCE))
    elif alert.status == "resolved":
        sentences.append(_back(alert))
    else:
        sentences += _changed(alert)
    if alert.status != "resolved":
        if alert.cause is not None:
            sentences += concentration(alert.cause)
        sentences += _sure_and_next([alert])
    if notification.repeat:
        sentences.append(
            f"This was sent {notification.repeat:,} {'time' if notification.repeat == 1 else 'times'} before."
        )
    sentences += _others(notification)
    return NotificationText(_cut(prefix + title, LONGEST_TITLE), tuple(sentences), facts_of(alert), notification.url)


def _group(notification: Notification) -> NotificationText:
    alerts = notification.alerts
    firing = [alert for alert in alerts if alert.status != "resolved"]
    where = _pipelines(alerts)
    if not firing:
        title = f"Resolved: {len(alerts)} alerts of {where}"
    else:
        metrics = {alert.metric for alert in firing}
        moved = {alert.direction for alert in firing if alert.observed is not None}
        same = len(moved) == 1 and all(alert.observed is not None for alert in firing) and len(metrics) == len(firing)
        verb = ("fell" if moved == {"fall"} else "rose") if same else ""
        since = min(alert.fired_at for alert in firing)
        what = f"{len(metrics)} metrics of {where} {verb}" if same else f"{len(firing)} alerts of {where} fire"
        repeated = "Still firing: " if notification.repeat else ""
        title = f"{repeated}{what} since {since:%H:%M} UTC"
    sentences: list[str] = []
    began = [alert.began_at for alert in firing if alert.began_at is not None]
    if began:
        sentences.append(f"The first change began about {_time(min(began))}.")
    sentences += _listed(alerts)
    causes = [alert for alert in firing if alert.cause is not None]
    if causes and causes[0].cause is not None:
        sentences += concentration(causes[0].cause)[:1]
    sentences += _sure_and_next(firing)
    sentences += _others(notification)
    return NotificationText(_cut(title, LONGEST_TITLE), tuple(sentences), link=notification.url)


def _summary(notification: Notification) -> NotificationText:
    n = notification.n_withheld
    where = f" about {_pipelines(notification.alerts)}" if notification.alerts else ""
    title = f"{n:,} {'message' if n == 1 else 'messages'}{where} withheld"
    first = "Too many messages came within a short time. This summary replaces them."
    return NotificationText(_cut(title, LONGEST_TITLE), (first, *_listed(notification.alerts)), link=notification.url)


def _pipelines(alerts: Sequence[Alert]) -> str:
    names = list(dict.fromkeys(alert.pipeline for alert in alerts))
    if len(names) != 1:
        return f"{len(names):,} pipelines"
    return "all pipelines" if names[0] == "*" else short_name(names[0])


def _listed(alerts: Sequence[Alert]) -> list[str]:
    lines = [
        _cut(("- resolved: " if alert.status == "resolved" else "- ") + headline(alert), LONGEST_TITLE + 20)
        for alert in alerts[:MOST_ALERTS]
    ]
    more = len(alerts) - MOST_ALERTS
    return [*lines, f"- and {more:,} more"] if more > 0 else lines


def _changed(alert: Alert) -> list[str]:
    interval = ""
    if alert.observed_lower is not None and alert.observed_upper is not None:
        interval = f", between {_number(alert.observed_lower)} and {_number(alert.observed_upper)}"
    level = (
        f"{_statistic(alert)} is {_number(alert.observed)} over the last {alert.observed_n or 0:,} "
        f"{'interaction' if alert.observed_n == 1 else 'interactions'}{interval}. {_normal(alert)}"
    )
    found = [level]
    if alert.began_at is not None:
        found.append(f"The change began about {_time(alert.began_at)}, and the alert fired at {_time(alert.fired_at)}.")
    else:
        found.append(f"The alert fired at {_time(alert.fired_at)}.")
    return found


def _back(alert: Alert) -> str:
    at = f" since {_time(alert.resolved_at)}" if alert.resolved_at is not None else ""
    return (
        f"{_statistic(alert)} is {_number(alert.observed)} over the last {alert.observed_n or 0:,} interactions{at}. "
        f"{_normal(alert)} The alert fired at {_time(alert.fired_at)}."
    )


def _normal(alert: Alert) -> str:
    baseline = _number(alert.baseline)
    return {
        "target": f"The target is {baseline}.",
        "given": f"Normal is {baseline}, as the rule says.",
        "learned": f"Normal is {baseline}, as learned before the change.",
        "window": f"Normal is {baseline}, as in the time before the change.",
        "seasonal": f"Normal for these hours is {baseline}.",
    }[alert.baseline_source or "given"]


def _statistic(alert: Alert) -> str:
    names = {"mean": "The mean", "spread": "The standard deviation", "rmse": "The RMSE", "kappa": "Cohen's kappa"}
    return names[alert.quantity]


def _sure_and_next(alerts: Sequence[Alert]) -> list[str]:
    """Return how sure alerts are, once, and what to look at."""
    sure = list(dict.fromkeys(promise for alert in alerts if (promise := guarantee(alert)) is not None))
    each = "For each rule: " if len(alerts) > 1 and len(sure) == 1 else ""
    found = [f"{each}{sure[0][0].lower() + sure[0][1:] if each else sure[0]}"] if len(sure) == 1 else []
    if len(sure) > 1:
        found.append("Each alert states its own guarantee against false alarms.")
    found += [f"Diagnosis: {sentence}" for sentence in advice(alerts)]
    few = [alert for alert in alerts if alert.diagnosis and not advises(alert)]
    if few and len(few) == len(alerts):
        found.append("There is too little data for advice yet.")
    ids = list(dict.fromkeys(interaction_id for alert in alerts for interaction_id in alert.worst_interaction_ids))[
        :MOST_INTERACTIONS
    ]
    if ids:
        found.append(f"Interactions to read first: {', '.join(short_name(interaction_id) for interaction_id in ids)}.")
    return found


def _others(notification: Notification) -> list[str]:
    n = notification.n_still_firing
    if not n or notification.status != "resolved":
        return []
    return [f"{n:,} other {'alert' if n == 1 else 'alerts'} of this group still {'fires' if n == 1 else 'fire'}."]


def _subject(alert: Alert) -> str:
    quantity = {"mean": "", "spread": "spread of ", "rmse": "RMSE of ", "kappa": "kappa of "}[alert.quantity]
    return f"{quantity}{short_name(alert.metric)} of {scope(alert)}"


def _number(value: float | None) -> str:
    if value is None:
        return "not known"
    if value and abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _line(text: str) -> str:
    return without_links(printable(text[: 4 * LONGEST_SENTENCE]))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
