"""Writes what people read about alerts: a title, sentences, facts and a link. Pure.

The words about one alert are those of `ragtide_schemas.alert_text`; here are the words about a group of them, about a
repetition, a summary and a test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ragtide_schemas import Alert
from ragtide_schemas.alert_text import (
    LONGEST_TITLE,
    MOST_WORST,
    AlertText,
    alert_text,
    because,
    has_statistics,
    how_sure,
)
from ragtide_schemas.alert_words import cut, short_name, time

from .notification import Notification, sample_alert

MOST_ALERTS: Final = 10
"""Most alerts of a group that a message lists."""

TEST_TITLE: Final = "Test of ragtide's notifications: no alert fires"


class LinkedAnswer(NamedTuple):
    """One of the worst answers that a message names, with a link to its page in the place of its id."""

    label: str
    """Its question if that may be shown, and its score."""
    because: str
    """The judge's reason; empty without one, or where texts are not shown."""
    link: str
    """Address of its page."""


@dataclass(frozen=True, slots=True)
class NotificationText:
    """A message about alerts, in plain text without markup."""

    title: str
    """One line, at most `LONGEST_TITLE` characters."""
    sentences: tuple[str, ...]
    """In the order of reading; each is one line. Those about answers with a link are in `answers`."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names with values, such as `("Normal", "0.853, learned from 500 answers")`; empty for a group."""
    link: str | None = None
    """Address of the page of the alert, or of the page itself."""
    link_name: str = "Open the alert"
    """What the link opens."""
    answers: tuple[LinkedAnswer, ...] = ()
    """The worst answers whose pages are known."""

    @property
    def plain(self) -> str:
        """The message below its title as plain text."""
        lines = [*self.sentences]
        for answer in self.answers:
            lines += [f"{answer.label}{answer.because}", f"  {answer.link}"]
        if self.facts:
            lines += ["", *(f"{name}: {value}" for name, value in self.facts)]
        if self.link:
            lines += ["", self.link]
        return "\n".join(lines)


def message_text(notification: Notification) -> NotificationText:
    """Return the message for people about a notification."""
    if notification.status == "test":
        return _test(notification)
    if notification.status == "summary":
        return _summary(notification)
    if len(notification.alerts) == 1:
        return _single(notification, notification.alerts[0])
    return _group(notification)


def text_of(alert: Alert, notification: Notification) -> AlertText:
    """Return one alert of a notification in words, with what is known besides."""
    return alert_text(
        alert,
        worst=notification.worst.get(alert.alert_id),
        acknowledged=notification.acknowledged.get(alert.alert_id),
        silenced_until=notification.silenced_until.get(alert.alert_id),
        link=notification.url,
    )


def _single(notification: Notification, alert: Alert) -> NotificationText:
    step = alert.moved_step
    known = alert.cause is not None or step is None or step.verdict != "unresolved"
    explained = "Cause known: " if known else "Step not resolved: "
    prefix = {"explained": explained, "resolved": "Resolved: "}.get(notification.status, "")
    if alert.event is not None:
        prefix = ""  # its title says what happened
    if notification.status == "firing" and notification.repeat:
        prefix = "Still firing: "
    text = text_of(alert, notification)
    unlinked, linked = _answers([text])
    sentences = [*text.sentences_of_facts, *unlinked]
    if notification.repeat:
        sentences.append(
            f"This was sent {notification.repeat:,} {'time' if notification.repeat == 1 else 'times'} before."
        )
    sentences += _others_still_firing(notification)
    title = cut(prefix + text.title, LONGEST_TITLE)
    return NotificationText(title, tuple(sentences), text.facts, notification.url, answers=linked)


def _test(notification: Notification) -> NotificationText:
    (alert,) = notification.alerts or (sample_alert(),)
    text = text_of(alert, notification)
    sentences = ("An alert looks like this:", f"{text.title}.", *text.sentences)
    return NotificationText(TEST_TITLE, sentences, text.facts, notification.url, "Open ragtide")


