"""Runs of the offline evals: fits, checks of a judge, trials of criteria, experiments and plans."""

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import typer
from pydantic import TypeAdapter, ValidationError
from redis import RedisError
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.statistics.tables.names import ALL_TIME
from ragtide_consumers.labelers.local.correction_file import CorrectionFile, load_correction
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_consumers.labelers.published import all_criteria
from ragtide_consumers.sentinels.service import sentinels_of
from ragtide_offline.agreement.predictions import read_predictions
from ragtide_offline.benchmark.corruptions import SpoiltRows
from ragtide_offline.capacity.judged_sample import JudgedScale, scale_of, scale_of_mean
from ragtide_offline.criterion_trial import CriterionTrial
from ragtide_offline.demo import demo_interactions
from ragtide_offline.experiments.board import Board, board
from ragtide_offline.experiments.control import ExperimentControl
from ragtide_offline.experiments.drafts import read_draft
from ragtide_offline.experiments.experiment import Experiment
from ragtide_offline.experiments.reader import ExperimentReader, streams_of
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.deciding import GateResult
from ragtide_offline.local_fit.criterion_fit import CriterionFit
from ragtide_offline.local_fit.examined import (
    ExaminedInteractions,
    ExaminedPair,
    Similar,
    TrafficSample,
    examine,
    examine_pairs,
)
from ragtide_offline.local_fit.fitting import FitResult
from ragtide_offline.local_fit.sources import GatheredInteractions, WantedScores, gather_kept, gather_rows
from ragtide_offline.replay.counting import count_selected
from ragtide_offline.replay.plan import ReplayPlan, settings_of_replay
from ragtide_offline.replay.publishing import RecordedInteractions
from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.replay import Show
from ragtide_offline.replay.selection import Selection
from ragtide_offline.replay.session import ReplayProgress
from ragtide_offline.runs import CostPlan, LabelerRun, planned_cost
from ragtide_producers import FileOptions, Row, read_rows
from ragtide_roles.criteria.files import read_criteria
from ragtide_roles.criteria.numbers import criterion_rows
from ragtide_roles.criteria.pricing import TYPICAL
from ragtide_roles.criteria.sessions import only_sessions, session_criteria, with_sessions
from ragtide_roles.kept.annotated import chosen_of_annotations
from ragtide_roles.kept.annotations import StoredAnnotations
from ragtide_roles.rule_checks import known_metrics
from ragtide_roles.running import on_signal
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.url import RedisHandle, resolve_redis
from ragtide_runtime.settings.labelers import Price, check_criteria, check_sessions
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import (
    StoredCriteria,
    StoredCriterion,
    read_stored_criteria,
    remove_criterion,
    store_criterion,
)
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Estimate, MetricDefinition, RagInteraction, Workspace, utc_now
from ragtide_schemas.alert_rule import duration_ms
from ragtide_schemas.base import describe
from ragtide_schemas.criterion import BUILT_IN, Criterion, ListedCriterion, built_in_criteria
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES, CRITERIA_FAMILY
from ragtide_schemas.suggestions import unknown

from ..printing import err, heading, out, print_json, warn
from ..printing.laboratory import (
    board_view,
    check_notes,
    check_table,
    corruption_notes,
    corruptions_table,
    criterion_sentences,
    decisions,
    planned,
    scores_table,
    sentence_of_file,
    sentence_without_file,
    shown_metrics,
)
from ..printing.trust import trust_view
from . import Given
from .data_sets import write_output
from .files import Problems
from .gating import GateOptions, exit_for, with_gate, write_file
from .progress import BarView, Shown, cost_note, interrupted, interruptible, progress_bar
from .redis import criteria_of_metrics, with_redis

if TYPE_CHECKING:
    from ragtide_offline.judge_check.running import JudgeCheck


REFUSED: Final = 4
"""Exit code if no score is better than shipped, as of a gate that fails."""


@contextmanager
def similarity_encoder(settings: Settings) -> Iterator[tuple[Similar | None, str]]:
    """Yield the sentence encoder of the settings, and its digest."""
    # It needs an extra, and only this option needs it.
    from ragtide_consumers.labelers.models.loading import sentence_encoder  # noqa: PLC0415

    with asyncio.Runner() as runner:
        encoder = runner.run(sentence_encoder(settings))
        try:
            yield (lambda sentences: runner.run(encoder.inputs(sentences))), encoder.session.files.digest
        finally:
            runner.run(encoder.aclose())


