"""`ragtide compare --share`: the differences of two pipelines among which a coin divides the traffic."""

from redis.asyncio import Redis

from ragtide_offline.gates.sources import of_comparison
from ragtide_offline.report.split_answers import TrafficSplit
from ragtide_offline.report.split_traffic import SplitComparison, read_split_comparison
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings

from .comparison_tables import compared_table
from .console import err, out, print_json, warn
from .gate_options import GateOptions, exit_for, with_gate
from .with_redis import with_redis


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

    async def body(redis: Redis, _: RedisHandle) -> SplitComparison:
        read_from = None
        if recording is not None:
            read_from = Recording.open(recording, storage_options=settings.recorder.storage_options)
        return await read_split_comparison(
            redis, settings, pipelines, split, recording=read_from, confidence=confidence
        )

    found = with_redis(settings, body)
    if not as_json and found.compared and found.since is not None:
        out.print(compared_table(found.compared, *pipelines, out.width))
        units = "interactions" if split.unit == "interaction" else "clusters"
        out.print(
            f"A coin sends {split.share:.0%} of the {units} to {pipelines[0]}, since {found.since:%Y-%m-%d %H:%M} UTC. "
            f"n and means are of {units}; the difference is adjusted.",
            style="bright_black",
            highlight=False,
        )
    if found.cautions:
        warn(*found.cautions)
    if not found.compared and not found.cautions and not as_json:
        err.print(
            f"{pipelines[0]} and {pipelines[1]} have no metric in common yet: both need scores by the same labeler."
        )
    result = None
    if gate is not None:
        result = gate.decide(of_comparison(found.compared, pipelines), as_json=as_json)
    if as_json:
        listed = [one.as_dict() for one in found.compared]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    exit_for(result)
