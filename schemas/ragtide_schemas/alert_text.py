"""One alert in words: title, sentences and facts, from the alert alone and from what the caller knows besides. Pure.

Every screen and every notification shows these words, so that no two of them contradict each other. The texts are
English, in plain text without markup. Names come from outside: each is shortened and escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Final, Literal, get_args

from .alert import Alert, ChangeCause, SegmentShare, StepCause, StepChange, StepName
from .alert_kinds import covariate_name, covariate_values, kind_of, scope_of
from .alert_rule import HealthKind
from .alert_words import (
    LONGEST_SENTENCE,
    cut,
    exact_time,
    length,
    line,
    number,
    percent,
    short_name,
    time,
    without_links,
)
from .diagnosis import DIAGNOSED_N, enough_for_advice
from .metric_definitions import METRICS
from .printable import printable
from .release_text import budget_sentence, release_facts, release_rows, release_title
from .specimen import Specimen
from .step_metrics import StepMetric, ToolMetric

LONGEST_TITLE: Final = 150
"""Most characters of a title: as many as Slack's header has."""

LONGEST_QUESTION: Final = 200
"""Most characters of a question."""

LONGEST_REASON: Final = 200
"""Most characters of a judge's reason."""

MOST_WORST: Final = 3
"""Most worst answers that are named."""

MOST_SHARES: Final = 5
"""Most values of a covariate whose shares are named."""

LEAST_OF_PACE: Final = 10
"""Answers since a change that show the pace of answers."""

SHORTEST_PACE: Final = timedelta(minutes=1)
"""Time since a change that shows it."""

MOST_DIAGNOSES: Final = 3
"""Most diagnoses that are named."""


@dataclass(frozen=True, slots=True)
class WorstAnswer:
    """An answer since the change that moved the mean most."""

    interaction_id: str
    question: str | None = None
    """Its question, redacted as it was kept; None where texts are not shown, or are no longer kept."""
    score: float | None = None
    """Its score of the alert's metric, in the unit of the metric."""
    reason: str | None = None
    """The judge's reason of this score, redacted as it was kept; None without one, or where texts are not shown."""
    link: str | None = None
    """Address of its page; None where it is not known."""


def worst_answer(alert: Alert, interaction_id: str, specimen: Specimen | None, *, texts: bool) -> WorstAnswer:
    """Return an answer that an alert names, as far as it is kept.

    Args:
        alert: that names it.
        interaction_id: its id.
        specimen: its specimen; None if it is no longer kept.
        texts: whether its question and the judge's reason may be shown.
    """
    if specimen is None:
        return WorstAnswer(interaction_id)
    question, reason = (specimen.interaction.question, specimen.reason_of(alert)) if texts else (None, None)
    return WorstAnswer(interaction_id, question, specimen.score_of(alert), reason)


