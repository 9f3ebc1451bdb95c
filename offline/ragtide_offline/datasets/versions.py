"""The versions of a data set, each with the rows that it added and removed. No I/O.

A version is known by the digest of its questions, by which an experiment knows them, and by the content of each row.
The rows of a version are those of its parent, without the removed and with the added; a row whose content changed is
both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, StringConstraints

from ragtide_producers.files.items import digest
from ragtide_schemas.base import Name, UtcTime, WireModel

from .rows import SetRow

Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16,32}$")]


class LabeledBy(WireModel):
    """Number of rows by who labeled them; a row may count for several."""

    labelers: dict[Name, int] = Field(default_factory=dict)
    """By name, version and profile of a labeler, such as `judge 3 ragbench`."""
    people: dict[Name, int] = Field(default_factory=dict)
    """By name of a person who annotated."""
    gold: int = 0
    """Rows with gold scores, whoever gave them."""


class DataSetVersion(WireModel):
    """One version of a data set."""

    digest: Digest
    """Digest of its questions in their order, as experiments have it (`data_digest`)."""
    parent: Digest | None = None
    """Digest of the version before; None for the first."""
    made_at: UtcTime
    """Time of writing."""
    command: str | None = None
    """The command that wrote it; None if no command of ragtide did: the file was edited, or made elsewhere."""
    n_rows: int
    """Number of rows."""
    added: dict[str, Digest] = Field(default_factory=dict)
    """Content of each added or changed row, by its id."""
    removed: tuple[str, ...] = ()
    """Ids of the rows of the parent that are not in it, or have another content."""
    labeled_by: LabeledBy = Field(default_factory=LabeledBy)
    """Who labeled its rows."""


class Edit(NamedTuple):
    """How a file differs from its last version; ids of rows, in order."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    """With the same id and another content."""


class DataSetVersions(WireModel):
    """The versions of one data set, the oldest first."""

    max_bytes: ClassVar[int | None] = None

    versions: tuple[DataSetVersion, ...] = ()
    """The versions; none for a set that no command has written yet."""

    @property
    def last(self) -> DataSetVersion | None:
        """The last version."""
        return self.versions[-1] if self.versions else None

    def content(self) -> dict[str, str]:
        """Return the content of each row of the last version, by its id."""
        content: dict[str, str] = {}
        for version in self.versions:
            content = {name: row for name, row in content.items() if name not in set(version.removed)} | version.added
        return content

    def edit(self, rows: Sequence[SetRow]) -> Edit | None:
        """Return how rows differ from the last version; None if they are that version."""
        last = self.last
        before, now = self.content(), content_of(rows)
        if last is not None and before == now and last.digest == digest([row.item for row in rows]):
            return None
        return Edit(
            [name for name in now if name not in before],
            [name for name in before if name not in now],
            [name for name in now if before.get(name, now[name]) != now[name]],
        )

    def followed_by(self, rows: Sequence[SetRow], *, made_at: datetime, command: str | None) -> Self:
        """Return the versions with one of these rows at the end; without it if they are the last version.

        Args:
            rows: the rows of the new version.
            made_at: time of writing.
            command: that wrote it; None if no command of ragtide did.
        """
        edit, last, now = self.edit(rows), self.last, content_of(rows)
        if edit is None:
            return self
        version = DataSetVersion(
            digest=digest([row.item for row in rows]),
            parent=None if last is None else last.digest,
            made_at=made_at,
            command=command,
            n_rows=len(rows),
            added={name: now[name] for name in (*edit.added, *edit.changed)},
            removed=(*edit.removed, *edit.changed),
            labeled_by=labeled_by(rows),
        )
        return type(self)(versions=(*self.versions, version))


def content_of(rows: Sequence[SetRow]) -> Mapping[str, str]:
    """Return the content of each row, by its id."""
    return {row.item.item_id: row.content for row in rows}


def labeled_by(rows: Sequence[SetRow]) -> LabeledBy:
    """Return the number of rows by who labeled them, as their provenance has it."""
    labelers: Counter[str] = Counter()
    people: Counter[str] = Counter()
    for row in rows:
        labelers.update({labeler_of(labeling) for labeling in row.labelings} - {""})
        people.update(row.annotators)
    gold = sum(bool(row.fields.get("gold_scores")) for row in rows)
    return LabeledBy(labelers=dict(labelers.most_common()), people=dict(people.most_common()), gold=gold)


def labeler_of(labeling: Mapping[str, object]) -> str:
    """Return name, version and profile of the labeler of a labeling.

    >>> labeler_of({"labeler": "judge", "labeler_version": "3", "profile": "ragbench"})
    'judge 3 ragbench'
    """
    parts = (labeling.get(name) for name in ("labeler", "labeler_version", "profile"))
    return " ".join(str(part) for part in parts if part)
