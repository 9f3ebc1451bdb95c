"""`/dead`: dead letters, grouped by reason; retry of one or of a group; export."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from pydantic_core import to_json

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter, read_dead_letters
from ragtide_producers.publishing.retrying import Retrier
from ragtide_runtime.redis.entries import Unreadable, order
from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import Reason

from ...guard.headers import HEADERS
from ...guard.orders import form_of, reason_in, record_order, same_site
from ...guard.problems import HttpProblem
from ...guard.viewers import Operator, Reader, Viewer
from ...reading.context import Context, Shared
from ...reading.dead_letters import MEANINGS, ShownLetter, may_see, seen_by, shown_detail, shown_letter
from ...reading.hiding import indented
from ...reading.list_pages import ListPage
from ..rendering import render
from .screen import PAGE_LETTERS, failed_field, reason_groups

router = APIRouter(include_in_schema=False)

RETRY_S: Final = 30.0
"""Seconds after which an order to retry a group stops; the rest stays, for a further order."""
AT_ONCE: Final = 16
"""Dead letters that are retried at the same time; each may have 4 MiB."""
DETAIL_CHARS: Final = 600
"""Most characters of a detail that are shown; it is cut after redaction."""
SHOWN_CHARS: Final = 200_000
"""Most characters of a payload on its page."""

LETTER_ID: Final = r"^\d{1,19}-\d{1,19}$"
ReasonName = Annotated[str, Query(max_length=40, description="Only dead letters with this reason.")]


@router.get("/dead")
async def get_dead_letters(
    request: Request,
    shared: Shared,
    viewer: Reader,
    reason: ReasonName = "",
    page: Annotated[int, Query(ge=1, le=1_000_000, description="Page of the list, from 1.")] = 1,
) -> Response:
    """Show the dead letters of a reason, or of all, the newest first."""
    return await _listed(request, shared, viewer, reason, page)


async def _listed(
    request: Request, shared: Context, viewer: Viewer, reason: str, page: int, *, status: int = 200, problem: str = ""
) -> Response:
    wanted, seen = _known(reason), seen_by(viewer, await shared.letters.read())
    chosen = [stored for stored in seen.letters if wanted in ("", stored.letter.reason)]
    listed, hiding = ListPage.of(chosen, page, PAGE_LETTERS), shared.hiding
    texts = [shown_detail(stored.letter, sees_texts=viewer.sees_texts, hides=hiding.hides) for stored in listed.rows]
    redacted = await hiding.texts(texts) or [""] * len(texts)
    return render(
        request,
        viewer,
        "dead.html",
        status=status,
        listed=listed,
        groups=reason_groups(seen.letters),
        indexed=len(seen.letters),
        total=seen.total,
        unreadable=seen.unreadable,
        details=[
            (failed_field(stored.letter), text[:DETAIL_CHARS])
            for stored, text in zip(listed.rows, redacted, strict=True)
        ],
        reason=reason,
        problem=problem,
    )


def _known(reason: str) -> str:
    if reason and reason not in list(Reason):
        raise HttpProblem(422, f"there is no reason {reason!r}: take one of {', '.join(Reason)}")
    return reason


@router.get("/dead/export")
async def export(shared: Shared, viewer: Reader, reason: ReasonName = "") -> StreamingResponse:
    """Stream dead letters as JSON lines, the oldest first; one page of them is in memory."""
    wanted = _known(reason)

    async def lines() -> AsyncGenerator[bytes]:
        unreadable = Unreadable("dead letter")
        async for stored in read_dead_letters(shared.redis, shared.settings.layout.all(), unreadable):
            if wanted in ("", stored.letter.reason) and may_see(viewer, stored):
                shown = await shown_letter(shared.hiding, stored.letter, sees_texts=viewer.sees_texts)
                yield await asyncio.to_thread(_encode_line, stored, shown)  # a payload may have 4 MiB

    name = f"dead-letters{'-' + wanted if wanted else ''}.jsonl"
    headers = {
        **HEADERS,
        "Content-Type": "application/x-ndjson",
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return StreamingResponse(lines(), headers=headers)


def _encode_line(stored: StoredDeadLetter, shown: ShownLetter) -> bytes:
    letter = stored.letter
    fields = letter.model_dump(mode="json", exclude={"payload", "payload_encoding", "detail"}, exclude_none=True)
    line = {"id": stored.letter_id, "partition": stored.partition, **fields, "detail": shown.detail}
    if shown.payload is None:
        line["payload_hidden"] = shown.hidden
    else:
        line["payload"], line["payload_encoding"] = letter.encode_payload(shown.payload)
    return to_json(line) + b"\n"


@router.get("/dead/{partition}/{letter_id}")
async def get_dead_letter(request: Request, shared: Shared, viewer: Reader, partition: int, letter_id: str) -> Response:
    """Show one dead letter."""
    return await _one(request, shared, viewer, partition, letter_id)


async def _one(
    request: Request,
    shared: Context,
    viewer: Viewer,
    partition: int,
    letter_id: str,
    *,
    status: int = 200,
    problem: str = "",
) -> Response:
    stored = await _find_letter(shared, viewer, partition, letter_id)
    shown = await shown_letter(shared.hiding, stored.letter, sees_texts=viewer.sees_texts)
    payload = None
    if shown.payload is not None:
        payload = indented(shown.payload) or shown.payload.decode(errors="replace")
    return render(
        request,
        viewer,
        "dead_letter.html",
        status=status,
        stored=stored,
        meaning=MEANINGS[stored.letter.reason],
        field=failed_field(stored.letter),
        detail=shown.detail[:DETAIL_CHARS],
        payload=None if payload is None else payload[:SHOWN_CHARS],
        cut=payload is not None and len(payload) > SHOWN_CHARS,
        cannot=viewer.sees_texts and payload is None,
        redacts=shared.hiding.hides,
        problem=problem,
    )


async def _find_letter(shared: Context, viewer: Viewer, partition: int, letter_id: str) -> StoredDeadLetter:
    missing = HttpProblem(404, f"there is no dead letter {letter_id[:50]!r}: it was published again, or trimmed")
    wanted = [streams for streams in shared.settings.layout.all() if streams.partition == partition]
    if not wanted or re.fullmatch(LETTER_ID, letter_id) is None:
        raise missing
    reading = read_dead_letters(shared.redis, wanted, Unreadable("dead letter"), ids=(letter_id,))
    stored = await anext(reading, None)
    if stored is None or not may_see(viewer, stored):
        raise missing
    return stored


@router.post("/dead/retry", dependencies=[Depends(same_site)])
async def retry_group(request: Request, shared: Shared, viewer: Operator) -> Response:
    """Publish the dead letters of a reason again, up to the newest one that the page showed."""
    fields = await form_of(request)
    name, upto = _known(fields.get("of", "")[:40]), fields.get("upto", "")
    if not name or re.fullmatch(LETTER_ID, upto) is None:
        raise HttpProblem(422, "the form does not say which dead letters to retry: load the page again")
    try:
        reason = reason_in(fields)
    except HttpProblem as problem:
        return await _listed(request, shared, viewer, name, 1, status=422, problem=problem.detail)
    indexed = await shared.letters.read()
    wanted = [
        letter
        for letter in reversed(indexed.letters)
        if letter.letter.reason == name
        and letter.can_be_retried
        and may_see(viewer, letter)
        and order(letter.letter_id) <= order(upto)
    ]
    await record_order(
        shared,
        viewer,
        action="retry",
        subject=f"dead letters {name}",
        reason=reason,
        details={"count": len(wanted), "upto": upto},
    )
    tried, published = await _retry_all(shared, wanted)
    done = f"{published} published again"
    if len(wanted) > tried:
        left = len(wanted) - tried
        done += f"; {left} {'is' if left == 1 else 'are'} left: retry again"
    return _seen_elsewhere(done)


async def _retry_all(shared: Context, wanted: Sequence[StoredDeadLetter]) -> tuple[int, int]:
    loop = asyncio.get_running_loop()
    ends, tried, published = loop.time() + RETRY_S, 0, 0
    for start in range(0, len(wanted), AT_ONCE):
        if loop.time() > ends:
            break
        some = wanted[start : start + AT_ONCE]
        outcomes = await asyncio.gather(*(_retry(shared, letter) for letter in some))
        tried, published = tried + len(some), published + sum(outcomes)
        shared.letters.forget(letter for letter, outcome in zip(some, outcomes, strict=True) if outcome)
    return tried, published


async def _retry(shared: Context, letter: StoredDeadLetter) -> bool:
    streams = Streams(shared.settings.prefix, letter.partition)
    reading = read_dead_letters(shared.redis, [streams], Unreadable("dead letter"), ids=(letter.letter_id,))
    stored = await anext(reading, None)
    try:
        return stored is not None and await Retrier(shared.redis).retry(streams, letter.letter_id, stored.letter)
    except ValueError:
        return False


@router.post("/dead/{partition}/{letter_id}/retry", dependencies=[Depends(same_site)])
async def retry_one(request: Request, shared: Shared, viewer: Operator, partition: int, letter_id: str) -> Response:
    """Publish one dead letter again."""
    fields = await form_of(request)
    stored = await _find_letter(shared, viewer, partition, letter_id)
    try:
        reason = reason_in(fields)
    except HttpProblem as problem:
        return await _one(request, shared, viewer, partition, letter_id, status=422, problem=problem.detail)
    if not stored.can_be_retried:
        raise HttpProblem(409, "only interactions and feedback that are stored whole can be published again")
    await record_order(
        shared,
        viewer,
        action="retry",
        subject=f"dead letter {letter_id}",
        reason=reason,
        details={"partition": partition, "why": stored.letter.reason},
    )
    published = await _retry(shared, stored)
    if not published:
        raise HttpProblem(
            409,
            f"dead letter {letter_id} was not published again: it was removed, or its payload cannot be decoded",
        )
    shared.letters.forget((stored,))
    return _seen_elsewhere("1 published again")


def _seen_elsewhere(done: str) -> RedirectResponse:
    return RedirectResponse(f"/dead?{urlencode({'done': done})}", 303, headers=HEADERS)
