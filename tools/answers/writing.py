"""The answers about a story: it is played, and every route and command is asked about it."""

import asyncio
import io
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.support import story
from tests.support.conditions import until
from tests.support.http_service import http_service
from tests.support.recorded import record_streams

from ragtide import Deployment, InteractionProducer
from ragtide.cli.app import cli
from ragtide.testing import ScriptedJudge
from ragtide_consumers.notify.silences import acknowledge
from ragtide_offline.demo import demo_interactions
from ragtide_roles.serving import serve
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.logs import configure_logging
from tools import recorded_day

from . import clock

TRAFFIC: Final = {
    "shop": 400, "search": 250, "helpdesk": 400, "docs-bot": 300, "chat": 90, "legacy": 60, "storefront": 240,
    "billing": 400, "support": 120,
}  # fmt: skip
"""Interactions of each pipeline."""

ITEMS: Final = ("shop-0399", "docs-bot-0100", "helpdesk-0390", "support-0003", "none-0000")
PIPELINES: Final = ("shop", "helpdesk", "docs-bot")
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "/v1/estimates": (
        "",
        "estimator=recommended",
        "estimator=all",
        "window=1h&segment=lang%3Dde",
        "strategy=asymptotic&confidence=0.8",
        "run=retriever",
    ),
    "/v1/headlines": (
        "",
        "last=all",
        "last=24h&segments=true",
        "last=7d&labeler=local",
        "pipeline=shop&since=2026-01-09T03%3A00%3A00Z",
        "segment=lang%3Dde",
    ),
    "/v1/alerts": ("", "firing=true", "rule=shop-adherence", "pipeline=docs-bot"),
    "/v1/dead-letters": ("", "payload=true", "reason=not_json"),
    "/v1/fleet": (
        "",
        "range=24h",
        "range=all",
        "state=firing",
        "q=help",
        "segment=lang%3Dde",
        "pipeline=shop",
        "limit=2&first=1",
    ),
    "/v1/alert": ("alert_id=$ALERT", "alert_id=$ALERT&chars=500", "alert_id=none"),
    "/v1/items": (
        "",
        "limit=3",
        *(f"pipeline={name}&list={kept}" for name in PIPELINES for kept in ("newest", "sample")),
        *(f"pipeline={name}&list=worst&metric=trace.adherence" for name in PIPELINES),
        "pipeline=docs-bot&list=worst&metric=trace.adherence&labeler=judge",
        "list=worst",
    ),
    "/v1/item": ("interaction_id=$ITEM", "interaction_id=$ITEM&marks=judge", "interaction_id=$ITEM&chars=200"),
    "/v1/why": ("interaction_id=$ITEM",),
}
"""Parameters with which a route is asked; the others are asked without one."""

VARYING: Final = (r"\d+\.\d+M used", r" in \d+\.\d s\b", r"(?<=\"seconds\": )[\d.e-]+", r"(?<=\"0 0 0 )[0-9a-f]{40}")
"""Memory of Redis, durations, and the id of a run of Redis."""

LEFT_OUT_KEYS: Final = ("judge-cache", "judge-calls", ":deliveries", ":estimates", "run.retriever:{0}:checkpoint")
"""Keys of Redis that depend on the port of the judge, on durations, or on how soon something was committed."""

LEFT_OUT: Final = ("/metrics", "/healthz", "/readyz")
"""Routes about the process: their answers have durations and numbers of requests."""