@dataclass(frozen=True, slots=True)
class CurrentLevel:
    """How the statistic of an alert is now, over a time that has no answer from before the change."""

    start: datetime
    """Start of this time, which lasts until now; it may be yet to come."""
    n: int = 0
    """Number of answers."""
    value: float | None = None
    """None while it is too early to say."""
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class AlertText:
    """Every fact about one alert in words; the numbers are those of `alert`."""

    alert: Alert
    """The record that the words are made from."""
    title: str
    """What fell or rose, where, from what to what, in one line of at most `LONGEST_TITLE` characters, without a date:
    `trace.adherence of shop, lang=de fell from 0.745 to 0.242`."""
    scope: str
    """Pipeline and segment value, such as `shop, lang=de`; `all pipelines` for the whole deployment."""
    state: Literal["firing", "resolved"]
    """Whether it fires. An explained alert still fires."""
    status: str
    """Since when, in the order of time: began, fired, resolved; how long; acknowledged and silenced."""
    change: str | None
    """What is seen: the statistic since the change, its interval, and its number of answers, by name. Of an alert that
    has recovered: how it is now, and how it was. None for an alert without statistics."""
    normal: str | None
    """What is normal, and the limit from which the rule counts; or the target. None for an alert without statistics."""
    values: str | None
    """The values of a covariate whose shares moved most, from what share to what share; None for another alert."""
    from_value: float | None
    """The level before: what was learned or given as normal, or the target. In the statistic's unit."""
    to_value: float | None
    """The level during the change: what was observed when the alert fired. In the statistic's unit."""
    now_value: float | None
    """The level now, as the caller knows it; None if it does not."""
    now: str | None
    """How it is now, or that it is too early to say; None if the caller does not know."""
    began_at: datetime
    """Beginning of the change, never after `fired_at`."""
    fired_at: datetime
    resolved_at: datetime | None
    """End of the alert, never before `fired_at`."""
    duration: timedelta | None
    """Since the beginning of the change, until its end or the present time; None if that is not known."""
    where: str | None
    """Segment values in which the change is concentrated; None if that is not known."""
    cause: tuple[str, ...]
    """Likely cause, other traffic or other answers, the verdict first; that it is searched for; empty without one."""
    step: tuple[str, ...]
    """Steps that moved, with their numbers; that it is not resolved, or searched for; empty without steps."""
    sure: str | None
    """How sure the alert is: the one sentence about false alarms, with its caution about dependence, or about false
    verdicts on a release. None for an alert without statistics."""
    diagnosis: tuple[str, ...]
    """Diagnoses with evidence and advice; empty if there are none, and while there is too little data for advice."""
    worst: tuple[WorstAnswer, ...]
    """Answers to read first, the worst first, at most `MOST_WORST`; of a sentinel rule unlike answers to sentinels."""
    first: str | None
    """What to do first; None for a resolved alert, and where the message says it."""
    notes: tuple[str, ...]
    """What else the rule has to say, such as the meaning of its metric."""
    acknowledged: str | None
    """User who acknowledged it."""
    silenced_until: datetime | None
    """End of the silence that withholds its notifications; None without a silence."""
    link: str | None
    """Address of the page of the alert."""

    @property
    def state_words(self) -> str:
        """The state in words; a release is open, not worse or ended, and does not fire."""
        if not self.alert.is_news:
            return self.state
        words = {"release.opened": "open", "release.not_worse": "not worse"}
        return words.get(self.alert.event or "", "ended")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """All facts below the title, in the order of reading: the name of each, and a sentence in one line."""
        whole, release = line(self.alert.message), self.alert.release
        rows = [
            ("What", None if self.change or release or self.title.endswith(whole) else cut(whole, LONGEST_SENTENCE)),
            *(release_rows(release) if release else ()),
            ("Seen", self.change),
            ("Target" if self.alert.baseline_source == "target" else "Normal", self.normal),
            ("Values", self.values),
            ("Now", self.now),
            ("When", self.status),
            ("Where", self.where),
            *(("Cause", sentence) for sentence in self.cause),
            *(("Step", sentence) for sentence in self.step),
            ("How sure", self.sure),
            *(("Note", sentence) for sentence in self.notes),
            *(("Diagnosis", sentence) for sentence in self.diagnosis),
            ("Do first", self.first),
            *((self._named, _words_of(self.alert, answer)) for answer in self.worst),
        ]
        return tuple((name, sentence) for name, sentence in rows if sentence)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of `rows`; those that are not understood without their name have it before them."""
        return (*self.sentences_of_facts, *self.worst_answers)

    @property
    def sentences_of_facts(self) -> tuple[str, ...]:
        """The same without the worst answers."""
        rows = [(name, sentence) for name, sentence in self.rows if name != self._named]
        return tuple(f"{name}: {sentence}" if name == "Diagnosis" else sentence for name, sentence in rows)

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """A short label of each worst answer, for a link: its question if it may be shown, and its score."""
        labels = []
        for place, answer in enumerate(self.worst, 1):
            question = _line_of(answer.question, LONGEST_QUESTION) or f"{self._named} {place}"
            labels.append(question if answer.score is None else f"{question} ({number(answer.score)})")
        return tuple(labels)

    @property
    def worst_answers(self) -> tuple[str, ...]:
        """The worst answers, each in a line: score, id, and question and judge's reason if they may be shown."""
        return tuple(f"{self._named}: {_words_of(self.alert, answer)}" for answer in self.worst)

    @property
    def names_answers(self) -> bool:
        """Whether the interactions that the alert names may be kept: answers to sentinels never are."""
        return kind_of(self.alert).names_answers

    @property
    def _named(self) -> str:
        return kind_of(self.alert).named

    @property
    def from_words(self) -> str:
        """`from_value` in its unit."""
        return kind_of(self.alert).value(self.from_value)

    @property
    def to_words(self) -> str:
        """`to_value` in its unit."""
        return kind_of(self.alert).value(self.to_value)

    @property
    def now_words(self) -> str:
        """`now_value` in its unit."""
        return kind_of(self.alert).value(self.now_value)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Short facts with their names, for a table."""
        alert = self.alert
        facts = [("Pipeline", "all pipelines" if alert.pipeline == "*" else short_name(alert.pipeline))]
        if alert.segment:
            facts.append(("Segment", short_name(alert.segment)))
        if alert.release is not None and alert.event is not None:
            facts += release_facts(alert.release, alert.event)
        else:
            facts.append(kind_of(alert).about(alert))
        facts.append(("Rule", f"{short_name(alert.rule)} ({alert.severity})"))
        if self.change is not None:
            facts.append(("Since it came back" if self.state == "resolved" else "Since the change", _level(alert)))
            name = "Target" if alert.baseline_source == "target" else "Normal"
            facts.append((name, f"{kind_of(alert).value(self.from_value)}{_learned(alert)}"))
            if _limit(alert) is not None:
                facts.append((f"Counts {_beyond(alert)}", kind_of(alert).value(_limit(alert))))
            if alert.n is not None:
                scope = short_name(alert.segment) if alert.segment else "all"
                facts.append((f"{kind_of(alert).noun.capitalize()}s so far", f"{alert.n:,} in {scope}"))
        if alert.began_at is not None:
            facts.append(("Began", f"about {time(self.began_at)}"))
        facts.append(("Fired", time(self.fired_at)))
        if self.resolved_at is not None:
            facts.append(("Resolved", time(self.resolved_at)))
        if self.acknowledged:
            facts.append(("Acknowledged", f"by {short_name(self.acknowledged)}"))
        if self.silenced_until is not None:
            facts.append(("Silenced", f"until {time(self.silenced_until)}"))
        if alert.labeler:
            facts.append(("Labeler", short_name(alert.labeler)))
        if alert.run:
            facts.append(("Run", short_name(alert.run)))
        return tuple(facts)


def alert_text(
    alert: Alert,
    *,
    now: datetime | None = None,
    current: CurrentLevel | None = None,
    worst: Sequence[WorstAnswer] | None = None,
    acknowledged: str | None = None,
    silenced_until: datetime | None = None,
    link: str | None = None,
) -> AlertText:
    """Return an alert in words.

    Args:
        now: present time, for the duration of an alert that fires; None leaves its duration out.
        current: how the statistic is now, if the caller knows.
        worst: its answers to read first; None takes those that the alert names, without questions.
        acknowledged: user who acknowledged it.
        silenced_until: end of the silence that withholds its notifications.
        link: address of the page of the alert.
    """
    began_at = _began(alert)
    resolved_at = None if alert.resolved_at is None else _resolved(alert.resolved_at, alert)
    end = resolved_at or now
    duration = None if end is None else max(end - began_at, timedelta())
    answers = tuple(WorstAnswer(name) for name in alert.worst_interaction_ids) if worst is None else tuple(worst)
    fires = alert.status != "resolved"
    measured = has_statistics(alert)
    recovered = alert.fired_observed is not None
    from_value = alert.baseline if alert.normal is None else alert.normal
    diagnosis = tuple(cut(line(sentence), LONGEST_SENTENCE) for sentence in alert.diagnosis[:MOST_DIAGNOSES])
    return AlertText(
        alert=alert,
        title=_title(alert),
        scope=scope_of(alert),
        state="firing" if fires else "resolved",
        status=_status(alert, duration, acknowledged, silenced_until),
        change=_change(alert) if measured else None,
        normal=_normal(alert) if measured else None,
        values=_values(alert),
        from_value=from_value if measured else None,
        to_value=(alert.fired_observed if recovered else alert.observed) if measured else None,
        now_value=None if current is None else current.value,
        now=None if current is None else _now(alert, current, now),
        began_at=began_at,
        fired_at=alert.fired_at,
        resolved_at=resolved_at,
        duration=duration,
        where=_where(alert.cause) if fires and alert.cause is not None else None,
        cause=_cause(alert) if fires else (),
        step=_step(alert) if fires else (),
        sure=how_sure(alert) if fires or alert.release is not None else None,
        diagnosis=diagnosis if fires and _advises(alert) else (),
        worst=answers[:MOST_WORST] if fires else (),
        first=_first(alert, answers) if fires else None,
        notes=_notes(alert) if fires else (),
        acknowledged=acknowledged,
        silenced_until=silenced_until,
        link=link,
    )


def message_of(alert: Alert) -> str:
    """Return the message of an alert with statistics: its facts in a few sentences, without those that change later."""
    text = alert_text(alert)
    began = None if alert.status == "resolved" else f"The change began about {time(text.began_at)}."
    sentences = (
        f"{text.title}.",
        text.change,
        text.normal,
        text.values,
        began,
        text.where,
        *text.cause,
        *text.step,
        text.sure,
        *text.notes,
    )
    return " ".join(sentence for sentence in sentences if sentence)


def has_statistics(alert: Alert) -> bool:
    """Return whether an alert is about a statistic of a metric; the message of any other is written by its source."""
    return alert.kind not in get_args(HealthKind)


def _words_of(alert: Alert, answer: WorstAnswer) -> str:
    words = kind_of(alert).named_words(answer.interaction_id)
    if words is not None:
        return words
    score = "" if answer.score is None else f"{number(answer.score)}, "
    name = short_name(answer.interaction_id)
    if answer.question is None:
        return f"{score}{name}{because(answer)}"
    return f"{_line_of(answer.question, LONGEST_QUESTION)} ({score}{name}){because(answer)}"


def because(answer: WorstAnswer) -> str:
    """Return the judge's reason of an answer as the end of a sentence; empty without one."""
    reason = _line_of(answer.reason, LONGEST_REASON)
    return f". The judge: {reason}" if reason else ""


