"""The journeys of a new user: the commands, and the words that their screens must and must not show."""

from dataclasses import dataclass, field
from typing import Final

ANSWERS: Final = """
import json
for number in range(60):
    good = number % 4 == 0
    row = {
        "interaction_id": f"i-{number}", "pipeline": "shop", "question": "When was the tower built?",
        "documents": ["The tower was built in 1889. It is made of iron."],
        "response": "The tower was built in 1889." if good else "It is a bridge over the river Thames.",
        "segments": {"model": "a-model-with-a-very-long-name-20240307"},
    }
    print(json.dumps(row))
"""

APPLICATION: Final = """
from ragtide import InteractionProducer
with InteractionProducer() as producer:
    for number in range(40):
        name, documents = f"a-{number}", ["The tower was built in 1889."] if number % 8 else []
        producer.submit(
            pipeline="app", interaction_id=name, question="When was it built?", segments={"lang": "en"},
            documents=documents, response="It was built in 1889.",
        )
        if documents:  # a thumb is for an answer that the labeler scores
            producer.submit_feedback(pipeline="app", interaction_id=name, gold_scores={"trace.adherence": 1.0})
    assert producer.flush(60)
    print(producer.counts)
"""

RULES: Final = """
[[alerts]]
name = "adherence-low"
metric = "trace.adherence"
kind = "threshold"
target = 0.8
"""

MISTYPED: Final = RULES.replace("trace.adherence", "trace.adherance")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and its screen."""

    command: str
    """As a user types it; `ragtide` and `python` are those of the environment."""
    shows: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()
    code: int = 0
    settles: bool = False
    """Whether live numbers take a while: the command runs again until the screen shows its words."""


@dataclass(frozen=True, slots=True)
class Journey:
    """A journey: its files, the roles beside it, and its steps."""

    title: str
    steps: tuple[Step, ...]
    files: dict[str, str] = field(default_factory=dict)
    up: bool = False
    """Whether `ragtide up` runs beside the steps."""
    judge: bool = False
    """Whether a judge that speaks OpenAI's protocol runs beside the steps."""


JOURNEYS: Final = (
    Journey(
        "Five minutes",
        (
            Step("ragtide --help", shows=("Start", "Publish", "Look (live)", "Offline")),
            Step("ragtide demo --fast", shows=("FIRING adherence-drift", "480 scored", "3 metrics are not measured")),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step("ragtide publish answers.jsonl", shows=("0 published", "60 published before")),
            Step(
                "ragtide estimates",
                settles=True,
                shows=("shop · all · local", "adherence", "not measured"),
                hides=("…",),
            ),
            Step("ragtide explain adherence", shows=("higher is better", "good from 0.8", "does not tell")),
            Step("ragtide estimate", code=2, shows=("did you mean 'estimates'",)),
            Step("ragtide estimates --pipeline shpo", code=1, shows=("did you mean 'shop'",)),
            Step("ragtide doctor", shows=("redis",), settles=True),
        ),
        {"answers.py": ANSWERS},
        up=True,
    ),
    Journey(
        "An application",
        (
            Step("python application.py", shows=("published=40",)),
            Step("ragtide estimates --pipeline app", settles=True, shows=("app · all · local", "retrieval.empty")),
            Step("ragtide estimates --pipeline app --segments", shows=("lang=en",)),
            Step("ragtide dead-letters", shows=("No dead letters.",)),
        ),
        {"application.py": APPLICATION},
        up=True,
    ),
    Journey(
        "Rules and alerts",
        (
            Step("ragtide rules check rules.toml", shows=("1 of 1 rules can fire",)),
            Step("ragtide rules check mistyped.toml", code=1, shows=("trace.adherance", "did you mean")),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step("ragtide alerts", settles=True, shows=("FIRING adherence-low", "The target is 0.8")),
        ),
        {"answers.py": ANSWERS, "rules.toml": RULES, "mistyped.toml": MISTYPED, "ragtide.toml": RULES},
        up=True,
    ),
    Journey(
        "A judge",
        (
            Step("ragtide score answers.jsonl --labeler judge", shows=("judge", "scored, 0 problems")),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step("ragtide estimates", settles=True, shows=("shop · all · judge",)),
            Step("ragtide estimates --labeling", settles=True, shows=("judge",)),
        ),
        {"answers.py": ANSWERS},
        up=True,
        judge=True,
    ),
    Journey(
        "Offline and in CI",
        (
            Step("ragtide score answers.jsonl", shows=("shop · all · local", "60 scored, 0 problems"), hides=("…",)),
            Step("ragtide score answers.jsonl --fail-if 'trace.adherence < 0.8'", code=4, shows=("gate: fail",)),
            Step("ragtide score answers.jsonl --fail-if 'trace.adherence < 0.1'", shows=("gate: pass",)),
            Step("ragtide score answers.jsonl --fail-if 'trace.adherance < 0.1'", code=2, shows=("did you mean",)),
            Step("ragtide score empty.jsonl", code=1, shows=("no interactions to score",)),
        ),
        {"answers.py": ANSWERS, "empty.jsonl": ""},
    ),
    Journey(
        "Operations",
        (
            Step("ragtide --redis-url redis://127.0.0.1:1 doctor", code=1, shows=("127.0.0.1:1",)),
            Step("ragtide --redis-url 127.0.0.1 doctor", code=1, shows=("redis://",)),
            Step("ragtide workspaces", shows=("No workspaces yet",)),
            Step("ragtide inspect nowhere", code=1, shows=("nowhere",)),
            Step("ragtide replay nowhere", code=1, shows=("nowhere",)),
        ),
    ),
)
"""In the order of a user's first days."""
