"""The gate of `ragtide experiment`: conditions on one config, perhaps with another one as baseline."""

from dataclasses import dataclass
from typing import Annotated

import typer

from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.deciding import GateResult
from ragtide_offline.gates.sources import of_experiment

from .gate_options import GateOptions

GateConfig = Annotated[
    str | None, typer.Option("--config", help="Config that the conditions are about; default: the leader.")
]
GateBaseline = Annotated[
    str | None,
    typer.Option("--baseline", help="Config to compare it with, for conditions on METRIC.difference."),
]


@dataclass(frozen=True, slots=True)
class ExperimentGate:
    """A gate on one config of an experiment."""

    options: GateOptions
    config: str | None
    baseline: str | None

    def decide(self, state: ExperimentState, *, as_json: bool) -> GateResult:
        """Decide the gate, print the result, and write its files.

        Raises:
            typer.BadParameter: the experiment has no such config, or a condition names an unknown metric or field.
        """
        try:
            measured = of_experiment(state, self.config, self.baseline)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--config or --baseline") from None
        return self.options.decide(measured, as_json=as_json)


def experiment_gate(options: GateOptions | None, config: str | None, baseline: str | None) -> ExperimentGate | None:
    """Return the gate; None without a condition.

    Raises:
        typer.BadParameter: a config is given without a condition, or a condition on a difference without a baseline.
    """
    if options is None:
        if config is not None or baseline is not None:
            raise typer.BadParameter(
                "--config and --baseline are for gates: give --fail-if 'trace.adherence < 0.8', too"
            )
        return None
    if baseline is None:
        options.needs_baseline("give --baseline CONFIG, another config of the experiment")
    return ExperimentGate(options, config, baseline)
