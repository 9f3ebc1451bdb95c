"""What commands read of a deployment, or change there: alerts, items, traces, headlines and differences."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from redis import RedisError
from redis.asyncio import Redis

from ragtide_aggregator.estimates.headline import HeadlineRange, headline_range
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_aggregator.statistics.means.strategies import AUTO
from ragtide_consumers.notify.silences import MutedAlerts, read_muted
from ragtide_offline.gates.measurements import measure_headlines
from ragtide_offline.gates.sources import measure_comparison
from ragtide_offline.replay.selection import selection
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_offline.report.labelings import Compared, named_recording
from ragtide_offline.report.pipelines import PipelineSide, unknown_side
from ragtide_offline.report.split_answers import SplitUnit, TrafficSplit
from ragtide_offline.report.split_traffic import SplitComparison, read_split_comparison
from ragtide_producers.ingest.closing import forget_spans
from ragtide_producers.publishing.retrying import Retrier
from ragtide_roles.kept.annotations import StoredAnnotations
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import (
    RECORD_GROUP,
    SPECIMEN_NEWEST,
    SPECIMEN_SAMPLE,
    Streams,
    beyond_list,
    parts_of_worst,
    worst_list,
)
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.session_turns import forget_turns
from ragtide_runtime.redis.url import RedisHandle, resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas import METRICS, Alert, Headline, Specimen, utc_now
from ragtide_schemas.alert_text import MOST_WORST, AlertText, WorstAnswer, alert_text, worst_answer
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable

from ..printing import err, fitted, out, print_json, warn
from ..printing.estimates import DIFFERENCE_COLUMNS, compared_table, comparison_method, print_headlines, unmet_option
from ..printing.live import ItemGroup
from . import given
from .files import GateOptions, exit_for, interruptible, progress_bar, with_gate
from .redis import settings_of, with_redis

if TYPE_CHECKING:
    from ragtide_producers.ingest.stored_spans import StoredTrace
    from ragtide_producers.traces.explaining import ExplainedTrace


async def texts_of_alerts(redis: Redis, settings: Settings, alerts: Sequence[Alert]) -> list[AlertText]:
    """Return alerts in words, with the questions of the answers that a firing alert names.

    Raises:
        redis.RedisError: Redis failed.
    """
    muted, kept = await read_muted(redis, settings.prefix), KeptSpecimens(redis, settings.layout)
    texts = []
    for alert in alerts:
        worst = []
        for interaction_id in alert.worst_interaction_ids[:MOST_WORST] if alert.status != "resolved" else ():
            specimens = await kept.find(interaction_id, alert.pipeline)
            worst.append(worst_answer(alert, interaction_id, specimens[0] if specimens else None, texts=True))
        texts.append(text_of_alert(alert, muted, worst))
    return texts


async def text_of_new_alert(redis: Redis, settings: Settings, alert: Alert) -> AlertText:
    """Return an alert that has just been read in words; while Redis fails, with what its record says alone."""
    try:
        (text,) = await texts_of_alerts(redis, settings, [alert])
    except RedisError:
        return alert_text(alert, now=utc_now())
    return text


def text_of_alert(alert: Alert, muted: MutedAlerts, worst: Sequence[WorstAnswer] = ()) -> AlertText:
    """Return an alert in words, with what people did about it.

    Args:
        muted: silences and acknowledgements of the deployment.
        worst: its answers to read first.
    """
    now = utc_now()
    return alert_text(
        alert,
        now=now,
        worst=worst,
        acknowledged=muted.acknowledged_by(alert.alert_id),
        silenced_until=muted.silenced_until(alert, now),
    )


def json_of_alert(text: AlertText) -> dict[str, Any]:
    """Return the record of an alert with what people did about it, for JSON."""
    until = None if text.silenced_until is None else text.silenced_until.isoformat()
    return {**text.alert.model_dump(mode="json"), "acknowledged_by": text.acknowledged, "silenced_until": until}


async def retry_letters(redis: Redis, settings: Settings, ids: list[str] | None) -> int:
    """Publish dead letters again, and return their number."""
    deployment, retrier = Deployment(redis, settings), Retrier(redis)
    retried = 0
    async for stored in deployment.dead_letters(ids):
        streams = Streams(settings.prefix, stored.partition)
        try:
            retried += await retrier.retry(streams, stored.letter_id, stored.letter)
        except ValueError as error:
            deployment.unreadable_dead_letters.add(f"{stored.letter_id} of {streams.dead_letters}", error)
    warn(*deployment.warnings())
    return retried


async def forget_letters(redis: Redis, settings: Settings, interaction_id: str, pipeline: str | None) -> int:
    """Delete the dead letters about an interaction, and return their number."""
    deployment = Deployment(redis, settings)
    forgotten = 0
    async for stored in deployment.dead_letters():
        letter = stored.letter
        if letter.is_about(interaction_id) and (pipeline is None or letter.pipeline in (None, pipeline)):
            forgotten += await redis.xdel(Streams(settings.prefix, stored.partition).dead_letters, stored.letter_id)
    return forgotten


async def requests_of_firing_alerts(redis: Redis, settings: Settings) -> list[dict[str, Any]]:
    """Return for each destination the requests about the alerts that fire now, as if none had been sent to it."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.notification import Notification  # noqa: PLC0415
    from ragtide_consumers.notify.routing import together, wants  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    deployment = Deployment(redis, settings)
    firing = [alert for alert in await deployment.alerts() if alert.status != "resolved"]
    warn(*deployment.warnings())
    previews = []
    async with open_destinations(settings) as destinations:
        for name, destination in destinations.items():
            wanted = [alert for alert in firing if wants(destination.known.settings, alert)]
            notifications = [
                Notification(group[0].alert_id, "firing", group)
                for group in together(wanted, grouped=destination.known.grouped)
            ]
            requests = [
                _fields_of_request(request)
                for message in notifications
                for request in destination.destination.preview(message)
            ]
            previews.append({"destination": name, "kind": destination.known.settings.kind, "requests": requests})
    return previews