COMMANDS: Final = """\
estimates --json
estimates --json --last 24h
estimates --json --segments --all-time
estimates --json --estimator all
estimates --json --labeling
estimates --json --run retriever
estimates --json --pipeline docs-bot --labeler judge
estimates --json --window 1h --metric trace.adherence
estimates --pipeline shop --fail-if trace.adherence<0.8
estimates
alerts --json
alerts --json --firing
alerts
items --json
items --json --worst --pipeline shop
items --json --newest
items --json --sample
items --json --alert $ALERT
items --json --rule docs-adherence
items --worst --pipeline shop
item $ITEM --json
item $ITEM
trace $ITEM --json
trace $ITEM
dead-letters --json
workspaces --json
silence --json
doctor --json
watch --once
compare shop helpdesk --json
compare shop helpdesk
compare docs-bot --labeler local --labeler judge --json
compare shop search --by lang --json
compare shop search --share 0.5 --json
explain --json
explain trace.adherence --json
explain trace.adherence
explain-drift shop --json
explain-drift search --since 2026-01-08T20:00:00Z --metric trace.adherence --json
explain-drift shop
experiment show retriever --json
experiment show retriever
report retriever --json
report retriever --output -
report retriever --format json --output -
report retriever --format md --output -
dataset from-alert $ALERT
dataset from-worst
dataset from-sample
dataset from-annotations
rules check rules.toml --json
rules test rules.toml --recording recording --json
rules test rules.toml --recording recording
inspect recording --json
inspect recording --verify --json
criteria list --json
criteria check rules.toml --json
criteria try asks_back --criteria rules.toml --file rows.jsonl --limit 5 --json
score rows.jsonl --labeler local --json
score rows.jsonl --labeler local
score rows.jsonl --labeler local --labels --json --limit 5
score rows.jsonl --labeler local --processes 2 --output parts
merge parts
merge parts --summary-json merged.json
score rows.jsonl --labeler judge --json --limit 20
score rows.jsonl --labeler local --fail-if trace.adherence.lower<0.5
trust rows.jsonl --labeler local --json
trust figures rows.jsonl --labeler local --json
trust figures rows.jsonl --labeler local
trust figures rows.jsonl --labeler local --reorder 0.5 --json
trust figures rows.jsonl --labeler local --corruptions --only negation,HTML --limit 20 --json
trust figures rows.jsonl --labeler judge --dry-run --json
trust figures rows.jsonl --labeler judge --limit 20 --json
trust agreement scores.jsonl --gold rows.jsonl --json
trust agreement scores.jsonl --gold rows.jsonl
trust agreement scores.jsonl --against judged.jsonl --json
fit rows.jsonl --dry-run --json
fit --kept --reference judge --dry-run --json
judge check rows.jsonl --rows 5 --json
judge check rows.jsonl --dry-run --json
judge check rows.jsonl --corruptions --limit 5 --only negation --json
capacity --rate 50 --json
capacity --rate 50
capacity --rate 50 --ten-times --judge-share 0.1 --json
plan criteria.asks_back --half-width 0.05 --traffic 10000 --mean 0.7 --correlation 0.6 --json
plan trace.adherence --half-width 0.05 --traffic 10000 --pipeline docs-bot --json
replay recording --workspace again --json
estimates --json --workspace again
alerts --json --workspace again
report again --json
ack $ALERT --by ann
publish rows.jsonl --json
feedback --pipeline shop --interaction shop-0001 --gold trace.adherence=1 --json
"""
"""Commands, in the order in which they run, one a line. A file of the output has what they print."""

RULES: Final = """
[[judge.criteria]]
name = "asks_back"
question = "Does the response ask the user for more details?"
values = { yes = 1.0, no = 0.0 }

[[alerts]]
name = "low"
kind = "threshold"
metric = "trace.adherence"
pipeline = "*"
target = 0.8

[[alerts]]
name = "moved"
kind = "drift"
metric = "trace.context_relevance"
pipeline = "*"
segment = "lang"
learn_n = 50

[[alerts]]
name = "gold"
kind = "rmse"
metric = "trace.adherence"
pipeline = "shop"
learn_n = 30
"""
"""Rules and a criterion, for the commands that read a file of them."""


async def run_roles(settings: Settings, url: str, is_done: Callable[[], Awaitable[bool]], **roles: bool) -> None:
    """Run roles until a condition holds, then end them."""
    stop = asyncio.Event()
    chosen: dict[str, Any] = {"worker": False, "aggregator": False, "process": ProcessTelemetry(), **roles}
    running = asyncio.create_task(serve(settings, url, stop, **chosen))

    async def has_ended() -> bool:
        await asyncio.sleep(0.2)  # the roles run in this process
        return running.done() or await is_done()

    await until(has_ended)
    stop.set()
    clock.move()
    await running


