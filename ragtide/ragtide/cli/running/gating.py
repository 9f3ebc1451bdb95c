"""Gates on the numbers of a command: the options, the decision, its files and the exit code."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragtide_offline.gates.conditions import Condition, asks_for_difference, parse_condition, split_name
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion

from ..printing import err, out
from . import FAIL_IF, STEP_SUMMARY, ExperimentGateOptions, GateReports

if TYPE_CHECKING:
    from ragtide_offline.experiments.experiment import Experiment
    from ragtide_offline.experiments.state import ExperimentState
    from ragtide_offline.gates.deciding import GateResult
    from ragtide_offline.gates.foresight import Foresight
    from ragtide_offline.gates.measurements import Measurement
    from ragtide_producers import FileOptions
    from ragtide_schemas import MetricEvent


@dataclass(frozen=True, slots=True)
class GateOptions:
    """A gate from the command line, checked before the command begins its work."""

    command: str
    """Name of the command, for the reports."""
    conditions: Sequence[Condition]
    known: Sequence[str]
    """Names of the metrics that the settings know."""
    reports: GateReports
    stored: tuple[Criterion, ...] = ()
    """Criteria of the store that a condition is on."""
    config: str | None = None
    """The config of an experiment that the conditions are on; None for the leader."""
    baseline: str | None = None
    """The config that it is compared with."""
    sees: Sequence[Mapping[str, Any]] = ()
    """What the gate can see (`Foresight.as_dict`)."""

    def asking(self, settings: Settings) -> Settings:
        """Return settings whose judge also asks the stored criteria that the gate decides by."""
        judge = settings.judge.model_copy(update={"criteria": (*settings.judge.criteria, *self.stored)})
        return settings.model_copy(update={"judge": judge})

    def needs_baseline(self, remedy: str) -> None:
        """Refuse conditions on a difference, because no baseline is given.

        Args:
            remedy: what to give, in words.

        Raises:
            typer.BadParameter: a condition is on a difference.
        """
        for condition in self.conditions:
            if asks_for_difference(condition.name, self.known):
                raise typer.BadParameter(f"{condition.name} has no baseline: {remedy}", param_hint=FAIL_IF)

    def foreseeing(
        self,
        file: str,
        options: "FileOptions",
        settings: Settings,
        *,
        before: "Sequence[MetricEvent] | None",
        limit: int | None,
        method: tuple[str, float],
    ) -> "GateOptions":
        """Return the gate with what it can see of a file, which is printed; a file that cannot be read says nothing.

        Args:
            file: that will be scored, as `options` read it.
            before: scores of the baseline, if there is one.
            limit: most rows that are scored.
            method: strategy and confidence of the gate's intervals.
        """
        from ragtide_producers import UnreadableFileError  # noqa: PLC0415 - most commands have no gate

        from .foreseeing import known_scores, seen_by  # noqa: PLC0415 - as above

        try:
            known = known_scores(file, options, settings.labeler, before, limit)
        except UnreadableFileError:  # scoring says what is wrong
            return self
        return self.with_sight(seen_by(self.conditions, self.known, known, strategy=method[0], confidence=method[1]))

    def foreseeing_experiment(self, experiment: "Experiment") -> "GateOptions":
        """Return the gate with what it can see of the items of an experiment that are drawn rows, which is printed."""
        from ragtide_offline.gates.foresight import known_of_items  # noqa: PLC0415 - most commands have no gate

        from .foreseeing import seen_by  # noqa: PLC0415 - as above

        plan = experiment.plan
        # The leader is chosen by the data, so its interval holds together with those of all configs.
        configs = len(plan.configs) if self.config is None else 1
        level = 1 - (1 - plan.intervals.confidence) / configs
        known = known_of_items(experiment.items, plan.labeler)
        return self.with_sight(seen_by(self.conditions, self.known, known, strategy="normal", confidence=level))

    def with_sight(self, seen: "Sequence[Foresight]") -> "GateOptions":
        """Return the gate with what it can see, and print that."""
        for foresight in seen:
            err.print(foresight.sentence, markup=False, highlight=False, soft_wrap=True)
        return replace(self, sees=[foresight.as_dict() for foresight in seen])

    @property
    def asks_for_absences(self) -> bool:
        """Whether a condition is on `n_absent` or `coverage`."""
        return any(condition.name.rpartition(".")[2] in ("n_absent", "coverage") for condition in self.conditions)

    def decide(self, measurements: "Sequence[Measurement]", *, as_json: bool) -> "GateResult":
        """Decide the gate, print the result (on standard error beside JSON), and write its files.

        Raises:
            typer.BadParameter: a condition names an unknown metric or field.
            ConfigurationError: a file cannot be written.
        """
        # Nothing is decided before the command's work, and most commands have no gate.
        from ragtide_offline.gates.deciding import decide_gate  # noqa: PLC0415

        try:
            result = decide_gate(self.conditions, measurements, known=self.known, undecided=self.reports.undecided)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=FAIL_IF) from None
        result = replace(result, sees=self.sees)
        report_gate(result, self.command, self.reports, as_json=as_json)
        return result

    def decide_experiment(self, state: "ExperimentState", *, as_json: bool) -> "GateResult":
        """Decide the gate on the config of an experiment, print the result, and write its files.

        Raises:
            typer.BadParameter: the experiment has no such config, or a condition names an unknown metric or field.
        """
        from ragtide_offline.gates.sources import measure_experiment  # noqa: PLC0415 - only experiments need it

        try:
            measured = measure_experiment(state, self.config, self.baseline)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--config or --baseline") from None
        return self.decide(measured, as_json=as_json)


def report_gate(result: "GateResult", command: str, reports: GateReports, *, as_json: bool) -> None:
    """Print the result of a gate (on standard error beside JSON), and write its files.

    Args:
        result: of the gate.
        command: name of the command, for the reports.
        reports: where to write.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    from ragtide_offline.gates.documents import gate_lines, junit_xml, markdown_summary  # noqa: PLC0415 - as above

    for line in gate_lines(result):
        (err if as_json else out).print(line, markup=False, highlight=False, soft_wrap=True)
    if reports.junit is not None:
        write_file(reports.junit, junit_xml(result, f"ragtide {command}"), "--junit")
    page = markdown_summary(result, f"ragtide {command}").encode()
    step = os.environ.get(STEP_SUMMARY)
    if reports.summary is not None:
        write_file(reports.summary, page, "--summary")
    elif step:
        # A step's file may already hold the summaries of other commands.
        write_file(Path(step), page, STEP_SUMMARY, append=True)