def _line_of(text: str | None, longest: int) -> str:
    return cut(without_links(printable(" ".join((text or "")[: 4 * longest].split()))), longest)


def _began(alert: Alert) -> datetime:
    return min(alert.began_at or alert.fired_at, alert.fired_at)


def _resolved(at: datetime, alert: Alert) -> datetime:
    return max(at, alert.fired_at)


def _title(alert: Alert) -> str:
    if alert.release is not None and alert.event is not None:
        return cut(release_title(alert.release, alert.event), LONGEST_TITLE)
    if not has_statistics(alert) or (alert.status == "resolved" and alert.fired_observed is None):
        return cut(f"{scope_of(alert)}: {line(alert.message)}", LONGEST_TITLE)
    kind = kind_of(alert)
    own = kind.title(alert)
    if own is not None:
        return cut(own, LONGEST_TITLE)
    subject, observed = kind.subject(alert), kind.value(alert.observed)
    if alert.status == "resolved":
        return cut(f"{subject} is back at {observed}, after {kind.value(alert.fired_observed)}", LONGEST_TITLE)
    verb = "fell" if alert.direction == "fall" else "rose"
    if alert.baseline_source == "target":
        moved = f"{verb} {_beyond(alert)} its target {kind_of(alert).value(alert.baseline)}"
        return cut(f"{subject} {moved}, to {observed}", LONGEST_TITLE)
    before = alert.baseline if alert.normal is None else alert.normal
    return cut(f"{subject} {verb} from {kind_of(alert).value(before)} to {observed}", LONGEST_TITLE)


