"""The summary of a scored file: means with intervals, diagnoses, and published results beside them."""

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json, to_json

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import ORDERED, STRATEGIES, estimates
from ragtide_aggregator.events.keys import LATENCY
from ragtide_aggregator.reading.diagnoses import diagnoses
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.score.reference_results import ReferenceResult
from ragtide_runtime.data_frames import Library, frame_of
from ragtide_runtime.errors import RagtideError
from ragtide_schemas import Estimate, InvalidEntryError, MetricEvent, from_milliseconds
from ragtide_schemas.diagnosis import Diagnosis
from ragtide_schemas.html_tables import html_table

if TYPE_CHECKING:
    from .drawn import WeightedRows

COLUMNS: Final = (
    "pipeline", "run", "segment", "labeler", "profile", "metric", "estimate", "lower", "upper", "n", "n_absent", "band",
    "estimator", "strategy", "confidence",
)  # fmt: skip
"""Columns of a summary as a data frame."""

MOST_LINES: Final = 12
"""Most estimates in the text of a summary."""

MOST_NAME_CHARS: Final = 40
"""Most characters of a name in the text of a summary."""

_SCOPE: Final = ("pipeline", "run", "segment", "labeler", "labeler_version", "profile", "estimator")
"""Fields that distinguish the estimates of one metric."""


OPTIONS: Final = StateOptions(segments=False, quantiles=False, exact=True)
"""Options of a state whose estimates are a summary."""

NO_TIME: Final = from_milliseconds(0)
"""Time of an interaction whose time is not known, in a state."""

OF_ORDER: Final = ("recent", "n_out_of_order")
"""Fields of an estimate that depend on the order of the values, which a merged summary does not have."""

_FORM: Final = 1
"""Version of the form of a saved summary."""