def check_reports(reports: GateReports) -> None:
    """Refuse a file for a report that is in no folder: the command may work for hours before it writes the file.

    Raises: typer.BadParameter if there is no folder.
    """
    for option, path in (("--junit", reports.junit), ("--summary", reports.summary)):
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent}: create it", param_hint=option)


def gate_of(
    settings: Settings,
    command: str,
    fail_if: Sequence[str] | None,
    reports: GateReports,
) -> GateOptions | None:
    """Return the gate of a command; None without a condition.

    Raises:
        typer.BadParameter: a condition is not written properly, its metric resembles a known one, or an option of a
            gate is given without a condition, or a file for a report is in no folder.
    """
    if not fail_if:
        if reports != GateReports():
            raise typer.BadParameter(
                f"--junit, --summary and --undecided are for gates: give {FAIL_IF} 'trace.adherence < 0.8', too"
            )
        return None
    check_reports(reports)
    from ragtide_roles.rule_checks import known_metrics  # noqa: PLC0415 - only a gate needs it

    from .redis import criteria_of_metrics  # noqa: PLC0415 - as above

    unread = None
    try:
        conditions = [parse_condition(text) for text in fail_if]
        asked, unread = criteria_of_metrics(settings, [condition.name for condition in conditions])
        known = list(known_metrics(asked))
        for condition in conditions:
            split_name(condition.name, known, certain=False)
    except ValueError as error:
        raise typer.BadParameter(". ".join(filter(None, [str(error), unread])), param_hint=FAIL_IF) from None
    names = [condition.name for condition in conditions]
    stored = tuple(
        criterion
        for criterion in asked.judge.criteria
        if criterion not in settings.judge.criteria
        and any(f"{name}.".startswith(f"{criterion.metric}.") for name in names)
    )
    return GateOptions(command, conditions, known, reports, stored)


def with_gate(value: Mapping[str, Any], result: "GateResult | None") -> dict[str, Any]:
    """Return JSON fields with those of a gate's result, if there is one."""
    return {**value} if result is None else {**value, "gate": result.as_dict()}


def exit_for(result: "GateResult | None", *, otherwise: int = 0) -> None:
    """End the command with the exit code of its gate: a failure first, then `otherwise`, then undecided.

    Args:
        result: of the gate; None without a gate.
        otherwise: the exit code of the command without a gate.
    """
    code = 0 if result is None else result.exit_code
    if otherwise and (result is None or result.outcome != "fail"):
        code = otherwise
    if code:
        raise typer.Exit(code)


def experiment_gate(settings: Settings, options: ExperimentGateOptions, reports: GateReports) -> GateOptions | None:
    """Return the gate on one config of an experiment; None without a condition.

    Raises:
        typer.BadParameter: a config is given without a condition, or a condition on a difference without a baseline.
    """
    gate = gate_of(settings, "experiment", options.fail_if, reports)
    if gate is None:
        if options.gate_config is not None or options.baseline is not None:
            raise typer.BadParameter(
                "--config and --baseline are for gates: give --fail-if 'trace.adherence < 0.8', too"
            )
        return None
    if options.baseline is None:
        gate.needs_baseline("give --baseline CONFIG, another config of the experiment")
    return replace(gate, config=options.gate_config, baseline=options.baseline)


def write_file(path: Path, content: bytes, option: str, *, append: bool = False) -> None:
    """Write a file that an option names.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        with path.open("ab" if append else "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigurationError(f"{option} {path} cannot be written ({error.strerror}): give another path") from None
