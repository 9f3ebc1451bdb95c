"""Lists of specimens for the page: the worst of a metric, the sample, the newest, and those that an alert names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotations import HIGHEST, LOWEST, REASON_CHARS, Annotation
from ragtide_offline.datasets.choosing import score_of
from ragtide_runtime.redis.keys import SPECIMEN_JUDGED, SPECIMEN_SAMPLE, parts_of_worst
from ragtide_schemas import Alert, Specimen

from ..viewers import Viewer

MOST: Final = 100
"""Most items of a list on the page; `ragtide items --limit` lists more."""

WORST: Final = "worst"
NEWEST: Final = "newest"


@dataclass(frozen=True, slots=True)
class ItemChoice:
    """The list that a user chose."""

    name: str = ""
    """`worst`, `newest`, `sample`, or the stored name of a list, such as `beyond:RULE`."""
    metric: str = ""
    """Metric of the worst; empty for the first list."""
    labeler: str = ""
    """Labeler of the worst; empty for any."""
    alert: str = ""
    """Id of an alert, whose items are then the list."""

    @property
    def query(self) -> dict[str, str]:
        """The fields of an address that choose this list."""
        fields = {"list": self.name, "metric": self.metric, "labeler": self.labeler, "alert": self.alert}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class ListedItem:
    """An item of a list."""

    specimen: Specimen
    score: float | None
    """Score of the list's metric; None without one."""


@dataclass(frozen=True, slots=True)
class ItemList:
    """The items of a list, in its order."""

    items: Sequence[ListedItem]
    metric: str = ""
    labeler: str = ""
    gone: int = 0
    """Items that were on the list and are no longer kept."""
    most: bool = False
    """Whether the list may go on behind the items that are shown."""

    def around(self, interaction_id: str) -> tuple[int, str | None, str | None] | None:
        """Return the place of an item from 1, and the ids before and after it; None if it is not on the list."""
        ids = [one.specimen.interaction.interaction_id for one in self.items]
        if interaction_id not in ids:
            return None
        at = ids.index(interaction_id)
        return at + 1, ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None


async def read_list(kept: KeptSpecimens, pipeline: str, choice: ItemChoice, alert: Alert | None = None) -> ItemList:
    """Return the items of a list of a pipeline.

    Args:
        kept: the specimens of the deployment.
        pipeline: of the list.
        choice: of the list.
        alert: the alert that the choice names, if it names one.
    """
    if choice.alert:
        return ItemList([], gone=0) if alert is None else await _of_alert(kept, alert)
    names = list(await kept.lists(pipeline))
    if choice.name == NEWEST:
        return await _newest(kept, pipeline, names)
    name = list_name(names, choice)
    if name is None:
        return ItemList([])
    found = await kept.listed(pipeline, name, MOST)
    metric, labeler = parts_of_worst(name) or ("", "")
    items = [ListedItem(one.specimen, score_of(one.specimen, metric, labeler or None)) for one in found]
    return ItemList(items, metric, labeler, kept.gone, most=len(items) == MOST)


def list_name(names: Sequence[str], choice: ItemChoice) -> str | None:
    """Return the stored name of a list that a pipeline has; None if it has no such list."""
    if choice.name != WORST:
        return choice.name if choice.name in names else None
    for name in names:
        parts = parts_of_worst(name)
        if parts is not None and choice.metric in ("", parts[0]) and choice.labeler in ("", parts[1]):
            return name
    return None


async def _of_alert(kept: KeptSpecimens, alert: Alert) -> ItemList:
    ids = alert.worst_interaction_ids[:MOST]
    found = [one for each in ids for one in await kept.find(each, alert.pipeline)]
    items = [ListedItem(one, score_of(one, alert.metric, alert.labeler)) for one in found]
    return ItemList(items, alert.metric, alert.labeler or "", len(ids) - len(found))


async def _newest(kept: KeptSpecimens, pipeline: str, names: Sequence[str]) -> ItemList:
    """Return the items that were kept last. The lists of the worst do not know when, so their items are not here."""
    ranked = {}
    for name in names:
        if name in (SPECIMEN_SAMPLE, SPECIMEN_JUDGED) or name.startswith("beyond:"):
            for one in await kept.listed(pipeline, name, MOST):
                ranked[one.specimen.interaction.interaction_id] = one
    found = sorted(ranked.values(), key=lambda one: -one.rank)[:MOST]
    return ItemList([ListedItem(one.specimen, None) for one in found], gone=kept.gone, most=len(found) == MOST)


def opinions_shown(viewer: Viewer, opinions: Sequence[Annotation]) -> dict[str, Any]:
    """Return the content of the page about opinions, the newest first."""
    return {
        "opinions": opinions,
        "mine": next((opinion for opinion in opinions if opinion.annotator == viewer.name), None),
        "may_opine": viewer.is_operator and viewer.sees_texts,
        "ratings": range(LOWEST, HIGHEST + 1),
        "reason_chars": REASON_CHARS,
    }
