"""Lists of kept items: the worst of a metric, the newest, the sample, and those that an alert names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_runtime.redis.keys import parts_of_worst
from ragtide_schemas import Alert, RagInteraction, Specimen

from ..guard.problems import HttpProblem
from ..guard.viewers import Viewer
from .context import Context

MOST: Final = 100
"""Most items of a list on the page; `ragtide items --limit` lists more."""
WORST: Final = "worst"


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
class ItemList:
    """The items of a list, in its order."""

    items: Sequence[Specimen]
    metric: str = ""
    labeler: str = ""
    gone: int = 0
    """Items that were on the list and are no longer kept."""
    most: bool = False
    """Whether the list may have more items."""

    def around(self, interaction_id: str) -> tuple[int, RagInteraction | None, RagInteraction | None] | None:
        """Return the place of an item from 1, and the ones before and after it; None if it is not on the list."""
        ids = [item.interaction.interaction_id for item in self.items]
        if interaction_id not in ids:
            return None
        at = ids.index(interaction_id)
        before, after = self.items[at - 1 : at] if at else [], self.items[at + 1 : at + 2]
        neighbours = [next((item.interaction for item in side), None) for side in (before, after)]
        return at + 1, neighbours[0], neighbours[1]


async def read_list(kept: KeptSpecimens, pipeline: str, choice: ItemChoice, alert: Alert | None = None) -> ItemList:
    """Return the items of a list of a pipeline.

    Args:
        kept: the specimens of the deployment.
        alert: the alert that the choice names, if it names one.
    """
    if choice.alert:
        if alert is None:
            return ItemList([], gone=0)
        ids = alert.worst_interaction_ids[:MOST]
        items = [specimen for name in ids for specimen in await kept.find(name, alert.pipeline)]
        return ItemList(items, alert.metric, alert.labeler or "", len(ids) - len(items))
    name = list_name(list(await kept.lists(pipeline)), choice)
    if name is None:
        return ItemList([])
    listed_items = await kept.listed(pipeline, name, MOST)
    metric, labeler = parts_of_worst(name) or ("", "")
    items = [listed.specimen for listed in listed_items]
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


async def find_items(shared: Context, viewer: Viewer, interaction_id: str, pipeline: str | None) -> list[Specimen]:
    """Return the kept items with an id that a viewer may see: at most one of each pipeline.

    Raises:
        HttpProblem: 404, none is kept.
    """
    if pipeline is None or viewer.may_use(pipeline):
        kept = KeptSpecimens(shared.redis, shared.settings.layout)
        specimens = await kept.find(interaction_id, pipeline)
        if visible := [specimen for specimen in specimens if viewer.may_use(specimen.interaction.pipeline)]:
            return visible
    raise HttpProblem(404, _missing_item(shared, interaction_id))


def _missing_item(shared: Context, interaction_id: str) -> str:
    settings = shared.settings.specimens
    if not settings.enabled:
        return (
            f"no item is kept, because specimens.enabled is off: set it to keep items such as {interaction_id[:200]!r}"
        )
    life = duration_text(settings.keep_s)
    return (
        f"the item {interaction_id[:200]!r} is not kept: it expired after specimens.keep_s ({life}), made room for "
        "others, or was none of the worst, of the sample, or beyond a rule's line; to keep more items, raise "
        "specimens.keep_s, specimens.sample, or the counts in the table [specimens]"
    )


def duration_text(value_s: float) -> str:
    """Return a duration in its largest whole unit.

    >>> duration_text(0.4), duration_text(59), duration_text(60), duration_text(7200), duration_text(200_000)
    ('0 s', '59 s', '1 min', '2 h', '2 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value_s >= size:
            return f"{value_s / size:.0f} {unit}" if value_s < size * 10 else f"{value_s // size:.0f} {unit}"
    return f"{max(value_s, 0):.0f} s"