async def play(settings: Settings, url: str, folder: Path) -> None:
    """Publish the story, label it, aggregate it, run its experiment, and record it."""
    streams = Streams(settings.prefix, 0)
    async with connect_async(url) as redis:
        async with InteractionProducer(settings=settings, sample=1.0) as producer:
            await producer.apublish_many(story.traffic(datetime.fromtimestamp(clock.NOW, UTC)))
        deployment = Deployment(redis, settings)

        async def is_labeled() -> bool:
            (backlog,) = await deployment.backlog()
            return not backlog.waiting

        await run_roles(settings, url, is_labeled, worker=True)
        with connect(url) as blocking:
            record_streams(blocking, settings.layout, folder / "recording")
        for payload in (b'{"pipeline": "shop", "question": "When w', b'{"pipeline": "shop", "question": [1]}'):
            await redis.xadd(streams.interactions, {DATA_FIELD: payload})
        await run_roles(settings, url, is_labeled, worker=True)
        last = (await redis.xrevrange(streams.metrics, count=1) or [(b"", {})])[0][0]

        async def is_aggregated() -> bool:
            return bool(await redis.hget(streams.checkpoint, "position") == last)

        await run_roles(settings, url, is_aggregated, aggregator=True)
        for alert in await deployment.alerts():
            if alert.rule == story.SHOP_RULE:
                await acknowledge(redis, settings.prefix, alert.alert_id, story.ANN)
        await story.run_experiment(settings, concurrency=1, race={"enabled": False})


def json_text(found: object) -> str:
    """Return JSON as text, with sorted keys and a line each."""
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False, default=repr) + "\n"


def write(file: Path, text: str) -> None:
    """Write a text."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = text.replace(f"{socket.gethostname()}-{os.getpid()}", "PROCESS").replace(str(Path.cwd()), "FOLDER")
    for pattern in VARYING:
        text = re.sub(pattern, "VARIES", text)
    file.write_text(text, encoding="utf-8")


def filled(text: str, alerts: list[str]) -> Iterator[str]:
    """Yield a text with each id of an item or alert in place of its name."""
    names = {"$ALERT": alerts, "$ITEM": list(ITEMS)}
    name = next((name for name in names if name in text), None)
    yield from [text] if name is None else [text.replace(name, value) for value in names[name]]


def file_name(text: str) -> str:
    """Return a name of a file for a command or a path."""
    return "".join(char if char.isalnum() or char in "-_.=" else "_" for char in text).strip("_")[:150]


async def write_routes(folder: Path, settings: Settings, url: str) -> list[str]:
    """Write the answers of the HTTP API, and return the ids of the alerts."""
    names = sorted(settings.model_fields_set - {"redis_url", "serve"})
    async with http_service(url, **{name: getattr(settings, name) for name in names}) as service:
        _, document = await service.get("/openapi.json")
        write(folder / "openapi.json", json_text(document))
        alerts = sorted(alert["alert_id"] for alert in (await service.get("/v1/alerts"))[1])
        for path, methods in document["paths"].items():
            if "get" not in methods or path in LEFT_OUT:
                continue
            for query in QUERIES.get(path, ("",)):
                for asked in filled(query, alerts):
                    status, found = await service.get(f"{path}?{asked}")
                    answer = found.decode() if isinstance(found, bytes) else found
                    write(folder / f"{file_name(f'{path} {asked}')}.json", json_text([status, answer]))
        clock.move()
    return alerts


def readable(value: bytes) -> Any:
    """Return bytes of Redis as JSON or as a text; what is neither, as hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"hex {value.hex()}"
    try:
        return json.loads(text) if text[:1] in "{[" else text
    except ValueError:
        return text


def stored(redis: Any, key: bytes) -> Any:
    """Return the content of a key."""
    match redis.type(key):
        case b"string":
            return readable(redis.get(key))
        case b"hash":
            fields = {str(readable(name)): readable(value) for name, value in redis.hgetall(key).items()}
            # Health is looked at when a second has passed, whatever was applied until then.
            return {name: value for name, value in fields.items() if not name.startswith("health:")}
        case b"set":
            return sorted(str(readable(value)) for value in redis.smembers(key))
        case b"zset":
            return [[readable(value), score] for value, score in redis.zrange(key, 0, -1, withscores=True)]
        case b"list":
            return [readable(value) for value in redis.lrange(key, 0, -1)]
        case _:
            entries = redis.xrange(key)
            return [[readable(entry), {str(readable(k)): readable(v) for k, v in of.items()}] for entry, of in entries]


