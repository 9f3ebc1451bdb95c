"""A story: two days of traffic of nine pipelines up to now, with faults at known times, on a Redis of its own.

    python -m tests.support.story [--port PORT] [--folder FOLDER]

It plays real answers through the real roles, with the local labeler and a scripted judge, and prints the address of the
page.
`play` is the same for tests. Every time, version and name of the story is a constant here.
"""

import argparse
import asyncio
import json
import math
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.support.conditions import until
from tests.support.receiver import Receiver, receiver

from ragtide import Deployment, Experiment, InteractionProducer, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.notify.silences import Silence, acknowledge, add_silence
from ragtide_offline.demo import demo_interactions
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_roles.running import cancelled_by_signal, in_background
from ragtide_roles.serving import serve
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Alert, utc_now
from ragtide_web.server import page_beside

SPAN: Final = timedelta(days=2)
"""Length of the story; it ends now."""

SHOP: Final = "shop"
"""A bad deploy: from `BAD_DEPLOY` before now, version `NEW_VERSION` answers from its memory, not from the documents."""
OLD_VERSION: Final = "1.4"
NEW_VERSION: Final = "1.5"
BAD_DEPLOY: Final = timedelta(hours=9)
MADE_UP: Final = 0.7
"""Share of the answers of the new version that are not from the documents."""

SEARCH: Final = "search"
"""A mix shift: from `MIX_SHIFT` before now, more questions are in German, and those are harder. No rule watches it."""
MIX_SHIFT: Final = timedelta(hours=16)
GERMAN_BEFORE: Final = 0.15
GERMAN_SINCE: Final = 0.7

HELPDESK: Final = "helpdesk"
"""A broken retriever: from `BROKEN_RETRIEVER` before now, documents of German questions are random."""
BROKEN_RETRIEVER: Final = timedelta(hours=6)
BROKEN_SEGMENT: Final = "lang=de"

DOCS: Final = "docs-bot"
"""A cascade, whose judge labels the questions of staff; answers were wrong from `DIP` to `DIP_END` before now."""
DIP: Final = timedelta(hours=38)
DIP_END: Final = timedelta(hours=34)

CHAT: Final = "chat"
"""Sessions of `TURNS` answers each, `TURN` apart. Nothing happens to it."""
TURNS: Final = 3
TURN: Final = timedelta(seconds=8)

LEGACY: Final = "legacy"
"""A pipeline that fell silent `SILENT` before now."""
SILENT: Final = timedelta(hours=27)

LEAVERS: Final = "storefront"
"""Users leave after a bad deploy: sessions of version `LEFT_VERSION` from `LEFT` before now on, for `LEAVING`, and
nobody after them: `users_leave`."""
LEFT: Final = timedelta(hours=2)
LEAVING: Final = timedelta(minutes=1)
LEFT_VERSION: Final = "8.1"
STAYED_VERSION: Final = "8.0"
LEFT_SESSIONS, LEFT_TURNS = 40, 5

BILLING: Final = "billing"
"""An incident of an hour, a day ago: most answers were wrong from `INCIDENT` to `INCIDENT_END` before now."""
INCIDENT: Final = timedelta(hours=26)
INCIDENT_END: Final = timedelta(hours=25)

SUPPORT: Final = "support"
"""A cascade, of which the local labeler cannot score the Dutch answers; those are worse. Nothing happens to it."""
DUTCH: Final = 0.35
DUTCH_WRONG: Final = 0.8
"""Share of the Dutch answers that are not from the documents."""

COUNTS: Final[Mapping[str, int]] = {
    SHOP: 1500, SEARCH: 900, HELPDESK: 1200, DOCS: 700, CHAT: 500, LEGACY: 250, LEAVERS: 700, BILLING: 1200,
    SUPPORT: 900,
}  # fmt: skip
"""Interactions of each pipeline; those of `users_leave` come on top."""

SHOP_RULE: Final = "shop-adherence"
"""It fires about the bad deploy; `ANN` acknowledged its alert."""
HELPDESK_RULE: Final = "helpdesk-match"
"""It fires about the broken retriever, in the segment."""
SILENCED_RULE: Final = "helpdesk-overall"
"""It fires about the same, in the whole pipeline, and `BEN` silenced it."""
DOCS_RULE: Final = "docs-adherence"
"""It fired about the dip, and is resolved."""
LEAVERS_RULE: Final = "storefront-adherence"
"""It fires about the bad deploy after which users left."""
BILLING_RULE: Final = "billing-adherence"
"""It fired about the incident of an hour, and is resolved."""
ANN: Final = "ann"
BEN: Final = "ben"
ON_CALL: Final = "on-call"
"""Name of the destination of notifications, a webhook."""
EXPERIMENT: Final = "retriever"
"""Name of the experiment."""
NOT_JSON: Final = 2
INVALID: Final = 3
"""Dead letters of each reason."""

