"""Asks a judge about a user's own items several times: as they are, again, and with changes that are no faults."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ragtide_consumers.labelers.event import labeler_id
from ragtide_consumers.labelers.judge.criteria import choose
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.metrics.scores import nothing_to_label
from ragtide_producers import FileOptions, Row, read_rows
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

from ..benchmark.corruptions import drawn_places
from ..benchmark.running import PROBLEMS_KEPT, CostPlan, planned_cost
from ..corruptions.interactions import CORRUPTIONS, REPEATED_ANSWER, Corruption, spoil, without_own_sentences
from ..score.scored_file import rows_at_once
from ..score.scoring import Outcome, score_rows
from .rows import CheckRow, ItemAnswers, Variant, check_rows

if TYPE_CHECKING:
    from ragtide_consumers.labelers.judge.labeler import JudgeLabeler

SPOILT: Final[Mapping[Variant, Corruption]] = {
    "documents_reversed": CORRUPTIONS["reversed documents"],
    "answer_repeated": REPEATED_ANSWER,
}
"""The corruption that makes an item of a variant."""


NEVER: Final = 1_000_000_000
"""Failures in a row that do not happen. Scoring ends long before, at an endpoint that is down."""


def settings_of_check(settings: Settings, criteria: Sequence[Criterion]) -> Settings:
    """Return settings whose judge is asked about every item, with each of the criteria, and by nothing else.

    Args:
        settings: of the process.
        criteria: to ask about every item, whatever their share, pipelines and segments.
    """
    asked = tuple(criterion.asked_of_all() for criterion in criteria)
    changes = {
        "criteria": asked,
        "repeat_share": 0.0,
        "over_budget": "wait",
        # Answers without labels are counted here; they must not stop the calls for further items.
        "breaker_failures": NEVER,
    }
    judge = settings.judge.model_copy(update=changes)
    return settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": judge})


@dataclass(slots=True)
class JudgeCheck:
    """The judge's answers to each item so far. No answer comes from a cache, and none is stored.

    Args:
        settings: of the check (`settings_of_check`).
        seed: of the drawn items, and of the bootstrap.
    """

    settings: Settings
    seed: int = 0
    labeler: LabelerId = field(default_factory=lambda: LabelerId("", "", ""))
    cost_usd: float = 0.0
    tokens: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Items: `rows` that are asked about, `nothing_to_judge` left out, and `problems`; `labeled`: answers so far."""
    problems: list[str] = field(default_factory=list)
    """The first problems: item and reason."""
    _items: list[RagInteraction] = field(default_factory=list)
    _answers: dict[int, dict[Variant, Labeling]] = field(default_factory=dict)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria that are asked."""
        return self.settings.judge.criteria

    def read(self, files: Sequence[str], *, limit: int | None = None, sample: int | None = None) -> None:
        """Read the items, and draw those that are asked about.

        Args:
            files: sources of interactions, as of `ragtide score`.
            limit: most rows of each file; None for all.
            sample: number of items that are drawn, evenly from the files or their subsets; None for all.

        Raises:
            UnreadableFileError: a file cannot be read.
        """
        self.counts.clear()
        self.problems.clear()
        items: list[RagInteraction] = []
        names: list[tuple[str, str]] = []
        for file in files:
            for row in islice(read_rows(file, FileOptions(unnamed="unnamed")), limit):
                found = row.interaction
                if found is None:
                    self._note(f"{file}:{row.line}: {row.problem}")
                elif not self._is_judged(found):
                    self.counts["nothing_to_judge"] += 1
                else:
                    items.append(found)
                    names.append((found.interaction_id, found.segments.get("dataset", Path(file).stem)))
        places = range(len(items)) if sample is None else drawn_places(names, sample, self.seed)
        self._items = [items[place] for place in places]
        self.counts["rows"] = len(self._items)

    def _is_judged(self, interaction: RagInteraction) -> bool:
        if choose(self.criteria, interaction).asked:
            return True
        return bool(self.settings.judge.families) and nothing_to_label(interaction) is None

    async def plan(self) -> CostPlan:
        """Return the cost of the check, and ask nothing.

        Raises:
            ConfigurationError: a setting of the judge is missing or wrong.
        """
        rows = (row for _, _, row in self._asked())
        return await planned_cost(self.settings, rows, keeps_answers=False)

    async def run(self) -> AsyncGenerator[None]:
        """Ask the judge, and yield after every answer.

        Raises:
            ConfigurationError: a setting of the judge is missing or wrong.
            ScoringStopped: the judge cannot be called.
        """
        self._answers = {}
        asked = [*self._asked()]
        async with labeler_of(self.settings, None, patient=False) as labeler:
            self.labeler = labeler_id(labeler)
            # The same question again has a new answer, and not the one that is remembered.
            usual = cast("JudgeLabeler", labeler).without_cache()
            reordered = usual.without_cache()
            reordered.take_criteria(self.criteria[::-1])

            async def label(row: Row) -> Labeling:
                _, variant, _ = asked[row.line]
                judge = reordered if variant == "criteria_reversed" else usual
                return await judge.label(cast("RagInteraction", row.interaction))

            rows = (row for _, _, row in asked)
            at_once = rows_at_once(self.settings)
            async with aclosing(score_rows(rows, label, self.labeler, at_once=at_once)) as outcomes:
                async for outcome in outcomes:
                    item, variant, _ = asked[outcome.row.line]
                    self._take(item, variant, outcome)
                    yield

    def _asked(self) -> Iterator[tuple[int, Variant, Row]]:
        """Yield item, variant and row of every question, one item after the other."""
        number = 0
        for place, item in enumerate(self._items):
            for variant, interaction in self._variants(item):
                yield place, variant, Row(number, interaction)
                number += 1

    def _variants(self, item: RagInteraction) -> Iterator[tuple[Variant, RagInteraction]]:
        clean = without_own_sentences(item)

        def named(variant: Variant) -> RagInteraction:
            # Two questions about one id would share the account of their unfinished calls.
            return clean.model_copy(update={"interaction_id": f"{item.interaction_id[:200]}~{variant}"})

        yield "as_it_is", named("as_it_is")
        yield "asked_again", named("asked_again")
        for variant, corruption in SPOILT.items():
            changed = spoil(corruption, item, (), seed=self.seed)
            if changed is not None:
                yield variant, changed
        if len(choose(self.criteria, clean).asked) > 1:
            yield "criteria_reversed", named("criteria_reversed")

    def _take(self, item: int, variant: Variant, outcome: Outcome) -> None:
        if outcome.labeling is None:
            self._note(f"{self._items[item].interaction_id}, {variant}: {outcome.problem}")
            return
        self.counts["labeled"] += 1
        self.cost_usd += outcome.labeling.cost_usd
        self.tokens += outcome.labeling.prompt_tokens + outcome.labeling.completion_tokens
        self._answers.setdefault(item, {})[variant] = outcome.labeling

    def _note(self, problem: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)

    def rows(self, *, confidence: float = 0.95) -> list[CheckRow]:
        """Return the rows of the table.

        Args:
            confidence: level of the intervals.
        """
        items = [ItemAnswers(len(self._items[item].documents), found) for item, found in sorted(self._answers.items())]
        profile = self.settings.profile
        return check_rows(items, self.criteria, profile=profile, confidence=confidence, seed=self.seed)

    def as_dict(self, rows: Sequence[CheckRow], confidence: float) -> dict[str, Any]:
        """Return the check and its rows, for programs.

        Args:
            rows: of the table.
            confidence: level of their intervals.
        """
        return {
            "labeler": f"{self.labeler.name} {self.labeler.version}",
            "criteria": [criterion.metric for criterion in self.criteria],
            "rows": self.counts["rows"],
            "labeled": self.counts["labeled"],
            "nothing_to_judge": self.counts["nothing_to_judge"],
            "problems": self.counts["problems"],
            "seed": self.seed,
            "confidence": confidence,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "checks": [asdict(row) for row in rows],
        }
