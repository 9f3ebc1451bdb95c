"""Scores a file with the labeler of the settings, and continues an output; writes RAGChecker's JSON."""

import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import astuple, dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragtide_consumers.labelers.event import labeler_id
from ragtide_consumers.labelers.profiles import check_profiles
from ragtide_consumers.labelers.protocol import Labeler, LabelerId, Labeling, scores_of
from ragtide_consumers.labelers.registry import LABEL_TIMEOUT_S, Bounded, labeler_of
from ragtide_consumers.labelers.remote.file_cache import NAME as ANSWERS
from ragtide_consumers.labelers.remote.spend import FileSpend
from ragtide_consumers.metrics.ragchecker import ragchecker_metrics
from ragtide_producers import FileOptions, Row, count_rows, read_rows
from ragtide_roles.criteria.sessions import session_criteria, with_sessions
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import ClaimLabels, MetricEvent, RagInteraction

from .lines import ScoreFile, line_of
from .scoring import STORED, CostLimitReached, Label, Outcome, ScoringStopped, score_rows, stored_labeling

AT_ONCE_LOCAL = 1
"""Rows in flight for a labeler without calls: it computes one row after the other."""

GROUPS: Final = {
    "overall_metrics": ("precision", "recall", "f1"),
    "retriever_metrics": ("claim_recall", "context_precision"),
    "generator_metrics": (
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    ),
}
"""RAGChecker's groups of metrics, by the names in its JSON.

Source: amazon-science/RAGChecker, `ragchecker/container.py` and `metrics.py`.
"""