TOML: Final = f"""\
labeler = "cascade"
alert_defaults = false

[cascade]
rate = 0.0
segment_rates = {{ "audience=staff" = 0.3 }}

[judge]
spend_per_day_usd = 5.0

[clusters]
quiet_s = 20.0

[history]
segments = ["version"]

[[alerts]]
name = "{SHOP_RULE}"
kind = "drift"
metric = "trace.adherence"
pipeline = "{SHOP}"
learn_n = 200
severity = "page"

[[alerts]]
name = "{HELPDESK_RULE}"
kind = "drift"
metric = "retrieval.match"
pipeline = "{HELPDESK}"
segment = "lang"
learn_n = 100
severity = "page"

[[alerts]]
name = "{SILENCED_RULE}"
kind = "drift"
metric = "retrieval.match"
pipeline = "{HELPDESK}"
learn_n = 200

[[alerts]]
name = "{DOCS_RULE}"
kind = "threshold"
metric = "trace.adherence"
pipeline = "{DOCS}"
target = 0.7

[[alerts]]
name = "{LEAVERS_RULE}"
kind = "drift"
metric = "trace.adherence"
pipeline = "{LEAVERS}"
learn_n = 200
severity = "page"

[[alerts]]
name = "{BILLING_RULE}"
kind = "drift"
metric = "trace.adherence"
pipeline = "{BILLING}"
learn_n = 200
"""
"""Rules and labelers, as in a user's file."""

SEED: Final = 39
STREAMS: Final = Streams("ragtide", 0)
JUDGE: Final[Mapping[str, Any]] = {
    "model": "scripted",
    "api_key": "none",
    "prices": {"scripted": {"input": 2.0, "output": 8.0}},
}


@dataclass(frozen=True)
class Story:
    """A story that was played, while its roles run."""

    now: datetime
    """Its end."""
    address: str
    """Of the page, without a slash at the end."""
    url: str
    """Of Redis."""
    settings: Settings
    alerts: Sequence[Alert]
    """In their latest state, the oldest first."""
    sink: Receiver
    """The webhook, with what it got."""

    def alert(self, rule: str, segment: str | None = None) -> Alert:
        """Return the alert of a rule."""
        (found,) = (alert for alert in self.alerts if alert.rule == rule and alert.segment == segment)
        return found


def traffic(now: datetime) -> list[RagInteraction]:
    """Return all interactions up to `now`, in the order of their times."""
    makers = {
        SHOP: _shop, SEARCH: _search, HELPDESK: _helpdesk, DOCS: _docs, CHAT: _chat, LEGACY: _legacy,
        LEAVERS: _storefront, BILLING: _billing, SUPPORT: _support,
    }  # fmt: skip
    ends = {LEGACY: SILENT, LEAVERS: LEFT}
    left = users_leave(LEFT_SESSIONS, LEFT_TURNS, until=now - LEFT + LEAVING, over=LEAVING)
    found = [row.model_copy(update={"segments": {"lang": "en", "version": LEFT_VERSION}}) for row in left]
    for pipeline, make in makers.items():
        random = Random(f"{SEED} {pipeline}")
        times = _times(random, COUNTS[pipeline], ends.get(pipeline, timedelta()))
        for number, before in enumerate(_turns(times) if pipeline in (CHAT, LEAVERS) else times):
            fields = {
                "interaction_id": f"{pipeline}-n{number:04d}" if pipeline == LEAVERS else f"{pipeline}-{number:04d}",
                "pipeline": pipeline,
                "occurred_at": now - before,
            }
            found.append(RagInteraction(**fields, **make(random, number, before)))
    return sorted(found, key=lambda interaction: interaction.occurred_at)


def _times(random: Random, count: int, end: timedelta) -> Iterator[timedelta]:
    """Yield times before now, the earliest first: more by day than by night."""
    length = SPAN - end
    for share in sorted(random.random() for _ in range(count)):
        yield SPAN - length * (share + 0.04 * math.sin(4 * math.pi * share))


def _turns(times: Iterator[timedelta]) -> Iterator[timedelta]:
    """Yield the times of the turns of sessions, of which each third time is the first."""
    first = timedelta()
    for number, before in enumerate(times):
        if number % TURNS == 0:
            first = before
        yield first - number % TURNS * TURN


_ROWS: Final = demo_interactions()
_EASY: Final = [row for row in _ROWS if row.segments["dataset"] != "hotpotqa"]
"""Questions with one document each, mostly."""
_HARD: Final = [row for row in _ROWS if row.segments["dataset"] == "hotpotqa"]
"""Questions whose answer needs several documents."""