def write_state(folder: Path, url: str) -> None:
    """Write every key of Redis, those of one kind into one file."""
    kinds: dict[str, dict[str, Any]] = {}
    with connect(url) as redis:
        for key in sorted(redis.scan_iter()):
            name = key.decode()
            if any(part in name for part in LEFT_OUT_KEYS):
                continue
            parts = name.split(":")
            kinds.setdefault(":".join(parts[: 3 if parts[1] == "{0}" else 2]), {})[name] = stored(redis, key)
    for kind, found in kinds.items():
        write(folder / f"{file_name(kind)}.json", json_text(found))


def printed(command: str) -> str:
    """Run a command, and return its exit code and what it printed."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            code = cli(command.split(), standalone_mode=False) or 0
        except SystemExit as ended:
            code = ended.code
        except Exception as error:  # noqa: BLE001 - it is part of the answer
            found = error.format_message() if hasattr(error, "format_message") else str(error)
            code = f"of {type(error).__name__}: {found}"
    return f"exit code {code}\n{canonical(out.getvalue())}\n--- errors\n{errors.getvalue()}"


def canonical(text: str) -> str:
    """Return output whose lines that are JSON are indented."""
    for values in ([text], text.splitlines()):
        with suppress(ValueError):
            return "".join(json_text(json.loads(value)) for value in values)
    return text


@contextmanager
def working_in(folder: Path, **environment: str) -> Iterator[None]:
    """Work in a folder, with these variables."""
    before = Path.cwd()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def write_commands(folder: Path, alerts: list[str]) -> None:
    """Write what the commands print; they run in the present folder."""
    rows = [row.encode().decode() for row in demo_interactions()[:60]]
    write(Path("rows.jsonl"), "\n".join(rows) + "\n")
    write(Path("rules.toml"), RULES)
    for labeler, name in (("local", "scores.jsonl"), ("judge", "judged.jsonl")):
        printed(f"score rows.jsonl --labeler {labeler} --output {name}")
    for command in COMMANDS.splitlines():
        for asked in filled(command, alerts):
            began = time.monotonic()
            write(folder / f"{file_name(asked)}.txt", printed(asked))
            sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {asked}\n")


def write_answers(output: Path) -> None:
    """Play the story, and write its answers."""
    configure_logging("error")
    story.COUNTS.update(TRAFFIC)  # type: ignore[attr-defined]  # a constant of tests
    with tempfile.TemporaryDirectory() as name, ScriptedJudge() as judge:
        judge.stores_requests = False
        folder = Path(name)
        with EmbeddedRedis.open(folder / "data") as server:
            settings = story.story_settings(server.url, folder / "data", judge.url, "http://127.0.0.1:1", 0)
            # No session ends by a tick, whose time depends on when an aggregator looks.
            settings = settings.model_copy(update={"clusters": Settings(clusters={"quiet_s": 86_400.0}).clusters})
            asyncio.run(play(settings, server.url, folder))
            write_state(output / "state", server.url)
            alerts = asyncio.run(write_routes(output / "routes", settings, server.url))
            (folder / "ragtide.toml").write_text(story.TOML, encoding="utf-8")
            with working_in(
                folder,
                RAGTIDE_REDIS_URL=server.url,
                RAGTIDE_DATA_DIR=str(folder / "data"),
                RAGTIDE_JUDGE_BASE_URL=judge.url,
                RAGTIDE_JUDGE_MODEL="scripted",
                RAGTIDE_JUDGE_API_KEY="none",
                RAGTIDE_JUDGE_PRICES=json.dumps(story.JUDGE["prices"]),
            ):
                write_commands(output / "commands", alerts)
            clock.move()
    write(output / "recorded_day.jsonl", "\n".join(asyncio.run(recorded_day.day())) + "\n")