def _fields_of_request(request: Any) -> dict[str, Any]:
    return {"target": request.target, "headers": request.headers, "body": request.body}


async def answers_of_destinations(settings: Settings, names: Sequence[str], *, dry_run: bool) -> list[dict[str, Any]]:
    """Return the answer of each destination to a test notification, or the requests of a dry run."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.destinations.protocol import Refused, TryLater  # noqa: PLC0415
    from ragtide_consumers.notify.notification import Notification, sample_alert  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    alert = sample_alert()
    notification = Notification(alert.alert_id, "test", (alert,), url=settings.notify.public_url)
    answers = []
    async with open_destinations(settings) as destinations:
        for name in names:
            destination = destinations[name].destination
            answer: dict[str, Any] = {"destination": name, "kind": destinations[name].known.settings.kind, "ok": True}
            answers.append(answer)
            if dry_run:
                answer["requests"] = [_fields_of_request(request) for request in destination.preview(notification)]
                continue
            try:
                answer["answer"] = await destination.deliver(notification) or "accepted"
            except (TryLater, Refused) as error:
                answer["ok"], answer["answer"] = False, str(error)
    return answers


def views_of_items(
    *, worst: bool, newest: bool, sample: bool, alert: str | None, rule: str | None, forget: str | None
) -> dict[str, bool]:
    """Return the options that choose a view, and whether each is given."""
    return {
        "--worst": worst,
        "--newest": newest,
        "--sample": sample,
        "--alert": alert is not None,
        "--rule": rule is not None,
        "--forget": forget is not None,
    }


def is_wanted_list(
    name: str, *, worst: bool, newest: bool, rule: str | None, metric: str | None, labeler: str | None
) -> bool:
    """Return whether a list of items is chosen."""
    if newest:
        return name == SPECIMEN_NEWEST
    if not worst:
        return name == (SPECIMEN_SAMPLE if rule is None else beyond_list(rule))
    list_metric, by = metric_of_list(name)
    if list_metric is None or by is None or name != worst_list(list_metric, by):
        return False
    return (metric is None or metric in (list_metric, list_metric.rpartition(".")[2])) and labeler in (None, by)


def metric_of_list(name: str) -> tuple[str | None, str | None]:
    """Return metric and labeler of a list of the worst; None for another list."""
    return parts_of_worst(name) or (None, None)


def group_of_list(
    pipeline: str, name: str, specimens: Sequence[Specimen], *, metric: str | None, labeler: str | None
) -> ItemGroup:
    """Return the specimens of a list, with the metric whose scores it shows.

    The newest have the scores of the wanted metric, or of the first one with bands.
    """
    list_metric, by = metric_of_list(name)
    if name != SPECIMEN_NEWEST:
        return ItemGroup(pipeline, name, list_metric, by, specimens)
    names = {score for specimen in specimens for labeling in specimen.labelings for score in labeling.scores}
    wanted = [score for score in METRICS if score in names and metric in (score, score.rpartition(".")[2])]
    banded = [score for score in METRICS if score in names and METRICS[score].bands is not None]
    shown_metric_name = next(iter(wanted), metric) if metric is not None else next(iter(banded), None)
    return ItemGroup(pipeline, name, shown_metric_name, labeler, specimens)


async def alert_of_id(redis: Redis, settings: Settings, alert_id: str) -> Alert:
    """Return an alert, or end the command if there is none."""
    deployment = Deployment(redis, settings)
    match = next((alert for alert in await deployment.alerts() if alert.alert_id == alert_id), None)
    if match is None:
        warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
        raise typer.Exit(1)
    return match


async def items_of_alert(kept: KeptSpecimens, alert: Alert) -> ItemGroup:
    """Return the specimens that an alert names, in its order; say which are not kept."""
    kept_by_id = {name: await kept.find(name, alert.pipeline) for name in alert.worst_interaction_ids}
    missing = [name for name, specimens in kept_by_id.items() if not specimens]
    if missing:
        warn(f"Not kept: {', '.join(map(printable, missing))}")
    specimens = [specimen for specimens in kept_by_id.values() for specimen in specimens]
    return ItemGroup(alert.pipeline, "alert", alert.metric, alert.labeler, specimens)


def forget_item(settings: Settings, interaction_id: str, pipeline: str | None) -> None:
    """Delete the specimens, annotations, dead letters and spans of an interaction, and its turn of an open session."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, int, int, int]:
        await StoredAnnotations(redis, settings.prefix).forget(interaction_id, pipeline)
        items = await KeptSpecimens(redis, settings.layout).forget(interaction_id, pipeline)
        turns = await forget_turns(redis, settings.layout, interaction_id, pipeline)
        traces = await forget_spans(redis, settings.layout, interaction_id)
        return items, turns, traces, await forget_letters(redis, settings, interaction_id, pipeline)

    items, turns, traces, letters = with_redis(settings, body)
    if not items + turns + traces + letters:
        warn(f"Neither an item nor a dead letter of {printable(interaction_id)} is kept")
        raise typer.Exit(1)
    of_sessions = f", {turns:,} turns of open sessions" if turns else ""
    of_traces = f", spans of {traces:,} traces" if traces else ""
    err.print(f"{items:,} items and {letters:,} dead letters{of_sessions}{of_traces} deleted", highlight=False)


