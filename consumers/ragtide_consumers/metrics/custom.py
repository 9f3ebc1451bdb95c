"""Custom metrics: a definition, with a function that computes the value from an interaction and its labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction

from ragtide_schemas import Labels, MetricDeclaration, MetricDefinition, RagInteraction, declaration_of

from .scores import Absent, AbsentReason

Compute = Callable[[RagInteraction, Sequence[Labels]], float | Absent | AbsentReason | None]
"""Returns the value of an interaction within the metric's range, or `Absent` with a reason, or None."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of your own.

    Install it under the entry point group `ragtide.metrics`, or name it in the setting `metrics` as
    `module:attribute`, for the workers. Each metric event carries its range, so no other process needs it.

    Raises: ValueError if ragtide has a metric of that name, the version is empty, or `compute` is async.

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
    """Change it whenever values may differ: an estimate never mixes values of two versions."""

    def __post_init__(self) -> None:
        """Check that the metric can be declared and computed."""
        if iscoroutinefunction(self.compute):
            raise ValueError(f"{self.definition.name}: compute is async: make it a plain function")
        _ = self.declaration

    @property
    def declaration(self) -> MetricDeclaration:
        """Declaration of the metric in metric events."""
        return declaration_of(self.definition, self.version)