def _group(notification: Notification) -> NotificationText:
    alerts = notification.alerts
    firing = [alert for alert in alerts if alert.status != "resolved"]
    where = _pipelines(alerts)
    if not firing:
        title = f"Resolved: {len(alerts)} alerts of {where}"
    else:
        metrics = {alert.metric for alert in firing}
        moved = {alert.direction for alert in firing if has_statistics(alert)}
        same = len(moved) == 1 and all(has_statistics(alert) for alert in firing) and len(metrics) == len(firing)
        verb = ("fell" if moved == {"fall"} else "rose") if same else ""
        since = min(alert.fired_at for alert in firing)
        what = f"{len(metrics)} metrics of {where} {verb}" if same else f"{len(firing)} alerts of {where} fire"
        repeated = "Still firing: " if notification.repeat else ""
        title = f"{repeated}{what} since {since:%H:%M} UTC"
    sentences: list[str] = []
    began = [alert.began_at for alert in firing if alert.began_at is not None]
    if began:
        sentences.append(f"The first change began about {time(min(began))}.")
    sentences += _alert_lines(alerts)
    texts = [text_of(alert, notification) for alert in firing]
    sentences += list(dict.fromkeys(text.where for text in texts if text.where))[:1]
    sentences += next((text.cause[:1] for text in texts if text.cause), ())
    sentences += next((text.step[:1] for text in texts if text.step), ())
    sentences += _guarantees(texts)
    sentences += dict.fromkeys(f"Diagnosis: {sentence}" for text in texts for sentence in text.diagnosis)
    sentences += list(dict.fromkeys(text.first for text in texts if text.first))[:1]
    unlinked, linked = _answers(texts)
    sentences += [*unlinked, *_others_still_firing(notification)]
    return NotificationText(cut(title, LONGEST_TITLE), tuple(sentences), link=notification.url, answers=linked)


def _answers(texts: Sequence[AlertText]) -> tuple[list[str], tuple[LinkedAnswer, ...]]:
    sentences: dict[str, str] = {}
    linked: dict[str, LinkedAnswer] = {}
    for text in texts:
        for answer, sentence, label in zip(text.worst, text.worst_answers, text.answer_labels, strict=True):
            if answer.link is None:
                sentences.setdefault(answer.interaction_id, sentence)
            else:
                linked.setdefault(answer.interaction_id, LinkedAnswer(label, because(answer), answer.link))
    return [*sentences.values()][:MOST_WORST], tuple(linked.values())[:MOST_WORST]


def _summary(notification: Notification) -> NotificationText:
    n = notification.n_withheld
    where = f" about {_pipelines(notification.alerts)}" if notification.alerts else ""
    title = f"{n:,} {'message' if n == 1 else 'messages'}{where} withheld"
    first = "Too many messages came within a short time. This summary replaces them."
    return NotificationText(
        cut(title, LONGEST_TITLE), (first, *_alert_lines(notification.alerts)), link=notification.url
    )


def _pipelines(alerts: Sequence[Alert]) -> str:
    names = list(dict.fromkeys(alert.pipeline for alert in alerts))
    if len(names) != 1:
        return f"{len(names):,} pipelines"
    return "all pipelines" if names[0] == "*" else short_name(names[0])


def _alert_lines(alerts: Sequence[Alert]) -> list[str]:
    lines = [
        cut(("- resolved: " if alert.status == "resolved" else "- ") + alert_text(alert).title, LONGEST_TITLE + 20)
        for alert in alerts[:MOST_ALERTS]
    ]
    more = len(alerts) - MOST_ALERTS
    return [*lines, f"- and {more:,} more"] if more > 0 else lines


def _guarantees(texts: Sequence[AlertText]) -> list[str]:
    promises = (how_sure(text.alert, paced=False) for text in texts if text.sure is not None)
    sure = list(dict.fromkeys(promise for promise in promises if promise is not None))
    if len(sure) > 1:
        uncertain = any(text.alert.dependence is not None for text in texts)
        more = " Neighbouring answers depend on each other, so expect more of them." if uncertain else ""
        return [f"Each alert states its own guarantee against false alarms.{more}"]
    return [f"For each rule: {sentence[0].lower()}{sentence[1:]}" for sentence in sure]


def _others_still_firing(notification: Notification) -> list[str]:
    n = notification.n_still_firing
    if not n or notification.status != "resolved":
        return []
    return [f"{n:,} other {'alert' if n == 1 else 'alerts'} of this group still {'fires' if n == 1 else 'fire'}."]