_TRACE_ID: Final = re.compile(r"(?:otel-)?([0-9a-fA-F]{8,32})(?:-[0-9a-z]{1,16}){0,2}")


def traces_of_files(context: typer.Context, files: Sequence[Path], trace: str | None) -> "list[ExplainedTrace]":
    """Return the traces in the files of captured requests, explained."""
    from ragtide_producers.traces.explaining import explain_traces  # noqa: PLC0415 - needs the extra web
    from ragtide_producers.traces.otlp import read_capture  # noqa: PLC0415 - as above

    spans = [span for file in files for span in read_capture(file) if span.trace_id.startswith((trace or "").lower())]
    return explain_traces(spans, given(context).settings().ingest)


def stored_traces(context: typer.Context, ids: Sequence[str]) -> "list[ExplainedTrace]":
    """Return the traces with these ids, explained as far as Redis still has their spans.

    Raises:
        ConfigurationError: Redis has no spans of one of them.
    """
    from ragtide_producers.ingest.span_store import SpanStore  # noqa: PLC0415 - needs the extra web
    from ragtide_producers.traces.explaining import explain_traces  # noqa: PLC0415 - as above

    settings = given(context).settings()

    async def find(redis: Redis, _: RedisHandle) -> "list[list[StoredTrace]]":
        store = SpanStore(redis, settings.layout, settings.ingest)
        return [await store.find(trace_id) for trace_id in ids]

    by_trace = with_redis(settings, find)
    for trace_id, traces in zip(ids, by_trace, strict=True):
        if not traces:
            raise ConfigurationError(
                f"Redis has no spans of the trace {trace_id}: they stay for ingest.explain_s "
                f"({settings.ingest.explain_s:,.0f} s) after the trace is over, and of many traces only the newest; "
                "capture the next ones with ragtide serve --capture FOLDER"
            )
    # Spans that came with different tokens are traces of their own, also those with one id.
    return [
        explained
        for traces in by_trace
        for trace in traces
        for explained in explain_traces(trace.read_spans(), settings.ingest)
    ]