def _level(alert: Alert) -> str:
    ends = ""
    if alert.observed_lower is not None and alert.observed_upper is not None:
        ends = f" ({kind_of(alert).value(alert.observed_lower)} to {kind_of(alert).value(alert.observed_upper)})"
    beginning = " at the beginning of sessions" if alert.observed_of == "first_answers" else ""
    return f"{kind_of(alert).value(alert.observed)}{ends}, {kind_of(alert).observed(alert)}{beginning}"


def _change(alert: Alert) -> str | None:
    if alert.status != "resolved":
        return f"{kind_of(alert).statistic} is {_level(alert)} since the change."
    if alert.fired_observed is None:
        return None
    before = f"It was {kind_of(alert).value(alert.fired_observed)} when the alert fired."
    return f"{kind_of(alert).statistic} is {_level(alert)} since it came back. {before}"


def _normal(alert: Alert) -> str:
    if alert.baseline_source == "target":
        moved = _limit(alert)
        counts = "" if moved is None else f"; the rule counts {_beyond(alert)} {kind_of(alert).value(moved)}"
        return f"The target is {kind_of(alert).value(alert.baseline)}{counts}."
    of_what = f" for {line(alert.normal_of)}" if alert.normal_of and alert.baseline_source != "window" else ""
    limit = _limit(alert)
    counts = "" if limit is None else f"; the rule counts {_beyond(alert)} {kind_of(alert).value(limit)}"
    value = alert.baseline if alert.normal is None else alert.normal
    return f"Normal{of_what} is {kind_of(alert).value(value)}{_learned(alert)}{counts}."


