"""Examples of every command, and the exit codes that a command has besides those of all commands."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": ("ragtide demo", "ragtide demo --fast --json"),
    "up": ("ragtide up", "RAGTIDE_LABELER=cascade ragtide --redis-url redis://redis:6379 up"),
    "doctor": ("ragtide doctor", "ragtide doctor --role worker"),
    "docs": ("ragtide docs", "ragtide docs troubleshooting", "ragtide docs settings"),
    "publish": (
        "ragtide publish answers.jsonl",
        "ragtide publish answers.csv --pipeline shop --run nightly-7 --rate 20",
    ),
    "feedback": (
        "ragtide feedback thumbs.jsonl",
        "ragtide feedback --pipeline shop --interaction i-17 --gold trace.adherence=1 --annotator ann",
    ),
    "ingest explain": ("ragtide ingest explain request.pb", "ragtide ingest explain traces.json --trace 51196e0c"),
    "ingest publish": ("ragtide ingest publish traces.json",),
    "watch": ("ragtide watch", "ragtide watch --pipeline shop --segments"),
    "estimates": (
        "ragtide estimates --pipeline shop --segments",
        "ragtide estimates --metric trace.adherence --window 24h/1h --json",
        "ragtide estimates --fail-if 'trace.adherence.lower < 0.8'",
    ),
    "compare": (
        "ragtide compare shop shop-new",
        "ragtide compare shop --workspace before --workspace after",
        "ragtide compare shop --labeler local --labeler judge",
        "ragtide compare shop shop-new --share 0.5 --covariate question_length",
    ),
    "explain": ("ragtide explain", "ragtide explain trace.adherence"),
    "explain-drift": (
        "ragtide explain-drift shop",
        "ragtide explain-drift shop --metric trace.adherence --by lang --since 2026-11-01T12:00:00Z",
    ),
    "alerts": ("ragtide alerts --firing", "ragtide alerts --follow --json"),
    "items": (
        "ragtide items --worst --metric trace.adherence",
        "ragtide items --sample --pipeline shop --json",
        "ragtide items --forget i-17",
    ),
    "item": ("ragtide item i-17", "ragtide item i-17 --pipeline shop --labeler judge --json"),
    "trace": ("ragtide trace i-17", "ragtide trace i-17 --pipeline shop --json"),
    "dead-letters": ("ragtide dead-letters --reason too_large", "ragtide dead-letters --json > letters.jsonl"),
    "dead-letters retry": ("ragtide dead-letters retry --all",),
    "score": (
        "ragtide score answers.jsonl",
        "ragtide score answers.jsonl --labeler judge --model gpt-5-mini --output scores.jsonl",
        "ragtide score answers.jsonl --fail-if 'trace.adherence < 0.8' --junit gate.xml",
    ),
    "agreement": (
        "ragtide agreement scores.jsonl --gold rows.jsonl",
        "ragtide agreement judge.jsonl --against local.jsonl --metric trace.adherence",
    ),
    "serve": ("ragtide serve", "ragtide serve --port 4318"),
    "recorder": ("ragtide recorder --url s3://bucket/recording", "ragtide recorder --forget"),
    "inspect": ("ragtide inspect recording --verify",),
    "replay": (
        "ragtide replay recording --rules stricter.toml",
        "ragtide replay recording --relabel --labeler judge --max-cost-usd 5 --workspace judged",
    ),
    "workspaces": ("ragtide workspaces",),
    "workspaces remove": ("ragtide workspaces remove judged",),
    "experiment run": ("ragtide experiment run experiment.toml --fail-if 'trace.adherence < 0.8'",),
    "experiment resume": (
        "ragtide experiment resume try top_k=2 --keep",
        "ragtide experiment resume try --file experiment.toml",
    ),
    "experiment show": ("ragtide experiment show try --follow",),
    "experiment stop": ("ragtide experiment stop try '#3' --reason 'too slow'",),
    "experiment clone": ("ragtide experiment clone try top_k=2 wider --set top_k=8",),
    "experiment delete": ("ragtide experiment delete try '#3'",),
    "experiment limits": ("ragtide experiment limits try --max-cost-usd 20",),
    "report": ("ragtide report try", "ragtide report after --compare before --output - --format md"),
    "worker": ("ragtide worker", "ragtide worker --workspace try"),
    "aggregator": ("ragtide aggregator",),
    "rules check": ("ragtide rules check ragtide.toml --strict",),
    "notify": ("ragtide notify", "ragtide notify --dry-run"),
    "notify test": ("ragtide notify test", "ragtide notify test ops --dry-run"),
    "ack": ("ragtide ack adherence-drift-0a1b2c3d4e5f",),
    "silence": ("ragtide silence",),
    "silence add": ("ragtide silence add --pipeline 'shop*' --for 2h --reason 'new index'",),
    "silence remove": ("ragtide silence remove 0a1b2c3d",),
    "repartition": ("ragtide repartition 4 --split shop=2",),
}
"""Command lines by the command."""

EXITS: Final[Mapping[str, str]] = {
    "demo": "1 if no alert fires",
    "doctor": "1 if a check finds a problem",
    "docs": "1 if there is no such page",
    "publish": "1 if a row could not be published",
    "ingest publish": "1 if an interaction cannot be used",
    "feedback": "1 if a line could not be published",
    "estimates": "1 if an option names something that is not there",
    "compare": "1 if a pipeline is not there",
    "items": "1 if there is no such alert, or no such item to delete",
    "item": "1 if no such item is kept",
    "trace": "1 if the id is not known",
    "explain": "1 if there is no such metric",
    "score": "1 if a row could not be scored, or if there is none",
    "inspect": "1 if --verify finds damage",
    "replay": "1 if it stopped at --max-cost-usd",
    "experiment run": "3 if the experiment is not complete",
    "experiment resume": "3 if the experiment is not complete",
    "notify test": "1 if a destination did not take it",
    "rules check": "1 if a rule is wrong, or with --strict if there is a warning",
}
"""Exit codes in words by the command."""