def trace_id_in(text: str) -> str | None:
    """Return the id of a trace, or its beginning, that an argument names, or an interaction of it; None for a file.

    >>> trace_id_in("9238C17BA6A2"), trace_id_in("otel-9238c17ba6a2e9c84e0c1dc524fedfa9-d051a79a249cdf01")
    ('9238c17ba6a2', '9238c17ba6a2e9c84e0c1dc524fedfa9')
    """
    named = _TRACE_ID.fullmatch(text)
    return named[1].lower() if named and not Path(text).exists() else None


def problems_of_files(recording: Recording) -> list[str]:
    """Return the problems of the files, with a progress bar."""
    done, problems = 0, list[str]()

    def kept() -> str:
        return f"{done:,} of {recording.file_count:,} files were read: to verify all, give the same command again."

    with interruptible(kept), progress_bar("verifying", recording.file_count) as show:

        def each() -> None:
            nonlocal done
            done += 1
            show(done)

        problems += recording.verify(each)
    return problems


@dataclass(frozen=True, slots=True)
class WaitingEntries:
    """Entries of the streams that a running recorder has not written into a recording yet."""

    count: int
    next_file_s: float | None
    """Seconds within which the recorder writes its next file; None if no entry waits."""

    def sentence(self) -> str:
        """Return them in words."""
        if self.next_file_s is None:
            return "a recorder writes into this recording, and no entry waits for it"
        entries = "1 entry waits" if self.count == 1 else f"{self.count:,} entries wait"
        return f"{entries} for the recorder; its next file comes within {self.next_file_s:,.0f} s (recorder.roll_s)"


def waiting_entries(settings: Settings, recording: Recording) -> WaitingEntries | None:
    """Return the entries that wait for the recorder of a recording; None if none writes into it, as far as is known.

    It asks the Redis of the settings, and starts none. The recorder that owns a partition wrote its last manifest.
    """
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        return None

    async def body(url: str) -> WaitingEntries | None:
        async with connect_async(url) as redis:
            owned = []
            for state in recording.partitions.values():
                streams = Streams(state.prefix or settings.prefix, state.partition)
                lease = await redis.get(streams.recorder_lease)
                if isinstance(lease, bytes) and lease.decode(errors="replace") == state.written_by:
                    owned.append((streams, state))
            if not owned:
                return None
            count = 0
            for streams, state in owned:
                for kind in state.positions:
                    groups = await redis.xinfo_groups(kind.stream(streams))
                    count += sum(group["lag"] or 0 for group in groups if group["name"] == RECORD_GROUP.encode())
            ages = [
                backlog.unrecorded_s or 0.0
                for backlog in await read_backlogs(redis, [streams_owned for streams_owned, _ in owned])
            ]
            return WaitingEntries(count, max(settings.recorder.roll_s - max(ages), 0.0) if count else None)

    try:
        with resolve_redis(settings.redis_address, settings.data_dir) as handle:
            return asyncio.run(body(handle.url))
    except (RedisError, RedisUnavailable, KeyError):  # without Redis, or before 7.0, the files are all that is known
        return None


