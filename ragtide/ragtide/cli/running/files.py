"""Files that commands read and write: rows with their problems and progress, data sets, reports and gates."""

import os
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import typer
from redis.asyncio import Redis
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.experiments.errors import kind_of
from ragtide_offline.gates.conditions import Condition, asks_for_difference, parse_condition, split_name
from ragtide_offline.gates.deciding import GateResult, decide_gate
from ragtide_offline.gates.documents import gate_lines, junit_xml, markdown_summary
from ragtide_offline.gates.measurements import Measurement
from ragtide_producers.files.columns import check_target
from ragtide_producers.files.feedback import read_feedback
from ragtide_roles.kept.choosing import ChosenSpecimens
from ragtide_roles.kept.rows import json_lines, rows, write_new
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Feedback
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES
from ragtide_schemas.printable import printable, shortened
from ragtide_schemas.suggestions import unknown

from ..printing import err, out, print_json, warn
from . import FAIL_IF, MAP, STEP_SUMMARY, ExperimentGateOptions, GateReports, ReportFormat
from .redis import with_redis

if TYPE_CHECKING:
    from ragtide_offline.experiments.state import ExperimentState
    from ragtide_offline.report.reports import Report


def columns_of(texts: Sequence[str] | None) -> dict[str, str | tuple[str, ...]]:
    """Return the column of each mapped field; several of `documents`.

    >>> columns_of(["question=frage, documents=ctx_1,ctx_2", 'response="answer, final"'])
    {'question': 'frage', 'documents': ('ctx_1', 'ctx_2'), 'response': 'answer, final'}
    """
    by_field: dict[str, list[str]] = {}
    for text in texts or ():
        field = ""
        parts = shlex.shlex(text, posix=True)
        parts.whitespace, parts.whitespace_split, parts.quotes, parts.escape, parts.commenters = ",", True, '"', "", ""
        try:
            pairs = list(parts)
        except ValueError:
            raise typer.BadParameter(f"{shortened(text)!r} has a quote that is not closed", param_hint=MAP) from None
        for pair in pairs:
            name, equals, column = (part.strip() for part in pair.partition("="))
            field, column = (name, column) if equals else (field, name)
            if not field or not column:
                raise typer.BadParameter(
                    f"{shortened(pair)!r} is not FIELD=COLUMN, such as documents=contexts", param_hint=MAP
                )
            try:
                check_target(field)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint=MAP) from None
            if field in by_field and field != "documents":
                raise typer.BadParameter(f"{field} is mapped twice: give one column", param_hint=MAP)
            by_field.setdefault(field, []).append(column)
    return {name: columns[0] if len(columns) == 1 else tuple(columns) for name, columns in by_field.items()}


def columns_lines(taken: Mapping[str, str], left_out: Mapping[str, int]) -> list[str]:
    """Return lines about the fields that were read from columns with other names, and what was left out of values."""
    listed = ", ".join(f"{field} from {shortened(column)}" for field, column in taken.items())
    counted = ", ".join(f"{count:,} {name}" for name, count in left_out.items())
    return [f"{name}: {line}" for name, line in (("columns", listed), ("left out", counted)) if line]


SHOWN: Final = 5
"""Most problems of one kind that are printed."""


KINDS: Final = 20
"""Most kinds of problems with a count of their own; all other kinds share one count."""


FIRST_CHARS: Final = 100
"""Most characters of a problem that are repeated beside the number."""


class Problems:
    """Prints the first problems of each kind as they come, and counts the others.

    Args:
        source: name of the file.
    """

    def __init__(self, console: Console, source: object) -> None:
        self._console = console
        self._source = source
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, line: int | str, problem: str) -> None:
        """Count a problem of a row, and print it if it is among the first of its kind."""
        kind = kind_of(problem)
        if kind not in self._first and len(self._first) >= KINDS:
            kind = ""
        self._first.setdefault(kind, problem)
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN:
            self._print(f"{self._source}:{line}: {problem}")

    def sum_up(self) -> None:
        """Print the number of problems of each kind that were not printed."""
        for kind, count in self._counts.items():
            if count > SHOWN:
                first = self._first[kind]
                text = first if len(first) <= FIRST_CHARS else f"{first[:FIRST_CHARS]}..."
                like = f"like it: {text}" if kind else "of other kinds"
                self._print(f"{self._source}: {count - SHOWN:,} more {like}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def usable_feedback(file: Path, counts: Counter[str]) -> Iterator[Feedback]:
    """Yield the usable lines of a file of feedback; print the problems of the others."""
    problems = Problems(err, file)
    for line in read_feedback(file):
        if line.feedback is not None:
            yield line.feedback
        else:
            counts["bad"] += 1
            problems.add(line.number, line.problem or "")
    problems.sum_up()


def gold_score(text: str) -> tuple[str, float]:
    """Return the metric and the value of a gold score, written as metric=number."""
    name, _, value = text.partition("=")
    metric = name.strip()
    if metric not in METRICS and metric.partition(".")[0] in CLOSED_FAMILIES:
        raise typer.BadParameter(unknown("metric", metric, METRICS), param_hint="--gold")
    try:
        return metric, float(value)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a gold score: write metric=number, such as trace.adherence=1"
        ) from None


INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 and the number of the signal."""


class Shown(Protocol):
    """Shows the number of finished items, and a note such as the cost."""

    def __call__(self, done: int, note: str = "") -> None:
        """Draw the bar anew."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="bright_black")


def _bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), _Rate(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}", style="bright_black"),
    )  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


class BarView:
    """A bar inside of another live screen, which draws it.

    Args:
        console: the terminal of that screen.
        title: the activity, such as comparing.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._bar = _bar(console)
        self._task = self._bar.add_task(title, total=None, note="")

    def drawn(self, done: int, total: int, note: str = "") -> RenderableType:
        """Return the bar with the number of finished items, and the time left."""
        self._bar.update(self._task, completed=done, total=total, note=note)
        return self._bar.get_renderable()


@contextmanager
def progress_bar(title: str, total: int | None, console: Console = err) -> Iterator[Shown]:
    """Draw a bar with number, rate, time left and note; nothing if the output is not a terminal.

    Args:
        title: the activity, such as scoring.
        total: number of items; None if it is unknown.
    """
    with _bar(console) as bar:
        task = bar.add_task(title, total=total, note="")

        def show(done: int, note: str = "") -> None:
            bar.update(task, completed=done, note=note)

        yield show


def cost_note(cost_usd: float, done: int, total: int | None) -> str:
    """Return the cost so far, and of all items at that cost of an item; nothing without a cost.

    >>> cost_note(0.5, 10, 40), cost_note(0.0, 10, 40), cost_note(0.5, 40, 40)
    ('$0.50 of about $2.00', '', '$0.50')
    """
    if not cost_usd:
        return ""
    all_of_it = "" if total is None or not 0 < done < total else f" of about ${cost_usd / done * total:,.2f}"
    return f"${cost_usd:,.2f}{all_of_it}"


@contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """End the command after Ctrl-C with one sentence and the exit code 130.

    Args:
        kept: returns the sentence: the kept results, and the way to go on.
    """
    try:
        yield
    except KeyboardInterrupt:
        interrupted(kept())


def interrupted(sentence: str) -> NoReturn:
    """Print the sentence of an interrupted command, and end it.

    Raises:
        typer.Exit: always, with the exit code 130.
    """
    err.print(f"Stopped. {sentence}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(INTERRUPTED)


STDOUT = "-"
"""The value of --output that selects standard output."""


def write_data_set(
    settings: Settings,
    choose: Callable[[Redis, KeptSpecimens], Awaitable[ChosenSpecimens]],
    output: Path | None,
    *,
    limit: int | None,
    force: bool,
    keeps: str,
) -> None:
    """Write the chosen specimens, and print what was written and what is missing.

    Args:
        choose: returns the specimens.
        output: file to write; None for standard output.
        limit: most rows.
        force: whether a file that exists is replaced.
        keeps: why there may be fewer rows than the limit.
    """
    to_file = None if output is None or str(output) == STDOUT else output
    if to_file is not None and to_file.exists() and not force:
        raise ConfigurationError(exists_already(to_file))

    async def body(redis: Redis, _: RedisHandle) -> tuple[ChosenSpecimens, int]:
        kept = KeptSpecimens(redis, settings.layout)
        specimens = await choose(redis, kept)
        warn(*filter(None, [kept.unreadable.warning()]))
        return specimens, kept.gone

    specimens, gone = with_redis(settings, body)
    if specimens.missing:
        warn(f"No longer kept, so not in the data set: {', '.join(map(printable, specimens.missing))}")
    if gone:
        warn(f"{gone:,} {'item' if gone == 1 else 'items'} of these lists had expired and are not in the data set")
    if not specimens.chosen:
        warn("No items are kept for this, so nothing was written: ragtide items counts those that are kept")
        raise typer.Exit(1)
    text = json_lines(rows(specimens.chosen))
    if to_file is None:
        typer.echo(text, nl=False)
    else:
        try:
            write_new(to_file, text, force=force)
        except FileExistsError:
            raise ConfigurationError(exists_already(to_file)) from None
        except OSError as error:
            raise ConfigurationError(f"{to_file} cannot be written ({error.strerror}): give another --output") from None
    err.print(_data_set_summary(specimens, to_file), markup=False, highlight=False, soft_wrap=True)
    if limit is not None and len(specimens.chosen) < limit:
        count = f"{len(specimens.chosen):,} {'item is' if len(specimens.chosen) == 1 else 'items are'}"
        warn(f"--limit is {limit:,}, and {count} kept for this: {keeps}")


def exists_already(path: Path) -> str:
    """Return the sentence about a file that would be replaced."""
    return f"{path} exists: give another --output, or --force to replace it"


def _data_set_summary(specimens: ChosenSpecimens, path: Path | None) -> str:
    interactions = [choice.specimen.interaction for choice in specimens.chosen]
    times = sorted(interaction.occurred_at for interaction in interactions)
    names = sorted({interaction.pipeline for interaction in interactions})
    pipelines = f"pipeline {names[0]}" if len(names) == 1 else f"{len(names):,} pipelines"
    count = f"{len(interactions):,} {'row' if len(interactions) == 1 else 'rows'}"
    kinds = sorted({choice.specimen.redacted_by for choice in specimens.chosen}, reverse=True)
    redacted = " or ".join(f"redacted by {', '.join(names)}" if names else "not redacted" for names in kinds)
    return (
        f"{count} of {pipelines}, answered from {times[0]:%Y-%m-%d %H:%M} to {times[-1]:%Y-%m-%d %H:%M} UTC"
        f"{'' if path is None else f', written to {path}'}. They contain texts of users, {redacted}."
    )


def write_report(report: "Report", stem: str, chosen: ReportFormat | None, output: Path | None) -> None:
    """Write a report to standard output or a file, in the format that is chosen or that the file's name has."""
    from ragtide_offline.report.reports import fields_of, json_of, page_of  # noqa: PLC0415 - scoring has no report

    if chosen is None:
        ending = "" if output is None else output.suffix.lower()
        if ending in {".md", ".markdown"}:
            raise ConfigurationError(f"{output}: a report is HTML or JSON: give a file such as {stem}.html")
        chosen = ReportFormat.JSON if ending == ".json" else ReportFormat.HTML
    if output is None and chosen is not ReportFormat.JSON:
        output = Path(f"{stem}.{chosen}")
    if output is None or str(output) == STDOUT:
        if chosen is ReportFormat.JSON:
            print_json(fields_of(report))
        else:
            typer.echo(page_of(report), nl=False)
        return
    text = json_of(report) if chosen is ReportFormat.JSON else page_of(report)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written ({error.strerror}): give another --output") from None
    err.print(f"report written to {output}", markup=False, highlight=False, soft_wrap=True)


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

    @property
    def asks_for_absences(self) -> bool:
        """Whether a condition is on `n_absent` or `coverage`."""
        return any(condition.name.rpartition(".")[2] in ("n_absent", "coverage") for condition in self.conditions)

    def decide(self, measurements: Sequence[Measurement], *, as_json: bool) -> GateResult:
        """Decide the gate, print the result (on standard error beside JSON), and write its files.

        Raises:
            typer.BadParameter: a condition names an unknown metric or field.
            ConfigurationError: a file cannot be written.
        """
        try:
            result = decide_gate(self.conditions, measurements, known=self.known, undecided=self.reports.undecided)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=FAIL_IF) from None
        for line in gate_lines(result):
            (err if as_json else out).print(line, markup=False, highlight=False, soft_wrap=True)
        if self.reports.junit is not None:
            write_file(self.reports.junit, junit_xml(result, f"ragtide {self.command}"), "--junit")
        page = markdown_summary(result, f"ragtide {self.command}").encode()
        step = os.environ.get(STEP_SUMMARY)
        if self.reports.summary is not None:
            write_file(self.reports.summary, page, "--summary")
        elif step:
            # A step's file may already hold the summaries of other commands.
            write_file(Path(step), page, STEP_SUMMARY, append=True)
        return result

    def decide_experiment(self, state: "ExperimentState", *, as_json: bool) -> GateResult:
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
    for option, path in (("--junit", reports.junit), ("--summary", reports.summary)):
        # The command may score for hours before it writes the file.
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent}: create it", param_hint=option)
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


def with_gate(value: Mapping[str, Any], result: GateResult | None) -> dict[str, Any]:
    """Return JSON fields with those of a gate's result, if there is one."""
    return {**value} if result is None else {**value, "gate": result.as_dict()}


def exit_for(result: GateResult | None, *, otherwise: int = 0) -> None:
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