def _texts(row: RagInteraction, documents: RagInteraction | None = None, said: RagInteraction | None = None) -> Any:
    """Return the texts of an interaction; documents or answer may be those of another one."""
    texts = {"question": row.question, "documents": (documents or row).documents, "response": (said or row).response}
    return texts | {"source": "story"}


def _other(random: Random, rows: Sequence[RagInteraction], row: RagInteraction) -> RagInteraction:
    return random.choice([other for other in rows if other is not row])


def _lang(random: Random, german: float) -> str:
    return "de" if random.random() < german else "en"


def _shop(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    row, is_new = random.choice(_EASY), before <= BAD_DEPLOY
    said = _other(random, _EASY, row) if is_new and random.random() < MADE_UP else None
    segments = {"lang": _lang(random, 0.25), "version": NEW_VERSION if is_new else OLD_VERSION}
    return {**_texts(row, said=said), "segments": segments}


def _search(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    lang = _lang(random, GERMAN_SINCE if before <= MIX_SHIFT else GERMAN_BEFORE)
    return {**_texts(random.choice(_HARD if lang == "de" else _EASY)), "segments": {"lang": lang, "version": "2.3"}}


def _helpdesk(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    row, lang = random.choice(_EASY), _lang(random, 0.4)
    documents = _other(random, _EASY, row) if lang == "de" and before <= BROKEN_RETRIEVER else None
    return {**_texts(row, documents), "segments": {"lang": lang, "version": "7"}}


def _docs(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    row = random.choice(_EASY)
    said = _other(random, _EASY, row) if DIP_END < before <= DIP else None
    segments = {"lang": _lang(random, 0.2), "version": "3.0", "audience": random.choice(("staff", "public"))}
    return {**_texts(row, said=said), "segments": segments}


def _chat(random: Random, number: int, _: timedelta) -> dict[str, Any]:
    session = f"session-{number // TURNS}"
    segments = {"lang": _lang(random, 0.3), "version": "0.9"}
    return {**_texts(random.choice(_EASY)), "segments": segments, "session_id": session}


def _legacy(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    return {**_texts(random.choice(_EASY)), "segments": {"lang": _lang(random, 0.1), "version": "0.1"}}


def _storefront(random: Random, number: int, before: timedelta) -> dict[str, Any]:
    return _chat(random, number, before) | {"segments": {"lang": "en", "version": STAYED_VERSION}}


def _billing(random: Random, _: int, before: timedelta) -> dict[str, Any]:
    row = random.choice(_EASY)
    said = _other(random, _EASY, row) if INCIDENT_END < before <= INCIDENT else None
    return {**_texts(row, said=said), "segments": {"lang": _lang(random, 0.2), "version": "4.2"}}


def _support(random: Random, number: int, _: timedelta) -> dict[str, Any]:
    if random.random() >= DUTCH:
        return {**_texts(random.choice(_EASY)), "segments": {"lang": "en", "audience": "staff"}}
    document = f"Het museum{number} bij de oude haven gaat op werkdagen om negen uur open."
    wrong = f"Terugbetalingen duren ongeveer {number} weken."
    return {
        "question": "Wanneer gaat het open?",
        "documents": [{"id": "d", "text": document}],
        "response": wrong if random.random() < DUTCH_WRONG else document,
        "segments": {"lang": "nl", "audience": "staff"},
        "source": "story",
    }


def users_leave(sessions: int, turns: int, *, until: datetime, over: timedelta) -> list[RagInteraction]:
    """Return the sessions after a bad deploy: each begins with a good answer, made-up ones follow, and nobody is left.

    Args:
        sessions: number of sessions, all open at the same time.
        turns: answers of each.
        until: time of the last answer.
        over: time from the first to the last answer.
    """
    random, count = Random(f"{SEED} {LEAVERS}"), sessions * turns
    found = []
    for number in range(count):
        row, turn = _EASY[number % len(_EASY)], number // sessions
        said = _other(random, _EASY, row) if turn else None
        fields = {
            "interaction_id": f"{LEAVERS}-{number:04d}",
            "pipeline": LEAVERS,
            "session_id": f"{LEAVERS}-{number % sessions}",
            "occurred_at": until - over * (1 - (number + 1) / count),
        }
        found.append(RagInteraction(**fields, **_texts(row, said=said)))
    return found


def _answer(question: str, *, top_k: int, documents: str) -> tuple[list[str], str]:
    """Answer a question with the first words of the documents found, by words in common or at random."""
    words = set(question.lower().split())
    texts = [row.documents[0].text for row in _EASY]
    if documents == "random":
        Random(question).shuffle(texts)
    else:
        texts.sort(key=lambda text: -len(words.intersection(text.lower().split())))
    return texts[:top_k], texts[0].partition(". ")[0] + "."


async def run_experiment(settings: Settings, **options: Any) -> None:
    alone = settings.model_copy(update={"labeler": "local"})
    data = [{"question": row.question} for row in _EASY[:60]]
    grid = {"top_k": (1, 4), "documents": ("found", "random")}
    experiment = Experiment(
        EXPERIMENT, _answer, data=data, grid=grid, metric="retrieval.match", settings=alone, **options
    )
    await experiment.run_async()


def story_settings(url: str, folder: Path, judge: str, sink: str, port: int) -> Settings:
    """Return the settings: those of the file, and the addresses of this machine."""
    own = tomllib.loads(TOML)
    return Settings(
        **own
        | {
            "redis_url": url,
            "data_dir": folder,
            "worker_concurrency": 1,  # so that scores arrive in the order of the traffic
            "judge": {**own["judge"], **JUDGE, "base_url": judge},
            "notify": {
                "allow_private": True,
                "group_wait_s": 0.0,
                "destinations": [{"name": ON_CALL, "kind": "webhook", "url": f"{sink}/hook"}],
            },
            "serve": {"port": port},
        }
    )


@asynccontextmanager
async def play(folder: Path, *, now: datetime | None = None, port: int = 0) -> AsyncIterator[Story]:
    """Play the story for the body of an `async with`.

    Args:
        folder: for Redis and the file of settings.
        now: the end of the story.
        port: of the page; 0 takes a free one.
    """
    ended = now or utc_now()
    with EmbeddedRedis.open(folder / "data") as server, ScriptedJudge() as judge:
        judge.stores_requests = False
        async with receiver() as sink, connect_async(server.url) as redis:
            settings = story_settings(server.url, folder / "data", judge.url, sink.url, port)
            (folder / "ragtide.toml").write_text(TOML, encoding="utf-8")
            stop, process = asyncio.Event(), ProcessTelemetry()
            roles = serve(settings, server.url, stop, worker=True, aggregator=True, notifier=True, process=process)
            async with in_background(roles, stop=stop):
                silence = Silence(
                    id="5a1e", pipeline=HELPDESK, rule=SILENCED_RULE, until=utc_now() + timedelta(hours=8), by=BEN,
                    reason="same cause as the retriever of lang=de", created_at=utc_now(),
                )  # fmt: skip
                await add_silence(redis, settings.prefix, silence)
                await _publish(redis, settings, ended)
                deployment = Deployment(redis, settings)

                async def has_ended_sessions() -> bool:
                    return any(alert.rule == LEAVERS_RULE for alert in await deployment.alerts())

                await until(has_ended_sessions, 60)  # a tick ends them
                alerts = await deployment.alerts()
                for alert in alerts:
                    if alert.rule == SHOP_RULE:
                        await acknowledge(redis, settings.prefix, alert.alert_id, ANN)
                await run_experiment(settings)
                async with page_beside(settings, server.url, LABORATORY) as address:
                    yield Story(ended, address.rstrip("/"), server.url, settings, alerts, sink)


async def _publish(redis: Any, settings: Settings, now: datetime) -> None:
    """Publish all interactions and the entries that are none, and wait until everything is aggregated."""
    async with InteractionProducer(settings=settings, sample=1.0) as producer:
        await producer.apublish_many(traffic(now))
    for number in range(NOT_JSON + INVALID):
        payload = b'{"pipeline": "shop", "question": "When w' if number < NOT_JSON else _invalid(number)
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: payload})
    deployment = Deployment(redis, settings)

    async def is_aggregated() -> bool:
        await asyncio.sleep(0.1)  # the roles run in this process
        (backlog,) = await deployment.backlog()
        if backlog.waiting or backlog.lengths["dead_letters"] < NOT_JSON + INVALID:
            return False
        ((last, _),) = await redis.xrevrange(STREAMS.metrics, count=1)
        return bool(await redis.hget(STREAMS.checkpoint, "position") == last)

    await until(is_aggregated, 600)


def _invalid(number: int) -> bytes:
    return json.dumps({"pipeline": LEGACY, "question": [number], "documents": [], "response": "?"}).encode()


async def _show(folder: Path, port: int) -> None:
    async with play(folder, port=port) as story:
        sys.stdout.write(f"the page of the story: {story.address}/\nits Redis: {story.url}\n")
        sys.stdout.flush()
        await cancelled_by_signal(_forever())


async def _forever() -> None:
    await asyncio.Event().wait()


def main() -> None:
    """Parse the arguments, and show the story until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8090, help="of the page; another free one where it is taken")
    parser.add_argument("--folder", type=Path, help="for Redis and ragtide.toml; a new one by default")
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory(prefix="story-") as name:
        asyncio.run(_show(options.folder or Path(name), options.port))


if __name__ == "__main__":
    main()