def _learned(alert: Alert) -> str:
    if alert.baseline_source == "target":
        return ""
    if (own := kind_of(alert).learned(alert)) is not None:
        return own
    if alert.baseline_source == "given":
        return ", given by the rule"
    n = "" if not alert.normal_n else f" from {kind_of(alert).counted(alert.normal_n)}"
    if alert.baseline_source == "window":
        return f", as in {line(alert.normal_of or 'the time before')}{n.replace(' from', ':')}"
    return f", the mean{n.replace(' from', ' of')} before" if alert.baseline_source == "earlier" else f", learned{n}"


def _limit(alert: Alert) -> float | None:
    limit = alert.baseline if alert.limit is None else alert.limit
    before = alert.baseline if alert.normal is None else alert.normal
    return None if limit is None or number(limit) == number(before) else limit


def _beyond(alert: Alert) -> str:
    return "below" if alert.direction == "fall" else "above"


def _values(alert: Alert) -> str | None:
    moved = sorted(alert.shares, key=lambda share: -abs(share.since - share.before))[:MOST_SHARES]
    moves = [
        f"{covariate_values(alert, share.values)} {percent(share.before)} -> {percent(share.since)}"
        for share in moved
        if percent(share.before) != percent(share.since)
    ]
    if not moves or alert.status == "resolved":
        return None
    apart = "" if alert.distance is None else f" In total {percent(alert.distance)} of the interactions moved."
    return cut(f"{covariate_name(alert)}: {'; '.join(moves)}.{apart}", LONGEST_SENTENCE)


def _now(alert: Alert, current: CurrentLevel, now: datetime | None) -> str:
    start = exact_time(current.start)
    if None not in (current.value, current.lower, current.upper):
        value, lower, upper = (kind_of(alert).value(number) for number in (current.value, current.lower, current.upper))
        return f"Now it is {value} ({lower} to {upper}), since {start}, {kind_of(alert).counted(current.n)}."
    if current.n:
        answers = kind_of(alert).counted(current.n)
        return f"It is too early to say how it is now: {answers} since {start} give no interval yet."
    if now is not None and now < current.start:
        moment = "its end" if alert.status == "resolved" else "the change"
        return f"It is too early to say how it is now: until {start} later answers count with those before {moment}."
    return f"Since {start} there is no answer, so it is not known how it is now."


def _status(
    alert: Alert,
    duration: timedelta | None,
    acknowledged: str | None,
    silenced_until: datetime | None,
) -> str:
    parts = [] if alert.began_at is None else [f"began about {time(_began(alert))}"]
    parts.append(f"fired {time(alert.fired_at)}")
    if alert.resolved_at is not None:
        parts.append(f"resolved {time(_resolved(alert.resolved_at, alert))}")
    text = ", ".join(parts)
    if duration is not None:
        text += f" ({length(duration)}{'' if alert.resolved_at is not None else ' so far'})"
    if acknowledged:
        text += f"; acknowledged by {short_name(acknowledged)}"
    if silenced_until is not None:
        text += f"; silenced until {time(silenced_until)}"
    return f"{text[0].upper()}{text[1:]}."


def _where(cause: ChangeCause) -> str | None:
    if cause.carriers and cause.verdict in {"within", "both"}:
        named = ", ".join(short_name(carrier) for carrier in cause.carriers[:3])
        more = f" and {len(cause.carriers) - 3} more" if len(cause.carriers) > 3 else ""
        return f"It is concentrated in {named}{more}."
    return f"All values of {short_name(cause.segment)} changed." if cause.spread == "all" else None


