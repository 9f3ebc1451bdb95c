"""Asks a judge about a user's own items several times: as they are, again, and with changes that are no faults."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ragtide_consumers.labelers.event import labeler_id
from ragtide_consumers.labelers.judge.criteria import choose
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.metrics.scores import nothing_to_label
from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion

from ..benchmark.formats import read_labeled
from ..corruptions.interactions import CORRUPTIONS, REPEATED_ANSWER, Corruption, spoil, without_own_sentences
from ..runs import LabelerRun, drawn_places
from ..score.scored_file import rows_at_once
from ..score.scoring import Label, Outcome
from ..trust.running import LabelerTrial
from ..trust.worth import LabelerWorth
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


class JudgeCheck(LabelerRun[tuple[int, Variant]]):
    """A run over items, each in several variants. No answer comes from a cache, and none is stored.

    Args:
        settings: of the check (`settings_of_check`).
        files: sources of interactions, as of `ragtide score`.
        limit: most rows of each file; None for all.
        sample: number of items that are drawn, evenly from the files or their subsets; None for all.
        seed: of the drawn items, and of the bootstrap.

    Raises:
        UnreadableFileError: a file cannot be read.
    """

    keeps_answers = False

    def __init__(
        self,
        settings: Settings,
        files: Sequence[str],
        *,
        limit: int | None = None,
        sample: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(settings, seed)
        self.criteria = settings.judge.criteria
        """The criteria that are asked."""
        self.rows: list[CheckRow] = []
        self.worths: list[LabelerWorth] = []
        """What the judge's numbers are worth, by the items that have labels; empty without any."""
        self._trial = LabelerTrial()
        self._answers: dict[int, dict[Variant, Labeling]] = {}
        counts, items, names, families = self.result.counts, [], [], settings.judge.families
        counts["nothing_to_judge"] = 0
        for file in files:
            for row, _ in islice(read_labeled(Path(file)), limit):
                item = row.interaction
                if item is None:
                    self.result.note(f"{file}:{row.line}: {row.problem}")
                elif not choose(self.criteria, item).asked and (not families or nothing_to_label(item) is not None):
                    counts["nothing_to_judge"] += 1
                else:
                    items.append(item)
                    names.append((item.interaction_id, item.segments.get("dataset", Path(file).stem)))
        self._items = items if sample is None else [items[place] for place in drawn_places(names, sample, seed)]
        counts["rows"] = len(self._items)

    @asynccontextmanager
    async def labeling(self) -> AsyncIterator[tuple[Label, LabelerId, int]]:
        """Yield the function that asks the judge anew about each variant, and no cache."""
        async with labeler_of(self.settings, None, patient=False) as labeler:
            # The same question again has a new answer, and not the one that is remembered.
            usual = cast("JudgeLabeler", labeler).without_cache()
            reordered = usual.without_cache()
            reordered.take_criteria(self.criteria[::-1])

            async def label(row: Row) -> Labeling:
                interaction = cast("RagInteraction", row.interaction)
                judge = reordered if interaction.interaction_id.endswith("~criteria_reversed") else usual
                return await judge.label(interaction)

            yield label, labeler_id(labeler), rows_at_once(self.settings)

    def asked(self) -> Iterator[tuple[tuple[int, Variant], Row]]:
        """Yield every item in all its variants."""
        number = 0
        for place, item in enumerate(self._items):
            for variant, interaction in self._variants(item):
                yield (place, variant), Row(number, interaction)
                number += 1

    def _variants(self, item: RagInteraction) -> Iterator[tuple[Variant, RagInteraction]]:
        clean = without_own_sentences(item)

        def named(variant: Variant) -> RagInteraction:
            # Two questions about one id would share the account of their unfinished calls.
            return clean.model_copy(update={"interaction_id": f"{item.interaction_id[:200]}~{variant}"})

        yield "as_it_is", named("as_it_is")
        yield "asked_again", named("asked_again")
        for variant, corruption in SPOILT.items():
            changed = spoil(corruption, item, (), seed=self.result.seed)
            if changed is not None:
                yield variant, changed
        if len(choose(self.criteria, clean).asked) > 1:
            yield "criteria_reversed", named("criteria_reversed")

    def take(self, asked: tuple[int, Variant], outcome: Outcome) -> None:
        """Take the judge's answer to a variant of an item."""
        item, variant = asked
        if self.result.take(outcome, f"{self._items[item].interaction_id}, {variant}") and outcome.labeling is not None:
            self._answers.setdefault(item, {})[variant] = outcome.labeling
            labels = self._items[item].gold_scores
            if variant == "as_it_is" and labels and outcome.event is not None:
                scores, cost_usd = outcome.event.scores, outcome.labeling.cost_usd or None
                question = self._items[item].question
                self._trial.take(self.result.labeler, labels, scores, question, cost_usd=cost_usd)

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Compute the rows of the table."""
        answers = sorted(self._answers.items())
        items = [ItemAnswers(len(self._items[item].documents), labelings) for item, labelings in answers]
        profile, seed = self.settings.profile, self.result.seed
        self.rows = check_rows(items, self.criteria, profile=profile, confidence=confidence, seed=seed)
        self.result.facts = {
            "criteria": [criterion.metric for criterion in self.criteria],
            "confidence": confidence,
        }
        self.worths = list(self._trial.worth(confidence=confidence, seed=seed))
        self.result.tables = {
            "checks": [row.as_dict() for row in self.rows],
            "worth": [worth.as_dict() for worth in self.worths],
        }
        yield
