"""The claims that must hold at the end of a run, whatever faults it had."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from typing import Any

from tests.chaos.outcome import Outcome
from tests.chaos.traffic import Traffic

from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, worst_list
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import Alert, Direction, Estimate, Reason, definition_of
from ragtide_schemas.dead_letter import beginning_of
from ragtide_schemas.limits import ENTRY_MAX_BYTES

EXACT = ("n", "n_absent", "n_late", "coverage", "minimum", "maximum", "quantiles", "band", "updated_at")
"""Fields of an estimate that do not depend on the order of the values, to the bit."""

CLOSE = {"estimate": 1e-12, "standard_deviation": 1e-9, "lower": 1e-9, "upper": 1e-9, "baseline": 1e-9}
"""Fields that depend on the order only by rounding, with the relative difference that is allowed."""


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, and the evidence against it."""

    claim: str
    looked_at: int
    """Number of things it was checked for."""
    wrong: list[str]
    """Contradictions, each in words."""

    @property
    def passed(self) -> bool:
        return not self.wrong


def checks(traffic: Traffic, outcome: Outcome, quiet: Outcome | None) -> Iterator[Check]:
    """Yield the checks of a run; without a quiet run none compares with it."""
    yield _scored_once(traffic, outcome)
    yield _every_entry_has_one_end(traffic, outcome)
    yield _poison(traffic, outcome)
    yield _state(outcome)
    yield _alerts_once(outcome)
    yield _alerts_of_a_replay(outcome)
    yield _promised_specimens(outcome)
    yield _worst_specimens(outcome)
    yield _specimen_bytes(outcome)
    if quiet is not None:
        yield _equal_scores(outcome, quiet)
        yield _equal_estimates(outcome, quiet)
        yield _equal_alerts(outcome, quiet)


def _scored_once(traffic: Traffic, outcome: Outcome) -> Check:
    scored = Counter((event.pipeline, event.interaction_id) for _, event in outcome.events)
    wrong = [f"{name} scored {scored[name]} times" for name in traffic.valid if scored[name] != 1]
    wrong += [f"{name} was never published" for name in scored.keys() - traffic.valid.keys()]
    return Check("every valid interaction is scored exactly once", len(traffic.valid), wrong)


def _every_entry_has_one_end(traffic: Traffic, outcome: Outcome) -> Check:
    ends: dict[tuple[int, str], list[str]] = {entry: [] for entry in outcome.entries}
    for partition, event in outcome.events:
        ends.setdefault((partition, event.entry_id or ""), []).append("scored")
    for partition, letter in outcome.dead_letters:
        if letter.stream.endswith(":interactions"):
            ends.setdefault((partition, letter.entry_id), []).append(letter.reason)
    wrong = []
    for entry, found in ends.items():
        published = outcome.entries.get(entry)
        if isinstance(published, tuple):
            expected = published in traffic.valid and found in (["scored"], [Reason.DUPLICATE])
        else:
            expected = found == [traffic.poison.get(published or b"")]
        if not expected:
            wrong.append(f"entry {entry} ({published!r:.80}) ended as {found or 'nothing'}")
    return Check("every entry is scored, or is the dead letter of a duplicate or of poison, once", len(ends), wrong)


def _poison(traffic: Traffic, outcome: Outcome) -> Check:
    letters = Counter((partition, letter.stream, letter.entry_id) for partition, letter in outcome.dead_letters)
    wrong = [f"{count} dead letters of {entry}" for entry, count in letters.items() if count != 1]
    shown = {letter.payload_bytes() for _, letter in outcome.dead_letters}
    wrong += [f"no dead letter of {payload[:60]!r}" for payload in traffic.poison if _stored(payload) not in shown]
    bad = Counter(letter.payload_bytes() for _, letter in outcome.dead_letters if letter.stream.endswith(":metrics"))
    if bad != Counter(outcome.bad_events.values()):
        wrong.append(f"{bad.total()} dead letters of {len(outcome.bad_events)} bad metric events")
    return Check("every poison entry is one dead letter", len(traffic.poison), wrong)


def _stored(payload: bytes) -> bytes:
    """Return the part of a payload that a dead letter stores."""
    return payload if len(payload) <= ENTRY_MAX_BYTES else beginning_of(payload)


def _state(outcome: Outcome) -> Check:
    wrong = [
        f"partition {partition}: {name} differs"
        for partition, (stored, replayed) in enumerate(zip(outcome.checkpoints, outcome.replayed, strict=True))
        for name, row in replayed.items()
        if stored.get(name) != row
    ]
    looked_at = sum(len(replayed) for replayed in outcome.replayed)
    return Check("the checkpoint is that of a direct computation, to the bit", looked_at, wrong)


def _alerts_once(outcome: Outcome) -> Check:
    changes = Counter((alert.alert_id, alert.status) for alert in outcome.alerts)
    wrong = [f"{name} is {status} {count} times" for (name, status), count in changes.items() if count != 1]
    wrong += [f"{name} never fired" for name, status in changes if (name, "firing") not in changes and status]
    return Check("every alert fires once and resolves at most once", len(changes), wrong)


