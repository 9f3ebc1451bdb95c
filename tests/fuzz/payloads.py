"""Payloads of entries, valid and spoilt: reading one in one go gives the model, or the refusal, of the longer way."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

from ragtide_schemas import InvalidEntryError, MetricEvent, RagInteraction
from ragtide_schemas.base import VersionedModel, read_json_object

Json = dict[str, Any]

TEXTS: Final = (
    "shop",
    "",
    " ",
    "\u3000",
    "a\u0000b",
    "\u202e",
    "é",
    "🙂",
    "x" * 201,
    "1",
    "0.5",
    "nan",
    "true",
    "2026",
)
TIMES: Final = (
    "2026-11-21T10:00:00Z", "2026-11-21T10:00:00.123456+05:30", "2026-11-21 10:00:00-00:01", "2026-11-21T10:00:00",
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z",
    "2026-11-21", "2200-01-01T00:00:00Z", "2199-12-31T23:59:59.9999999Z", 1_795_000_000, 1_795_000_000_000,
    "1795000000", 1.5e9, -1,
)  # fmt: skip
NUMBERS: Final = (
    0,
    1,
    1.5e9,
    -1,
    0.5,
    1.0,
    3.0,
    -0.0,
    1e-320,
    1e15,
    10**30,
    2**53 + 1,
    "0.5",
    "1e3",
    " 1 ",
    "1_000",
    True,
    False,
)
ODD: Final[tuple[Any, ...]] = (None, [], {}, [None], {"": None}, {"a": {"b": [1]}}, [[]], *TEXTS, *TIMES, *NUMBERS)

EVENT: Final[Json] = {
    "schema_version": 1, "interaction_id": "i-1", "entry_id": "1-0", "pipeline": "shop",
    "occurred_at": "2026-11-21T10:00:00Z", "labeled_at": "2026-11-21T10:00:01.5Z", "segments": {"lang": "de"},
    "session_id": "s", "turn": 2, "user_id": "u", "cluster": "c", "covariates": {"length": 3}, "run": "r",
    "population_size": 10, "sampling_probability": 0.5, "source": "sdk", "labeler": "local", "labeler_version": "3",
    "profile": "ragbench", "splitter": "1", "scores": {"trace.adherence": 1.0, "own.tone": 0.25},
    "absent": {"trace.completeness": "no relevant sentence"}, "gold_scores": {"trace.adherence": 0.0},
    "prompt_tokens": 5, "completion_tokens": 1, "cost_usd": 0.01, "cost_source": "settings", "latency_s": 0.2,
    "prompts": ["trace.en.1"], "counters": {"retries": 1}, "inclusion_probability": 0.5,
    "judged": {
        "labeler": "judge", "labeler_version": "1", "profile": "ragbench", "scores": {"trace.adherence": 0.5},
        "absent": {}, "cost_usd": 0.005, "inclusion_probability": 0.2, "uniform": True,
    },
    "declared": {"own.tone": {"version": "1", "lower": 0, "upper": 5, "direction": "neither", "meaning": "Tone."}},
}  # fmt: skip
INTERACTION: Final[Json] = {
    "interaction_id": "i-1", "pipeline": "shop", "occurred_at": "2026-11-21T10:00:00Z", "question": "When?",
    "documents": [{"text": "At nine.", "id": "d", "score": 0.5, "metadata": {"page": 1}}], "response": "At nine.",
    "segments": {"lang": "de"}, "metadata": {"a": [1, None, {"b": 0.5}]}, "gold_scores": {"trace.adherence": 1},
    "covariates": {"length": 3}, "session_id": "s",
    "steps": [
        {"name": "bm25", "kind": "retriever", "documents": [0], "returned": 9, "shared": 2},
        {"name": "search", "kind": "tool", "documents": [0], "round": 1, "arguments": {"a": 1}, "latency_s": 0.2},
    ],
    "steps_left_out": 2,
}  # fmt: skip


def check(seed: int) -> None:
    """Spoil the payload of a model up to four times, and read it both ways."""
    rng = random.Random(seed)
    model, fields = rng.choice(((MetricEvent, EVENT), (RagInteraction, INTERACTION)))
    kept = {name: value for name, value in json.loads(json.dumps(fields)).items() if rng.random() < 0.98}
    for _ in range(rng.randint(0, 3)):
        _spoil(rng, kept)
    payload = _text(rng, kept).encode(errors="surrogatepass")
    if rng.random() < 0.3:
        payload = rng.choice(BYTES)(rng, payload)
    assert _outcome(model.decode, payload) == _outcome(lambda data: _longer(model, data), payload), payload


def _longer(model: type[VersionedModel], payload: bytes) -> VersionedModel:
    return model.from_fields(read_json_object(payload, model.max_bytes))


def _outcome(read: Callable[[bytes], VersionedModel], payload: bytes) -> tuple[object, ...]:
    """Return the fields that were given, with their types, or reason and detail of a refusal."""
    try:
        found = read(payload)
    except InvalidEntryError as error:
        return error.reason, error.detail
    # Without the id and the time that an interaction gets where it has none.
    return found.model_fields_set, repr(found.model_dump(exclude_unset=True))


def _spoil(rng: random.Random, fields: Json) -> None:
    """Change a value anywhere in the fields, remove it, or add one."""
    inner = fields
    while (deeper := [value for value in inner.values() if isinstance(value, dict) and value]) and rng.random() < 0.5:
        inner = rng.choice(deeper)
    name = rng.choice([*inner, *MetricEvent.model_fields, *TEXTS])
    if rng.random() < 0.2:
        inner.pop(name, None)
        return
    old = inner.get(name)
    kind = NUMBERS if isinstance(old, int | float) else TIMES if str(old).startswith("2026") else TEXTS
    inner[name] = rng.choice(kind if rng.random() < 0.6 else ODD)


def _text(rng: random.Random, fields: Json) -> str:
    """Return fields as JSON, now and then with a field that comes twice."""
    text = json.dumps(fields, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 2)))
    if rng.random() < 0.2:
        again = rng.choice([*fields, "pipeline"])
        value = json.dumps(rng.choice([fields.get(again), *ODD]))
        text = text.rstrip("} \n") + f", {json.dumps(again)}: {value}" + "}"
    return text


def _cut(rng: random.Random, payload: bytes) -> bytes:
    return payload[: rng.randrange(len(payload))]


def _changed_byte(rng: random.Random, payload: bytes) -> bytes:
    at = rng.randrange(len(payload))
    return payload[:at] + rng.choice((b"\xff", b"\x00", b'"', b"}", b",", b"1", b"\\")) + payload[at + 1 :]


def _no_number(rng: random.Random, payload: bytes) -> bytes:
    return payload.replace(rng.choice((b"1", b"0.5", b"10")), rng.choice((b"NaN", b"Infinity", b"1e999", b"-1e999")), 1)


def _surrogate(rng: random.Random, payload: bytes) -> bytes:
    return payload.replace(rng.choice((b"shop", b"de", b"ragbench")), b"\\ud800", 1)


def _more(rng: random.Random, payload: bytes) -> bytes:
    return payload + rng.choice((b" ", b"\n", b"{}", b",", b"\x00", b"//"))


BYTES: Final = (_cut, _changed_byte, _no_number, _surrogate, _more)
