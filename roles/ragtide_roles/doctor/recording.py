"""Findings of `ragtide doctor` about the recording: what it has that Redis lost."""

import asyncio
from typing import Final

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import InvalidEntryError

from .finding import Finding, count_of

READ_S: Final = 20.0
"""Seconds that reading the recording may take."""


async def recording_findings(settings: Settings) -> list[Finding]:
    """Return a finding about entries that Redis lost and the recording has; none without `recorder.url`."""
    url = settings.recorder.url
    if url is None:
        return []
    try:
        async with asyncio.timeout(READ_S):
            interactions, feedback = await asyncio.to_thread(_lost, url, settings)
    except (RagtideError, InvalidEntryError, OSError) as error:
        return [Finding("warning", "recording", f"it cannot be read: {error}", "look at recorder.url")]
    except TimeoutError:
        text = f"it was not read within {READ_S:g} s, so it is not known whether Redis lost recorded entries"
        return [Finding("warning", "recording", text, "ragtide recorder inspect reads it without a limit of time")]
    if not interactions and not feedback:
        return [Finding("ok", "recording", "Redis has lost nothing that it holds")]
    text = (
        f"Redis lost the end of its streams: {count_of(interactions, 'recorded interaction')} and "
        f"{count_of(feedback, 'feedback item')} are not in the deployment, so no estimate has them"
    )
    return [Finding("problem", "recording", text, f"put them back: ragtide replay {url} --restore")]


def _lost(url: str, settings: Settings) -> tuple[int, int]:
    recording = Recording.open(url, storage_options=settings.recorder.storage_options)
    return len(recording.lost(EntryKind.INTERACTIONS)), len(recording.lost(EntryKind.FEEDBACK))