def chosen_range(last: str | None, since: str | None, *, all_time: bool = False) -> HeadlineRange | None:
    """Return the range that the options choose; None without one of them.

    Raises:
        typer.BadParameter: several of the options are given, or the length is none.
        ConfigurationError: the time is malformed.
    """
    if sum((last is not None, since is not None, all_time)) > 1:
        raise typer.BadParameter("--last, --since and --all-time exclude each other: give one")
    if since is not None:
        return HeadlineRange("since", selection(since).since)
    name = "all" if all_time else last
    if name is None:
        return None
    try:
        return headline_range(name, utc_now())
    except ValueError as error:
        raise typer.BadParameter(f"{error}", param_hint="--last") from None


def show_headlines(
    settings: Settings,
    span: HeadlineRange | None,
    gate: GateOptions | None,
    *,
    metric: str | None,
    small: bool,
    as_json: bool,
    confidence: float | None,
    pipeline: str | None,
    segment: str | None,
    segments: bool,
    labeler: str | None,
) -> bool:
    """Print headlines, decide the gate on them, and return True; False without live traffic.

    Conditions on absences are about estimates of all time, because ranges do not count absences: False, too.

    Raises:
        typer.Exit: with the exit code of the gate, or 1 if an option names something that is not there.
        typer.BadParameter: such a condition is given with an option that chooses headlines.
    """
    is_explicit = span is not None or labeler is not None
    if gate is not None and gate.asks_for_absences:
        if is_explicit:
            raise typer.BadParameter(
                "absences are counted over all time: leave --last, --since, --all-time and --labeler out",
                param_hint="--fail-if",
            )
        return False
    leveled = settings.model_copy(update={"confidence": confidence or settings.confidence})

    async def read(redis: Redis, _: RedisHandle) -> tuple[list[Headline], list[Headline]]:
        deployment = Deployment(redis, leveled)
        candidates = await deployment.headlines(
            span or "default", pipeline=pipeline, segment=segment, segments=segments, labeler=labeler
        )
        kept = [headline for headline in candidates if metric in (None, headline.metric)]
        # A name that nothing matches is compared with all names.
        return kept, [] if kept else await deployment.headlines("all", segments=True)

    headlines, others = with_redis(settings, read)
    if not headlines and not others and not is_explicit:
        return False
    unmet = None
    if not headlines:
        unmet = unmet_option(others, pipeline=pipeline, segment=segment, metric=metric, labeler=labeler)
    elif not as_json:
        print_headlines(headlines, small=small or metric is not None, clusters=settings.clusters)
    result = None if gate is None else gate.decide(measure_headlines(headlines, segment), as_json=as_json)
    if as_json:
        # With the names that an estimate has for its range and intervals, too.
        listed = [
            {**headline.model_dump(mode="json"), "window": headline.range, "strategy": AUTO, "run": None}
            for headline in headlines
        ]
        print_json(listed if result is None else with_gate({"estimates": listed}, result))
    if unmet is not None:
        warn(unmet)
    exit_for(result, otherwise=int(unmet is not None))
    return True


def names_of_sides(
    first: str, second: str | None, workspaces: Sequence[str], labelers: Sequence[str]
) -> tuple[str, str]:
    """Return the names of the two sides for the table."""
    if labelers:
        return labelers[0], labelers[1]
    if len(workspaces) == 2:
        if second in (None, first):
            return workspaces[0], workspaces[1]
        return f"{first} ({workspaces[0]})", f"{second} ({workspaces[1]})"
    return first, second or first