_VERDICTS: Final = {
    "mix": "The traffic changed, and not the answers to the same kind of traffic",
    "within": "The answers changed for the same kind of traffic",
    "both": "Both the traffic and the answers changed",
    "neither": "Neither other traffic nor other answers explain the change",
    "unresolved": "It is not known yet whether the traffic or the answers changed",
}


def _cause(alert: Alert) -> tuple[str, ...]:
    cause = alert.cause
    if cause is None:
        waits = "Traffic or system: not known yet. The alert comes once more, as explained, when it is."
        return (waits,) if alert.cause_sought else ()
    parts = (
        f"Other traffic explains {cause.mix:+.3f} ({cause.mix_lower:+.3f} to {cause.mix_upper:+.3f}) and other answers "
        f"{cause.within:+.3f} ({cause.within_lower:+.3f} to {cause.within_upper:+.3f}), {100 * cause.confidence:.3g}% "
        f"sure, from {cause.n_before:,} answers before the alert and {cause.n_since:,} since."
    )
    shares = tuple(_share(share) for share in cause.shares) if cause.verdict != "within" else ()
    verdict = f"{_VERDICTS[cause.verdict]} (by {short_name(cause.segment)})"
    return (cut(f"{verdict}: {line(cause.text)}.", LONGEST_SENTENCE), *shares, parts)


def _step(alert: Alert) -> tuple[str, ...]:
    cause = alert.moved_step
    if cause is None:
        waits = "Which step moved: not known yet. The alert comes once more, as explained."
        return (waits,) if alert.step_sought else ()
    stretch = (
        f"{100 * cause.confidence:.3g}% sure together, from {cause.n_before:,} answers before the alert and "
        f"{cause.n_since:,} since"
    )
    moved, possible, unmoved = (_steps(steps) for steps in (cause.moved, cause.possible, cause.unmoved))
    if cause.verdict == "moved":
        named = f"{moved} moved by {_itself(cause.moved)}, and no other step did"
    elif cause.verdict == "partly":
        named = f"{moved} moved by {_itself(cause.moved)}; not resolved: whether {possible} moved, too"
    elif cause.possible:
        named = f"Which {_kind(cause.possible)} moved is not resolved: one or more of {possible}, or none"
    else:
        named = f"No {_kind(cause.unmoved)} moved by itself"
    if any(step.kind == "tool" for step in cause.moved):
        named = f"{_tool_verdict(alert, cause)}: {named}"
    named = f"{named[0].upper()}{named[1:]} ({stretch})."
    changes = "; ".join(_step_change(change) for change in cause.changes)
    numbers = f"Changes of the steps' numbers: {changes}." if changes else "No number of a step certainly changed."
    same = f"Certainly as before by {_itself(cause.unmoved)}: {unmoved}." if unmoved and cause.possible else None
    sentences = (named, _called(alert, cause), same, numbers)
    return tuple(cut(sentence, LONGEST_SENTENCE) for sentence in sentences if sentence is not None)


def _tool_verdict(alert: Alert, cause: StepCause) -> str:
    """Return what is known of tools that moved: more failures are their own, a lower yield may be of its questions."""
    failing = {change.step for change in cause.changes if change.metric.endswith(".failed")}
    same_traffic = alert.cause is not None and alert.cause.verdict == "within"
    if same_traffic or all(step.step in failing for step in cause.moved if step.kind == "tool"):
        return "the same tool answers worse"
    return "the same tool answers worse, or its questions alone are harder"


def _called(alert: Alert, cause: StepCause) -> str | None:
    """Return which tools are called in another share of the runs, and whether the traffic is the reason."""
    if not cause.called:
        return None
    shares = "; ".join(
        f"{short_name(change.step)} {100 * change.before:.3g}% to {100 * change.since:.3g}%" for change in cause.called
    )
    verdict = None if alert.cause is None else alert.cause.verdict
    why = {"mix": "because the traffic is another", "within": "for the same kind of traffic"}.get(
        verdict or "", "and why is not known: other questions, or another choice of the agent"
    )
    same = "" if cause.moved or cause.possible else " Each tool works as before."
    return f"Runs begin with other tools, {why} (shares of the runs: {shares}).{same}"


def _kind(steps: Sequence[StepName]) -> str:
    return "tool" if any(step.kind == "tool" for step in steps) else "step"


