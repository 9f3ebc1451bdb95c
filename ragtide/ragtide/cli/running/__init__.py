"""What a command needs before it runs: options that several commands have, and the sentence about a mistake."""

import typer
import getpass
import errno
from typing import Annotated, Final
from enum import StrEnum
from dataclasses import dataclass
from pathlib import Path
from ragtide_runtime import settings as all_settings, redis
from ragtide_offline.gates.conditions import UndecidedPolicy
from ragtide_runtime.errors import RagtideError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragtide_runtime.settings import Settings


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


SegmentsOption = Annotated[bool, typer.Option("--segments", help="Show segment values, too.")]


PipelineOption = Annotated[str | None, typer.Option(help="Only this pipeline.")]


PipelinesOption = Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be repeated.")]


SinceOption = Annotated[str | None, typer.Option(help="Interactions from this time on (ISO 8601, UTC).")]


UntilOption = Annotated[str | None, typer.Option(help="Interactions before this time.")]


ConfidenceOption = Annotated[
    float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level [RAGTIDE_CONFIDENCE].")
]


AllMetricsOption = Annotated[bool, typer.Option("--all", help="Show metrics that repeat others, too.")]


FileArgument = Annotated[
    str,
    typer.Argument(
        help="File of interactions: JSON Lines, CSV, Parquet, RAGBench rows or RAGChecker's JSON; or a data set of "
        "Hugging Face, as hf:owner/name?split=test."
    ),
]


FilesArgument = Annotated[
    list[str],
    typer.Argument(
        help="File of interactions: JSON Lines, CSV, Parquet, RAGBench rows or RAGChecker's JSON; or a data set of "
        "Hugging Face, as hf:owner/name?split=test. Several files, a folder of Parquet files, or a URL such as "
        "s3://bucket/answers/ are scored in parts."
    ),
]


FormatOption = Annotated[
    str | None, typer.Option("--format", help="Format of the file: jsonl, csv, parquet, json; default: by its name.")
]


class Role(StrEnum):
    """Roles of a deployment."""

    WORKER = "worker"
    AGGREGATOR = "aggregator"
    RECORDER = "recorder"
    SERVE = "serve"
    NOTIFY = "notify"
    BRIDGE = "bridge"


class Given:
    """The options given before the command, by the name of their setting."""

    def __init__(self, **options: object) -> None:
        self._options = options

    def settings(self, **more: object) -> "Settings":
        """Return the settings; these options, and `more` options of the command, override environment and file."""
        options = {**self._options, **more}
        return all_settings.load_settings(**{name: value for name, value in options.items() if value is not None})

    def settings_to_write(self) -> "Settings":
        """Return the settings, for a command that writes their file, which may be missing."""
        options = {name: value for name, value in self._options.items() if value is not None}
        return all_settings.load_settings_to_write(**options)


def given(context: typer.Context) -> Given:
    """Return the options given before the command."""
    options = context.find_object(Given)
    return options if options is not None else Given()


def settings_with(
    context: typer.Context, workspace: str | None, *, roles: bool = False, **options: object
) -> "Settings":
    """Return the settings of the deployment or, with a name, of one of its workspaces.

    A command calls it before its other imports, so that a wrong setting is refused at once.

    Args:
        workspace: its name; None for the deployment.
        roles: whether roles of the workspace are to work on its interactions.
        options: settings that override environment and file; None does not.

    Raises:
        ConfigurationError: there is no workspace of that name, or no role works on it.
    """
    settings = given(context).settings(**options)
    if workspace is None:
        return settings
    from .redis import settings_of, with_redis  # noqa: PLC0415 - only workspaces are read from Redis

    return with_redis(settings, lambda redis, _: settings_of(redis, settings, workspace, roles=roles))


STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Environment variable with the file to which a step of GitHub Actions adds its summary."""


FAIL_IF: Final = "--fail-if"


FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        FAIL_IF,
        help="Fail if this holds, such as 'trace.adherence < 0.8'; may be repeated. Exit code 4: fail, 5: undecided.",
    ),
]


UndecidedOption = Annotated[
    UndecidedPolicy, typer.Option("--undecided", help="Outcome of a condition that the data do not decide.")
]


JunitOption = Annotated[Path | None, typer.Option("--junit", help="File for the result of the gate, as JUnit XML.")]


SummaryOption = Annotated[
    Path | None, typer.Option("--summary", help=f"File for the result of the gate, as Markdown [{STEP_SUMMARY}].")
]


@dataclass(frozen=True, slots=True)
class GateReports:
    """The options about the result of a gate, which follow `--fail-if`."""

    undecided: UndecidedOption = UndecidedPolicy.KEEP
    junit: JunitOption = None
    summary: SummaryOption = None


@dataclass(frozen=True, slots=True)
class ExperimentGateOptions:
    """The options of a gate on a config of an experiment."""

    fail_if: FailIfOption = None
    gate_config: Annotated[
        str | None, typer.Option("--config", help="Config that the conditions are about; default: the leader.")
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Config to compare it with, for conditions on METRIC.difference."),
    ] = None


@dataclass(frozen=True, slots=True)
class VerdictLimits:
    """The options about what a verdict is on, and from where it is read."""

    metric: Annotated[
        list[str] | None, typer.Option(help="Only this metric, such as trace.adherence; may be repeated.")
    ] = None
    margin: Annotated[
        float | None,
        typer.Option(help="Largest loss that counts as not worse, in the metric's unit; default: releases.margin."),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option(help="Probability of a wrong verdict over all metrics and looks [RAGTIDE_RELEASES_ALPHA]."),
    ] = None
    url: Annotated[
        str | None,
        typer.Option(help="Address of ragtide serve to read in place of Redis; its token is in RAGTIDE_MCP_TOKEN."),
    ] = None


MAP: Final = "--map"


MapOption = Annotated[
    list[str] | None,
    typer.Option(
        MAP,
        help="Columns of fields, such as documents=contexts,response=answer. A column may be a place in another "
        "(question=request.question), a field one value (segments.lang=language); documents may have several columns.",
    ),
]


WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", help="Use a replay or experiment (see ragtide replay workspaces), not live traffic."),
]


class ReportFormat(StrEnum):
    """The format of a report."""

    HTML = "html"
    JSON = "json"


def user_name() -> str:
    """Return the name of the user of this machine; `unknown` if it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


UNWRITABLE: Final = {errno.EACCES, errno.EDQUOT, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
"""Reasons for which nothing can be written, or read, at a place."""


def sentence_of(error: Exception) -> str | None:
    """Return the sentence about an error; None for an error that is a fault of ragtide."""
    if isinstance(error, RagtideError):
        return str(error)
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # of a path that begins with ~
        return "no home directory is known: write a whole path instead of ~"
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}: name a place that you can write to, such as TMPDIR for temporary files"
    # An error alone imports redis here.
    return redis.explained(error) if isinstance(error, redis.RedisError) else None