class UnusableSummaryError(RagtideError):
    """A summary cannot be loaded or merged."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a summary, from which it is computed again."""

    strategy: str
    """Method of the intervals."""
    confidence: float
    fields: Mapping[str, bytes] = field(repr=False)
    """The sums as fields of a checkpoint; time of labeling is left out, because it does not follow from the rows."""
    ordered: bool = True
    """Whether all values were taken in their order; a merged summary has lost it."""
    drawn: tuple[bytes, ...] = field(default=(), repr=False)
    """Events of the rows that were drawn from known answers, as JSON; only these have sums then."""
    by_hand: int = 0
    """Number of rows beside them that were put in by hand."""

    def drawn_events(self) -> list[MetricEvent]:
        """Return the events of drawn rows.

        Raises:
            UnusableSummaryError: an event is damaged.
        """
        try:
            return [MetricEvent.decode(event) for event in self.drawn]
        except InvalidEntryError as error:
            raise UnusableSummaryError(
                f"the drawn rows of the summary cannot be read ({error}): make it again"
            ) from None

    def state(self) -> AggregatorState:
        """Return a state with the sums.

        Raises:
            UnusableSummaryError: a field is damaged, or of another version of ragtide.
        """
        try:
            return AggregatorState.from_fields(OPTIONS, self.fields)
        except DamagedFieldError as error:
            raise UnusableSummaryError(
                f"the sums of the summary cannot be read ({error}): make it again with this version of ragtide"
            ) from None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Summary:
    """Estimates of a scored file, with their diagnoses.

    Two summaries are equal if their numbers are: estimates, diagnoses and problems. Events, the time of the last value
    and what depends on the order of the rows (`recent`, `n_out_of_order`) are not compared, because neither a saved nor
    a merged summary has them.
    """

    estimates: Sequence[Estimate]
    diagnoses: Sequence[tuple[str, Diagnosis]]
    """Diagnoses by pipeline."""
    problems: Sequence[str] = ()
    """Rows that could not be scored, and events that could not be counted."""
    events: Sequence[MetricEvent] = ()
    """The scores of the interactions, if they were asked for."""
    sums: Sums | None = None
    """The sums behind the estimates, by which it is merged and saved; None for live traffic."""
    drawn: "WeightedRows | None" = None
    """The drawn rows, if there are any: the estimates stand for the traffic that they were drawn from."""

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, Summary) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _compared(self) -> tuple[object, ...]:
        left_out = dict.fromkeys(("updated_at", *OF_ORDER))
        estimates = [estimate.model_copy(update=left_out) for estimate in self.estimates]
        return estimates, tuple(self.diagnoses), sorted(self.problems)

    def merge(self, other: "Summary") -> "Summary":
        """Return the summary of all rows of two summaries, such as of the shards of a file.

        Counts, means, totals, extremes, errors against gold scores, weighted and prediction-powered means, and their
        intervals have the bits of one summary over all rows, however the rows were split. `recent` and
        `n_out_of_order` depend on the order of the rows, which is lost: `recent` is None.

        Args:
            other: a summary of other rows.

        Raises:
            UnusableSummaryError: a summary is of live traffic, the two have different intervals, or their intervals
                depend on the order of the rows (`auto`, `running`).
        """
        mine, theirs = self._merged_sums("this"), other._merged_sums("the other")
        if (mine.strategy, mine.confidence) != (theirs.strategy, theirs.confidence):
            raise UnusableSummaryError(
                f"one summary has the intervals {mine.strategy}, {mine.confidence:g}, the other {theirs.strategy}, "
                f"{theirs.confidence:g}: make both with the same"
            )
        problems, events = (*self.problems, *other.problems), (*self.events, *other.events)
        if mine.drawn or theirs.drawn:
            by_hand = sum(
                sums.by_hand if sums.drawn else n_rows(part) for part, sums in ((self, mine), (other, theirs))
            )
            rows = [*mine.drawn_events(), *theirs.drawn_events()]
            merged = summary_of_drawn(rows, by_hand, strategy=mine.strategy, confidence=mine.confidence, ordered=False)
            return replace(merged, problems=problems, events=events)
        state = AggregatorState.merged((mine.state(), theirs.state()), OPTIONS)
        return summary_of(
            state, strategy=mine.strategy, confidence=mine.confidence, problems=problems, events=events, ordered=False
        )

    def _merged_sums(self, name: str) -> Sums:
        if self.sums is None:
            raise UnusableSummaryError(f"{name} summary is of live traffic: only summaries of scored rows are merged")
        if self.sums.strategy in ORDERED:
            raise UnusableSummaryError(
                f"{name} summary has the intervals {self.sums.strategy}, which depend on the order of the rows: score "
                f"with another strategy ({', '.join(name for name in STRATEGIES if name not in ORDERED)}), or merge "
                "parts with ragtide score merge, which reads all rows in their order"
            )
        return self.sums

    def save(self, path: str | Path) -> None:
        """Write the summary to a file, without the events; `load` reads it, on any machine.

        Args:
            path: of the file, which is replaced in one step.

        Raises:
            UnusableSummaryError: it is a summary of live traffic, or the file cannot be written.
        """
        if self.sums is None:
            raise UnusableSummaryError("it is a summary of live traffic: only summaries of scored rows are saved")
        place = Path(path)
        new = place.with_name(f".{place.name}.{os.getpid()}.tmp")
        try:
            new.write_bytes(encoded(self.sums, self.problems))
            new.replace(place)
        except OSError as error:
            raise UnusableSummaryError(f"{path} cannot be written ({error.strerror}): give another path") from None

    @classmethod
    def load(cls, path: str | Path) -> "Summary":
        """Return a saved summary.

        Args:
            path: of a file that `save` wrote.

        Raises:
            UnusableSummaryError: it cannot be read, or is no summary.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise UnusableSummaryError(f"{path} cannot be read ({error.strerror}): give a saved summary") from None
        try:
            return decoded(data)
        except UnusableSummaryError as error:
            raise UnusableSummaryError(f"{path}: {error}") from None

    def to_frame(self, library: Library | None = None) -> Any:
        """Return the estimates as a data frame of pandas, or of Polars if only that is installed.

        Args:
            library: `pandas` or `polars`; by default the one that is installed.

        Raises:
            ConfigurationError: neither is installed.
        """
        return frame_of([estimate.model_dump(mode="json") for estimate in self.estimates], COLUMNS, library)

    def __repr__(self) -> str:
        """Return the first means with their intervals, as text of bounded length."""
        distinguishing = self._distinguishing(_SCOPE)
        lines = [
            f"  {_scope_name(estimate, distinguishing)}{estimate.metric_name}: {estimate.estimate:.3f}"
            + (
                f" ({estimate.lower:.3f} to {estimate.upper:.3f})"
                if estimate.lower is not None and estimate.upper is not None
                else ""
            )
            + f", n {estimate.n:,}"
            for estimate in self.estimates
            if estimate.estimate is not None
        ]
        more = [f"  and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
        bad = [f"  {len(self.problems):,} problems: see .problems"] if self.problems else []
        drawn = [] if self.drawn is None else [f"  {self.drawn.sentence}"]
        return "\n".join([f"Summary of {len(self.estimates):,} estimates", *lines[:MOST_LINES], *more, *drawn, *bad])

    def _repr_html_(self) -> str:
        always = ("pipeline", "segment", "labeler")
        scope = [name for name in _SCOPE if name in (*always, *self._distinguishing(_SCOPE))]
        columns = (*scope, "metric", "mean", "lower", "upper", "n", "absent", "band")
        rows = [
            (
                *(getattr(estimate, name) for name in scope),
                estimate.metric_name, estimate.estimate, estimate.lower, estimate.upper, estimate.n, estimate.n_absent,
                estimate.band,
            )
            for estimate in self.estimates
        ]  # fmt: skip
        problems = f"{len(self.problems):,} problems" if self.problems else ""
        caption = "; ".join(filter(None, [problems, "" if self.drawn is None else self.drawn.sentence]))
        return html_table(columns, rows, caption=caption)

    def _distinguishing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if len({getattr(estimate, name) for estimate in self.estimates}) > 1]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as values that JSON can hold."""
        unknown = None if self.sums is None or self.sums.ordered else set(OF_ORDER)
        return {
            "estimates": [estimate.model_dump(mode="json", exclude=unknown) for estimate in self.estimates],
            "diagnoses": [
                {"scope": scope, "pattern": diagnosis.pattern.name, "sentence": diagnosis.sentence()}
                for scope, diagnosis in self.diagnoses
            ],
            "not_counted": list(self.problems),
            **({} if self.drawn is None else {"drawn": self.drawn.as_dict()}),
        }


