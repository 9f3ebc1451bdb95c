"""Shows the progress of a replay: the time of the last metric event, or the cost of the interactions."""

from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.replay import Show
from ragtide_offline.replay.session import ReplayProgress

from .progress import Shown


def shown_replay(bar: Shown) -> Show:
    """Return a function that draws the progress of a replay on a bar."""

    def show(progress: ReplayProgress | RelabelProgress) -> None:
        if isinstance(progress, RelabelProgress):
            bar(progress.labeling.done, _cost(progress))
        else:
            bar(progress.done, f"{progress.at:%Y-%m-%d %H:%M}" if progress.at else "")

    return show


def _cost(progress: RelabelProgress) -> str:
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
