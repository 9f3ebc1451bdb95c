"""A metric that is not in ragtide's own table: a definition, and a function from an interaction and its labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragtide_schemas import Labels, MetricDeclaration, MetricDefinition, RagInteraction, declaration_of

from .scores import Absent, AbsentReason

Compute = Callable[[RagInteraction, Sequence[Labels]], float | Absent | AbsentReason | None]
"""Returns the value of one interaction within the metric's range; `Absent` with a reason, or None, without one."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of your own.

    Install it under the entry point group `ragtide.metrics`, or name it in the setting `metrics` as
    `module:attribute`, for the workers. Each metric event carries its range, so no other process needs it.

    Raises: ValueError if the name is that of one of ragtide's own metrics, or the version is empty.

    >>> from ragtide_schemas import Direction, Kind
    >>> words = CustomMetric(
    ...     MetricDefinition(
    ...         name="mine.words",
    ...         lower=0,
    ...         upper=1000,
    ...         direction=Direction.NEITHER,
    ...         kind=Kind.ALGEBRAIC,
    ...         meaning="Words of the response.",
    ...         source="us",
    ...         definition="number of words",
    ...     ),
    ...     lambda interaction, labels: float(len(interaction.response.split())),
    ...     version="2",
    ... )
    """

    definition: MetricDefinition
    compute: Compute
    version: str = "1"
    """Another one whenever values may differ: values of two versions are never mixed in one estimate."""

    def __post_init__(self) -> None:
        """Check that the metric can be declared."""
        _ = self.declaration

    @cached_property
    def declaration(self) -> MetricDeclaration:
        """Declaration of the metric, as metric events carry it."""
        return declaration_of(self.definition, self.version)