def _steps(steps: Sequence[StepName]) -> str:
    names = [
        f"the {step.kind}" if step.kind == "generator" else f"the {step.kind} {short_name(step.step)}" for step in steps
    ]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _itself(steps: Sequence[StepName]) -> str:
    return "itself" if len(steps) == 1 else "themselves"


def _step_change(change: StepChange) -> str:
    metric = StepMetric.read(change.metric) or ToolMetric.read(change.metric)
    name = line(change.metric) if metric is None else f"{short_name(change.step)} {metric.quantity.replace('_', ' ')}"
    ends = f"change {change.lower:+.3f} to {change.upper:+.3f}"
    return f"{name} {number(change.before)} to {number(change.since)} ({ends})"


def _share(share: SegmentShare) -> str:
    text = (
        f"{short_name(share.value)} is {100 * share.since:.3g}% of the traffic since the alert "
        f"({100 * share.since_lower:.3g}% to {100 * share.since_upper:.3g}%), and was {100 * share.before:.3g}% before "
        f"({100 * share.before_lower:.3g}% to {100 * share.before_upper:.3g}%)"
    )
    if share.mean_before is None or share.mean_since is None:
        return f"{text}."
    return f"{text}; its mean went from {number(share.mean_before)} to {number(share.mean_since)}."


def how_sure(alert: Alert, *, paced: bool = True) -> str | None:
    """Return what is promised about false alarms, with its caution about dependence; None without a promise.

    Args:
        alert: that fires.
        paced: whether the run length is told in time, too.
    """
    if alert.release is not None:
        return budget_sentence(alert.release)
    if alert.false_discovery_rate is not None:
        promise = f"At most {100 * alert.false_discovery_rate:.3g}% of alarms are false, on average"
    elif alert.run_length is not None:
        n = kind_of(alert).counted(round(alert.run_length))
        promise = f"At most one false alarm in {n}{_at_pace(alert) if paced else ''}, on average"
    else:
        return None
    effect = "" if alert.design_effect is None else f" (design effect {alert.design_effect:.1f})"
    if alert.dependence == "ignored":
        return (
            f"{promise}, if answers were independent; but neighbouring answers depend on each other{effect}, so expect "
            "more. Set clusters.by to session_id, user_id or blocks."
        )
    if alert.dependence == "long":
        return (
            f"{promise}, if the measured blocks are long enough for the dependence{effect}, which is not certain. Set "
            "clusters.by to session_id or user_id if sessions are known."
        )
    return f"{promise}."


def _at_pace(alert: Alert) -> str:
    """Return the time that the answers of a run length take, at the pace since the change."""
    if alert.status == "resolved" or alert.began_at is None or not alert.observed_n or alert.run_length is None:
        return ""
    lasted = alert.fired_at - alert.began_at
    if alert.observed_n < LEAST_OF_PACE or lasted < SHORTEST_PACE:
        return ""
    try:
        return f" ({length(lasted * (alert.run_length / alert.observed_n))} at the pace since the change)"
    except OverflowError:
        return ""


def _first(alert: Alert, answers: Sequence[WorstAnswer]) -> str | None:
    if not has_statistics(alert):
        return None
    if (own := kind_of(alert).first) is not None:
        return own
    if alert.cause is not None and alert.cause.verdict == "mix":
        return "Find first where the new traffic comes from: the answers to the same kind of traffic are as before."
    if answers:
        return "Read first the worst answers since the change."
    return "Look first at what changed shortly before: versions, prompts, indexes, traffic."


def _notes(alert: Alert) -> tuple[str, ...]:
    notes = tuple(cut(line(note), LONGEST_SENTENCE) for note in alert.notes)
    if not alert.diagnosis or _advises(alert):
        return notes
    return (*notes, f"There is too little data for advice yet: it takes {DIAGNOSED_N} answers since the change.")


def _advises(alert: Alert) -> bool:
    if alert.status == "explained" and alert.cause is not None and alert.cause.n_since >= DIAGNOSED_N:
        return True
    definition = METRICS.get(alert.metric)
    value_range = (-inf, inf) if definition is None else (definition.lower, definition.upper)
    if kind_of(alert).in_percent:
        value_range = (0.0, 1.0)
    return enough_for_advice(alert.observed_n, alert.observed_lower, alert.observed_upper, value_range)