def _alerts_of_a_replay(outcome: Outcome) -> Check:
    # Of the interactions, an alert names those that are kept at that time.
    written = Counter(_without_interactions(alert) for alert in outcome.alerts)
    direct = Counter(_without_interactions(alert) for alert in outcome.replayed_alerts)
    wrong = [f"too often: {alert[:120]!r}" for alert in (written - direct).elements()]
    wrong += [f"missing: {alert[:120]!r}" for alert in (direct - written).elements()]
    return Check("the alerts are those of a direct computation, to the bit", written.total(), wrong)


def _without_interactions(alert: Alert) -> bytes:
    return alert.model_copy(update={"worst_interaction_ids": ()}).encode()


def _promised_specimens(outcome: Outcome) -> Check:
    scores = {(event.pipeline, event.interaction_id): event.scores for _, event in outcome.events}
    kept = {name for name, specimen in outcome.specimens.items() if SPECIMEN_SAMPLE in specimen.lists}
    wrong = [f"{name} is in the sample and not kept" for name in outcome.sampled - kept]
    wrong += [f"{name} is kept and not in the sample" for name in kept - outcome.sampled]
    wrong += [
        f"{name} has the scores {specimen.labelings[0].scores} and its event {scores.get(name)}"
        for name, specimen in outcome.specimens.items()
        if specimen.labelings[0].scores != scores.get(name)
    ]
    return Check("the kept sample is exactly the drawn one, each with the scores of its event", len(kept), wrong)


def _worst_specimens(outcome: Outcome) -> Check:
    """Compare the worst by value; which of equal ones is kept depends on the time."""
    scores: dict[tuple[str, str], list[float]] = {}
    for _, event in outcome.events:
        for metric, score in event.scores.items():
            definition = definition_of(metric, event.declared)
            if definition is not None and definition.direction is not Direction.NEITHER:
                higher = definition.direction is Direction.HIGHER
                bad, best = (-score, -definition.upper) if higher else (score, definition.lower)
                if bad > best:
                    scores.setdefault((event.pipeline, worst_list(metric, event.labeler)), []).append(bad)
    wrong = []
    for name, found in scores.items():
        worst = sorted(found, reverse=True)[: SpecimenSettings().worst_n]
        if outcome.lists.get(name, []) != worst:
            wrong.append(f"{name}: {outcome.lists.get(name, [])} instead of {worst}")
    return Check("the worst of each metric are kept", len(scores), wrong)


def _specimen_bytes(outcome: Outcome) -> Check:
    wrong = []
    for pipeline, sizes in outcome.specimen_bytes.items():
        counted, most = outcome.counted_bytes[pipeline], SpecimenSettings().bytes
        if not sum(sizes) <= counted <= most:
            wrong.append(f"{pipeline}: {counted} bytes are counted, {sum(sizes)} are kept, {most} are allowed")
    return Check("the bytes of specimens are counted, and within the cap", len(outcome.specimen_bytes), wrong)


def _equal_scores(outcome: Outcome, quiet: Outcome) -> Check:
    def scores(run: Outcome) -> dict[tuple[str, str], Any]:
        return {(e.pipeline, e.interaction_id): (e.scores, e.absent, e.gold_scores, e.labeler) for _, e in run.events}

    there, here = scores(quiet), scores(outcome)
    wrong = [f"{name}: {here.get(name)} instead of {there[name]}" for name in there if here.get(name) != there[name]]
    return Check("every interaction has the scores of the quiet run", len(there), wrong)


def _equal_estimates(outcome: Outcome, quiet: Outcome) -> Check:
    there, here = (
        {_key(e): e for e in run.estimates if not e.metric.startswith("labeling.")} for run in (quiet, outcome)
    )
    wrong = [f"only in one run: {key}" for key in there.keys() ^ here.keys()]
    for key in there.keys() & here.keys():
        wrong += [f"{key}: {difference}" for difference in _differences(here[key], there[key])]
    return Check("the estimates are those of the quiet run (means to 1e-12)", len(there), wrong)


def _key(e: Estimate) -> tuple[str | None, ...]:
    return e.pipeline, e.segment, e.metric, e.profile, e.labeler, e.labeler_version, e.window, e.estimator


def _differences(one: Estimate, other: Estimate) -> Iterator[str]:
    for name in EXACT:
        if getattr(one, name) != getattr(other, name):
            yield f"{name} {getattr(one, name)} instead of {getattr(other, name)}"
    if [(at.upto, at.share) for at in one.distribution] != [(at.upto, at.share) for at in other.distribution]:
        yield f"distribution {one.distribution} instead of {other.distribution}"
    for name, tolerance in CLOSE.items():
        ours, theirs = getattr(one, name), getattr(other, name)
        if (ours is None) != (theirs is None):
            yield f"{name} {ours} instead of {theirs}"
        elif ours is not None and not isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{name} {ours!r} instead of {theirs!r}"


def _equal_alerts(outcome: Outcome, quiet: Outcome) -> Check:
    def fired(run: Outcome) -> set[tuple[str, str]]:
        return {(alert.rule, alert.pipeline) for alert in run.alerts}

    wrong = [f"only in one run: {alert}" for alert in fired(outcome) ^ fired(quiet)]
    return Check("the same rules fire on the same pipelines as in the quiet run", len(fired(quiet)), wrong)