@dataclass(slots=True)
class ScoredFile:
    """The scores of a file so far, with the scores that an earlier process wrote."""

    settings: Settings
    source: str | Path
    file: FileOptions
    output: Path | None = None
    """A file of scores to write or continue."""
    labels: bool = False
    """Whether lines contain the labels."""
    limit: int | None = None
    """Most rows to score; None for all."""
    export: Path | None = None
    """A file in RAGChecker's format to write at the end."""
    events: list[MetricEvent] = field(default_factory=list)
    claims: list[tuple[RagInteraction, ClaimLabels]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Rows `scored` now, scored `before`, and rows with `problems`; whole `sessions` that were scored now."""
    cost_usd: float = 0.0
    columns: dict[str, str] = field(default_factory=dict)
    """The latest column of each field that has another name in the file."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What the rows have that is not scored on purpose, by name."""

    def total(self) -> int | None:
        """Return the number of rows; None if it is not known before they are read."""
        return count_rows(self.source, self.file) if self.limit is None else self.limit

    def totals(self) -> dict[str, float]:
        """Return the counts of rows and the cost, for programs."""
        counts = {name: self.counts[name] for name in ("scored", "before", "problems")}
        if self.counts["sessions"]:
            counts["sessions"] = self.counts["sessions"]
        return {**counts, "cost_usd": self.cost_usd}

    async def score(self) -> AsyncIterator[tuple[Outcome, dict[str, Any] | None]]:
        """Score the rows, write the outputs, and yield the outcome and the line of each new row, in order.

        Raises:
            RagtideError: the file cannot be read, the output cannot be continued, or nothing can be labeled now.
        """
        async with labeling_of(self.settings, keep_answers=True) as (label, labeler, at_once):
            named = None if labeler.name in {STORED, "cascade"} else " ".join(filter(None, astuple(labeler)))
            own = self.settings.profile, self.settings.claim_profile
            profiles = own if labeler.name == STORED else ()
            output = ScoreFile(self.output, labeler=named, profiles=profiles) if self.output is not None else None
            rows = self._new_rows(read_rows(self.source, self.file), {} if output is None else output.done)
            try:
                async with aclosing(score_rows(rows, label, labeler, at_once=at_once)) as outcomes:
                    async for outcome in outcomes:
                        yield outcome, self._take(outcome, output)
            finally:
                if output is not None:
                    output.close()
        if self.export is not None:
            if self.counts["before"]:
                raise ScoringStopped(
                    f"the labels of {self.counts['before']} interactions that were scored before are not stored: give "
                    "a new --output, so that the whole file is scored and exported"
                )
            write_ragchecker_json(self.export, self.claims)

    def _new_rows(self, rows: Iterable[Row], done: Mapping[tuple[str, str], deque[MetricEvent]]) -> Iterator[Row]:
        user_ids = UserIds.of(self.settings)
        limited = islice(rows, self.limit)
        for row in with_sessions(limited, session_criteria(self.settings), self.settings.clusters.quiet_s):
            self.columns |= row.columns
            self.left_out.update(row.left_out)
            interaction = row.interaction
            before = done.get((interaction.pipeline, interaction.interaction_id)) if interaction is not None else None
            if before:
                self.events.append(before.popleft())
                self.counts["before"] += 1
            elif interaction is None:
                yield row
            else:
                yield row.with_interaction(user_ids.with_pseudonym(interaction))

    def _take(self, outcome: Outcome, output: ScoreFile | None) -> dict[str, Any] | None:
        if outcome.event is None:
            self.counts["problems"] += 1
            return None
        self.counts["sessions" if outcome.event.is_session else "scored"] += 1
        self.events.append(outcome.event)
        self.cost_usd += outcome.event.cost_usd
        if self.export is not None and outcome.labeling is not None and outcome.row.interaction is not None:
            claims = [labels for labels in outcome.labeling.labels if isinstance(labels, ClaimLabels)]
            self.claims += [(outcome.row.interaction, labels) for labels in claims]
        line = line_of(outcome.event, outcome.labeling if self.labels else None)
        if output is not None:
            output.add(line)
        return line


@asynccontextmanager
async def labeling_of(
    settings: Settings,
    own: Labeler | None = None,
    *,
    keep_answers: bool = False,
    patient: bool = False,
    account: FileSpend | None = None,
) -> AsyncIterator[tuple[Label, LabelerId, int]]:
    """Yield the function that labels a row, the labeler's id, and the number of rows in flight.

    Args:
        settings: name the labeler.
        own: the labeler, if it is the caller's; it is not closed.
        keep_answers: whether answers of remote labelers are cached in a file of the data directory, so that another run
            pays for none of them again.
        patient: whether the sample of a cascade may wait for its labeler, as in a worker.
        account: of the run. When it refuses a call, the function raises `CostLimitReached` from then on.

    Raises:
        ConfigurationError: the labeler or a profile is unknown, or a setting that the labeler needs is missing.
    """
    if own is not None:
        bounded = Bounded(own, LABEL_TIMEOUT_S)
        yield _labels_of(bounded), labeler_id(own), AT_ONCE_LOCAL
        return
    if settings.labeler == STORED:
        check_profiles(settings)

        async def label_stored(row: Row) -> Labeling:
            return stored_labeling(row, profile=settings.profile, claim_profile=settings.claim_profile)

        yield label_stored, LabelerId(STORED, "1", ""), AT_ONCE_LOCAL
        return
    answers = settings.data_dir / ANSWERS if keep_answers else None
    async with labeler_of(settings, None, patient=patient, answers=answers, account=account) as labeler:
        yield _labels_of(labeler, account), labeler_id(labeler), rows_at_once(settings)


def _labels_of(labeler: Labeler, account: FileSpend | None = None) -> Label:
    def check() -> None:
        # A labeler may hide that a call was refused: its scores are then not those that the settings ask for.
        if account is not None and account.reached:
            raise CostLimitReached(
                "the limit of cost of this run is reached: raise it, then run the same command again"
            )

    async def label(row: Row) -> Labeling:
        assert row.interaction is not None  # noqa: S101 - for the type checker: only such rows are labeled
        try:
            labeling = await scores_of(labeler, row.interaction)
        except Exception:
            check()
            raise
        check()
        return labeling

    return label


def rows_at_once(settings: Settings) -> int:
    """Return the number of rows in flight: enough to use all calls that each endpoint may have in flight."""
    if settings.labelers == ("local",):
        return AT_ONCE_LOCAL
    return 4 * max(settings.services.get(name, settings.judge).max_in_flight for name in settings.labelers)


def ragchecker_json(items: Sequence[tuple[RagInteraction, ClaimLabels]]) -> dict[str, Any]:
    """Return results and metrics as RAGChecker writes them: undefined is 0, means are percent with one decimal."""
    results = [_result(interaction, labels) for interaction, labels in items]
    means = {
        group: {name: round(100 * fmean(result["metrics"][name] for result in results), 1) for name in names}
        for group, names in GROUPS.items()
        if results
    }
    return {"results": results, "metrics": means}


def _result(interaction: RagInteraction, labels: ClaimLabels) -> dict[str, Any]:
    return {
        "query_id": interaction.interaction_id,
        "query": interaction.question,
        "gt_answer": interaction.reference_answer or "",
        "response": interaction.response,
        "retrieved_context": [
            {"doc_id": document.id or str(index), "text": document.text}
            for index, document in enumerate(interaction.documents)
        ],
        "response_claims": labels.response_claims,
        "gt_answer_claims": labels.reference_claims,
        "answer2response": labels.answer2response or [],
        "response2answer": labels.response2answer or [],
        "retrieved2response": labels.retrieved2response,
        "retrieved2answer": labels.retrieved2answer or [],
        "metrics": dict(ragchecker_metrics(labels, profile="ragchecker").scores),
    }


def write_ragchecker_json(path: Path, items: Sequence[tuple[RagInteraction, ClaimLabels]]) -> None:
    """Write results and metrics to a file."""
    path.write_text(json.dumps(ragchecker_json(items), ensure_ascii=False, indent=2), encoding="utf-8")