def n_rows(summary: Summary) -> int:
    """Return the number of interactions of a summary, of all pipelines and runs together."""
    counts: dict[tuple[str, str | None], int] = {}
    for estimate in summary.estimates:
        scope = estimate.pipeline, estimate.run
        counts[scope] = max(counts.get(scope, 0), estimate.n + estimate.n_absent)
    return sum(counts.values())


def encoded(sums: Sums, problems: Sequence[str]) -> bytes:
    """Return sums and problems as JSON."""
    encoded_fields = {name: b64encode(data).decode() for name, data in sorted(sums.fields.items())}
    return to_json(
        {
            "ragtide": "summary",
            "form": _FORM,
            "strategy": sums.strategy,
            "confidence": sums.confidence,
            "ordered": sums.ordered,
            "problems": problems,
            "fields": encoded_fields,
            **({"drawn": [event.decode() for event in sums.drawn], "by_hand": sums.by_hand} if sums.drawn else {}),
        }
    )


def decoded(data: bytes) -> Summary:
    """Return the summary in JSON that `encoded` returned.

    Raises:
        UnusableSummaryError: it is no summary, or one of another version.
    """
    try:
        saved = from_json(data)
        if saved["ragtide"] != "summary" or saved["form"] != _FORM:
            raise UnusableSummaryError("it is a summary of another version of ragtide: make it again")
        fields = {name: b64decode(field, validate=True) for name, field in saved["fields"].items()}
        drawn = tuple(event.encode() for event in saved.get("drawn", ()))
        sums = Sums(saved["strategy"], saved["confidence"], fields, saved["ordered"], drawn, saved.get("by_hand", 0))
        problems = tuple(saved["problems"])
        is_usable = sums.strategy in STRATEGIES and 0 < sums.confidence < 1
    except (ValueError, TypeError, KeyError, AttributeError):
        is_usable = False
    if not is_usable:
        raise UnusableSummaryError("it is not a summary: give a file that Summary.save has written")
    if sums.drawn:
        weighted = summary_of_drawn(
            sums.drawn_events(),
            sums.by_hand,
            strategy=sums.strategy,
            confidence=sums.confidence,
            ordered=sums.ordered,
        )
        return replace(weighted, problems=problems)
    state = sums.state()
    summary = summary_of(
        state, strategy=sums.strategy, confidence=sums.confidence, problems=problems, ordered=sums.ordered
    )
    return replace(summary, sums=sums)


def _scope_name(estimate: Estimate, fields: Iterable[str]) -> str:
    names = [str(value) for value in (getattr(estimate, name) for name in fields) if value is not None]
    shown = [name if len(name) <= MOST_NAME_CHARS else f"{name[:MOST_NAME_CHARS]}…" for name in names]
    return f"{' · '.join(shown)} · " if shown else ""


