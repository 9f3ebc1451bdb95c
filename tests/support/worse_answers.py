"""A recording of a pipeline whose answers got worse an hour ago, with the alert that production raised."""

from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from tests.support.metric_events import event
from tests.support.recorded import record

from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_schemas import Alert, AlertRule

RULE = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7, min_effect=0.02)
"""It fires about an hour ago."""
EVENTS = 300
STEP = timedelta(seconds=24)


def worse_answers(folder: Path, now: datetime, *alerts: Alert) -> None:
    """Write the recording: a score every 24 seconds for two hours, and worse ones in the second hour."""
    random = Random(3)
    entries = []
    for number in range(EVENTS):
        at = now - (EVENTS - number) * STEP
        score = random.betavariate(8, 2) if number < EVENTS // 2 else random.betavariate(3, 7)
        one = event(number, {"trace.adherence": score}, occurred_at=at, labeled_at=at)
        entries.append((EntryKind.METRICS, RecordedEntry(0, f"{int(at.timestamp() * 1000)}-0", one)))
    for number, alert in enumerate(alerts):
        entry_id = f"{int(now.timestamp() * 1000)}-{number}"
        entries.append((EntryKind.ALERTS, RecordedEntry(0, entry_id, alert)))
    record(entries, folder)