def finish_fit(
    result: FitResult,
    gathered: GatheredInteractions,
    source: str,
    path: Path | None,
    encoder_digest: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Write the file, print the result, and end with the exit code. Proxies in a file that is replaced stay."""
    before, content = None, None
    if path is not None and path.exists():
        try:
            before = load_correction(path, SHIPPED_VERSION).content
        except ConfigurationError as error:
            warn(f"Proxies of criteria that {path} may have are not kept: {error}")
    if result.fitted:
        content = result.file(
            source=source,
            reference=gathered.words,
            fitted_at=utc_now(),
            similarity_sha256=encoder_digest,
            before=before,
        )
    digest = None
    if content is not None and path is not None:
        digest = write_output(path, content.encode().decode() + "\n", force=force)
    if as_json:
        _print_result(result, gathered, source, path, digest)
    else:
        out.print(scores_table(result, gathered.words, out.width))
        for sentence in decisions(result, gathered.missing):
            out.print(sentence, style="bright_black", highlight=False, soft_wrap=False)
    if content is None:
        err.print(sentence_without_file(result), style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED)
    if not as_json:
        out.print(sentence_of_file(path, digest), highlight=False)
        if content.criteria:
            out.print(f"Proxies of criteria stay: {', '.join(sorted(content.criteria))}.", highlight=False)


def _print_result(
    result: FitResult | CriterionFit, gathered: GatheredInteractions, source: str, path: Path | None, digest: str | None
) -> None:
    print_json(
        {
            **result.as_dict(),
            "source": source,
            "reference": gathered.words,
            "texts_missing": gathered.missing,
            "file": None if digest is None else str(path),
            "sha256": digest,
        }
    )


def file_before(path: Path, criterion: Criterion, *, force: bool) -> CorrectionFile | None:
    """Return the content of a file to which a proxy is added; None if there is no file.

    Raises:
        ConfigurationError: it is no such file, or it has a proxy of this criterion and must not lose it.
    """
    if not path.exists():
        return None
    content = load_correction(path, SHIPPED_VERSION).content
    if criterion.metric in content.criteria and not force:
        raise ConfigurationError(
            f"{path} has a proxy of {criterion.name} already: give --force to replace it, or another --output"
        )
    return content


def finish_criterion_fit(
    result: CriterionFit,
    gathered: GatheredInteractions,
    source: str,
    path: Path | None,
    encoder_digest: str,
    *,
    before: CorrectionFile | None,
    as_json: bool,
) -> None:
    """Write the file with the proxy of a criterion, print the result, and end with the exit code."""
    digest = None
    if result.regression is not None and path is not None:
        proxy = result.proxy(source=source, reference=gathered.words, fitted_at=utc_now())
        content = result.file(before, proxy, similarity_sha256=encoder_digest)
        digest = write_output(path, content.encode().decode() + "\n", force=before is not None)
    if as_json:
        _print_result(result, gathered, source, path, digest)
    else:
        for sentence in criterion_sentences(result, gathered):
            out.print(sentence, highlight=False, soft_wrap=False)
    if result.regression is None:
        err.print(
            f"The proxy of {result.criterion.name} does not surely beat a constant on {result.questions:,} questions, "
            "so nothing was written: the judged items alone give the estimate; judge more interactions to try again",
            style="red",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(REFUSED)
    if not as_json:
        out.print(sentence_of_file(path, digest), highlight=False)


def judged_of_file(
    file: str,
    files: FileOptions,
    chosen: Selection,
    *,
    judged: Path | None,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None,
    wanted: WantedScores,
) -> GatheredInteractions:
    """Return the judged interactions of a file; print the problems of its rows."""
    predictions = [] if judged is None else read_predictions(judged)
    problems = Problems(err, file)
    rows = []
    for row in read_rows(file, files):
        if row.interaction is None:
            problems.add(row.line, row.problem or "")
        elif chosen.takes(row.interaction) and run in {None, row.interaction.run}:
            rows.append(row)
    problems.sum_up()
    return gather_rows(rows, predictions, reference, traffic=traffic, wanted=wanted)


def judged_of_kept_items(
    settings: Settings,
    chosen: Selection,
    *,
    run: str | None,
    reference: str | None,
    traffic: TrafficSample | None,
    wanted: WantedScores,
) -> GatheredInteractions:
    """Return the judged interactions among the items that the deployment keeps."""

    async def body(redis: Redis, _: RedisHandle) -> GatheredInteractions:
        kept = KeptSpecimens(redis, settings.layout)
        judged = [specimen for name in await kept.pipelines() for specimen in await kept.judged(name)]
        if traffic is not None:
            for name in await kept.pipelines():
                for specimen in await kept.sample(name):
                    if chosen.takes(specimen.interaction) and run in {None, specimen.interaction.run}:
                        traffic.add(specimen.interaction)
        annotations = await StoredAnnotations(redis, settings.prefix).read()
        annotated = (await chosen_of_annotations(kept, annotations)).chosen
        warn(*filter(None, [kept.unreadable.warning()]))
        return gather_kept(
            [specimen for specimen in judged if chosen.takes(specimen.interaction)],
            [
                (item.specimen, item.gold_scores, float(item.reasons[0]["inclusion_probability"]))
                for item in annotated
                if chosen.takes(item.specimen.interaction)
            ],
            run=run,
            reference=reference,
            traffic=traffic,
            wanted=wanted,
        )

    return with_redis(settings, body)


def examined_interactions(
    gathered: GatheredInteractions, similar: Similar | None, criterion: Criterion | None = None
) -> ExaminedInteractions:
    """Return the interactions as the fit reads them, with a progress bar."""
    with progress_bar("reading", len(gathered.interactions)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine(gathered.interactions, counted, similar=similar, criterion=criterion)


def spoilt_pairs(gathered: GatheredInteractions, similar: Similar | None) -> list[ExaminedPair]:
    """Return clean and spoilt interactions, with a progress bar."""
    with progress_bar("spoiling", len(gathered.traffic)) as show:
        done = 0

        def counted() -> None:
            nonlocal done
            done += 1
            show(done)

        return examine_pairs(gathered.traffic, counted, similar=similar)


def refuse_cost(plan: CostPlan, max_cost_usd: float, name: str, fewer: str) -> None:
    """Print what a run would cost.

    Args:
        plan: of the run.
        max_cost_usd: most US dollars.
        name: of the run, such as check.
        fewer: what makes the run cheaper, as words of the error.

    Raises:
        ConfigurationError: it may cost more than allowed, or the price is not known.
    """
    err.print(planned(plan), markup=False, highlight=False)
    if plan.calls.calls and not plan.has_price:
        raise ConfigurationError(
            "the price of the model is not known, so --max-cost-usd cannot be kept: set it under judge.prices, for a "
            "model of your own with input = 0 and output = 0"
        )
    if plan.calls.cost_usd > max_cost_usd:
        raise ConfigurationError(
            f"the {name} would cost about ${plan.calls.cost_usd:,.2f}, and --max-cost-usd is {max_cost_usd:g}: give "
            f"{fewer}, or a higher --max-cost-usd"
        )


def label_rows(
    run: LabelerRun[Any], title: str = "labeling", *, total: int | None = None, max_cost_usd: float = inf
) -> None:
    """Label the rows of a run with a progress bar.

    It stops when it has cost more than `max_cost_usd`, because answers that are asked for again cost more than planned.
    """

    async def label() -> None:
        done = 0
        async with aclosing(run.run()) as steps:
            async for _ in steps:
                done += 1
                cost_usd = run.result.cost_usd
                advance(done, cost_note(cost_usd, done, total))
                if cost_usd > max_cost_usd:
                    warn(f"stopped after {done:,} rows: they cost ${cost_usd:,.2f}, more than --max-cost-usd")
                    return

    with progress_bar(title, total) as advance:
        asyncio.run(label())


def finish_run(run: LabelerRun[Any], confidence: float) -> None:
    """Print the problems of a run, and compute its tables with a progress bar."""
    warn(*run.result.problems)
    with progress_bar("comparing", None) as advance:
        for done, _ in enumerate(run.finish(confidence), 1):
            advance(done)


def names_in(text: str | None) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def measure_corruptions(
    run: SpoiltRows, *, confidence: float = 0.95, max_cost_usd: float = inf, as_json: bool = False
) -> None:
    """Run a labeler on clean and spoilt rows, and print the figures."""
    with interruptible(lambda: f"{run.result.counts['labeled']:,} rows were labeled: give the same command again."):
        label_rows(run, max_cost_usd=max_cost_usd)
    finish_run(run, confidence)
    if as_json:
        print_json(run.result.as_dict())
        return
    for metric in dict.fromkeys(figure.metric for figure in run.figures):
        out.print(corruptions_table([figure for figure in run.figures if figure.metric == metric], out.width))
    for sentence in corruption_notes(run):
        out.print(sentence, style="bright_black", markup=False, highlight=False)


def run_check(check: "JudgeCheck", *, confidence: float, max_cost_usd: float, as_json: bool) -> None:
    """Ask the judge about the items of a check, and print the table; after Ctrl-C that of the answers so far.

    Args:
        check: of the items.
        confidence: level of the intervals.
        max_cost_usd: US dollars at which the check stops.
        as_json: whether the rows are printed as JSON.
    """
    stopped = False
    try:
        label_rows(check, "judging", max_cost_usd=max_cost_usd)
    except KeyboardInterrupt:
        stopped = True
    labeled = check.result.counts["labeled"]
    finish_run(check, confidence)
    if labeled or not stopped:
        _print_rows(check, confidence, as_json=as_json)
    if stopped:
        interrupted(f"{labeled:,} answers were paid for. No answer is stored, so a new check begins anew.")


def _print_rows(check: "JudgeCheck", confidence: float, *, as_json: bool) -> None:
    result = check.result
    if as_json:
        print_json(result.as_dict())
        return
    out.print(heading([result.labeler.name, result.labeler.version, f"{result.counts['rows']:,} items"], out.width))
    out.print(check_table(check.rows, out.width, confidence))
    for sentence in check_notes(result, confidence):
        out.print(sentence, style="bright_black", markup=False, highlight=False)
    if check.worths:
        labeled = max(worth.agreement.n + worth.absent for worth in check.worths)
        out.print(Text(), trust_view(check.worths, labeled, None, out.width, confidence))


READ_MAX: Final = 100_000
"""Most interactions that are looked at."""


def write_sentinels(settings: Settings, source: str, output: Path, *, limit: int, pipeline: str | None) -> int:
    """Write sentinels into a file, and return their number.

    Args:
        settings: of the process.
        source: recording or file.
        output: file to write.
        limit: most sentinels.
        pipeline: only of this pipeline; all unless given.

    Raises:
        RagtideError: the source cannot be read, or no judge can label any interaction in it.
    """
    own = (interaction for interaction in _interactions(settings, source) if pipeline in (None, interaction.pipeline))
    sentinels = sentinels_of(list(islice(own, READ_MAX)), limit)
    if not sentinels:
        whose = "" if pipeline is None else f" of the pipeline {pipeline}"
        raise ConfigurationError(
            f"{source} has no interaction{whose} with documents and a response: name another source"
        )
    lines = [sentinel.interaction.encode() for sentinel in sentinels]
    write_file(output, b"\n".join(lines) + b"\n", "the file of sentinels")
    return len(lines)


def _interactions(settings: Settings, source: str) -> Iterator[RagInteraction]:
    is_url = len(urlsplit(source).scheme) > 1 and not source.startswith("hf:")
    if is_url or Path(source).is_dir():
        recording = Recording.open(source, storage_options=settings.recorder.storage_options)
        for entry in recording.entries(EntryKind.INTERACTIONS):
            if isinstance(entry.model, RagInteraction):
                yield entry.model
        return
    for row in read_rows(source, FileOptions(unnamed="unnamed")):
        if row.interaction is not None:
            yield row.interaction


UNNAMED: Final = "unnamed"
"""Pipeline of rows that name none."""


MOST_READ: Final = 100_000
"""Most rows from which a sample is drawn."""


def rows_of(file: str, limit: int, seed: int | None, criterion: Criterion, quiet_s: float) -> list[Row]:
    """Return the first rows of a file, or with a seed rows drawn at random; of a criterion about sessions, sessions.

    Args:
        file: of interactions.
        limit: most rows, or sessions.
        seed: of the draw; None for the first.
        criterion: that is tried.
        quiet_s: seconds without a turn after which a session has ended.

    Raises:
        typer.BadParameter: the file has no rows, or no sessions.
    """
    rows = read_rows(file, FileOptions(unnamed=UNNAMED))
    if criterion.is_of_session:
        rows = iter(only_sessions(islice(rows, MOST_READ), criterion.asked_of_all(), quiet_s))
    if seed is None:
        chosen_rows = list(islice(rows, limit))
    else:
        read = list(islice(rows, MOST_READ))
        chosen_rows = random.Random(seed).sample(read, min(limit, len(read)))  # noqa: S311 - no secret
    if not chosen_rows and criterion.is_of_session:
        raise typer.BadParameter(f"no row of {file} has a session_id: give a file with sessions", param_hint="--file")
    if not chosen_rows:
        raise typer.BadParameter(f"{file} has no interaction: give a file that has some", param_hint="--file")
    return chosen_rows


def run_trial(settings: Settings, criterion: Criterion, rows: Sequence[Row], max_cost_usd: float) -> CriterionTrial:
    """Ask the judge, after its price is stated.

    Raises:
        ConfigurationError: the trial may cost more than allowed, or the price is not known.
    """
    trial = CriterionTrial(settings, criterion, rows)
    refuse_cost(asyncio.run(trial.plan()), max_cost_usd, "trial", "a lower --limit")
    label_rows(trial, "judging", total=len(rows))
    list(trial.finish())
    return trial


def criterion_of_options(name: str, fields: Mapping[str, Any], file: Path | None) -> Criterion:
    """Return the criterion that options make, from a file or alone.

    Args:
        name: of the criterion.
        fields: its fields as options have them; None for an option that is not given.
        file: TOML file that has it; None for a criterion of the options alone.

    Raises:
        typer.BadParameter: a field is wrong, or the file has no such criterion.
    """
    options = {field: value for field, value in fields.items() if value is not None and value != []}
    if "values" in options:
        options["values"] = _values(options["values"])
    if "segments" in options:
        options["segments"] = _segments(options["segments"])
    if file is not None:
        base = _read_criterion(file, name)
        if not options:
            return base
        options = {**base.model_dump(exclude_defaults=True), **options}
    elif "question" not in options and name not in BUILT_IN:
        raise typer.BadParameter(f"{name} has no question: give --question and --scale, or --criteria FILE")
    try:
        return Criterion.model_validate({"name": name, **options})
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None


def _read_criterion(file: Path, name: str) -> Criterion:
    read = read_criteria(file)
    for criterion in read.criteria:
        if criterion.name == name:
            return criterion
    for finding in read.findings:
        if finding.criterion == name:
            raise typer.BadParameter(f"{file}: {name}: {finding.message}")
    raise typer.BadParameter(unknown("criterion", name, [criterion.name for criterion in read.criteria]))


def _values(text: str) -> dict[str, float]:
    values = {}
    for part in text.split(","):
        answer, _, value = part.rpartition("=")
        answer = answer.strip()
        if answer in values:
            raise typer.BadParameter(
                f"the answer {answer} has two values: give each answer once", param_hint="--values"
            )
        try:
            values[answer] = float(value)
        except ValueError:
            message = f"{part.strip()!r} is no answer with a value: write 'good=1, bad=0'"
            raise typer.BadParameter(message, param_hint="--values") from None
    return values


def _segments(parts: Sequence[str]) -> dict[str, list[str]]:
    segments: dict[str, list[str]] = {}
    for part in parts:
        name, sign, value = part.partition("=")
        if not (name and sign and value):
            raise typer.BadParameter(f"{part!r} is no segment value: write lang=de", param_hint="--segment")
        segments.setdefault(name, []).append(value)
    return segments


def find_criterion(settings: Settings, name: str, remedy: str = "add it: ragtide criteria add") -> Criterion:
    """Return a criterion of the settings, a built-in one, or one of the store, by its name or its metric.

    Redis is read only if it is none of the first two.

    Args:
        settings: of the deployment.
        name: name or metric of the criterion.
        remedy: what to do if there is none.

    Raises:
        typer.BadParameter: there is none of this name, as far as Redis can be read.
    """
    name = name.removeprefix(f"{CRITERIA_FAMILY}.")
    for criterion in settings.judge.criteria:
        if criterion.name == name:
            return criterion
    if name in BUILT_IN:
        return Criterion.model_validate({"name": name})
    stored, unread = StoredCriteria(), ""
    try:
        stored = with_redis(settings, lambda redis, _: read_stored_criteria(redis, settings.prefix))
    except RedisUnavailable as error:
        unread = f". Stored criteria were not read: {error}"
    match = stored.find(name)
    if match is not None:
        return match.criterion
    names = [*(known.name for known in settings.judge.criteria), *(known.criterion.name for known in stored.criteria)]
    raise typer.BadParameter(f"{unknown('criterion', name, [*names, *BUILT_IN])}; or {remedy}{unread}")


def check_is_of_answers(criterion: Criterion, why: str) -> None:
    """Refuse a criterion about whole sessions.

    Args:
        criterion: that a command was given.
        why: why the command takes criteria about single answers only, and the remedy.

    Raises:
        ConfigurationError: the criterion is about whole sessions.
    """
    if criterion.is_of_session:
        raise ConfigurationError(f"{criterion.metric} is a criterion about whole sessions, and {why}")


def store(settings: Settings, criterion: Criterion, by: str, *, replace: bool) -> str:
    """Store a criterion, and return a sentence about what that did.

    Raises:
        typer.BadParameter: a criterion of this name is stored or in the settings, or there are too many.
    """

    async def body(redis: Redis, _: RedisHandle) -> StoredCriterion | None:
        before = (await read_stored_criteria(redis, settings.prefix)).find(criterion.name)
        if before is not None and not replace:
            raise typer.BadParameter(f"a criterion {criterion.name} is stored already: give --replace to change it")
        paused = before is not None and before.paused
        stored = StoredCriterion(criterion=criterion, by=by, at=utc_now(), paused=paused)
        return await store_criterion(redis, settings.prefix, stored, settings.judge.criteria)

    try:
        check_sessions([criterion], settings.splits, settings.producer)
        before = with_redis(settings, body)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if before is None:
        return f"version {criterion.version}; workers ask it within seconds"
    if before.criterion.version == criterion.version:
        return f"version {criterion.version} as before; its numbers continue"
    return f"version {before.criterion.version} becomes {criterion.version}, which has numbers of its own"


def remove(settings: Settings, names: Sequence[str]) -> None:
    """Remove stored criteria.

    Raises:
        typer.BadParameter: one is not stored; the others are removed.
    """

    async def body(redis: Redis, _: RedisHandle) -> list[str]:
        return [name for name in names if not await remove_criterion(redis, settings.prefix, name)]

    missing = with_redis(settings, body)
    in_settings = {criterion.name for criterion in settings.judge.criteria}
    for name in missing:
        if name in in_settings:
            raise typer.BadParameter(f"the criterion {name} is in the settings: remove it there")
    if missing:
        raise typer.BadParameter(f"no criterion {', '.join(missing)} is stored: ragtide criteria list shows them")


def criteria_of_deployment(settings: Settings) -> tuple[list[ListedCriterion], Sequence[str]]:
    """Return the criteria of a deployment with their numbers, and the names of those that cannot be read."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[ListedCriterion], Sequence[str]]:
        stored = await read_stored_criteria(redis, settings.prefix)
        estimates = await Deployment(redis, settings).overview()
        return criterion_rows(settings.judge.criteria, stored, estimates, lambda _: True), stored.unreadable

    return with_redis(settings, body)


def typical_interactions(file: str | None) -> list[RagInteraction]:
    """Return the first interactions of a file; of the bundled ones without a file."""
    if file is None:
        return demo_interactions()[:TYPICAL]
    candidates = (row.interaction for row in read_rows(file, FileOptions(unnamed="unnamed")))
    interactions = list(islice((interaction for interaction in candidates if interaction is not None), TYPICAL))
    if not interactions:
        raise typer.BadParameter(f"{file} has no interaction: give a file that has some", param_hint="--file")
    return interactions


PLANNED: Final = 2_000
"""Most interactions whose calls are planned one by one; the price of more is that of these, in proportion."""


def criteria_named(settings: Settings, names: Sequence[str]) -> tuple[Criterion, ...]:
    """Return criteria of the settings, of the store, or built-in ones, by name.

    Raises:
        typer.BadParameter: there is none of a name, or they cannot be asked together.
    """
    if not names:
        return ()
    criteria = tuple(find_criterion(settings, name) for name in names)
    try:
        check_criteria(criteria)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--criterion") from None
    return criteria


def show_backfill(settings: Settings, plan: ReplayPlan, *, as_json: bool) -> None:
    """Print the calls, tokens and price of asking criteria about a recording, by estimate.

    Raises:
        ConfigurationError: a setting of the judge is missing or wrong, or no interaction is selected.
    """
    total = count_selected(plan.recording, EntryKind.INTERACTIONS, plan.selection, ("pipeline",)).total
    trial = settings_of_replay(settings, plan.info(settings, total))
    items = RecordedInteractions(plan.recording, plan.selection).after(None)
    answers = (Row(number, item.interaction) for number, item in enumerate(islice(items, PLANNED), 1))
    rows = with_sessions(answers, session_criteria(trial), trial.clusters.quiet_s)
    price = asyncio.run(planned_cost(trial, rows, keeps_answers=False))
    planned = min(total, PLANNED)
    scale = total / max(planned, 1)
    figures = {name: value * scale for name, value in asdict(price.calls).items()}
    figures["cost_usd"] = figures["cost_usd"] if price.has_price else None
    if as_json:
        print_json({"interactions": total, "planned": planned, **figures})
        return
    cost = "an unknown price (judge.prices)" if not price.has_price else f"about ${figures['cost_usd']:,.4f}"
    out.print(
        f"{total:,} interactions: {figures['calls']:,.0f} calls, {figures['prompt_tokens']:,.0f} tokens in, "
        f"{figures['completion_tokens']:,.0f} tokens out, {cost}"
    )
    err.print(
        "without answers that are cached; --max-cost-usd stops the replay, which can continue", style="bright_black"
    )


REDRAW_S = 1.0
"""Seconds between two drawings of the leaderboard."""


NOT_COMPLETE = 3
"""Exit code of an experiment that was interrupted or paused: docs/offline/gates.md, "Exit codes"."""


GO_ON = "run ragtide experiment run FILE again, or the program that began it"
"""The advice to start a driver again."""


def how_to_continue(info: Workspace) -> str:
    """Return the way to continue an experiment, in words."""
    # The path in Redis is shown and never opened, because any process with access to Redis may have written it.
    stored = info.options.get("file")
    if not isinstance(stored, str):
        return f"a Python program began {info.run}: run that program again to continue the experiment"
    return (
        f"give the file that describes {info.run}: ragtide experiment resume {info.run} --file FILE (it began with "
        f"{stored!r}; read that file before you run it)"
    )


def control_of(name: str, options: Given) -> ExperimentControl:
    """Return the control of an experiment of the deployment."""
    return ExperimentControl(name, settings=options.settings())


def confirm(done: str, *, driven: bool) -> None:
    """Print what was done, and whether a driver reads it."""
    err.print(done, markup=False, highlight=False)
    if not driven:
        warn(f"No driver runs, so this takes effect when the experiment continues: {GO_ON}")


def run_experiment(
    settings: Settings,
    file: Path,
    gate: GateOptions | None,
    *,
    roles: bool,
    as_json: bool,
    name: str | None = None,
) -> None:
    """Run an experiment until it is complete or interrupted, and end with the exit code."""
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    asked, unread = criteria_of_metrics(settings, [read_draft(file).metric])
    warn(*filter(None, [unread]))
    experiment = Experiment.from_file(file, settings, name=name, criteria=asked.judge.criteria)
    plan, race = experiment.plan, "no race"
    if plan.race.enabled:
        race = f"the race compares configs every {plan.race.look_every} items, with a margin of {plan.race.margin:g}"
    err.print(
        f"{plan.run}: {len(plan.configs)} configs x {plan.population_size:,} items of {plan.data}, by {plan.metric}; "
        f"{race}; seed {plan.seed}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    gate = gate and gate.foreseeing_experiment(experiment)
    experiment.check(roles=roles)
    signalled = False

    async def body(url: str) -> None:
        stopping = asyncio.Event()

        async def table(redis: Redis) -> None:
            await follow_board(ExperimentReader(redis, streams_of(settings, experiment.plan.run)))

        def stop() -> None:
            nonlocal signalled
            signalled = True
            stopping.set()

        with on_signal(stop):
            beside = [] if as_json or not out.is_terminal else [table]
            await experiment.drive(url, stopping, roles=roles, beside=beside)

    with resolve_redis(settings.redis_address, settings.data_dir, convert=True) as handle:
        asyncio.run(body(handle.url))
        state = experiment.control.state()
        leaderboard = board(state)
        result = print_board(leaderboard, state, gate, as_json=as_json)
        if signalled and not leaderboard.completed:
            interrupted(
                f"{leaderboard.executed:,} answers and their scores are kept: to go on, give ragtide experiment run "
                f"{file}."
            )
        if not leaderboard.completed:
            err.print(f"Not complete. Continue with: ragtide experiment run {file}", markup=False, highlight=False)
        exit_for(result, otherwise=0 if leaderboard.completed else NOT_COMPLETE)


async def follow_board(reader: ExperimentReader, driven: Callable[[], Awaitable[bool]] | None = None) -> None:
    """Redraw the leaderboard until the experiment is complete."""
    bar = BarView(out, "items compared")
    with Live(console=out, auto_refresh=False, transient=True) as live:
        while True:
            try:
                await reader.read()
                runs = driven is None or await driven()
            except RedisError as error:
                live.update(Text(f"Redis does not answer ({error}); trying again ...", style="red"), refresh=True)
                await asyncio.sleep(REDRAW_S)
                continue
            if reader.begun:
                # In a thread: the leaderboard is slow to compute, and other tasks of this process must not wait.
                leaderboard = await asyncio.to_thread(board, reader.state, metrics=[reader.state.plan.metric])
                cost = cost_note(leaderboard.cost_usd, leaderboard.compared, leaderboard.population_size)
                view: list[RenderableType] = [
                    board_view(leaderboard, out.width, driven=runs),
                    bar.drawn(leaderboard.compared, leaderboard.population_size, cost),
                ]
                if not (leaderboard.completed or runs):
                    view.append(Text(f"No driver runs. To continue, {GO_ON}.", style="yellow"))
                live.update(Group(*view), refresh=True)
                if leaderboard.completed:
                    return
            await asyncio.sleep(REDRAW_S)


def print_board(
    leaderboard: Board, state: ExperimentState, gate: GateOptions | None, *, as_json: bool, driven: bool = True
) -> GateResult | None:
    """Print the leaderboard and the gate, and return the result of the gate."""
    if not as_json:
        out.print(board_view(leaderboard, out.width, shown_metrics(leaderboard), driven=driven))
        if leaderboard.traffic:
            out.print(leaderboard.traffic, markup=False, highlight=False)
    result = None if gate is None else gate.decide_experiment(state, as_json=as_json)
    if as_json:
        print_json(with_gate(leaderboard.as_dict(), result))
    return result


def changed_parameter(text: str) -> tuple[str, Any]:
    """Return name and value of a parameter, written as name=value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


_ESTIMATES: Final = TypeAdapter(list[Estimate])


def planned_definition(settings: Settings, metric: str, unread: str | None) -> MetricDefinition | None:
    """Return the definition of a metric; None for one that only workers elsewhere may declare.

    Args:
        settings: with the stored criteria, as far as they were read.
        metric: that a judge scores.
        unread: why stored criteria were not read; None if they were.

    Raises:
        ConfigurationError: the metric is a criterion about whole sessions.
        typer.BadParameter: there is no such metric.
    """
    criteria = {criterion.metric: criterion for criterion in (*built_in_criteria(), *all_criteria(settings))}
    if metric in criteria:
        check_is_of_answers(
            criteria[metric],
            "a plan counts single answers: each session is one call of the judge, and its rate chooses among sessions",
        )
        return criteria[metric].definition()
    known = known_metrics(settings)
    family, dot, _ = metric.partition(".")
    closed = not dot or family in CLOSED_FAMILIES or (family == CRITERIA_FAMILY and unread is None)
    if metric not in known and closed:
        raise typer.BadParameter(unknown("metric", metric, [*known, *criteria]))
    return known.get(metric)


def given_scale(
    metric: str, definition: MetricDefinition | None, mean: float, deviation: float | None, correlation: float
) -> JudgedScale:
    """Return what options say about a judge's answers; a metric without a definition is between 0 and 1.

    Raises:
        typer.BadParameter: the mean is not inside the metric's range, or the deviation is too large for it.
    """
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    if definition is None:
        warn(f"{metric} is not known here: it is taken to be between 0 and 1")
    if not lowest < mean < highest:
        raise typer.BadParameter(f"--mean is {mean:g}, and {metric} is between {lowest:g} and {highest:g}")
    largest = ((mean - lowest) * (highest - mean)) ** 0.5
    if deviation is not None and deviation > largest * (1 + 1e-9):
        raise typer.BadParameter(
            f"--deviation is {deviation:g}, and with the mean {mean:g} at most {largest:.4g} is possible"
        )
    return JudgedScale(mean, lowest, highest, largest if deviation is None else deviation, correlation)


def live_estimates(settings: Settings, confidence: float) -> list[Estimate]:
    """Return the estimates of the deployment over all time."""

    async def body(redis: Redis, _: RedisHandle) -> list[Estimate]:
        return await Deployment(redis, settings).estimates(confidence=confidence, windows=False)

    return with_redis(settings, body)


def estimates_of_file(file: Path) -> list[Estimate]:
    """Return the estimates in a file: the output of `ragtide estimates --json --estimator all`.

    Raises:
        typer.BadParameter: the file cannot be read, or has no estimates.
    """
    try:
        return _ESTIMATES.validate_json(file.read_bytes())
    except OSError as error:
        reason = str(error.strerror)
    except ValidationError as error:
        reason = describe(error)
    remedy = "give the output of ragtide estimates --json --estimator all"
    raise typer.BadParameter(f"{file} cannot be read ({reason}): {remedy}", param_hint="--estimates")


def scale_of_estimates(estimates: Iterable[Estimate], metric: str, pipeline: str | None) -> JudgedScale:
    """Return what estimates show about a judge's answers.

    A prediction-powered estimate shows mean, variance, the correlation of the proxy and, in clusters, the design
    effect. Without one, the mean of the judge shows the same but for the correlation.

    Args:
        estimates: over all time.
        metric: that the judge scores.
        pipeline: of the judged interactions; None if only one has any.

    Raises:
        ConfigurationError: there is no judged sample with an interval, or there are samples of several pipelines.
    """
    mine = [
        estimate
        for estimate in estimates
        if (estimate.metric, estimate.run, estimate.segment, estimate.window) == (metric, None, None, ALL_TIME)
        and pipeline in {None, estimate.pipeline}
    ]
    powered = [estimate for estimate in mine if estimate.estimator == "prediction_powered"]
    judged = powered or [
        estimate for estimate in mine if estimate.estimator == "mean" and estimate.labeler == "judge" and estimate.n
    ]
    pipelines = sorted({estimate.pipeline for estimate in judged})
    if len(pipelines) > 1:
        raise ConfigurationError(f"{metric} is judged in {', '.join(pipelines)}: choose one with --pipeline")
    hint = "give --mean and --correlation to plan without it"
    if not judged:
        where = "" if pipeline is None else f" of {pipeline}"
        raise ConfigurationError(f"no sample{where} with scores of {metric} by a judge: {hint}")
    newest = max(judged, key=lambda estimate: (estimate.updated_at is not None, estimate.updated_at))
    if powered:
        same = (newest.labeler, newest.labeler_version, newest.metric_version, newest.proxy)
        weighted = [
            estimate
            for estimate in mine
            if estimate.estimator == "weighted"
            and (estimate.labeler, estimate.labeler_version, estimate.metric_version, estimate.proxy) == same
        ]
        proxied = [
            estimate.n + estimate.n_absent
            for estimate in mine
            if estimate.estimator == "mean" and estimate.labeler == newest.proxy
        ]
        scale = scale_of(newest, max(proxied, default=newest.n), next(iter(weighted), None))
    else:
        scale = scale_of_mean(newest)
    if scale is None:
        raise ConfigurationError(f"too few judged scores of {metric} for an interval ({newest.n:,}): {hint}")
    return scale


_DURATION: Final = re.compile(r"[1-9][0-9]{0,5}[mhd]")


_PRICE: Final = re.compile(r"(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)")


def price_of_option(text: str) -> Price:
    """Return the price in `--price IN,OUT`."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no price: give dollars for a million tokens, such as 0.4,1.6")
    return Price(input=float(match[1]), output=float(match[2]))


def seconds_of_option(text: str) -> float:
    """Return the seconds of a time such as `7d`."""
    if not _DURATION.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no time: give minutes, hours or days, such as 30m, 12h or 7d")
    return duration_ms(text) / 1000


def shown_replay(bar: Shown) -> Show:
    """Return a function that draws the progress of a replay on a bar."""

    def show(progress: ReplayProgress | RelabelProgress) -> None:
        if isinstance(progress, RelabelProgress):
            bar(progress.labeling.done, _relabeling_cost(progress))
        else:
            bar(progress.done, f"{progress.at:%Y-%m-%d %H:%M}" if progress.at else "")

    return show


def shown_labels(bar: Shown) -> Callable[[int, float], None]:
    """Return a function that draws the progress of labeling in processes on a bar."""
    return lambda done, spent_usd: bar(done, cost_note(spent_usd, done, None))


def _relabeling_cost(progress: RelabelProgress) -> str:
    labeling, projected = progress.labeling, progress.projected_usd
    parts = []
    if labeling.prompt_tokens or labeling.completion_tokens:
        parts.append(f"{labeling.prompt_tokens + labeling.completion_tokens:,} tokens")
        parts.append(f"${labeling.cost_usd:.2f}" + ("" if projected is None else f" of about ${projected:.2f}"))
    if labeling.cache_hits:
        parts.append(f"{labeling.cache_hits:,} from the cache")
    if labeling.dead:
        parts.append(f"{labeling.dead:,} dead letters")
    return ", ".join(parts)
