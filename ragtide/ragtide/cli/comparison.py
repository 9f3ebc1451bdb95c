"""Two pipelines beside each other, from the checkpoints."""

from dataclasses import asdict, dataclass

from redis.asyncio import Redis

from ragtide_aggregator.keys import HIDDEN, UNBOUNDED, EstimateKey
from ragtide_aggregator.state import AggregatorState
from ragtide_aggregator.statistics.comparing import Difference, difference
from ragtide_aggregator.statistics.moments import Moments
from ragtide_aggregator.view import views
from ragtide_runtime.settings import Settings
from ragtide_schemas import run_of
from ragtide_schemas.suggestions import unknown

from .reading import read_states


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of two pipelines."""

    metric: str
    metric_version: str | None
    """Version of its formula; None for ragtide's own metrics."""
    labeler: str
    profile: str
    segment: str | None
    n: tuple[int, int]
    means: tuple[float, float]
    difference: Difference
    """The first one's mean minus the second one's."""

    def as_dict(self) -> dict[str, object]:
        """Return it as what JSON can hold."""
        return {**asdict(self), "verdict": self.difference.verdict}


@dataclass(frozen=True, slots=True)
class Side:
    """A pipeline, live or in a run."""

    settings: Settings
    """Of the deployment, or of the run."""
    pipeline: str


async def read_comparison(
    redis: Redis, sides: tuple[Side, Side], *, window: str, confidence: float | None = None
) -> list[Compared]:
    """Return the differences of two pipelines, of every metric that the same instrument measured in both."""
    level = sides[0].settings.confidence if confidence is None else confidence
    found: list[dict[EstimateKey, tuple[Moments, float, float]]] = []
    for side in sides:
        settings = side.settings
        (state,) = await read_states(redis, settings, settings.layout.all_of(side.pipeline))
        found.append(_moments(state, side.pipeline, window, run=run_of(settings.prefix)))
    first, second = found
    return [
        Compared(
            metric=key.metric,
            metric_version=None if key.measure is None else key.measure.version,
            labeler=key.labeler,
            profile=key.profile,
            segment=key.segment,
            n=(int(a.n[0]), int(b.n[0])),
            means=(lowest + width * float(a.mean[0]), lowest + width * float(b.mean[0])),
            difference=difference(a, b, confidence=level, width=width, counts=key.holds_counts),
        )
        for key, (a, lowest, width) in first.items()
        if key in second and a.n[0] and (b := second[key][0]).n[0]
    ]


async def unknown_side(redis: Redis, sides: tuple[Side, Side]) -> str | None:
    """Return a sentence about the first of two pipelines that has no scores; None if both have some, or none has."""
    for side in sides:
        states = await read_states(redis, side.settings, side.settings.layout.all())
        known = {key.pipeline for state in states for key in state.keys}
        if known and side.pipeline not in known:
            return unknown("pipeline", side.pipeline, known)
    return None


def _moments(
    state: AggregatorState, pipeline: str, window: str, *, run: str | None
) -> dict[EstimateKey, tuple[Moments, float, float]]:
    """Return moments, lowest value and width of the range of every metric of a pipeline, whatever its name.

    In a run these are those labeled there and, of replayed metric events, those of live traffic.
    """
    rows = [
        row
        for row, key in enumerate(state.keys)
        if key.pipeline == pipeline and key.run in (None, run)
        if not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED
    ]
    result = {}
    for view, members in views(state, rows):
        if view.name == window:
            for row in members:
                key = state.keys[row]
                lowest, highest = key.value_range
                result[key._replace(pipeline="", run=None)] = view.moments([row]), lowest, highest - lowest
    return result
