"""The metric events of two live pipelines, in the order in which a coin divided their interactions."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_aggregator.events.batch import cluster_name
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.values import estimate_key, parts_of
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import read_all, read_range
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import InvalidEntryError, MetricEvent, to_milliseconds

from .labelings import clustered_by

SplitUnit = Literal["interaction", "cluster"]
"""The items for each of which a coin is thrown."""


@dataclass(frozen=True, slots=True)
class TrafficSplit:
    """How a coin divides the traffic among two pipelines."""

    share: float
    """Probability with which an item goes to the first."""
    unit: SplitUnit = "interaction"
    """Unit of the coin: each interaction, or each cluster of them (`clusters.by`), such as a session."""
    covariates: tuple[str, ...] = ()
    """Names of covariates, or `segment:NAME`."""
    since: datetime | None = None
    """Begin of the split; unless given the moment at which both pipelines have been scored."""


class SplitAnswer(NamedTuple):
    """One scored interaction."""

    order: tuple[int, int, int]
    """Milliseconds and number of its entry in the stream, or else of its metric event, and partition."""
    to_first: bool
    event: MetricEvent
    scores: dict[EstimateKey, float]
    """By key without scope; scaled to [0, 1]."""


async def read_split_answers(
    redis: Redis, settings: Settings, pipelines: tuple[str, str], split: TrafficSplit, recording: Recording | None
) -> tuple[list[SplitAnswer], bool, Mapping[str, int]]:
    """Return the answers from a recording, or from the metric events that are still on the streams.

    Beside them: whether all events since the begin of the split are there, and by pipeline the time of its last tick in
    milliseconds, by the clocks of its producers; none without one.
    """
    if recording is not None:
        whole = True
        entries = recording.entries(EntryKind.METRICS, pipelines=frozenset(pipelines))
        recorded = (((*entry.order, entry.partition), cast("MetricEvent", entry.model)) for entry in entries)
        events = [(place, event) for place, event in recorded if event.run is None]
    else:
        parts = {streams.partition: streams for name in pipelines for streams in settings.layout.all_of(name)}
        events = [event async for event in _kept_events(redis, list(parts.values()), pipelines)]
        whole = not await _is_trimmed(redis, list(parts.values()), split.since)
    ticks_ms: dict[str, int] = {}
    for _, event in events:
        if event.is_tick:
            ticks_ms[event.pipeline] = max(to_milliseconds(event.occurred_at), ticks_ms.get(event.pipeline, 0))
    scored = _sort_answers((place_and_event for place_and_event in events if not place_and_event[1].is_tick), pipelines)
    return _select_divided(scored, split, clustered_by(settings)), whole, ticks_ms


_Event = tuple[tuple[int, int, int], MetricEvent]


async def _kept_events(redis: Redis, streams: Sequence[Streams], pipelines: tuple[str, str]) -> AsyncIterator[_Event]:
    for stream in streams:
        async for entry in read_all(redis, stream.metrics):
            try:
                event = MetricEvent.decode(entry.fields.get(DATA_FIELD, b""))
            except InvalidEntryError:  # the aggregator made it a dead letter
                continue
            if event.pipeline in pipelines and event.run is None:
                yield (*order(entry.entry_id), stream.partition), event


async def _is_trimmed(redis: Redis, streams: Sequence[Streams], since: datetime | None) -> bool:
    for stream in streams:
        first = await read_range(redis, stream.metrics, count=1)
        if not first or (since is not None and order(first[0].entry_id)[0] < to_milliseconds(since)):
            continue
        about = await redis.xinfo_stream(stream.metrics)
        if int(about.get("entries-added") or 0) > int(about["length"]):
            return True
    return False


def _sort_answers(events: Iterable[_Event], pipelines: tuple[str, str]) -> list[SplitAnswer]:
    # In the order of their scores, an answer's place would reveal its pipeline if one is scored faster.
    answers, seen = [], set[tuple[str, str]]()
    for place, event in sorted(((_place_and_time(*pair), pair[1]) for pair in events), key=lambda pair: pair[0]):
        known = event.pipeline, event.interaction_id
        if known in seen:
            continue
        seen.add(known)
        try:
            answers.append(SplitAnswer(place, event.pipeline == pipelines[0], event, _scores(event)))
        except InvalidEntryError:  # the aggregator refused it, too
            continue
    return answers


def _place_and_time(place: tuple[int, int, int], event: MetricEvent) -> tuple[int, int, int]:
    try:
        return place if event.entry_id is None else (*order(event.entry_id), place[2])
    except ValueError:  # an id of another program
        return place


def _select_divided(answers: Sequence[SplitAnswer], split: TrafficSplit, by: str | None) -> list[SplitAnswer]:
    if split.since is not None:
        since_ms = to_milliseconds(split.since)
        begin = next((n for n, answer in enumerate(answers) if answer.order[0] >= since_ms), len(answers))
    else:
        # Before both have answered, there may be no coin. The answer that shows it is chosen by that, so not random.
        sides = [
            next((n for n, answer in enumerate(answers) if answer.to_first == side), len(answers)) for side in (0, 1)
        ]
        begin = max(sides) + 1
    divided = list(answers[begin:])
    if split.unit == "interaction" or by is None:
        return divided
    # The coin of a session was thrown at its first answer.
    before = {cluster_name(answer.event, by) for answer in answers[:begin]} - {None}
    return [answer for answer in divided if cluster_name(answer.event, by) not in before]


def _scores(event: MetricEvent) -> dict[EstimateKey, float]:
    scores = {}
    for part in parts_of(event):
        for metric, score in zip(part.extracted.names, part.extracted.values, strict=True):
            if metric in part.event.scores:
                scores[estimate_key(part.event, None, metric).unscoped] = score
    return scores