def report_comparison(
    differences: list[Compared] | list[ExplainedDifference],
    missing: str | None,
    names: tuple[str, str],
    gate: GateOptions | None,
    *,
    segments: bool,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and end with the exit code."""
    compared = [row for row in differences if isinstance(row, Compared)]
    if not as_json:
        _print_compared(compared, names, segments=segments)
        _print_explained([row for row in differences if isinstance(row, ExplainedDifference)], names)
    if not differences and not as_json and missing is None:
        err.print(
            f"{names[0]} and {names[1]} have no metric in common yet: both need scores, live ones by the same labeler."
        )
    result = None if gate is None else gate.decide(measure_comparison(compared, names), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in differences]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    if missing is not None:
        warn(missing)
    exit_for(result, otherwise=int(missing is not None))


def traffic_split(
    share: float | None, unit: SplitUnit | None, covariates: list[str] | None, since: str | None
) -> TrafficSplit | None:
    """Return how a coin divides the traffic; None if no coin does."""
    if share is not None:
        return TrafficSplit(share, unit or "interaction", tuple(covariates or ()), selection(since).since)
    if unit is not None or covariates or since is not None:
        raise typer.BadParameter("give --share with --unit, --covariate and --since, such as --share 0.5")
    return None


def _print_compared(rows: Sequence[Compared], names: Sequence[str], *, segments: bool) -> None:
    shown = rows if segments else [row for row in rows if row.key.segment is None]
    if shown:
        out.print(compared_table(shown, names[0], names[1], out.width))
        out.print(comparison_method(shown), style="bright_black", highlight=False)
    if hidden := len(rows) - len(shown):
        err.print(f"{hidden:,} differences of segment values are not shown: --segments shows them.", highlight=False)


def redacted_side(side: PipelineSide) -> list[str]:
    """Return a sentence about a workspace whose labels are of redacted texts; no sentence if there is no such text."""
    if side.info is None or not side.info.redacted:
        return []
    info = side.info
    total = f" of {info.population_size:,}" if info.population_size else ""
    redacted = (
        f"{printable(info.run)}: {info.redacted:,}{total} interactions had texts redacted before they were recorded"
    )
    return [f"{redacted}, so their labels are of other texts than live ones."]


def _print_explained(differences: Sequence[ExplainedDifference], names: Sequence[str]) -> None:
    if not differences:
        return
    out.print(fitted(DIFFERENCE_COLUMNS, differences, out.width))
    for difference in differences:
        out.print(
            f"{shown_metric(difference.key.metric, difference.key.version)}: {in_words(difference.change)}.",
            highlight=False,
        )
    out.print(
        f"{names[0]} minus {names[1]}; shares and means go from {names[1]} to {names[0]}.",
        style="bright_black",
        highlight=False,
    )


async def workspace_side(redis: Redis, settings: Settings, workspace: str, recording: str | None) -> PipelineSide:
    """Return a workspace as a side of a comparison."""
    info = await get_workspace(redis, settings, workspace)
    deployment = Deployment(redis, await settings_of(redis, settings, workspace))
    return PipelineSide(deployment, "", info, named_recording(settings, info, recording))


def compare_split(
    settings: Settings,
    pipelines: tuple[str, str],
    split: TrafficSplit,
    recording: str | None,
    gate: GateOptions | None,
    *,
    confidence: float | None,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and cautions on standard error."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[SplitComparison, str | None]:
        read_from = None
        if recording is not None:
            read_from = Recording.open(recording, storage_options=settings.recorder.storage_options)
        comparison = await read_split_comparison(
            redis, settings, pipelines, split, recording=read_from, confidence=confidence
        )
        deployment = Deployment(redis, settings)
        first, second = (PipelineSide(deployment, pipeline) for pipeline in pipelines)
        return comparison, None if comparison.compared else await unknown_side((first, second))

    comparison, missing = with_redis(settings, body)
    if not as_json and comparison.compared and comparison.since is not None:
        out.print(compared_table(comparison.compared, *pipelines, out.width))
        units = "interactions" if split.unit == "interaction" else "clusters"
        out.print(
            f"A coin sends {split.share:.0%} of the {units} to {pipelines[0]}, since "
            f"{comparison.since:%Y-%m-%d %H:%M} UTC. n and means are of {units}; the difference is adjusted.",
            style="bright_black",
            highlight=False,
        )
    if comparison.cautions:
        warn(*comparison.cautions)
    if missing is not None:
        warn(missing)
    elif not comparison.compared and not comparison.cautions and not as_json:
        err.print(
            f"{pipelines[0]} and {pipelines[1]} have no metric in common yet: both need scores by the same labeler."
        )
    result = None
    if gate is not None:
        result = gate.decide(measure_comparison(comparison.compared, pipelines), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in comparison.compared]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    exit_for(result, otherwise=int(missing is not None))
