"""The finding of `ragtide doctor` about the history: its series, and the memory of Redis that they will take."""

from collections import Counter
from typing import Final

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.reading.deployment import Deployment

from .finding import Finding, counted

RECORD_BYTES: Final = 126
"""About how many bytes of Redis's memory a closed pane takes, as `benchmarks/history.py` measures; of a pipeline with
sessions, or with sampled traffic, up to four times as many."""

MIB: Final = 2**20


async def history_findings(deployment: Deployment) -> list[Finding]:
    """Return the number of series with the memory of full series; a warning if a partition has its most series."""
    history = deployment.settings.history
    if not history.enabled:
        return []
    try:
        found = await deployment.series_by_partition()
    except DamagedFieldError:
        # The finding of its partition names the damage.
        return []
    counts = Counter({partition: len(keys) for partition, keys in found.items()})
    total = counts.total()
    if not total:
        return []
    size = total * (history.fine_panes + history.coarse_panes) * RECORD_BYTES / MIB
    told = f"{total:,} series, about {size:,.1f} MiB in Redis when they are full"
    full = sorted(partition for partition, count in counts.items() if count >= history.series_max)
    if full:
        return [
            Finding(
                "warning",
                "history",
                f"{told}; {counted(len(full), 'partition')} cannot have more than {history.series_max:,}, so new keys "
                "there have no history",
                "raise history.series_max, or choose fewer history.segments",
            )
        ]
    return [Finding("ok", "history", told)]