def summarize(events: Iterable[MetricEvent], *, strategy: str, confidence: float) -> Summary:
    """Return the estimates of events, computed as for live traffic.

    If rows among them were drawn from known answers, the estimates are those of the traffic: only drawn rows count.
    """
    everything = list(events)
    drawn = [event for event in everything if event.drawn is not None]
    if drawn:
        return summary_of_drawn(drawn, by_hand(everything), strategy=strategy, confidence=confidence)
    return _summarize(everything, strategy=strategy, confidence=confidence)


def by_hand(events: Iterable[MetricEvent]) -> int:
    """Return the number of interactions among events that were not drawn."""
    return len({event.interaction_id for event in events if event.drawn is None and not event.is_session})


def summary_of_drawn(
    events: Sequence[MetricEvent], by_hand: int, *, strategy: str, confidence: float, ordered: bool = True
) -> Summary:
    """Return the summary of the traffic from which rows were drawn.

    Args:
        events: of the drawn rows; those of other rows do not count.
        by_hand: number of rows that were put in by hand.
        strategy: method of the intervals of what is no mean of a metric, such as an error against gold scores.
        confidence: level of the intervals.
        ordered: whether the events are in the order of the rows.
    """
    from .drawn import WeightedRows, scores_of_drawn, with_probabilities  # noqa: PLC0415 - few files are of drawn rows

    # The order of the events moves no bit of what is merged.
    rows = sorted(events, key=lambda event: (event.pipeline, event.run or "", event.interaction_id))
    scores = scores_of_drawn(rows)
    if not scores.rows:
        return _summarize(rows, strategy=strategy, confidence=confidence)
    drawn = WeightedRows.of(scores.rows, by_hand)
    summary = _summarize(with_probabilities(rows, drawn), strategy=strategy, confidence=confidence, ordered=ordered)
    weighted = [scores.weighted(estimate, drawn) for estimate in summary.estimates]
    assert summary.sums is not None  # noqa: S101 - for the type checker: it is of events
    sums = replace(summary.sums, drawn=tuple(event.encode() for event in rows), by_hand=by_hand)
    return replace(summary, estimates=weighted, diagnoses=diagnoses(weighted), sums=sums, drawn=drawn)


def _summarize(events: Iterable[MetricEvent], *, strategy: str, confidence: float, ordered: bool = True) -> Summary:
    state = AggregatorState(OPTIONS)
    problems: list[str] = []
    for event in events:
        try:
            state.apply(event)
        except InvalidEntryError as error:
            problems.append(f"{event.interaction_id}: {error.detail}")
    return summary_of(state, strategy=strategy, confidence=confidence, problems=problems, ordered=ordered)


def summary_of(
    state: AggregatorState,
    *,
    strategy: str,
    confidence: float,
    problems: Sequence[str] = (),
    events: Sequence[MetricEvent] = (),
    ordered: bool = True,
) -> Summary:
    """Return the summary of a state.

    Args:
        state: with `OPTIONS`; it is settled.
        strategy: method of the intervals.
        confidence: level of the intervals.
        ordered: whether the state took all events in their order.
    """
    state.settle()
    summarized = []
    for estimate in chosen(estimates(state, strategy=strategy, confidence=confidence)):
        unknown = {} if ordered else {"recent": None}
        if estimate.updated_at == NO_TIME:
            unknown["updated_at"] = None
        summarized.append(estimate.model_copy(update=unknown))
    durations = {key.encode() for key in state.keys if key.metric == LATENCY}
    sums = {name: data for name, data in state.take_changes().rows.items() if name.partition(":")[2] not in durations}
    return Summary(summarized, diagnoses(summarized), problems, events, Sums(strategy, confidence, sums, ordered))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric beside a published mean, in percent and percentage points."""

    metric: str
    ours_percent: float
    theirs_percent: float

    @property
    def points(self) -> float:
        """Ours minus theirs, in percentage points."""
        return self.ours_percent - self.theirs_percent


def compare(ours: Sequence[Estimate], published: ReferenceResult) -> list[Comparison]:
    """Return our means beside the published means, for the metrics that both have."""
    return [
        Comparison(mean.metric, 100 * mean.estimate, 100 * published.means[mean.metric])
        for mean in ours
        if mean.metric in published.means and mean.estimate is not None
    ]
