"""What one interaction costs on a measured machine; `make capacity` measures it and writes `unit_costs.json`."""

from pathlib import Path
from typing import Annotated, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.base import describe

KIB: Final = 1024
"""Characters of a KiB, if each is one byte."""

SHIPPED: Final = Path(__file__).with_name("unit_costs.json")
"""The costs that ragtide brings along."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Costs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TextCost(_Costs):
    """A cost that grows with the texts of an interaction."""

    each: Amount
    """Of an interaction without documents."""
    document: Amount
    """Of each document besides its text."""
    kib: Amount
    """Of each KiB of the documents' text."""

    def of(self, documents: float, kib: float) -> float:
        """Return the cost of an interaction.

        >>> TextCost(each=10, document=2, kib=1).of(documents=5, kib=20)
        40.0

        Args:
            documents: number of documents.
            kib: KiB of their text together.
        """
        return self.each + self.document * documents + self.kib * kib

    def in_words(self) -> str:
        """Return a cost in microseconds, whose documents cost nothing besides their text, by length.

        >>> TextCost(each=750, document=0, kib=164).in_words()
        '0.75 ms, and 0.16 ms for each 1,000 characters of the documents'
        """
        each, characters = self.each / 1000, self.kib / KIB
        return f"{each:.2g} ms, and {characters:.2g} ms for each 1,000 characters of the documents"


class KeyCost(_Costs):
    """A cost of aggregating: of metric events, of commits, and of the keys that a commit changes."""

    event: Amount
    """Of a metric event."""
    turn: Amount
    """Of the events of one pipeline in a commit, one after the other; those of other pipelines count beside them."""
    read: Amount
    """Of a read of a partition that finds events."""
    step: Amount
    """Of a commit of a partition."""
    key: Amount
    """Of a key that changed since the commit before."""
    idle: Amount
    """Of a partition for each second in which nothing happens."""


Cost = TypeVar("Cost", TextCost, KeyCost)


class WorkCosts(_Costs, Generic[Cost]):
    """The costs of one kind of work."""

    processor_us: Cost
    """Microseconds of processor time of the role."""
    redis_us: Cost
    """Microseconds of processor time of Redis."""
    received_bytes: Cost
    """Bytes that Redis receives."""
    sent_bytes: Cost
    """Bytes that Redis sends."""


StageCosts = WorkCosts[TextCost]
"""The costs of an interaction in one stage."""

AggregatorCosts = WorkCosts[KeyCost]
"""The costs of aggregating metric events."""


class StoredBytes(_Costs):
    """Memory of Redis, in bytes."""

    interaction: TextCost
    """Of an interaction in its stream."""
    event: Amount
    """Of a metric event in its stream."""
    key: Amount
    """Of a key in a checkpoint."""
    specimen: TextCost
    """Of a specimen."""


class UnitCosts(_Costs):
    """What one interaction costs on the machine where it was measured."""

    measured_on: str
    """Day of the measurement, such as 2026-11-26."""
    machine: str
    """Processor and number of cores."""
    versions: str
    """Versions of ragtide, Python and Redis."""
    publish: StageCosts
    """Publishing an interaction."""
    finish: StageCosts
    """Reading an interaction, and finishing it with its metric event, without its labels."""
    specimen: StageCosts
    """Keeping a specimen, besides finishing."""
    labelers_us: dict[str, TextCost]
    """Microseconds of processor time of labels, by labeler."""
    aggregate: AggregatorCosts
    """Aggregating metric events."""
    worker_idle_us: Amount
    """Microseconds of processor time that a worker takes each second for a partition without entries."""
    stored: StoredBytes
    """Memory of Redis."""
    keys: Annotated[float, Field(gt=0)]
    """Keys of a pipeline without segments, with the labeler `local`."""


def read_unit_costs(path: Path) -> UnitCosts:
    """Return the unit costs of a file.

    Raises:
        ConfigurationError: the file cannot be read, or a cost in it is missing or wrong.
    """
    try:
        return UnitCosts.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; make capacity writes such a file") from None
    except ValidationError as error:
        raise ConfigurationError(
            f"{path} has no unit costs: {describe(error)}; write the file again with make capacity"
        ) from None
